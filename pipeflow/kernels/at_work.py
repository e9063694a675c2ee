"""The sample that a thread works on. Kernels know only arrays, so their reports read it here."""

import threading
from collections.abc import Callable


class AtWork(threading.local):
    """For each thread: a function that describes its sample, None if it works on no sample."""

    describe: "Callable[[], str] | None" = None

    def text(self) -> str:
        """The sample of this thread, its batch and its source; "" if they are not known."""
        return "" if self.describe is None else self.describe()


at_work = AtWork()
