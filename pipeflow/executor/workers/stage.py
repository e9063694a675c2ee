"""Stages whose Python runs in worker processes: a batch goes out in chunks, and its results come back in shared memory.

A stage is visited twice. The first visit sends the chunks and returns at once, so that the thread is free for other work;
when the last chunk is back the batch becomes claimable again, and the second visit takes the results in.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import Args
from pipeflow.errors import Failed, add_notes
from pipeflow.executor.batch import BatchRun, check_outputs
from pipeflow.executor.steps import WholeStep
from pipeflow.executor.workers.pool import Ticket, WorkerPool
from pipeflow.plan import Plan, Step

Sent = tuple[Sequence[int], Ticket]  # the samples of a chunk, and the chunk


class ProcessStep(WholeStep):
    """One step, run by the worker processes."""

    def __init__(self, plan: Plan, step: Step, workers: WorkerPool) -> None:
        super().__init__(plan, step)
        assert self.op.worker_hook is not None
        defaults = {name: param.default for name, param in self.op.arguments.items() if not param.required}
        arguments = {**defaults, **self.constants}
        call = self.op.worker_hook(Args(**arguments))
        self.whole = call.whole
        self.workers = workers
        try:
            self.handle = workers.register(
                call.function, name=call.name, whole_chunk=call.whole, writable=True, keep_going=not call.whole,
                timeout=arguments.get("timeout"),
            )  # fmt: skip
        except Exception as error:
            add_notes(error, [*step.place(), *([step.origin.describe()] if step.origin else [])])
            raise

    def send(self, batch: BatchRun, resume: Callable[[BatchRun], None]) -> bool:
        """Sends a batch out; True: ``resume`` is called when everything is back. False: there was nothing to send."""
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
            batch.values[slot] = [None] * batch.size
        active = batch.active(step.guard)
        samples: Sequence[int] = range(batch.size) if active is None else active
        batch.sent = sent = []
        if not samples:
            return False
        inputs = [batch.values[slot] for slot in step.inputs]
        keys = self.batch_keys(batch).tolist()
        rows = [
            (keys[sample], *[x[sample] if type(x) is list else x[sample, ...] for x in inputs]) for sample in samples
        ]
        size = len(rows) if self.whole else self.workers.chunk_size(self.handle, len(rows))
        starts = range(0, len(rows), size)
        left = len(starts) + 1  # one more for this loop, which must be over before the results are taken in
        lock = threading.Lock()

        def one_less() -> None:
            nonlocal left
            with lock:
                left -= 1
                back = not left
            if back:
                resume(batch)

        for at in starts:
            ticket = self.workers.submit(self.handle, rows[at : at + size], on_done=one_less)
            sent.append((samples[at : at + size], ticket))
        one_less()
        return True

    def run_row(self, batch: BatchRun, sample: int, pool: HeapPool) -> list[np.ndarray]:
        """One row alone, in a worker process."""
        del pool  # results lie in the memory shared with the worker
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
    ) -> None:  # fmt: skip
        """Takes in a chunk that was lost with its worker: its rows run again alone, all but the one that did it."""
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
        """Takes in what came back: results as views of shared memory, failures with their samples."""
        sent: list[Sent] = batch.sent
        batch.sent = None
        columns = [batch.values[slot] for slot in self.step.outputs]
        for samples, ticket in sent:
            try:
                results = ticket.result()
            except Exception as error:
                culprit = ticket.failed_sample
                if self.contained:
                    self._collect_one_by_one(batch, samples, error, culprit)
                    continue
                batch.fail(error, self.step, -1 if culprit is None or self.whole else samples[culprit])
                continue
            if self.whole:
                results = zip(*results[0]) if columns else [()] * len(samples)  # type: ignore[assignment]
            for sample, result in zip(samples, results):
                if isinstance(result, Failed):
                    batch.fail(result.error, self.step, sample)
                else:
                    for column, value in zip(columns, result):
                        column[sample] = value
        if batch.error is None and (self.contained or not batch.failures):
            check_outputs(batch, self.step)
            inputs = [batch.values[slot] for slot in self.step.inputs]
            if any(batch.layouts[slot] is None for slot in self.step.outputs):
                self._find_layouts(batch, inputs)
