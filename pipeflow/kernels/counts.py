"""Counts of the work of kernels, kept for each thread; a pipeline adds up the counts of its threads."""

import threading
from collections import Counter
from collections.abc import Iterable
from weakref import WeakKeyDictionary

_of_thread: WeakKeyDictionary[threading.Thread, Counter[str]] = WeakKeyDictionary()
_lock = threading.Lock()


def count(what: str, number: int = 1) -> None:
    """Adds to a counter of this thread; a counter is written only by its own thread."""
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
