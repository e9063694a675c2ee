"""Steps that compute all samples of a chunk in one call, before the other steps of their stage.

Such a step has an operator with ``many`` (declare/many.py), and reads nothing that the other steps of the stage make. If the call
does not describe the samples, or fails, the step runs for one sample after another, and so do the steps that need its results.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import Column, Many, as_argument, as_column, require
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.late_code import late_code
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep, copied, is_large, past_caches
from pipeflow.kernels import cpu as kernels


def together(steps: Sequence[SampleStep], early: Collection[int]) -> list[int]:
    """The numbers of the steps of a stage that may compute all samples of a chunk in one call; the ``early`` ones are done
    before.
    """
    found: list[int] = []
    made = {slot for number in early for slot in steps[number].step.outputs}
    for number, step in enumerate(steps):
        plain, op = step.step, step.op
        read = [*step.inputs, *[(slot, inside) for _, slot, inside in step.arguments]]
        if (
            type(step) is SampleStep
            and op.many_hook is not None
            and number not in early
            and (op.calls_hook is None or op.calls_small)  # else a chain computes it
            and step.fetched_from is None
            and not (step.late_guard or plain.user_code or step.wants_source)
            and not any((*step.shared, *step.sent))
            and all(slot in made for slot, inside in read if inside)
        ):
            found.append(number)
            made.update(plain.outputs)
    return found


def run(step: SampleStep, batch: BatchRun, rows: ChunkRows, pool: HeapPool) -> bool:
    """Runs a step for the samples of the rows; False if each sample has to be computed by itself."""
    samples, mask = rows.samples, step.mask(batch)
    if mask is not None:
        samples = np.array([sample for sample in samples.tolist() if mask[sample]], np.int64)
        if not len(samples):
            return True
    return run_all(step, batch, rows, samples, pool)


def loaded(step: SampleStep, batch: BatchRun) -> bool:
    """True if the compiled code that the call uses is in memory; a thread loads it after the first batches."""
    return step.op.many_loads is None or late_code(step.op.name, step.op.many_loads).ready(batch)


def run_all(step: SampleStep, batch: BatchRun, rows: ChunkRows, samples: np.ndarray, pool: HeapPool) -> bool:
    """Runs a step for these samples, whatever its guard is; False if each has to be computed by itself."""
    try:
        outputs = _outputs(step, batch, rows, samples, pool)
    except Exception:  # the step itself reports the error
        return False
    return _keep(step, batch, rows, samples, outputs)


def _outputs(step: SampleStep, batch: BatchRun, rows: ChunkRows, samples: np.ndarray, pool: HeapPool) -> Sequence[Any]:
    op, kernel = step.op, step.kernel
    assert kernel is not None
    assert op.many_hook is not None
    require(loaded(step, batch))
    whole = len(samples) == batch.size
    layouts = [batch.layouts[slot] or "" for slot, _ in step.inputs]
    inputs = [as_column(_samples(batch, rows, slot, samples, whole)) for slot, _ in step.inputs]
    arguments = {
        name: as_argument(op.arguments[name], _samples(batch, rows, slot, samples, whole))
        for name, slot, _ in step.arguments
    }
    require(not any((batch.layouts[slot] or "")[:1] == "F" for _, slot, _ in step.arguments))
    if inputs:
        op.check_dtype(inputs[0][0].dtype)
        require(not (op.by_frame and any(layout[:2] == "F*" for layout in layouts)))
        if op.layouts:
            layouts = list(kernel.accepted_layouts(layouts, tuple([column[0].ndim for column in inputs])))
            require(not op.frames_of(layouts))
    keys = None
    if step.random:
        keys = step.batch_keys(batch)
        keys = keys if whole else keys[samples]

    given: dict[int, np.ndarray] = {}  # by output: memory of the batch
    first, count = int(samples[0]), len(samples)
    together = whole or int(samples[-1]) - first + 1 == count

    def take(output: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        held = batch.values[step.step.outputs[output]]
        fits = step.storages[output] == "dense" and type(held) is np.ndarray
        if together and fits and held.shape[1:] == shape and held.dtype == dtype:
            given[output] = held[first : first + count]
            return given[output]
        return pool.empty((count, *shape), dtype)

    def copy(source: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
        target = pool.empty(source.shape, source.dtype) if target is None else target
        large = is_large(source.shape, source.dtype, batch.size)
        copied(source, target, large and (step.compiled or past_caches.ready(batch)))
        return target

    def copies(sources: Column) -> Column:
        shape, dtype = sources[0].shape, sources[0].dtype
        if isinstance(sources, list) and any(source.shape != shape or source.dtype != dtype for source in sources):
            return [copy(source) for source in sources]
        target = take(0, shape, dtype)
        large = is_large(shape, dtype, batch.size) and all(source.flags.c_contiguous for source in sources)
        if large and past_caches.ready(batch):
            kernels.streaming.copy_rows(sources, target)
        else:
            for place, source in enumerate(sources):
                target[place, ...] = source
        return target

    def room(nbytes: int) -> np.ndarray:
        return pool.empty((nbytes,), np.dtype(np.uint8))

    many = Many(len(samples), inputs, layouts, kernel.constants, arguments, keys, take, copy, copies, room)
    outputs = op.many_hook(many)
    if step.count and batch.layouts[step.step.outputs[0]] is None:
        own = {name: values[0] for name, values in arguments.items()}
        named = [batch.layouts[slot] or "" for slot, _ in step.inputs]
        found = kernel.output_layouts([column[0] for column in inputs], named, own)
        for slot, layout in zip(step.step.outputs, found):
            batch.layouts[slot] = layout or ""
    return [None if column is given.get(output) else column for output, column in enumerate(outputs)]


def _samples(batch: BatchRun, rows: ChunkRows, slot: int, samples: np.ndarray, whole: bool) -> Any:
    """The values of a slot for some samples: an array, or a list of arrays."""
    held = rows.columns.get(slot)
    if held is not None:
        require(len(samples) == len(rows.samples))
        return held
    held = batch.values[slot]
    if whole:
        return held
    first, count = int(samples[0]), len(samples)
    if samples[-1] - first + 1 == count:
        return held[first : first + count]
    return held[samples] if isinstance(held, np.ndarray) else [held[sample] for sample in samples.tolist()]


def _keep(step: SampleStep, batch: BatchRun, rows: ChunkRows, samples: np.ndarray, outputs: Sequence[Any]) -> bool:
    """Stores the results of some samples, None if they are in their slot; False if they do not fit their slots."""
    places = list(zip(step.step.outputs, step.storages, outputs, strict=True))
    for slot, storage, column in places:
        held = batch.values[slot]
        if storage == "dense" and type(held) is np.ndarray and column is not None:
            same = type(column) is np.ndarray and held.shape[1:] == column.shape[1:] and held.dtype == column.dtype
            if not same:
                return False
    chosen = samples.tolist()
    for slot, storage, column in places:
        held = batch.values[slot]
        if column is None:
            column = held[chosen[0] : chosen[-1] + 1]
        elif storage == "dense" and type(held) is np.ndarray:
            held[samples] = column
        elif storage == "table" and len(chosen) == batch.size and _is_block(column):
            batch.values[slot] = column
        elif storage in ("dense", "table"):
            column = [column[index, ...] for index in range(len(column))] if type(column) is np.ndarray else column
            if len(chosen) == batch.size and type(held) is list:
                held[:] = column
            else:
                for sample, part in zip(chosen, column):
                    held[sample] = part
        if len(chosen) == len(rows.samples):
            rows.columns[slot] = column
        else:
            for place, sample in enumerate(chosen):
                rows[sample][slot] = column[place, ...] if type(column) is np.ndarray else column[place]
    return True


def _is_block(column: Any) -> bool:
    """True if the samples are rows of one array, which can be the whole batch."""
    return type(column) is np.ndarray and column.flags.c_contiguous and not column.dtype.hasobject
