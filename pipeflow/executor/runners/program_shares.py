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

    def place(
        self, step: SampleStep, output: int, address: Number, extents: tuple[Any, ...], dtype: np.dtype
    ) -> None: ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]: ...


def slots_lent(steps: Sequence[SampleStep], used: set[int]) -> set[int]:
    """The slots that are filled in a chain and read by one step only, whose result is the same memory and is used later."""
    found: set[int] = set()
    own = {slot for step in steps for slot in step.step.outputs}
    read = [slot for step in steps for slot in step.step.inputs]
    for step in reversed(steps):
        if not step.op.calls_share or step.step.guard:
            continue
        slot, (made,) = step.step.inputs[0], step.step.outputs
        kept = made in found or (made in used and step.storages == ("table",) and not step.sent[0])
        if kept and slot in own - used and read.count(slot) == 1:
            found.add(slot)
    return found


def share_memory(
    program: RecordsResults, step: SampleStep, data: KernelArray, extents: tuple[Any, ...], dtype: np.dtype
) -> KernelArray:
    """The result of a step that is the memory of its input; a copy if other memory is needed."""
    given, (slot,) = step.step.inputs[0], step.step.outputs
    if slot not in program.chain.used:
        return KernelArray(data.address, extents, dtype)
    if given in program.chain.lent:
        program.place(step, 0, data.address, extents, dtype)
        return KernelArray(data.address, extents, dtype)
    made = program.output(step, 0, extents, dtype)
    nbytes = data.size * data.dtype.itemsize
    ends = [KernelArray(address, (nbytes,), BYTE) for address in (data.address, made.address)]
    program.call(kernels.user_calls.copy_bytes, ends, now=False)
    return made
