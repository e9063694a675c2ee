"""Functions of the user in programs: their results have extents that are known only after the call."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from pipeflow.declare import KernelArray, NoExample, Number, OfThread, Spec, require
from pipeflow.executor.runners.function_step import FunctionStep
from pipeflow.executor.runners.sample_step import SampleStep
from pipeflow.kernels import cpu as kernels

BYTE = np.dtype(np.uint8)


class RecordsCalls(Protocol):
    """The parts of a program that record a call (program.py)."""

    chain: Any

    def room(self, kind: int) -> list[Number]: ...

    def dense_room(self, spec: Spec, dtype: np.dtype) -> list[Any]: ...

    def memory(self, nbytes: Any) -> Number: ...

    def take(self, operation: int, nbytes: Any) -> Number: ...

    def ask(self, permit: Callable[[int], int]) -> None: ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]: ...

    def place(
        self, step: SampleStep, output: int, address: Number, extents: tuple[Any, ...], dtype: np.dtype
    ) -> None: ...


def record_function(
    program: RecordsCalls, step: SampleStep, function: Any, inputs: Sequence[KernelArray]
) -> list[KernelArray]:
    """Records a call of a function. Its results are made in the memory that is free, or copied there, and then this memory is
    taken.
    """
    tools = kernels.kernel_calls
    seen = step.seen if isinstance(step, FunctionStep) else None
    if seen is None:
        raise NoExample  # what later steps decide may depend on extents: those of the last call are a guess, which is checked
    given = [_copied(program, array) for array in inputs] if function.writes else list(inputs)
    numbers: dict[
        tuple[bool, int], int
    ] = {}  # of memories: the dense memory of a slot, that of results, or that between steps
    rooms: list[Number] = []  # address and bytes of each
    memories = []  # of the outputs
    for output, (dtype, axes) in enumerate(function.outputs):
        spec, slot = step.step.specs[output], step.step.outputs[output]
        require(spec.dtype in (None, dtype) and (spec.shape is None or len(spec.shape) == axes))
        used = slot in program.chain.used
        dense = used and step.storages[output] == "dense"
        memory = dense, slot if dense else tools.RESULT if used else tools.MEMORY
        memories.append(memory)
        if memory not in numbers:
            numbers[memory] = len(numbers)
            rooms += program.dense_room(spec, dtype) if dense else program.room(memory[1])
    entry = function.entry(tuple([numbers[memory] for memory in memories]))
    desk = []  # arrays of the thread
    if function.allocates:
        desk.append(OfThread(kernels.function_memory.numbers_of_thread))
        program.ask(kernels.function_memory.prepare)
    if function.draws:
        desk.append(OfThread(kernels.function_numbers.of_thread))
    results = iter(program.call(entry, [*given, *rooms, *desk], now=False))
    made = []
    for output, ((dtype, axes), memory) in enumerate(zip(function.outputs, memories)):
        extents = tuple([next(results) for _ in range(axes)])
        for extent, known in zip(extents, seen[output]):
            extent.value = known
        dense, kind = memory
        address = rooms[2 * numbers[memory]] if dense else program.take(kind, prod(extents) * dtype.itemsize)
        if step.step.outputs[output] in program.chain.used:
            program.place(step, output, address, extents, dtype)
        made.append(KernelArray(address, extents, dtype))
    return made


def _copied(program: RecordsCalls, array: KernelArray) -> KernelArray:
    """A copy that a function may write to."""
    nbytes = array.size * array.dtype.itemsize
    copy = program.memory(nbytes)
    ends = [KernelArray(address, (nbytes,), BYTE) for address in (array.address, copy)]
    program.call(kernels.user_calls.copy_bytes, ends, now=False)
    return KernelArray(copy, array.extents, array.dtype)
