"""Steps made ready to run: per sample inside a stage, over a column, or over a whole batch."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeflow import declare, seeds, timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.compile.plan import Plan, Stage, Step, has_kernels, takes_out
from pipeflow.declare import BatchCall, Bound, OpDef, Source
from pipeflow.errors import CAST, LAYOUT, RESHAPE, InvalidState, add_notes, function_name, merge_error
from pipeflow.executor.batch import BatchRun, check_outputs
from pipeflow.executor.clocks import WORTH, Clock, Rival
from pipeflow.executor.watch import Running
from pipeflow.kernels import cpu as kernels
from pipeflow.saving.values import decode, encode
from pipeflow.tensors import Collector, read_only


class BoundStep:
    """A step with its operator, its constants and the properties of its slots at hand."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self.step = step
        self.op: OpDef = declare.find(step.op)
        self.constants = {name: plan.constant(value) for name, value in step.constants}
        self.count = len(step.outputs)
        self.storages = tuple(plan.slots[slot].storage for slot in step.outputs)
        self.shared = tuple(plan.slots[slot].kind == "shared" for slot in step.outputs)
        self.clock = Clock()
        self.rival: Rival | None = None  # while somebody asks who keeps the interpreter
        self.largest = [0] * len(step.hint)  # bytes of the largest sample of each output that has a hint
        self.origin = max((plan.origins[slot] for slot in step.outputs), default=-1)
        if self.origin < 0:
            self.origin = max((plan.origins[slot] for slot in step.inputs), default=-1)

    def calls(self, function: Any) -> bool:
        """Whether it is this step that calls a function."""
        return any(value is function for value in self.constants.values())

    def reset_clock(self) -> None:
        """Starts to measure anew."""
        self.clock.reset()

    def memory(self, batch: BatchRun, pool: HeapPool, output: int) -> Any:
        """Where an output is to lie: in the pool, or shared with the workers who alone read it."""
        return batch.region if self.shared[output] else pool

    def batch_keys(self, batch: BatchRun) -> np.ndarray:
        """The keys of all samples of a batch at this step."""
        return seeds.sample_keys(self.step.key or 0, batch.positions, batch.epochs)

    def sources(self, batch: BatchRun) -> Any:
        """Where the samples come from, for operators that ask."""
        known = batch.origins.get(self.origin)
        return known if known is not None else [""] * batch.size


class ColumnStep(BoundStep):
    """Computed for all samples in one call."""

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        step, op = self.step, self.op
        inputs = [batch.values[slot] for slot in step.inputs]
        axes = max((x.ndim for x in inputs), default=1)
        inputs = [x.reshape(x.shape[:1] + (1,) * (axes - x.ndim) + x.shape[1:]) for x in inputs]
        arguments = {**op.defaults, **self.constants}
        for name, slot in step.arguments:
            arguments[name] = batch.values[slot]
        arguments = op.keywords(arguments)
        if "key" in op.wants:
            arguments["key"] = seeds.Key(self.batch_keys(batch))
        if "layouts" in op.wants:
            arguments["layouts"] = tuple(batch.layouts[slot] or "" for slot in step.inputs)
        if "out" in op.wants:
            outs = tuple(pool.empty((batch.size, *spec.shape), spec.dtype) for spec in step.specs)
            arguments["out"] = outs[0] if self.count == 1 else outs
        result = op.body(*inputs, **arguments)
        for slot, values, spec in zip(step.outputs, (result,) if self.count == 1 else result, step.specs):
            batch.values[slot] = values
            batch.layouts[slot] = spec.layout


LARGE_BATCH = 4 << 20  # bytes of an output that, with those of the batches in flight, no longer fit into the caches
LARGE_SAMPLE = 16 << 10


