"""Cuts, margins, mirrors, transposes, rectangles and new shapes as calls of compiled kernels (``declare/kernel_calls.py``)."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import Args, KernelArray, KernelCalls, MakeRows, Number, Real, Several, largest, require
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.image_calls import FLOAT, UINT8, real, whole_image
from pipeflow.operators.windows import POLICIES, crop_extents, fill_values_of

AXES = 3  # of the data for `kernels.parts`
WHOLE_SLICE = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")


class AxisPart(NamedTuple):
    """The part of the data along an axis, its place in the result, and the extent of the result."""

    low: Any
    kept: Any
    place: Any
    full: Any


def found(calls: KernelCalls, kernel: Any, *numbers: Any) -> AxisPart:
    """The part that a kernel computes."""
    part = AxisPart(*calls.read(kernel, *numbers))
    calls.require(part.full > 0)
    return part


def load_moving(_args: Any, _dtype: np.dtype | None) -> None:
    """Loads the kernels of cuts and margins, if `build()` waits for all."""
    kernels.later.load_if_waiting(kernels.parts.moving())


def one_byte(values: np.ndarray) -> int | None:
    """The byte of which the only fill value is made; None if there are others."""
    found = set(values.tobytes())
    return found.pop() if values.size == 1 and len(found) == 1 else None


def moved(calls: KernelCalls, parts: Mapping[int, AxisPart], fill_values: Any, dtype: np.dtype | None = None) -> None:
    """Moves the part of the data to its place in the result, and fills the rest of it."""
    data = calls.input
    target = dtype or data.dtype
    calls.require(target == data.dtype or {target, data.dtype} == {UINT8, FLOAT})
    calls.require(data.size > 0)
    byte = one_byte(fill_values_of(fill_values, target))
    if byte is None or (target != data.dtype and byte):
        for part in parts.values():
            calls.require(part.kept == part.full)
    out = calls.output(tuple(parts[axis].full if axis in parts else n for axis, n in enumerate(data.extents)), target)
    made = out if target == data.dtype else calls.scratch(out.extents, data.dtype)
    first, last = (min(parts), max(parts)) if parts else (0, 0)
    groups = [parts.get(axis, _all_of(data.extents[axis])) for axis in range(first, last + 1)]
    extents = [data.extents[axis] for axis in range(first, last + 1)]
    before = prod(data.extents[:first])
    if first:
        groups, extents = [_all_of(before), *groups], [before, *extents]
    require(len(groups) <= AXES)
    missing = AXES - len(groups)
    groups, extents = [_all_of(1)] * missing + groups, [1] * missing + extents
    item = prod(data.extents[last + 1 :]) * data.dtype.itemsize
    numbers = [number for column in zip(*groups) for number in column]
    calls.call(
        kernels.parts.place_part, as_bytes(data), item, *extents[1:], *numbers, np.uint8(byte or 0), as_bytes(made)
    )
    if made is not out:
        calls.call(kernels.casting.cast_flat, made.flat, out.flat)


def _all_of(extent: Any) -> AxisPart:
    return AxisPart(0, extent, 0, extent)


def as_bytes(data: KernelArray) -> KernelArray:
    """The memory of an array as bytes."""
    return KernelArray(data.address, (data.size * data.dtype.itemsize,), UINT8)


def raw(data: KernelArray) -> KernelArray:
    """The elements as unsigned integers."""
    return KernelArray(data.address, (data.size,), np.dtype(kernels.jit.RAW[data.dtype.itemsize]))


# ----------------------------------------------------------------------------------------------------
# crop and slice


def crop_parts(calls: KernelCalls, letters: str, extents: Sequence[Any], args: Args) -> list[AxisPart]:
    """The window of a crop along the axes with these letters."""
    calls.need(kernels.parts.moving())
    named = {"D": args.crop_d, "H": args.crop_h, "W": args.crop_w}
    if any(isinstance(value, Real) for value in named.values()):
        require(args.crop is None)
        sizes = [real(named[letter]) for letter in letters]
    else:
        require(not isinstance(args.crop, Several))
        sizes = [float(size) for size in crop_extents(letters, [0] * len(letters), args)]
    places = {"D": args.crop_pos_z, "H": args.crop_pos_y, "W": args.crop_pos_x}
    rounds, policy = args.rounding == "round", POLICIES.index(args.out_of_bounds_policy)
    return [
        found(calls, kernels.parts.cropped_axis, extent, size, real(places[letter]), rounds, policy)
        for letter, extent, size in zip(letters, extents, sizes, strict=True)
    ]


def slice_parts(calls: KernelCalls, extents: Sequence[Any], args: Args) -> list[AxisPart]:
    """The window of a slice along axes with these extents."""
    calls.need(kernels.parts.moving())
    given = [next((name for name in names if getattr(args, name) is not None), "") for names in WHOLE_SLICE]
    count = len(extents)

    def bounds(args: Args, samples: int) -> np.ndarray:
        table = np.zeros((samples, 2, count))
        for number, name in enumerate(given):
            if name:
                values = np.asarray(getattr(args, name), np.float64)
                require(values.shape[-1] in (1, count) and np.isfinite(values).all())
                table[:, number] = values
        return table.reshape(samples, 2 * count)

    numbers = calls.reals(bounds)
    kinds, policy = kernels.parts, POLICIES.index(args.out_of_bounds_policy)
    kind = kinds.SIZE if given[1].endswith("shape") else kinds.END if given[1] else kinds.WHOLE
    shares = [name.startswith("rel_") for name in given]
    return [
        found(calls, kinds.sliced_axis, extent, start, shares[0], end, kind, shares[1], policy)
        for extent, start, end in zip(extents, numbers[:count], numbers[count:], strict=True)
    ]


def cut_image(calls: KernelCalls, parts: Sequence[AxisPart], axes: Sequence[int]) -> None:
    """The window of the input; of an image perhaps only a part is in memory."""
    args, (top, left, *_) = calls.args, whole_image(calls.input) if calls.input.window_of else (0, 0)
    offsets = {0: top, 1: left}
    chosen = {
        axis: part._replace(low=part.low - offsets.get(axis, 0)) if calls.input.window_of else part
        for axis, part in zip(axes, parts, strict=True)
    }
    moved(calls, chosen, args.fill_values, args.dtype)


def kept_of_image(calls: KernelCalls, parts: dict[int, AxisPart], height: Any, width: Any) -> Sequence[Any]:
    """The window of an image (top, left, height, width) that a cut reads."""
    rows, columns = parts.get(0, _all_of(height)), parts.get(1, _all_of(width))
    calls.require(rows.kept > 0)
    calls.require(columns.kept > 0)
    return rows.low, columns.low, rows.kept, columns.kept


# ----------------------------------------------------------------------------------------------------
# flip, transpose, pad, erase


def flag(value: Any) -> Any:
    """A flag as a number of the sample, or as a constant."""
    return value + 0 if isinstance(value, Number) else int(value)


def flip_image(calls: KernelCalls) -> None:
    """Mirrors an image, or all images of a sequence or volume."""
    args, data, layout = calls.args, calls.input, calls.layouts[0]
    if "D" in layout:
        calls.require(args.depthwise == 0)
    calls.need(kernels.parts.mirroring(data.dtype))
    out = calls.output_like_input(data.dtype)
    height, width = (data.extents[layout.index(letter)] for letter in "HW")
    pixel = data.extents[-1] if layout[-1] == "C" else 1
    flags = flag(args.vertical), flag(args.horizontal)
    if data.dtype == UINT8 and pixel == 3:
        order = kernels.normalize.MIRRORED
        calls.call(kernels.parts.mirror_rgb, data.flat, height, width * 3, *flags, order, out.flat)
    else:
        calls.call(kernels.parts.mirror, raw(data), height, width * pixel, pixel, *flags, raw(out))


def transposed(calls: KernelCalls, order: list[int]) -> None:
    """The orders for which ``kernels.moving`` has kernels."""
    data, moving, few = calls.input, kernels.moving, 8
    axes = len(order)
    require(axes > 1)
    calls.require(data.size > 0)
    extents = data.extents
    identity = list(range(axes))
    channels_first, channels_last = order == [axes - 1, *identity[:-1]], order == [*identity[1:], 0]
    raw_type = np.dtype(kernels.jit.RAW[data.dtype.itemsize])
    shape = tuple(extents[axis] for axis in order)
    if channels_first or channels_last:
        short = extents[-1] if channels_first else extents[0]
        calls.require(short <= few)
        others = prod(extents[:-1] if channels_first else extents[1:])
        out = calls.output(shape, data.dtype)
        pixels, planes = (others, short), (short, others)
        source = KernelArray(data.address, pixels if channels_first else planes, raw_type)
        target = KernelArray(out.address, planes if channels_first else pixels, raw_type)
        calls.call(moving.gather_columns if channels_first else moving.scatter_rows, source, target)
        return
    require(order == [1, 0, 2] and data.dtype == UINT8)
    calls.require(extents[2] == 3)
    calls.call(moving.turn_rgb_bytes, data, 0, extents[1], 1, calls.output(shape, data.dtype))


def padded_parts(calls: KernelCalls, chosen: Sequence[int], shape: Sequence[int], align: Any) -> dict[int, AxisPart]:
    """The extents after padding at the end of these axes."""
    calls.need(kernels.parts.moving())
    sizes = list(shape) * len(chosen) if len(shape) == 1 else list(shape)
    multiples = [1] * len(chosen) if align is None else list(align) * len(chosen) if len(align) == 1 else list(align)
    require(len(sizes) == len(multiples) == len(chosen) and min(multiples, default=1) > 0)
    parts = {}
    for axis, size, multiple in zip(chosen, sizes, multiples):
        own = calls.input.extents[axis]
        full = (largest(own, size) + (multiple - 1)) // multiple * multiple
        parts[axis] = AxisPart(0, own, 0, full)
    return parts


def erased_calls(calls: KernelCalls, make: MakeRows, shares: Sequence[int], fill: np.ndarray, pixel: bool) -> None:
    """Copies data, and writes ``fill`` into the rectangles of a table of (rectangle, axis, begin or extent)."""
    calls.need(kernels.parts.erasing())
    data = calls.input
    require(len(data.extents) - pixel <= AXES)
    out = calls.output_like_input(data.dtype)
    extents = data.extents[:-1] if pixel else data.extents
    whole = [*[1] * (AXES - len(extents)), *extents]
    table = calls.row(make)
    numbers, value = np.array(shares, np.int64), np.frombuffer(fill.tobytes(), np.uint8)
    calls.call(kernels.parts.erase_rectangles, as_bytes(data), *whole, table, numbers, value.copy(), as_bytes(out))


# ----------------------------------------------------------------------------------------------------
# reshape, reinterpret, squeeze


def has_extents(args: Args) -> bool:
    """True if the argument ``shape`` or the extents of the input are those of the result."""
    return args.rel_shape is None and args.src_dims is None


def known_extents(calls: KernelCalls, dtype: np.dtype) -> tuple[Any, ...]:
    """The constant shape of an argument, for elements of this type; one extent may follow from the others. Without that argument
    the extents of the input.
    """
    (data,) = calls.inputs
    times = data.dtype.itemsize // dtype.itemsize
    if calls.args.shape is None:
        return data.extents if times == 1 else (*data.extents[:-1], data.extents[-1] * times)
    shape = list(calls.args.shape)
    missing = shape.count(-1)
    require(missing <= 1 and all(extent > 0 or extent == -1 for extent in shape))
    nbytes = data.size * data.dtype.itemsize
    if missing:
        others = prod([extent for extent in shape if extent != -1]) * dtype.itemsize
        shape[shape.index(-1)] = nbytes // others
    calls.require(nbytes == prod(shape) * dtype.itemsize)
    return tuple(shape)


def reinterpreted_calls(calls: KernelCalls) -> None:
    """The same memory as elements of another type, which is not wider: else they may not be aligned."""
    dtype = calls.args.dtype or calls.input.dtype
    require(dtype.kind in "biuf" and dtype.itemsize <= calls.input.dtype.itemsize)
    calls.share(known_extents(calls, dtype), dtype)


def squeezed(calls: KernelCalls) -> None:
    """The same memory without axes of extent 1."""
    extents = calls.input.extents
    chosen = axes_of(calls.layouts[0], len(extents), calls.args.axes, calls.args.axis_names)
    for axis in chosen:
        calls.require(extents[axis] == 1)
    calls.share(tuple([extent for axis, extent in enumerate(extents) if axis not in chosen]))
