"""Results in programs that are the memory of an input: other extents, or another type, and the same bytes."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pipeflow.declare import KernelArray, Number
from pipeflow.executor.runners.sample_step import SampleStep
from pipeflow.kernels import cpu as kernels

BYTE = np.dtype(np.uint8)


class RecordsResults(Protocol):
    """The parts of a program that note results (program.py)."""

    chain: Any

    def output(self, step: SampleStep, output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray: ...

    def is_large(self, extents: tuple[Any, ...], dtype: np.dtype) -> bool: ...

    def place(
        self, step: SampleStep, output: int, address: Number, extents: tuple[Any, ...], dtype: np.dtype
    ) -> None: ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]: ...


def slots_lent(steps: Sequence[SampleStep], used: set[int]) -> set[int]:
    """The slots of a chain whose memory is that of a result which is used later: one step only reads each of them, and the first
    one is filled by an operator that takes memory for it. Merges and functions of the user find theirs in another way.
    """
    found: set[int] = set()
    makers = {slot: step for step in steps for slot in step.step.outputs}
    read = [slot for step in steps for slot in step.step.inputs]
    for last in steps:
        step, path = last, []
        if not last.op.calls_share or last.step.outputs[0] not in used or last.storages != ("table",) or last.sent[0]:
            continue
        while step.op.calls_share and not step.step.guard:
            (slot, *_) = step.step.inputs
            if slot in used or slot not in makers or read.count(slot) > 1:
                break
            path.append(slot)
            step = makers[slot]
        if path and type(step) is SampleStep and not (step.op.calls_share or step.step.guard):
            found.update(path)
    return found


def share_memory(
    program: RecordsResults, step: SampleStep, data: KernelArray, extents: tuple[Any, ...], dtype: np.dtype
) -> KernelArray:
    """The result of a step that is the memory of its input; a copy if other memory is needed."""
    given, (slot,) = step.step.inputs[0], step.step.outputs
    if slot not in program.chain.used:
        return KernelArray(data.address, extents, dtype)
    if given in program.chain.lent and isinstance(data.address, Number):  # else it is a constant
        program.place(step, 0, data.address, extents, dtype)
        return KernelArray(data.address, extents, dtype)
    made = program.output(step, 0, extents, dtype)
    nbytes = data.size * data.dtype.itemsize
    ends = [KernelArray(address, (nbytes,), BYTE) for address in (data.address, made.address)]
    past = program.is_large(extents, dtype)
    program.call(kernels.streaming.stream if past else kernels.user_calls.copy_bytes, ends, now=False)
    return made
