"""The base of all runners of stages, and of steps that are ready to run."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pipeflow import declare
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import BatchCall, OpDef, Traits
from pipeflow.errors import add_notes
from pipeflow.executor import chunks
from pipeflow.executor.batch import BatchRun, value_at
from pipeflow.executor.clocks import Clock, GilProbe
from pipeflow.executor.keeper import Keeper
from pipeflow.executor.watch import RunningCall
from pipeflow.plan import Plan, Step
from pipeflow.tensors import slab_size

StandIn = Callable[[BatchRun, Step, int], "tuple[np.ndarray, ...] | None"]


def traits_of(plan: Plan, step: Step) -> Traits:
    """The traits of a step: how it is run."""
    return declare.find(step.op).traits_of({name: plan.constant(value) for name, value in step.constants})


def fits_kernels(array: Any) -> bool:
    """True for an array that compiled code may read by its address."""
    if type(array) is not np.ndarray or array.dtype.kind not in "biuf" or not array.dtype.isnative:
        return False
    return array.flags.c_contiguous and array.flags.aligned


class BoundStep:
    """A step together with its operator, its constants and the properties of its slots."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self.step = step
        self.op: OpDef = declare.find(step.op)
        self.constants = {name: plan.constant(value) for name, value in step.constants}
        self.count = len(step.outputs)
        traits = self.op.traits_of(self.constants)
        self.converts, self.meets, self.by_rows = traits.converts, traits.meets, traits.rows
        self.repeats = traits.repeats
        self.by_sample = traits.granularity == "sample"
        self.storages = tuple(plan.slots[slot].storage for slot in step.outputs)
        self.shared = tuple(plan.slots[slot].memory == "shared" for slot in step.outputs)
        self.sent = tuple(plan.slots[slot].memory == "pinned" for slot in step.outputs)
        self.clock = Clock()
        self.probe: GilProbe | None = None  # during Pipeline.measure(): the thread that competes for the interpreter
        self.moved = 0  # bytes of the inputs and outputs of a batch, if they are measured
        self.largest = [0] * len(step.hint)  # bytes of the largest sample of each output that has a hint
        self.has_user_code = step.user_code or any(callable(value) for value in self.constants.values())
        self.origin = max((plan.origins[slot] for slot in step.outputs), default=-1)
        if self.origin < 0:
            self.origin = max((plan.origins[slot] for slot in step.inputs), default=-1)

    def cache_figures(self) -> dict[str, int] | None:
        """The figures of a source's cache of files; None for other steps."""
        return None

    def calls(self, function: Any) -> bool:
        """True if this step calls the function."""
        return any(value is function for value in self.constants.values())

    def reset_clock(self) -> None:
        """Starts to measure from zero."""
        self.clock.reset()

    def memory(self, batch: BatchRun, pool: HeapPool, output: int) -> Any:
        """The allocator of an output: the pool, or that of memory for the workers or the device if only they read it."""
        if self.shared[output]:
            return batch.region
        return pool.for_device if self.sent[output] else pool

    def reserve_hints(self, pool: HeapPool, batch_size: int, batches: int) -> None:
        """Allocates memory of the size that a function of the user has announced for its results."""
        for hint, shared, sent in zip(self.step.hint, self.shared, self.sent):
            if self.step.user_code and not shared:
                nbytes = slab_size(batch_size, hint)
                try:
                    (pool.for_device if sent else pool).reserve(nbytes, batches)
                except MemoryError as error:
                    asked = f"bytes_per_sample_hint={hint} needs {batches} blocks of {nbytes} bytes"
                    add_notes(error, [asked, *self.step.notes()])
                    raise

    def batch_keys(self, batch: BatchRun) -> np.ndarray:
        """The keys of all samples of a batch at this step."""
        keys = batch.keys_at(self.step.key or 0)
        return batch.with_donors(keys) if batch.donors and self.by_sample else keys

    def sources(self, batch: BatchRun) -> Any:
        """The source_info of the samples, for operators that need it."""
        known = batch.origins.get(self.origin)
        return known if known is not None else [""] * batch.size


