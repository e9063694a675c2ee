"""Reductions as calls of compiled kernels (``declare/kernel_calls.py``)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import KernelArray, KernelCalls, Number, largest, require
from pipeflow.kernels import cpu as kernels

FLOAT64 = np.dtype(np.float64)


class ReducedParts(NamedTuple):
    """The data as (outer, reduced, inner), the extents of the result, and memory for sums of parts."""

    data: KernelArray
    shape: tuple[Any, ...]
    results: Any  # their number
    count: Any  # the elements of each
    parts: Any  # elements of the memory


def parts_of(calls: KernelCalls, axes: Sequence[int], keep: bool) -> ReducedParts:
    """What the kernels of reductions need; only for neighbouring axes."""
    data = calls.input
    kind, extents = data.dtype.kind, data.extents
    calls.require(len(axes) > 0 and axes[-1] - axes[0] + 1 == len(axes))
    calls.require(kind in "iuf" and data.dtype != np.float16 and data.size > 0)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(extents) if keep or axis not in axes]
    outer, inner = math.prod(extents[: axes[0]]), math.prod(extents[axes[-1] + 1 :])
    count = math.prod(extents[axes[0] : axes[-1] + 1])
    most = kernels.reduce_programs.MOST_FOLDED
    parts = outer * most if type(inner) is int and inner <= most else outer * largest(inner, most)
    return ReducedParts(data.reshaped(outer, count, inner), tuple(shape), outer * inner, count, parts)


def kernel_of(calls: KernelCalls, kernel: Any, *arguments: Any) -> None:
    """Calls a kernel once it is compiled: a thread does that."""
    examples = [
        np.empty((1,) * len(x.extents), x.dtype) if isinstance(x, KernelArray) else 0 if isinstance(x, Number) else x
        for x in arguments
    ]
    calls.need([(kernel, kernels.jit.types_of(*examples))])
    calls.call(kernel, *arguments)


def summed(calls: KernelCalls, given: ReducedParts, power: int, out: KernelArray | None = None) -> KernelArray:
    """The sums of the elements or of their squares."""
    kind = kernels.reduce.sum_type(given.data.dtype, power)
    made = calls.scratch((given.results,), kind) if out is None else out
    kernel_of(calls, kernels.reduce_programs.sum_parts, given.data, power, calls.scratch((given.parts,), kind), made)
    return made


def means(calls: KernelCalls, sums: KernelArray, count: Any, root: bool, out: KernelArray) -> None:
    """The means of sums, or their roots."""
    require(out.dtype.kind in "iuf" and out.dtype != np.float16)
    kernel_of(calls, kernels.reduce_programs.as_means, sums, count, root, out.dtype.kind in "iu", out)


def distances(calls: KernelCalls, given: ReducedParts, mean: KernelArray) -> KernelArray:
    """The sums of the squared distances from the means."""
    parts, out = calls.scratch((given.parts,), FLOAT64), calls.scratch((given.results,), FLOAT64)
    kernel_of(calls, kernels.reduce_programs.sum_distances, given.data, mean, parts, out)
    return out