def is_large(shape: tuple[int, ...], dtype: np.dtype, samples: int) -> bool:
    """Whether a batch of such samples is written past the caches."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    return nbytes >= LARGE_SAMPLE and nbytes * samples >= LARGE_BATCH and not dtype.hasobject


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    np.copyto(target, source)


def _copy_past_caches(source: np.ndarray, target: np.ndarray) -> None:
    kernels.streaming.copy(source, target)


class SampleSource:
    """Where a sample comes from, looked up when somebody asks: ``str(source)``."""

    __slots__ = ("known", "sample")

    def __init__(self, known: Any, sample: int) -> None:
        self.known = known
        self.sample = sample

    def __str__(self) -> str:
        return str(self.known[self.sample])


class SampleStep(BoundStep):
    """Run for one sample after another, as a member of a stage."""

    def __init__(self, plan: Plan, step: Step, inside: set[int], fetch: Callable[[int], Any] | None) -> None:
        super().__init__(plan, step)
        self.inputs = tuple((slot, slot in inside) for slot in step.inputs)
        self.arguments = tuple((name, slot, slot in inside) for name, slot in step.arguments)
        # A guard over slots of earlier stages is asked once for the batch, another one sample by sample.
        self.late_guard = any(slot in inside for slot, _ in step.guard)
        self.guard = tuple((slot, on, slot in inside) for slot, on in step.guard) if self.late_guard else ()
        self.fetch = fetch
        self.random = self.op.random and fetch is None
        self.wants_source = "source" in self.op.wants
        self.key_slot = step.outputs[0] if step.outputs else -1
        self.compiled = fetch is None and has_kernels(step)
        self.streams = False  # its results may be written past the caches
        self.kernel = None if fetch is not None else Bound(self.op, self.constants, self.count, step.specs)

    def kind_of(self, name: str) -> Any:
        """The kind of an argument."""
        return self.op.arguments[name].kind

    def mask(self, batch: BatchRun) -> list[bool] | None:
        """The samples to run for, where that is known before the stage begins; None for all."""
        return batch.mask(self.step.guard) if self.step.guard and not self.late_guard else None

    def enter(self, batch: BatchRun, pool: HeapPool) -> None:
        """Prepares the slots that this step fills."""
        if self.random:
            batch.keys[self.key_slot] = self.batch_keys(batch).tolist()
        for output, (slot, storage, spec) in enumerate(zip(self.step.outputs, self.storages, self.step.specs)):
            if storage == "dense":
                memory = self.memory(batch, pool, output)
                batch.values[slot] = memory.empty((batch.size, *spec.shape), spec.dtype)
            elif storage == "table":
                batch.values[slot] = [None] * batch.size
            batch.layouts[slot] = spec.layout

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement") -> None:
        """One sample; ``row`` holds what this stage has made of it so far."""
        values = batch.values
        for slot, polarity, inside in self.guard:
            flag = row[slot] if inside else values[slot][sample]
            if bool(flag) is not polarity:  # what a sample left in the row earlier is asked by nobody
                return
        inputs = []
        for slot, inside in self.inputs:
            if inside:
                inputs.append(row[slot])
            else:
                held = values[slot]
                inputs.append(held[sample] if type(held) is list else held[sample, ...])
        place.sample = sample
        place.given = None
        if self.fetch is not None:
            outputs = self.fetch(int(inputs[0]))
            if self.count == 1 and not isinstance(outputs, tuple):
                outputs = (outputs,)
        else:
            if self.step.user_code:
                inputs = [
                    x if writable and x.flags.writeable else read_only(x)
                    for x, writable in zip(inputs, self.step.writable)
                ]
            per_sample = {}
            for name, column, slot, inside in place.arguments:
                if column is not None:
                    per_sample[name] = column[sample]
                elif inside:
                    per_sample[name] = row[slot]
                else:
                    held = values[slot]
                    per_sample[name] = held[sample] if type(held) is list else held[sample, ...]
            layouts = place.layouts or place.find_layouts()
            assert self.kernel is not None
            if self.op.sequences and self.arguments:
                framed = [name for name, slot, _ in self.arguments if (batch.layouts[slot] or "")[:1] == "F"]
                self.kernel.per_frame = frozenset(framed)
            key = batch.keys[self.key_slot][sample] if self.random else None
            source = SampleSource(self.sources(batch), sample) if self.wants_source else ""
            outputs = self.kernel(inputs, layouts, per_sample, key, place, source)
            if self.count and batch.layouts[self.step.outputs[0]] is None:
                found = self.kernel.output_layouts(inputs, layouts, per_sample)
                for slot, layout in zip(self.step.outputs, found):
                    batch.layouts[slot] = layout or ""
        self.keep(batch, sample, row, place, outputs)

    def keep(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement", outputs: Sequence[Any]) -> None:
        """Puts the results of one sample where the plan wants them."""
        values = batch.values
        for output, (slot, storage, result) in enumerate(zip(self.step.outputs, self.storages, outputs)):
            if storage == "dense":
                if (
                    place.streaming or result is not place.given
                ):  # or one of several outputs, or another array than given
                    target = values[slot][sample, ...]
                    if target.shape != result.shape:
                        raise ValueError(f"the result has shape {result.shape} and {target.shape} was expected")
                    place.copy(result, target)
                    result = target
            elif storage == "table":
                if self.step.copied or (place.streaming and place.given is not None):
                    kept = place.memory[output].empty(result.shape, result.dtype)
                    if self.compiled and is_large(result.shape, result.dtype, batch.size):
                        _copy_past_caches(result, kept)
                    else:
                        np.copyto(kept, result)
                    result = kept
                values[slot][sample] = result
            row[slot] = result

    def finish(self, batch: BatchRun) -> None:
        """Checks at the stage's end what the declaration cannot promise."""
        if self.step.user_code:
            check_outputs(batch, self.step)