def origins_of(item: BoundStep, batch: BatchRun) -> dict[int, int]:
    """For a step that moves samples: for each row, the row in which its sample was before."""
    active = batch.active(item.step.guard)
    rows = list(range(batch.size)) if active is None else active
    nodes = {name: [value_at(batch.values[slot], row) for row in rows] for name, slot in item.step.arguments}
    call = BatchCall(len(rows), lambda: item.batch_keys(batch)[rows], [""], np.empty)
    (moved,) = declare.run_whole(item.op, item.constants, nodes, [[np.array(row) for row in rows]], call, item.count)
    return {row: int(origin) for row, origin in zip(rows, moved)}


class StageRunner:
    """Runs one stage of a plan. The methods here do nothing; each kind of stage overrides those that it needs.

    For each batch, ``enter`` prepares its slots, ``run`` does the work, once or for one chunk of samples after
    another, and ``finish`` checks the results. ``remake`` runs rows again that are now made of other samples.
    """

    ordered = False  # takes one batch after another
    per_sample = False  # threads share a batch in chunks of samples
    strands = 1  # the number of threads that share a chunk: functions of one sample may wait for each other
    alone_if_better = False  # True if a function in it has parallel="auto": one thread at a time, if that is faster
    meets = False  # True if a function in it may wait for another one
    waits = False  # True if a batch may have to wait before it can run here: then ``ready`` is called
    steps: Sequence[BoundStep] = ()  # the steps that have clocks
    keeper: Keeper | None = None  # an object of the user whose state belongs to each batch
    blamed: Step | None = None  # the step of an error if no other is known
    more_ahead = 0  # additional batches in flight
    chunk_seconds = chunks.SAMPLES  # the limits of the work that a thread takes at once

    def takeovers(self) -> int:
        """A number that changes when other code has taken over the work: then earlier times say little."""
        return 0

    def reserve(self, batch_size: int, batches: int) -> None:
        """Allocates memory of the hinted sizes for a number of batches."""

    def foresee(self, batches: Sequence[BatchRun]) -> None:
        """Computes what depends only on the sources of batches that are not scheduled yet, and keeps it in their ``columns``."""

    def borrows(self) -> Collection[int]:
        """The slots whose arrays nothing changes or keeps, and only this stage reads. If it cannot run a batch so, it calls
        ``batch.copy_lent``.
        """
        return ()

    def enter(self, batch: BatchRun) -> None:
        """Prepares the slots that this stage fills."""

    def chunk(self, left: int, threads: int, batches: int) -> int:
        """The number of samples that a thread takes at once, of those that are left."""
        del threads, batches
        return left

    def ready(self, batch: BatchRun) -> bool:
        """True if the batch can run here without waiting."""
        del batch
        return True

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Does the work. True if the batch was sent to worker processes, which return it."""
        del batch, begin, end, arena
        return False

    def run_strand(self, batch: BatchRun, begin: int, end: int, arena: Arena, strand: int) -> None:
        """Does the work of one strand."""

    def finish(self, batch: BatchRun) -> None:
        """Checks the results."""

    def remake(self, batch: BatchRun, rows: set[int]) -> set[int]:
        """Runs rows again whose inputs have changed; returns the rows whose results may have. Errors are kept with the batch.

        The old values of a row are not overwritten: other rows may be views of them.
        """
        del batch
        return rows

    def given(self, batch: BatchRun, sample: int) -> None:
        """Called when values have replaced the results of a row."""

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """Applies rules for failures: ``stand_in`` gives values for a failed step; with ``keeps_rows`` rows fail alone."""

    def as_input(self, value: np.ndarray) -> Any:
        """A value that replaces the result of a failed sample, in the form that other stages read."""
        return value

    def sample_of(self, batch: BatchRun, call: RunningCall) -> int:
        """The sample that a call of a function is for, -1 for a whole batch."""
        del batch, call
        return -1

    def let_go(self) -> None:
        """Continues without a thread that does not return."""

    def measure(self, on: bool) -> None:
        """Starts or stops the separate timing of each step."""

    def settle(self, stage: Clock) -> None:
        """Gives the clocks of the steps what was measured so far. They are read after it. ``stage`` is the clock of the stage."""
