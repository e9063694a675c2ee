"""Warps and filters of images as calls of compiled kernels (``declare/kernel_calls.py``)."""

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from pipeflow.declare import Args, KernelArray, KernelCalls, Several, require
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.image_calls import FLOAT, FLOAT64

INT32 = np.dtype(np.int32)
FAST = {np.dtype(np.uint8), FLOAT}
MOST = 1 << 31  # elements of an image whose places have four bytes


def fast_image(calls: KernelCalls, dtype: Any) -> KernelArray:
    """The input, an image that the kernels read and write without a conversion."""
    image = calls.input
    calls.require(calls.layouts[0] == "HWC" and image.dtype in FAST and dtype in (None, image.dtype))
    calls.require(image.size > 0)
    calls.require(image.size < MOST)
    return image


def warped(calls: KernelCalls, matrix: KernelArray, extents: Sequence[Any], fill: float | None, nearest: bool) -> None:
    """Warps the image by a matrix of 2 x 3 to these extents."""
    image, warp = calls.input, kernels.warp
    values = warp.fill_of(fill or 0.0, index(image.extents[2]), image.dtype if nearest else FLOAT)
    out = calls.output((*extents, image.extents[2]), image.dtype)
    places = calls.scratch((extents[1],), INT32)
    calls.call(warp.warp_nearest if nearest else warp.warp_linear, image, matrix, values, fill is None, places, out)


def whole_extents(size: Any, find: Callable[[Any, int], list[int] | None]) -> list[int] | None:
    """The given extents of a result, which are the same for all samples."""
    require(not isinstance(size, Several))
    return find(size, 2)


def turn_image(
    calls: KernelCalls, extents: Sequence[Any] | None, keep_size: bool, fill: float | None, nearest: bool
) -> None:
    """Turns the image by an angle, on a canvas of these extents or one that contains the result."""
    programs, image = kernels.warp_programs, fast_image(calls, calls.args.dtype)
    calls.need(programs.turning())

    def turns(args: Args, count: int) -> np.ndarray:
        table = np.empty((count, 4))
        angles = np.broadcast_to(np.asarray(args.angle, np.float64), count)
        table[:, :2] = [(math.cos(a), math.sin(a)) for a in map(math.radians, angles.tolist())]
        # float32 as in the body: it decides at 45 degrees
        narrow = (angles.astype(np.float32) * np.float32(math.pi / 180)).tolist()
        table[:, 2:] = [(abs(math.cos(a)), abs(math.sin(a))) for a in narrow]
        return table

    cos, sin, *sides = calls.reals(turns)
    height, width = image.extents[:2]
    if extents is None:
        extents = (height, width) if keep_size else calls.read(programs.turned_extents, height, width, *sides)
    matrix = calls.scratch((2, 3), FLOAT64)
    calls.call(programs.turn_matrix, height, width, *extents, cos, sin, matrix)
    warped(calls, matrix, extents, fill, nearest)


def matrix_of(calls: KernelCalls, count: int, one: Callable[[Any], np.ndarray], plain: bool) -> KernelArray:
    """The matrix of a warp: the second input, or a row of a table. ``one`` makes it of the numbers of a sample."""
    if len(calls.inputs) > 1:
        given = calls.inputs[1]
        calls.require(plain and given.dtype in (FLOAT, FLOAT64))
        calls.require(given.size == count)
        if given.dtype == FLOAT64:
            return given.reshaped(count)
        calls.need(kernels.warp_programs.widening())
        wide = calls.scratch((count,), FLOAT64)
        calls.call(kernels.casting.cast_flat, given.reshaped(count), wide)
        return wide

    def matrices(args: Args, samples: int) -> np.ndarray:
        if not isinstance(args.matrix, np.ndarray):
            return np.broadcast_to(one(args.matrix).reshape(count), (samples, count))
        return np.stack([one(numbers).reshape(count) for numbers in args.matrix])

    return calls.row(matrices)


def perspective(calls: KernelCalls, matrix: KernelArray, extents: Sequence[Any], cubic: bool, options: Any) -> None:
    """Warps the image by a projective matrix; ``options`` are origin, border and fill values."""
    image, (origin, border, fill) = calls.input, options
    (kernel, _), *_ = wanted = kernels.warp_programs.perspective(image.dtype, cubic)
    calls.need(wanted)
    rows, columns = extents
    out = calls.output((rows, columns, image.extents[2]), image.dtype)
    line = calls.scratch((columns * image.extents[2] + 16,), FLOAT)
    room = calls.scratch((columns,), INT32), calls.scratch((columns,), FLOAT), calls.scratch((columns,), FLOAT)
    values = np.ascontiguousarray(fill, np.float32)
    calls.call(kernel, image, *room, matrix, origin, border, values, line, out)


def filtered(calls: KernelCalls, windows: Sequence[KernelArray | np.ndarray]) -> None:
    """Filters an image along both axes, each with its window."""
    image, target = calls.input, calls.args.dtype or calls.input.dtype
    calls.require(calls.layouts[0] in ("HWC", "HW") and {image.dtype, target} <= FAST)
    pixel = image.extents[2] if len(image.extents) > 2 else 1
    out = calls.output_like_input(target)
    rows = image.extents[0], image.extents[1] * pixel
    calls.call(kernels.filters.filter_rows, image.reshaped(*rows), pixel + 0, *windows, out.reshaped(*rows))
