"""Stages whose Python runs in worker processes: a batch is sent in chunks, and its results are in shared memory.

A stage runs twice for a batch. The first run sends the chunks and returns at once, so that the thread is free for other work.
After the last chunk has returned, the second run receives the results.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow import system
from pipeflow.backends.cpu import Arena
from pipeflow.declare import Args
from pipeflow.errors import Failed, add_notes
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.clocks import Clock
from pipeflow.executor.runners.base import StandIn
from pipeflow.executor.runners.whole import WholeStep
from pipeflow.executor.surroundings import Surroundings
from pipeflow.executor.workers.dispatcher import ExpectedResults, Kind
from pipeflow.executor.workers.pool import Column, Ticket, WorkerPool
from pipeflow.executor.workers.segments import OWN_BELOW
from pipeflow.plan import Plan


class Sent(NamedTuple):
    """A batch that was sent to the workers."""

    samples: Sequence[int]
    chunks: Sequence[tuple[int, int]]  # begin and end of each among the samples
    tickets: Sequence[Ticket]
    expected: ExpectedResults | None


class ProcessStep(WholeStep):
    """One step, run by the worker processes."""

    # From the workers to the consumer and back to the source, five threads handle a batch. On busy processors each of them waits
    # for its turn, and the workers have no work meanwhile. Two workers with a function of 1 ms on a machine at twice its load:
    # 605 us a sample with no batch more, 423 with two more, 440 with four.
    more_ahead = 2

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        super().__init__(plan, number, surroundings)
        assert self.op.worker_hook is not None
        step, workers = self.step, surroundings.workers
        arguments = {**self.op.defaults, **self.constants}
        call = self.op.worker_hook(Args(**arguments))
        self.whole = call.whole
        self.workers: WorkerPool = workers
        self.synchronous = surroundings.settings.synchronous
        self.resume = surroundings.resume
        # The expected types and shapes of the results: as declared, or as in the last batch.
        self.kinds = [Kind(spec.shape, spec.dtype) if spec.static else None for spec in step.specs]
        self._before = 0.0  # seconds that the workers spent before the clock was reset
        self._used_before = 0.0  # seconds of these on a processor
        try:
            self.handle = workers.register(
                call.function,
                name=call.name,
                whole_chunk=call.whole,
                writable=True,
                keep_going=not call.whole,
                timeout=arguments.get("timeout"),
            )
        except Exception as error:
            add_notes(error, step.notes())
            raise

    def worker_clock(self) -> Clock:
        """The time that the worker processes spent in the function since the clock was reset."""
        found = Clock()
        seconds = self.handle.seconds - self._before
        used = self._used()
        found.add(seconds, seconds if used is None else min(seconds, max(0.0, used - self._used_before)))
        return found

    def _used(self) -> float | None:
        """Processor time of the workers; None if the system does not count it."""
        counted = [system.processor_seconds(process) for process in self.workers.worker_pids()]
        return sum(counted) if any(counted) else None

    def reset_clock(self) -> None:
        """Starts at zero."""
        super().reset_clock()
        self._before = self.handle.seconds
        self._used_before = self._used() or 0.0

    def reserve(self, batch_size: int, batches: int) -> None:
        """Does nothing: results come in memory shared with the workers."""

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Sends a batch to the workers or, after it has returned, receives its results."""
        del begin, end, arena
        if batch.sent is None and self.send(batch) and not self.synchronous:
            return True
        self.collect(batch)
        return False

    def send(self, batch: BatchRun, announces: bool = True) -> bool:
        """Sends a batch. True: ``resume`` is called when all chunks have returned. False: there was nothing to send."""
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
            batch.values[slot] = [None] * batch.size
        active = batch.active(step.guard)
        samples: Sequence[int] = range(batch.size) if active is None else active
        if not samples:
            batch.sent = Sent((), (), (), None)
            return False
        region = batch.region or self.workers.region()
        keys = self.batch_keys(batch)
        columns = [Column(region, (keys if active is None else keys[active]).tolist(), samples, plain=True)]
        columns += [Column(region, batch.values[slot], samples) for slot in step.inputs]
        count = len(samples)
        size = count if self.whole else self.workers.chunk_size(self.handle, count)
        chunks = [(begin, min(begin + size, count)) for begin in range(0, count, size)]
        expected = None
        if not self.whole and sum(kind.nbytes for kind in self.kinds if kind is not None) >= OWN_BELOW:
            expected = self.workers.expect(count, self.kinds)
        left = len(chunks) + 1  # one more, for this call: it must end before the results are received
        lock = threading.Lock()

        def one_less() -> None:
            nonlocal left
            with lock:
                left -= 1
                back = not left
            if back and announces:
                self.resume(batch)

        tickets = self.workers.submit_columns(
            self.handle, columns, chunks, region=region, expected=expected, on_done=one_less,
            mark=(batch.index, batch.stage),
        )  # fmt: skip
        batch.sent = Sent(samples, chunks, tickets, expected)
        one_less()
        return True

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """The object in this process is never called: each worker has its own copy."""
        super().contain(stand_in, keeps_rows)
        self._rewound = None

    def _run_again(self, batch: BatchRun) -> None:
        self.send(batch, announces=False)
        self.collect(batch)

    def run_row(self, batch: BatchRun, sample: int) -> list[np.ndarray]:
        """The results for one row, made in a worker process."""
        return self._row_in_worker(batch, sample)

    def _row_in_worker(self, batch: BatchRun, sample: int) -> list[np.ndarray]:
        inputs = [batch.values[slot] for slot in self.step.inputs]
        row = [x[sample] if type(x) is list else x[sample, ...] for x in inputs]
        key = int(self.batch_keys(batch)[sample])
        (result,) = self.workers.submit(self.handle, [(key, *row)]).result()
        if isinstance(result, Failed):
            raise result.error
        return [column[0] for column in result] if self.whole else list(result)

    def _collect_one_by_one(
        self, batch: BatchRun, samples: Sequence[int], error: Exception, culprit: int | None
    ) -> None:
        """Handles a chunk that was lost with its worker: its rows run again one by one, except the one that ended the worker."""
        for index, sample in enumerate(samples):
            if self.whole or index == culprit:
                batch.failures[sample] = (error, self.step)
                continue
            try:
                results = self._row_in_worker(batch, sample)
            except Exception as again:
                batch.fail(again, self.step, sample)
                continue
            for slot, result in zip(self.step.outputs, results):
                batch.values[slot][sample] = result

    def collect(self, batch: BatchRun) -> None:
        """Receives the results as views of shared memory, and the failures with their samples."""
        sent: Sent = batch.sent
        batch.sent = None
        places = [] if sent.expected is None else list(map(_own, sent.expected.arrays))
        results: list[Any] = []
        for (begin, end), ticket in zip(sent.chunks, sent.tickets):
            samples = sent.samples[begin:end]
            try:
                found = ticket.results_beside()
            except Exception as error:
                culprit = ticket.failed_sample
                results += [_LOST] * len(samples)
                if self.contained:
                    self._collect_one_by_one(batch, samples, error, culprit)
                else:
                    batch.fail(error, self.step, -1 if culprit is None or self.whole else samples[culprit])
                continue
            if self.whole and found is not None:
                places = [_own(column) if isinstance(column, np.ndarray) else None for column in found[0]]
                found = list(zip(*found[0])) if any(x is None for x in places) else None
            results += [None] * len(samples) if found is None else found
        if len(sent.samples) == batch.size and results and all(result is None for result in results):
            for slot, array in zip(self.step.outputs, places):
                batch.values[slot] = array
        else:
            self._scatter(batch, sent.samples, results, places)
        if not self.whole and not any(result is _LOST for result in results):
            self.kinds = [_kind_of(batch.values[slot]) for slot in self.step.outputs]
        if batch.error is None and (self.contained or not batch.failures):
            inputs = [batch.values[slot] for slot in self.step.inputs]
            if any(batch.layouts[slot] is None for slot in self.step.outputs):
                self._find_layouts(batch, inputs)

    def _scatter(
        self, batch: BatchRun, samples: Sequence[int], results: Sequence[Any], places: Sequence[np.ndarray | None]
    ) -> None:
        """Puts the results of single samples into their columns."""
        columns = [batch.values[slot] for slot in self.step.outputs]
        for index, (sample, result) in enumerate(zip(samples, results)):
            if result is _LOST:
                continue
            if isinstance(result, Failed):
                batch.fail(result.error, self.step, sample)
                continue
            for output, column in enumerate(columns):
                value = None if result is None else result[output]
                column[sample] = places[output][index, ...] if value is None else value  # type: ignore[index]


_LOST = object()  # in place of the results of a chunk that has none; its failure has been handled already


def _own(array: np.ndarray | None) -> np.ndarray | None:
    """A copy of an array of small samples: a user who keeps labels should not keep the memory of the images."""
    return array.copy() if array is not None and array.nbytes < len(array) * OWN_BELOW else array


def _kind_of(values: Any) -> Kind | None:
    if isinstance(values, np.ndarray):
        return Kind(values.shape[1:], values.dtype)
    found = {(value.shape, value.dtype) for value in values if value is not None}
    kind = Kind(*found.pop()) if len(found) == 1 else None
    return None if kind is None or kind.dtype.hasobject else kind
