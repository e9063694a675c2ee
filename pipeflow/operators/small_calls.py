"""Operators on single numbers as calls of compiled kernels (``declare/kernel_calls.py``), for conditions in chains."""

import numpy as np

from pipeflow.declare import KernelArray, KernelCalls, Number, require
from pipeflow.kernels import cpu as kernels

BYTE = np.dtype(np.uint8)


def _bytes_of(calls: KernelCalls, number: KernelArray) -> KernelArray:
    """A number as bytes; the calls describe only a result or an input that is one number."""
    require(not number.extents and number.dtype in kernels.small_numbers.TYPES)
    calls.need(kernels.small_numbers.wanted())
    return KernelArray(number.address, (number.dtype.itemsize,), BYTE)


def computed(calls: KernelCalls, name: str, common: np.dtype, dtype: np.dtype) -> None:
    """An operation of arithmetic or a comparison; operands are converted to a common type."""
    tools = kernels.small_numbers
    left, right = calls.inputs[0], calls.inputs[-1]
    require(common in tools.TYPES and not (common.kind == "f" and name in tools.OF_INTEGERS))
    require(name not in ("min", "max") or common.kind != "f" or tools.limits_as_numpy())
    given = [part for one in (left, right) for part in (_bytes_of(calls, one), tools.TYPES.index(one.dtype))]
    made = _bytes_of(calls, calls.output((), dtype))
    numbers = tools.OPERATIONS.index(name), tools.TYPES.index(common)
    calls.call(tools.compute, *given, *numbers, made, tools.TYPES.index(dtype))


def same_bool(calls: KernelCalls) -> None:
    """The number itself, which must be a bool."""
    require(calls.input.dtype == np.bool_)
    as_bool(calls)


def as_bool(calls: KernelCalls, opposite: bool = False) -> None:
    """A number as a bool, or its ``not``."""
    data = calls.input
    given, real = _bytes_of(calls, data), int(data.dtype.kind == "f")
    made = _bytes_of(calls, calls.output((), np.dtype(bool)))
    calls.call(kernels.small_numbers.as_bool, given, real, int(opposite), made)


def shape_of(calls: KernelCalls) -> None:
    """The extents of an array."""
    tools, extents, dtype = kernels.small_numbers, calls.input.extents, calls.args.dtype
    require(dtype in (np.int32, np.int64))
    calls.need(tools.wanted())
    made = calls.output((len(extents),), dtype)
    for axis, extent in enumerate(extents):
        place = KernelArray(made.address + axis * dtype.itemsize, (dtype.itemsize,), BYTE)
        calls.call(tools.store, extent, tools.TYPES.index(dtype), place)


def element(calls: KernelCalls) -> None:
    """One element of an array, with a constant index for each axis."""
    data, plan = calls.input, calls.args.plan
    require(len(plan) == len(data.extents) and data.window_of is None)
    place: int | Number = 0
    for (_, position), extent in zip(plan, data.extents):
        calls.require(position < extent if position >= 0 else extent >= -position)
        place = place * extent + (position if position >= 0 else extent + position)
    size = data.dtype.itemsize
    source = KernelArray(data.address + place * size, (size,), BYTE)
    calls.call(kernels.small_numbers.copy, source, _bytes_of(calls, calls.output((), data.dtype)))


def is_element(plan: object) -> bool:
    """True if an index has an integer that is the same for all samples for each axis."""
    return isinstance(plan, (list, tuple)) and all(
        len(one) == 2 and one[0] == "at" and isinstance(one[1], int) for one in plan
    )
