"""The figures of executors, as text in the format of Prometheus."""

import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from pipeflow.executor.figures import WAITS, Statistics

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
FAMILIES = {
    "pipeflow_batches_total": (COUNTER, "Batches that were delivered; the first one, which warms up, is not counted."),
    "pipeflow_samples_total": (COUNTER, "Samples of these batches, with those that failed."),
    "pipeflow_exposed_wait_seconds": (HISTOGRAM, "Time that the loop waited for a batch."),
    "pipeflow_operator_seconds_total": (COUNTER, "Time in a step, over all threads."),
    "pipeflow_operator_busy_seconds_total": (COUNTER, "The part of this time on a processor."),
    "pipeflow_failed_samples_total": (COUNTER, "Samples that failed and were skipped or replaced."),
    "pipeflow_cache_reads_total": (COUNTER, "Reads of URLs by readers with a cache."),
    "pipeflow_cache_bytes_total": (COUNTER, "Bytes of these reads that the cache had, and that came from servers."),
    "pipeflow_queue_depth": (GAUGE, "Batches that are ready for the loop."),
    "pipeflow_threads": (GAUGE, "Threads of the pipeline."),
}
Row = tuple[str, str, dict[str, str], float]  # family, suffix, labels, value


def exposition(executors: Iterable[tuple[str, Any]]) -> str:
    """The metrics of (name, executor), all values of one metric together."""
    rows: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name, executor in executors:
        for family, suffix, labels, value in rows_of(executor):
            told = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"pipeline": name, **labels}.items())
            rows[family].append(f"{family}{suffix}{{{told}}} {value:.9g}")
    lines = []
    for family, (kind, help_) in FAMILIES.items():
        if rows[family]:
            lines += [f"# HELP {family} {help_}", f"# TYPE {family} {kind}", *rows[family]]
    return "".join(f"{line}\n" for line in lines)


class Numbered:
    """The executors that still exist, with the numbers that name their pipelines. A number is never used again."""

    def __init__(self) -> None:
        self._executors: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._next = itertools.count()

    def add(self, executor: Any) -> None:
        """One more executor, under the next number."""
        self._executors[next(self._next)] = executor

    def items(self) -> list[tuple[str, Any]]:
        """Numbers and executors, in their order."""
        return [(str(number), executor) for number, executor in sorted(self._executors.items())]


def rows_of(executor: Any) -> Iterator[Row]:
    """The metrics of one executor."""
    return _rows(executor.figures(), executor.log(), executor.ready)


def _rows(figures: Statistics, failures: Iterable[Any], ready: int) -> Iterator[Row]:
    yield "pipeflow_batches_total", "", {}, figures.batches
    yield "pipeflow_samples_total", "", {}, figures.samples
    for edge, count in zip([*map(str, WAITS), "+Inf"], accumulate(figures.waits)):
        yield "pipeflow_exposed_wait_seconds", "_bucket", {"le": edge}, count
    yield "pipeflow_exposed_wait_seconds", "_sum", {}, figures.waited
    yield "pipeflow_exposed_wait_seconds", "_count", {}, figures.batches
    for step in figures.steps:
        labels = {"operator": step.title.partition(" of ")[0], "step": step.name}
        yield "pipeflow_operator_seconds_total", "", labels, step.seconds
        yield "pipeflow_operator_busy_seconds_total", "", labels, step.busy
    for operator, count in Counter(failure.operator for failure in failures).items():
        yield "pipeflow_failed_samples_total", "", {"operator": operator}, count
    for cache in figures.caches:
        for result, count, size in (("hit", cache.hits, cache.bytes_found), ("miss", cache.misses, cache.bytes_read)):
            labels = {"step": cache.name, "result": result}
            yield "pipeflow_cache_reads_total", "", labels, count
            yield "pipeflow_cache_bytes_total", "", labels, size
    yield "pipeflow_queue_depth", "", {"step": "output"}, ready
    yield "pipeflow_threads", "", {}, figures.threads


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
