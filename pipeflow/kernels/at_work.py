"""The sample that a thread works on, for reports of kernels, which know only arrays."""

import threading
from collections.abc import Callable


class AtWork(threading.local):
    """Of each thread: a function that says which sample it is, None outside of one."""

    describe: "Callable[[], str] | None" = None

    def text(self) -> str:
        """The sample, its batch and its source; "" if they are not known."""
        return "" if self.describe is None else self.describe()


at_work = AtWork()
