"""Counts of the work of kernels, kept for each thread; a pipeline adds up the counts of its threads."""

import threading
from collections import Counter
from collections.abc import Iterable

_KEY = "pipeflow counts"  # of the attribute of a thread with its counter: a table of threads takes longer to look into


def count(what: str, number: int = 1) -> None:
    """Adds to a counter of this thread; a counter is written only by its own thread."""
    kept = threading.current_thread().__dict__
    counter = kept.get(_KEY)
    if counter is None:
        counter = kept[_KEY] = Counter()
    counter[what] += number


def total(threads: Iterable[threading.Thread]) -> Counter[str]:
    """The counts of these threads together."""
    counters = [thread.__dict__.get(_KEY) for thread in threads]
    return sum((Counter(dict(counter)) for counter in counters if counter), Counter())
