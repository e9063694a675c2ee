"""Results in programs that are the memory of an input: other extents, or another type, and the same bytes."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pipeflow.declare import KernelArray, Number
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.sample_step import SampleStep
from pipeflow.kernels import cpu as kernels

BYTE = np.dtype(np.uint8)


class RecordsResults(Protocol):
    """The parts of a program that note results (program.py)."""

    chain: Any
    lasting: set[int]

    def output(self, step: SampleStep, output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray: ...

    def is_large(self, extents: tuple[Any, ...], dtype: np.dtype) -> bool: ...

    def place(
        self, step: SampleStep, output: int, address: Number, extents: tuple[Any, ...], dtype: np.dtype
    ) -> None: ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]: ...


def slots_lent(steps: Sequence[SampleStep], used: set[int]) -> set[int]:
    """The slots of a chain whose memory is that of a result which is used later: steps that pass memory on, as a ``reshape`` or a
    merge does, pass it to that result alone, and an operator that takes memory fills it. Functions of the user find theirs in
    another way.
    """
    makers = {slot: step for step in steps for slot in step.step.outputs}
    passed = [slot for step in steps for slot in _passed(step)]

    def lent(slot: int) -> set[int] | None:
        """The slots that have this memory; None if it cannot be lent."""
        step = makers.get(slot)
        if step is None or slot in used or passed.count(slot) > 1:
            return None
        return from_sides(step, {slot}) if _passed(step) else {slot} if type(step) is SampleStep else None

    def from_sides(step: SampleStep, found: set[int]) -> set[int] | None:
        for slot in _passed(step):
            more = lent(slot)
            if more is None:
                return None
            found |= more
        return found

    every: set[int] = set()
    for last in steps:
        if _passed(last) and last.step.outputs[0] in used and last.storages == ("table",) and not last.sent[0]:
            every |= from_sides(last, set()) or set()
    return every


def merge_copies(step: SampleStep, used: set[int], lent: set[int]) -> bool:
    """True if a merge has to copy more than single numbers."""
    if type(step) is not MergeStep or used.isdisjoint(step.step.outputs):
        return False
    return step.step.specs[0].ndim != 0 and not lent.issuperset(_passed(step))


def _passed(step: SampleStep) -> Sequence[int]:
    """The inputs whose memory may become that of the result."""
    if type(step) is MergeStep:
        return step.step.inputs[:2]
    return step.step.inputs[:1] if step.op.calls_share else ()


def share_memory(
    program: RecordsResults, step: SampleStep, data: KernelArray, extents: tuple[Any, ...], dtype: np.dtype
) -> KernelArray:
    """The result of a step that is the memory of its input, or of a side; a copy if other memory is needed."""
    (slot,) = step.step.outputs
    lasting = program.lasting.issuperset(_passed(step))
    if slot not in program.chain.used:
        program.lasting.update([slot] if lasting else [])
        return KernelArray(data.address, extents, dtype)
    if lasting:
        program.place(step, 0, data.address, extents, dtype)
        return KernelArray(data.address, extents, dtype)
    made = program.output(step, 0, extents, dtype)
    nbytes = data.size * data.dtype.itemsize
    ends = [KernelArray(address, (nbytes,), BYTE) for address in (data.address, made.address)]
    past = program.is_large(extents, dtype)
    program.call(kernels.streaming.stream if past else kernels.user_calls.copy_bytes, ends, now=False)
    return made
