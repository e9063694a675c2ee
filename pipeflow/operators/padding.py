"""Padding samples and whole batches to larger extents, for the operator `pad`."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
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
    made = padding_of(dtype, axes, fill, args, layout)
    if made is None:
        return None
    numbers = np.array([(x.__array_interface__["data"][0], *x.shape) for x in data], np.int64)
    extents = [*zip(*[x.shape for x in data])]
    return made(numbers, extents, lambda nbytes: out((nbytes,), np.dtype(np.uint8)))


def padding_of(
    dtype: np.dtype, axes: int, fill: Any, args: Sequence[Any], layout: str
) -> Callable[..., np.ndarray | None] | None:
    """A function that does the same for batches of such samples as columns: address and extents of each, the extents for each
    axis, and ``take``, which gives memory. None if the padding has several bytes.
    """
    try:
        byte, parts = _fixed(dtype, repr(fill), fill, axes, *args, layout)
    except TypeError:  # an argument that cannot be the key of a dictionary
        byte, parts = _fixed.__wrapped__(dtype, "", fill, axes, *args, layout)
    return None if byte is None else partial(_padded_columns, dtype, byte, parts)


def _padded_columns(
    dtype: np.dtype,
    byte: np.uint8,
    parts: Sequence[tuple[int, int] | None],
    numbers: np.ndarray,
    extents: Sequence[Sequence[int]],
    take: Callable[[int], np.ndarray],
) -> np.ndarray | None:
    # No extent of a result is less than that of a result with less data: so all results have the shape of these two.
    target = []
    for axis, part in zip(extents, parts):
        low, high = min(axis), max(axis)
        if part is not None:
            size, multiple = part
            if size <= 0:
                size = high
            low, high = [-(-max(extent, size) // multiple) * multiple for extent in (low, high)]
        if low != high:
            return None
        target.append(high)
    if [*map(min, extents[2:])] != target[2:]:
        return None
    inner = math.prod(target[2:]) * dtype.itemsize
    memory = take(len(numbers) * target[0] * target[1] * inner)
    kernels.moving.frame_columns(numbers, target[0], target[1], inner, byte, memory)
    return np.ndarray((len(numbers), *target), dtype, memory)


@lru_cache(maxsize=64)
def _fixed(
    dtype: np.dtype, _sign: str, fill: Any, ndim: int, axes: Any, names: Any, shape: Any, align: Any, layout: str
) -> tuple[np.uint8 | None, list[tuple[int, int] | None]]:
    """The byte that fills the padding, None if there are several; and for each axis that is padded the size, 0 for that of the
    largest sample, and the number of which its extent is a multiple. ``_sign`` tells -0.0 from 0.0.
    """
    chosen, wanted, multiples = _axes_of(ndim, axes, names, shape, align, layout)
    parts: list[tuple[int, int] | None] = [None] * ndim
    for axis, size, multiple in zip(chosen, wanted, multiples):
        parts[axis] = size, multiple
    found = fill_values_of((fill,), dtype).tobytes()
    one = len(set(found)) == 1 and ndim > 1
    return np.uint8(found[0]) if one else None, parts


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
    result = list(own)
    for axis, size, multiple in zip(*_axes_of(len(own), axes, names, shape, align, layout)):
        extent = max(own[axis], size if size > 0 else max(one[axis] for one in shapes))
        result[axis] = -(-extent // multiple) * multiple
    return tuple(result)


def _axes_of(
    ndim: int, axes: Any, names: Any, shape: Any, align: Any, layout: str
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The axes that are padded, the wanted size of each, at most 0 for that of the largest sample, and the number of which its
    extent is a multiple.
    """
    chosen = axes_of(layout, ndim, axes or None, names or None)  # as in DALI, an empty list means all axes
    wanted = [0] * len(chosen) if shape is None else list(shape) * len(chosen) if len(shape) == 1 else shape
    multiples = [1] * len(chosen) if align is None else list(align) * len(chosen) if len(align) == 1 else align
    for name, values in (("shape", wanted), ("align", multiples)):
        if len(values) != len(chosen):
            raise ValueError(f"{name} has {len(values)} values for {len(chosen)} axes")
    for multiple in multiples:
        if multiple <= 0:
            raise ValueError(f"align must be positive, got {multiple}")
    return chosen, wanted, multiples