class MergeStep(SampleStep):
    """Reads the side that a sample took; nothing is copied. What the sides are is checked here where it was not known before."""

    def __init__(self, plan: Plan, step: Step, inside: set[int], fetch: Any = None) -> None:
        super().__init__(plan, step, inside, fetch)
        self.first, self.second, self.predicate = self.inputs
        (self.output,), (self.storage,), (self.spec,) = step.outputs, self.storages, step.specs
        sides = [plan.slots[slot] for slot in step.inputs[:2]]
        self.constant = [side.storage == "constant" for side in sides]
        self.sides = [side.spec for side in sides]
        self.sure = all(side.spec.dtype is not None and side.spec.ndim is not None for side in sides)

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement") -> None:
        values = batch.values
        for slot, polarity, inside in self.guard:
            if bool(row[slot] if inside else values[slot][sample]) is not polarity:
                return
        slot, inside = self.predicate
        slot, inside = self.first if (row[slot] if inside else values[slot][sample]) else self.second
        if inside:
            result = row[slot]
        else:
            held = values[slot]
            result = held[sample] if type(held) is list else held[sample, ...]
        if not batch.layouts[self.output]:
            batch.layouts[self.output] = batch.layouts[slot]
        if self.storage == "table":
            if self.step.copied:
                kept = place.memory[0].empty(result.shape, result.dtype)
                np.copyto(kept, result)
                result = kept
            values[self.output][sample] = result
        row[self.output] = result

    def run_whole(self, batch: BatchRun) -> None:
        """All samples at once, at the end of a stage."""
        (first, second), size = self.step.inputs[:2], batch.size
        sides = [_rows(batch.values[slot], constant) for slot, constant in zip((first, second), self.constant)]
        flags = batch.mask(((self.step.inputs[2], True),)) if size else []
        (a, b) = sides
        results: list[Any] = [a[k] if flag else b[k] for k, flag in enumerate(flags)]
        if self.step.guard:
            results = [x if holds else None for x, holds in zip(results, batch.mask(self.step.guard))]
        batch.values[self.output] = results
        batch.layouts[self.output] = self.spec.layout or batch.layouts[first] or batch.layouts[second] or ""
        self.finish(batch)

    def finish(self, batch: BatchRun) -> None:
        """Compares the sides of one batch where their kinds were not known before."""
        first, second, predicate = self.step.inputs
        a, b = batch.layouts[first], batch.layouts[second]
        if a and b and a != b:
            batch.fail(self._error(f"layout {a}", f"layout {b}", LAYOUT), self.step)
        if self.sure or self.storage != "table":
            return
        known: list[Any] = [None, None]  # (dtype, axes) of each side: as declared, or of a dense batch, or of a sample
        for position, (slot, spec) in enumerate(zip((first, second), self.sides)):
            values = batch.values[slot]
            if spec.dtype is not None and spec.ndim is not None:
                known[position] = spec.dtype, spec.ndim
            elif isinstance(values, np.ndarray) and len(values):
                known[position] = values.dtype, values.ndim - 1
        if known[0] is not None and known[0] == known[1]:
            return
        for sample, (flag, array) in enumerate(zip(batch.mask(((predicate, True),)), batch.values[self.output])):
            if array is None or (batch.failures and sample in batch.failures):
                continue
            side = 0 if flag else 1
            known[side] = kind = array.dtype, array.ndim
            other = known[1 - side]
            if other is not None and other != kind:
                one, two = [f"{dtype} {ndim}-d" for dtype, ndim in known]
                advice = CAST if other[1] == kind[1] else RESHAPE
                batch.fail(self._error(one, two, advice), self.step, sample)
                return

    def _error(self, first: str, second: str, advice: str) -> RuntimeError:
        one, two = self.constants["sides"]
        return RuntimeError(merge_error(self.constants["variable"], f"{first} {one}", f"{second} {two}", advice))


