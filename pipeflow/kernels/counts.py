"""Counts of the work of kernels, kept for each thread; a pipeline adds up the counts of its threads."""

import threading
from collections import Counter
from collections.abc import Iterable

_KEY = "pipeflow counts"  # of the attribute of a thread with its counter: a table of threads takes longer to look into


def counter() -> Counter[str]:
    """The counter of this thread, which only this thread writes."""
    kept = threading.current_thread().__dict__
    known: Counter[str] | None = kept.get(_KEY)
    if known is None:
        known = kept[_KEY] = Counter()
    return known


def count(what: str, number: int = 1) -> None:
    """Adds to the counter of this thread."""
    counter()[what] += number


def total(threads: Iterable[threading.Thread]) -> Counter[str]:
    """The counts of these threads together."""
    counters = [thread.__dict__.get(_KEY) for thread in threads]
    return sum((Counter(dict(counter)) for counter in counters if counter), Counter())
