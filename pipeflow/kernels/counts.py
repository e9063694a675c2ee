"""What kernels count of their own work, by the thread that did it: a pipeline adds up what its threads did."""

import threading
from collections import Counter
from collections.abc import Iterable
from weakref import WeakKeyDictionary

_of_thread: WeakKeyDictionary[threading.Thread, Counter[str]] = WeakKeyDictionary()
_lock = threading.Lock()


def count(what: str, number: int = 1) -> None:
    """Counts things for this thread; only its own thread writes a counter."""
    thread = threading.current_thread()
    counter = _of_thread.get(thread)
    if counter is None:
        with _lock:
            counter = _of_thread[thread] = Counter()
    counter[what] += number


def total(threads: Iterable[threading.Thread]) -> Counter[str]:
    """The counts of these threads together."""
    with _lock:
        counters = [_of_thread.get(thread) for thread in threads]
    return sum((Counter(dict(counter)) for counter in counters if counter), Counter())
