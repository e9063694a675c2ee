"""A shorter form of the body for repeated calls on arrays, made from the kernel calls that an operator declares.

With inputs of known shapes and with constant arguments all numbers of ``@name.calls`` are plain, so its calls are a list of
compiled functions and their arguments. A kernel that is neither in memory nor on disk is not compiled for this: the body runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pipeflow.declare.kernel_calls import KernelArray, KernelCalls, MakeRows, Number
from pipeflow.declare.opdef import OpDef
from pipeflow.declare.parameters import Args
from pipeflow.declare.specs import Spec
from pipeflow.declare.tables import NoTable, require
from pipeflow.kernels import cpu as kernels

# Of an array: its place among the arguments, the number of its memory, its extents, and its type if the memory has another one.
Placed = tuple[int, int, tuple[int, ...], np.dtype | None]


class _OneSample:
    """A WorkRecord of plain numbers. The address of an array is its number: inputs, the output, other memory."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.output = len(specs)
        self.types: list[np.dtype | None] = [spec.dtype for spec in specs]  # of the memory with each number
        self.others: list[int] = []  # bytes
        self.steps: list[tuple[Callable[..., Any], list[Any], list[Placed]]] = []

    def memory(self, nbytes: Any) -> Any:
        self.others.append(nbytes)
        self.types.append(None)
        return len(self.types) - 1

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]:
        require(not now and all(isinstance(x, (KernelArray, np.ndarray, np.generic, int, float)) for x in arguments))
        placed, given = [], list(arguments)
        for place, array in enumerate(arguments):
            if isinstance(array, KernelArray):
                require(array.window_of is None)
                other = None if array.dtype == self.types[array.address] else array.dtype
                placed.append((place, array.address, array.extents, other))
                given[place] = np.empty((0,) * len(array.extents), array.dtype)
            elif isinstance(array, np.ndarray):
                require(array.flags.c_contiguous)
        compute = kernels.jit.kept_code_of(kernel, *given)
        require(compute is not None)
        self.steps.append((compute, given, placed))
        return ()

    def check(self, condition: Any, fixed: bool) -> None:
        require(condition)

    def other(self, *_: Any) -> NoReturn:
        """What a call on arrays has no plain form for."""
        raise NoTable

    computed = count = function = ask = other


def short_form(op: OpDef, specs: Sequence[Spec], args: Args) -> Callable[..., np.ndarray] | None:
    """``work(*inputs, out)``, or ``work(*inputs)`` if the body has no ``out``; None if the declared calls do not give it."""
    if op.calls_hook is None or op.draws or not specs or (op.calls_for is not None and not op.calls_for(args)):
        return None
    record = _OneSample(specs)
    shared: list[tuple[tuple[int, ...], np.dtype]] = []

    def place(output: int, extents: tuple[int, ...], dtype: np.dtype) -> KernelArray:
        require(output == 0 and len(record.types) == len(specs))
        record.types.append(dtype)
        return KernelArray(record.output, extents, dtype)

    def share(data: KernelArray, extents: tuple[int, ...], dtype: np.dtype) -> KernelArray:
        shared.append((extents, dtype))
        return data

    def rows(make: MakeRows, numbers: bool) -> Any:
        require(numbers)
        return np.ascontiguousarray(make(args, 1))[0].tolist()

    calls = KernelCalls(record, place, args, rows=rows, share=share)
    calls.inputs = [KernelArray(number, spec.shape, spec.dtype) for number, spec in enumerate(specs)]
    calls.layouts = [spec.layout or "" for spec in specs]
    try:
        op.calls_hook(calls)
    except NoTable:
        return None
    if shared:
        return None if op.returns_views else _sharing(specs[0].dtype, *shared[0])
    result = calls.outputs.get(0)
    if result is None or len(calls.outputs) != 1 or not record.steps:
        return None
    return _running(record, len(specs), "out" in op.wants, result)


def _sharing(given: np.dtype, extents: tuple[int, ...], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """The memory of the input with these extents and this type."""
    if dtype == given:
        return lambda data: data.reshape(extents)
    return lambda data: np.ascontiguousarray(data).reshape(-1).view(dtype).reshape(extents)


def _running(record: _OneSample, inputs: int, takes_out: bool, result: KernelArray) -> Callable[..., np.ndarray]:
    steps, others, empty = record.steps, record.others, np.empty

    def run(*arrays: np.ndarray) -> np.ndarray:
        out = arrays[-1] if takes_out else empty(result.extents, result.dtype)
        memory = [array.ravel() for array in arrays[:inputs]]
        memory.append(out)
        memory += [empty(nbytes, np.uint8) for nbytes in others]
        for compute, given, placed in steps:
            arguments = given.copy()
            for place, number, extents, dtype in placed:
                array = memory[number]
                if dtype is not None:
                    array = array.view(dtype)
                arguments[place] = array.reshape(extents)
            compute(*arguments)
        return out

    return run
