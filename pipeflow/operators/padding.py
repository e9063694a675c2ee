"""Padding samples and whole batches to larger extents, for the operator `pad`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.windows import byte_around, fill_values_of


def padded_alike(data: list[np.ndarray], fill: Any, args: Sequence[Any], layout: str, out: Any) -> np.ndarray | None:
    """The batch as one array, made by one call; None if the shapes of the results differ, or samples need calls of their own."""
    dtype, axes = data[0].dtype, data[0].ndim
    if isinstance(fill, list) or any(isinstance(value, list) for value in args):
        return None
    if not all(x.dtype == dtype and x.ndim == axes and x.flags.c_contiguous for x in data):
        return None
    addresses = np.array([x.__array_interface__["data"][0] for x in data], np.int64)
    extents = np.array([x.shape for x in data], np.int64).reshape(len(data), axes)
    return padded_columns(addresses, extents, dtype, fill, args, layout, out)


def padded_columns(
    addresses: np.ndarray, extents: np.ndarray, dtype: np.dtype, fill: Any, args: Sequence[Any], layout: str, out: Any
) -> np.ndarray | None:
    """The same for samples as columns of addresses and extents."""
    smallest, largest = tuple(extents.min(0).tolist()), tuple(extents.max(0).tolist())
    values, count = fill_values_of((fill,), dtype), len(extents)
    # No extent of a result is less than that of a result with less data: so all results have the shape of these two.
    axes, names, shape, align = args
    target = padded_shape(largest, [largest], axes, names, shape, align, layout)
    byte = byte_around(values, target, target, target)
    if (
        byte is None
        or smallest[2:] != target[2:]
        or padded_shape(smallest, [largest], axes, names, shape, align, layout) != target
    ):
        return None
    result = out((count, *target), dtype)
    inner = math.prod(target[2:]) * dtype.itemsize
    whole, width = math.prod(target[:2]) * inner, target[1] * inner
    parts = np.empty((count, 6), np.int64)
    parts[:, 0], parts[:, 1], parts[:, 2] = addresses, extents[:, 0], extents[:, 1] * inner
    parts[:, 3] = np.arange(0, count * whole, whole) if whole else 0
    parts[:, 4], parts[:, 5] = parts[:, 3] + whole, width
    kernels.moving.frame_parts(parts, np.uint8(byte), result.reshape(-1).view(np.uint8))
    return result


def padded(data: np.ndarray, fill: float, out: np.ndarray) -> np.ndarray:
    """Puts the data at the beginning of the output, and the value in the rest."""
    target = out.shape
    values = fill_values_of((fill,), data.dtype)
    byte = byte_around(values, target, data.shape, target) if data.size else None
    if byte is not None:
        return kernels.moving.framed(data, (0, 0), data.shape, (0, 0), byte, out)
    inside = tuple([np.s_[:extent] for extent in data.shape])
    out[inside] = data
    for axis, extent in enumerate(data.shape):  # each part is written once: no element is written twice
        if extent < target[axis]:
            out[(*inside[:axis], np.s_[extent:])] = values[0]
    return out


def padded_shape(own: Any, shapes: Any, axes: Any, names: Any, shape: Any, align: Any, layout: str) -> tuple[int, ...]:
    """The extents after padding."""
    chosen = axes_of(layout, len(own), axes or None, names)  # as in DALI, an empty list means all axes
    wanted = list(shape) * len(chosen) if shape is not None and len(shape) == 1 else shape
    multiples = list(align) * len(chosen) if align is not None and len(align) == 1 else align
    for name, values in (("shape", wanted), ("align", multiples)):
        if values is not None and len(values) != len(chosen):
            raise ValueError(f"{name} has {len(values)} values for {len(chosen)} axes")
    result = list(own)
    for i, axis in enumerate(chosen):
        size = 0 if wanted is None else wanted[i]
        if size <= 0:
            size = max(one[axis] for one in shapes)
        result[axis] = max(own[axis], size)
        if multiples is not None:
            if multiples[i] <= 0:
                raise ValueError(f"align must be positive, got {multiples[i]}")
            result[axis] = -(-result[axis] // multiples[i]) * multiples[i]
    return tuple(result)