def _rows(values: Any, constant: bool) -> Any:
    """The samples of a slot by their index. Those of a constant are copied: whoever gets the batch may write into it."""
    if constant:
        values = np.array(values)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return [values[index, ...] for index in range(len(values))]  # an index alone would give NumPy scalars
    return values


class Placement:
    """What a step of a stage needs for its samples: memory for the outputs, and its arguments where they are known by now.

    The memory is the batch's own or the thread's arena. Where a batch is larger than the caches, the samples of operators
    that ask for it (``staged``) are made in the arena, which is warm, and copied from there past the caches: planes written
    side by side take 45 us so, and 100 directly. One stream from first to last is as fast without.
    """

    __slots__ = (
        "arena",
        "arguments",
        "batch",
        "copy",
        "given",
        "layouts",
        "memory",
        "sample",
        "slots",
        "step",
        "storages",
        "streaming",
    )

    def __init__(self, batch: BatchRun, step: SampleStep, arena: Arena, pool: HeapPool) -> None:
        self.batch = batch
        self.step = step
        self.slots = step.step.outputs
        self.storages = step.storages
        self.arena = arena
        self.memory = [step.memory(batch, pool, output) for output in range(step.count)]
        self.sample = 0
        self.given: Any = None
        self.streaming = False  # whether ``given`` lies in the arena although the result belongs to the batch
        self.copy: Callable[[Any, Any], Any] = _copy
        self.layouts: tuple[str, ...] = ()
        self.arguments = [
            (name, None if inside else batch.column(slot, step.kind_of(name)), slot, inside)
            for name, slot, inside in step.arguments
        ]

    def find_layouts(self) -> tuple[str, ...]:
        """The layouts of the inputs; kept when all of them are known."""
        found = [self.batch.layouts[slot] for slot in self.step.step.inputs]
        layouts = tuple([layout or "" for layout in found])
        if None not in found:
            self.layouts = layouts
        return layouts

    def __call__(self, output: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        storage = self.storages[output]
        slot = self.slots[output]
        if storage == "arena":
            return self.arena.empty(slot, shape, dtype)
        if self.step.streams:
            self.streaming = is_large(shape, dtype, self.batch.size)
            if self.streaming:
                self.copy = _copy_past_caches
                self.given = self.arena.empty(slot, shape, dtype)
                return self.given
        if storage == "dense":
            self.given = self.batch.values[slot][self.sample, ...]
            return self.given
        return self.memory[output].empty(shape, dtype)


class WholeStep(BoundStep):
    """Run once for the whole batch; with ``contained`` row by row where that is the same, so that rows fail one by one."""

    def __init__(self, plan: Plan, step: Step) -> None:
        super().__init__(plan, step)
        self.contained = False
        self.by_rows = self.op.traits_of(self.constants).rows
        self._lock = threading.Lock()  # a row that is made again must not meet another batch in a serial function

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        """The whole batch."""
        rival = self.rival
        if rival is None:
            self._run_all(batch, pool)
            return
        rival.begin(self.clock)
        begun, processor = timing.wall(), timing.processor()
        self._run_all(batch, pool)
        self.clock.add(timing.wall() - begun, timing.processor() - processor)
        rival.end(self.clock)

    def _run_all(self, batch: BatchRun, pool: HeapPool) -> None:
        if not self.contained:
            self._run(batch, pool)
            return
        with self._lock:
            if self.by_rows:
                self._run_rows(batch, pool)
            else:
                self._run(batch, pool)
            if batch.error is not None:
                samples = batch.active(self.step.guard)
                for sample in range(batch.size) if samples is None else samples:
                    batch.failures[sample] = (batch.error, self.step)
                batch.error = None

    def run_row(self, batch: BatchRun, sample: int, pool: HeapPool) -> list[np.ndarray]:
        """One row alone, for rows that are made again."""
        with self._lock:
            return self._row(batch, sample, pool)

    def finish(self, batch: BatchRun) -> None:
        """Checks what the declaration cannot promise."""
        if self.step.user_code:
            check_outputs(batch, self.step)

    def sample_of(self, batch: BatchRun, call: Running) -> int:
        """The sample that a call of its function is for, -1 for a whole batch."""
        if not self.by_rows:
            return -1
        samples = batch.active(self.step.guard)
        return call.number if samples is None else samples[call.number]

    def let_go(self) -> None:
        """Goes on without a thread that does not return."""
        self._lock = threading.Lock()

    def _row(self, batch: BatchRun, sample: int, pool: HeapPool) -> list[np.ndarray]:
        step = self.step
        inputs = [self._input(batch.values[slot], [sample]) for slot in step.inputs]
        if step.user_code:
            inputs = [_with_right(values, right) for values, right in zip(inputs, step.writable)]
        nodes = {name: self._input(batch.values[slot], [sample]) for name, slot in step.arguments}
        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        sources = [self.sources(batch)[sample]]
        call = BatchCall(1, lambda: self.batch_keys(batch)[sample : sample + 1], layouts, pool.take, step.hint, sources)
        outputs = declare.run_whole(self.op, self.constants, nodes, inputs, call, self.count)
        if any(batch.layouts[slot] is None for slot in step.outputs):
            self._find_layouts(batch, inputs)
        return [values[0, ...] if isinstance(values, np.ndarray) else values[0] for values in outputs]

    def _run_rows(self, batch: BatchRun, pool: HeapPool) -> None:
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
            batch.values[slot] = [None] * batch.size
        samples = batch.active(step.guard)
        for sample in range(batch.size) if samples is None else samples:
            try:
                results = self._row(batch, sample, pool)
            except Exception as error:
                batch.fail(error, step, sample)
                continue
            for slot, result in zip(step.outputs, results):
                batch.values[slot][sample] = result
        self.finish(batch)

    def _run(self, batch: BatchRun, pool: HeapPool) -> None:
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
        active = batch.active(step.guard)
        size = batch.size if active is None else len(active)
        if size == 0:
            for slot in step.outputs:
                batch.values[slot] = [None] * batch.size
            return
        inputs = [self._input(batch.values[slot], active) for slot in step.inputs]
        if step.user_code:
            inputs = [_with_right(values, right) for values, right in zip(inputs, step.writable)]
        nodes = {name: self._input(batch.values[slot], active) for name, slot in step.arguments}

        def keys() -> np.ndarray:
            drawn = self.batch_keys(batch)
            return drawn if active is None else drawn[active]

        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        memory = batch.region if self.shared and all(self.shared) else pool
        call = BatchCall(size, keys, layouts, memory.take, step.hint, self.sources(batch))
        try:
            outputs = declare.run_whole(self.op, self.constants, nodes, inputs, call, self.count)
        except Exception as error:
            if call.current >= 0:
                batch.fail(error, step, call.current if active is None else active[call.current])
            else:
                batch.fail(error, step)
            return
        for slot, values in zip(step.outputs, outputs):
            if active is not None:
                scattered: list[Any] = [None] * batch.size
                for index, value in zip(active, values):
                    scattered[index] = np.asarray(value)
                values = scattered
            batch.values[slot] = values
            if batch.layouts[slot] is None:
                self._find_layouts(batch, inputs)
        for output, values in enumerate(outputs[: len(step.hint)]):
            self.largest[output] = max(self.largest[output], _largest(values))
        self.finish(batch)

    def _find_layouts(self, batch: BatchRun, inputs: Sequence[Any]) -> None:
        specs = []
        for values, slot in zip(inputs, self.step.inputs):
            if isinstance(values, np.ndarray):
                first = values[0, ...] if len(values) else None
            else:
                first = next((value for value in values if value is not None), None)
            if first is not None:
                specs.append(declare.Spec(np.shape(first), first.dtype, batch.layouts[slot]))
        found = self.op.specs(
            specs, {**self.constants, **dict.fromkeys(dict(self.step.arguments), declare.UNKNOWN)}, self.count
        )
        for slot, spec in zip(self.step.outputs, found):
            batch.layouts[slot] = spec.layout or ""

    def _input(self, values: Any, active: list[int] | None) -> Any:
        if active is None:
            return values
        return [values[index] if type(values) is list else values[index, ...] for index in active]


def _largest(values: Any) -> int:
    """The bytes of the largest sample."""
    if isinstance(values, np.ndarray):
        return values.nbytes // max(len(values), 1)
    return max((sample.nbytes for sample in values), default=0)


def _with_right(values: Any, writable: bool) -> Any:
    """The samples as user code may have them: to write, or to read only."""
    if isinstance(values, np.ndarray):
        return values if writable and values.flags.writeable else read_only(values)
    return [x if writable and x.flags.writeable else read_only(x) for x in values]


def sample_step(plan: Plan, step: Step, inside: set[int], fetch: Callable[[int], Any] | None) -> SampleStep:
    """A step of a stage made ready."""
    return (MergeStep if step.op == "_merge" else SampleStep)(plan, step, inside, fetch)


class SampleStage:
    """A chain of steps that carries one sample after another from its beginning to its end."""

    TARGET_SECONDS = 2e-3  # a chunk of samples is worth at least this much work: claiming one costs about 10 us

    def __init__(self, plan: Plan, stage: Stage, fetches: dict[str, Callable[[int], Any]]) -> None:
        inside = {slot for step in stage.steps for slot in step.outputs}
        self.steps = [
            sample_step(plan, step, inside, fetches[step.name] if step.fetch else None) for step in stage.steps
        ]
        self.merges = [MergeStep(plan, step, set()) for step in stage.merges]
        read = {slot for step in stage.steps for slot in step.reads()}
        for step in self.steps:
            # What another step of the stage reads shall stay in the cache for it.
            step.streams = (
                step.op.staged and step.count == 1 and takes_out(step.step) and not read & {*step.step.outputs}
            )
        self.slots = len(plan.slots)
        self.limited = any(step.constants.get("timeout") is not None for step in self.steps)
        self._places: dict[int, list[Placement]] = {}  # by thread, where a function has a limit
        self.stand_in: Callable[[BatchRun, Step, int], Any] | None = None  # what a rule gives for a step that failed
        self.measured = False  # each step apart, whatever a sample is worth
        self._seconds_per_sample = 0.0
        self._lock = threading.Lock()

    def chunk(self, left: int, threads: int) -> int:
        """How many samples to claim at once: enough work for a claim, but no thread may wait for the last chunk."""
        if not self.steps:
            return left
        if not self._seconds_per_sample:
            return 1
        worth = int(self.TARGET_SECONDS / self._seconds_per_sample) + 1
        return max(1, min(worth, -(-left // (2 * threads)) if threads > 1 else left))

    def enter(self, batch: BatchRun, pool: HeapPool) -> None:
        for step in self.steps:
            step.enter(batch, pool)

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena, pool: HeapPool) -> None:
        if not self.steps:
            return
        started = timing.wall()
        row: list[Any] = [None] * self.slots
        apart = len(self.steps) > 1 and self._seconds_per_sample > WORTH * len(self.steps)
        laps = [Clock() for _ in self.steps] if apart or self.measured else None
        raced = [(step.clock, step.rival) for step in self.steps if step.rival is not None]
        for clock, rival in raced:
            rival.begin(clock)
        members = [(step, step.mask(batch), Placement(batch, step, arena, pool)) for step in self.steps]
        if self.limited:
            self._places[threading.get_ident()] = [place for _, _, place in members]
        for sample in range(begin, end):
            if sample in batch.absent or sample in batch.failures:
                continue
            if laps is not None:
                self._run_measured(batch, sample, row, members, laps)
                continue
            for step, mask, place in members:
                if mask is not None and not mask[sample]:
                    continue
                try:
                    step.run(batch, sample, row, place)
                except Exception as error:
                    batch.fail(error, step.step, sample)
                    if not self._stood_in(batch, step, sample, row, place):
                        break
        if laps is not None:
            with self._lock:
                for step, lap in zip(self.steps, laps):
                    step.clock.add(lap.seconds, lap.busy, lap.calls)
                for clock, rival in raced:
                    rival.end(clock)
        taken = (timing.wall() - started) / (end - begin)
        known = self._seconds_per_sample
        self._seconds_per_sample = taken if not known else 0.8 * known + 0.2 * taken

    def _run_measured(
        self, batch: BatchRun, sample: int, row: list[Any], members: Sequence[Any], clocks: "Sequence[Clock]"
    ) -> None:
        """One sample, with both clocks read between the steps."""
        begun, processor = timing.wall(), timing.processor()
        for (step, mask, place), clock in zip(members, clocks):
            if mask is not None and not mask[sample]:
                continue
            over = False
            try:
                step.run(batch, sample, row, place)
            except Exception as error:
                batch.fail(error, step.step, sample)
                over = not self._stood_in(batch, step, sample, row, place)
            ended, left = timing.wall(), timing.processor()
            clock.add(ended - begun, left - processor)
            begun, processor = ended, left
            if over:
                break

    def _stood_in(self, batch: BatchRun, step: SampleStep, sample: int, row: list[Any], place: Placement) -> bool:
        values = self.stand_in(batch, step.step, sample) if self.stand_in is not None else None
        if values is None:
            return False
        try:
            step.keep(batch, sample, row, place, values)
        except Exception as error:
            batch.fail(error, step.step)
            return False
        return True

    def sample_of(self, batch: BatchRun, call: Running) -> int:
        """The sample that a call of a function is for."""
        del batch
        places = self._places[call.thread]
        return next(place.sample for place in places if place.step.calls(call.function))

    def let_go(self) -> None:
        """Goes on without a thread that does not return: it holds nothing that others need."""

    def finish(self, batch: BatchRun) -> None:
        """Checks at the stage's end what the declarations cannot promise."""
        for step in self.steps:
            step.finish(batch)
        for merge in self.merges:
            merge.run_whole(batch)


class Keeper:
    """An object of the user that keeps a state: it has ``get_state()`` and ``set_state(state)``."""

    def __init__(self, name: str, keeper: Any) -> None:
        self.name = name
        self.keeper = keeper

    @classmethod
    def of(cls, bound: BoundStep) -> "Keeper | None":
        """The one among a step's constants, if any."""
        for value in bound.constants.values():
            if keeps_state(value):
                return cls(bound.step.name, value)
        return None

    def snapshot(self) -> Any:
        """The state now, as plain data that later changes of the object do not reach."""
        what = f"the state that get_state() of {self.name!r} returned"
        try:
            return encode(self.keeper.get_state(), what)
        except TypeError as error:
            error.add_note(f"{what} must be of numbers, strings, lists, tuples, dictionaries and arrays")
            raise

    def restore(self, states: Mapping[str, Any]) -> None:
        """Gives the object a state back."""
        if self.name not in states:
            raise InvalidState(
                f"the checkpoint has no state for {self.name!r}: it was made without enable_checkpointing=True, or before "
                f"{function_name(self.keeper)} had get_state()"
            )
        with readable(self.name):
            state = decode(states[self.name], f"the state of {self.name!r}")
        self.keeper.set_state(state)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Says of errors that a state of another form leads to that it is the state which is wrong."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, StopIteration, TypeError) as error:
        found = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ValueError(f"the state of {name!r} is damaged, or was made by other code ({found})") from error


def keeps_state(value: Any) -> bool:
    """Whether an object promises to tell and take back its state."""
    return callable(getattr(value, "get_state", None)) and callable(getattr(value, "set_state", None))


class SourceStep(BoundStep):
    """Asks a source for its next batch."""

    def __init__(self, plan: Plan, step: Step, number: int) -> None:
        super().__init__(plan, step)
        assert self.op.factory is not None
        try:
            self.source: Source = self.op.factory(**self.constants)
        except Exception as error:
            add_notes(error, [*step.place(), *([step.origin.describe()] if step.origin else [])])
            raise
        self.no_copy = bool(self.constants.get("no_copy"))
        self.number = number
        self.keeper = Keeper.of(self)

    def state(self, checkpointing: bool) -> Any:
        """The source's state; that of the user's own object only with ``checkpointing``, since it may cost time."""
        state = self.source.state()
        if self.keeper is None or not checkpointing:
            return state
        return {**(state or {}), "source": self.keeper.snapshot()}

    def restore(self, state: Any) -> None:
        """Gives the source its state back."""
        if state is not None and not isinstance(state, Mapping):
            raise ValueError(f"the state of {self.step.name!r} is damaged: it is {state!r}")
        if self.keeper is not None and state is not None and "source" in state:
            self.keeper.restore({self.keeper.name: state["source"]})
        with readable(self.step.name):
            self.source.restore(state)

    def run(self, batch: BatchRun, request: declare.Request, pool: HeapPool, checkpointing: bool = False) -> int:
        """Fills the slots of this source; the size of its batch."""
        feed = self.source.next(request)
        for output, (slot, values) in enumerate(zip(self.step.outputs, feed.outputs)):
            memory = self.memory(batch, pool, output)
            batch.values[slot] = values if feed.owned or self.no_copy else _copied(values, feed.size, memory)
            declared = self.step.specs[output].layout if output < len(self.step.specs) else ""
            found = feed.layouts[output] if feed.layouts else None
            batch.layouts[slot] = found or declared or ""
        batch.origins[self.number] = feed.source_info
        if feed.positions is not None:
            batch.positions = feed.positions
        if feed.epochs is not None:
            batch.epochs = feed.epochs
        if feed.padding is not None:
            batch.padding = feed.padding
        if feed.ends_epoch:
            batch.ends.append(self.step.name)
        batch.states[self.step.name] = self.state(checkpointing)
        for sample, error in feed.failures.items():
            batch.fail(error, self.step, sample)
        return feed.size


def _copied(values: Any, size: int, memory: Any) -> Any:
    if isinstance(values, np.ndarray):
        copy = memory.empty(values.shape, values.dtype)
        np.copyto(copy, values)
        return copy
    return Collector(size, memory.take).gather(values)
