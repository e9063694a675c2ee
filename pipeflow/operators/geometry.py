"""Cutting, mirroring and padding: crop, slice, flip, rotate90, pad.

An operator that only cuts returns a view; a later step that computes copies the data.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    FORMER_DTYPE,
    UNKNOWN,
    Arg,
    Args,
    Ints,
    KernelCalls,
    Layout,
    Out,
    Sample,
    Several,
    Spec,
    SpecColumn,
    Traits,
    default,
    operator,
    require,
)
from pipeflow.declare import half_up as half_up_all
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of, spatial
from pipeflow.operators.crop_tables import crop_cuts, cuts_of, parts_of_data, require_filling
from pipeflow.operators.geometry_calls import (
    AxisPart,
    crop_parts,
    cut_image,
    flip_image,
    kept_of_image,
    load_moving,
    moved,
    padded_parts,
    slice_parts,
)
from pipeflow.operators.image_calls import FLOAT, UINT8, whole_image
from pipeflow.operators.padding import padded, padded_alike, padded_shape, padding_of
from pipeflow.operators.sampling import Axis, cropped, mirrored
from pipeflow.operators.windows import (
    BOUNDS,
    CROP_WINDOW,
    OUT_OF_BOUNDS,
    POLICIES,
    bounds_of,
    byte_around,
    crop_extents,
    cut,
    cuts_frames,
    cutting,
    depth_of,
    fill_values_of,
    window_of,
    windowing,
)

PAGE = """Operators that cut, mirror or pad. In a pipeline a cut copies nothing: the next step reads the window where it is.
"""


NO_IMAGE_TYPE = {"image_type": "no longer used: all channels are treated in the same way"}
CROP_LAYOUTS = "HWC CHW DHWC CDHW FHWC FCHW CFHW FDHWC FCDHW CFDHW"


def check_policy(args: Any) -> None:
    """Raises an error unless the policy for windows that leave the data is one of the three."""
    if args.out_of_bounds_policy not in POLICIES:
        raise ValueError(
            f"out_of_bounds_policy must be one of {', '.join(POLICIES)}, got {args.out_of_bounds_policy!r}"
        )


def check_rounding(args: Any) -> None:
    """Raises an error unless the value is a rule for rounding positions between two pixels."""
    if args.rounding not in ("round", "truncate"):
        raise ValueError(f"rounding must be 'round' or 'truncate', got {args.rounding!r}")


# ----------------------------------------------------------------------------------------------------
# crop and slice


@operator(
    "crop",
    compiled=True,
    takes=CROP_WINDOW | OUT_OF_BOUNDS | DTYPE,
    layouts=CROP_LAYOUTS,
    sequences=True,
    whole=cuts_frames,
    gpu=True,
    no_effect=NO_IMAGE_TYPE,
    former=FORMER_DTYPE,
    examples=["fn.crop(image, crop=(20, 30))"],
)
def crop(image: Sample, /, *, args: Args, layouts: Any) -> Sample:
    """Cuts a window out of the image, by default at its centre.

    The window starts at ``crop_pos * (extent - window)`` of each axis, halves rounded up. In a sequence of images the depth
    of the window is its number of frames.
    """
    window = window_of(layouts[0], image.shape, args)
    if window.inside:
        part = image[window.view]
    else:
        axes, sizes, anchors, *_ = window
        channel = layouts[0].find("C")
        return cut(image, axes, anchors, sizes, args.out_of_bounds_policy, args.fill_values, channel, args.dtype)
    return part if args.dtype is None else kernels.casting.as_type(part, args.dtype)


def crop_window(shape: Sequence[int], layout: str, args: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The spatial axes of an image, and the window's start and size along them."""
    window = window_of(layout, shape, args)
    return window.axes, window.anchors, window.sizes


@crop.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    layout = specs[0].layout
    table = crop_cuts(specs[0], spatial(layout), args)
    require_filling(table, args.fill_values, layout.find("C"))
    return table


def crop_of(calls: KernelCalls, layout: str, extents: Sequence[Any]) -> list[AxisPart]:
    """The window for programs of kernel calls; it is computed once for both hooks."""
    if calls.plan is None:
        axes = spatial(layout)
        calls.plan = crop_parts(calls, "".join([layout[axis] for axis in axes]), extents, calls.args)
    return calls.plan


@crop.calls
def _(calls: KernelCalls) -> None:
    image, layout = calls.input, calls.layouts[0]
    axes = spatial(layout)
    extents = whole_image(image)[2:] if image.window_of else [image.extents[axis] for axis in axes]
    cut_image(calls, crop_of(calls, layout, extents), axes)


@crop.reads_calls
def _(calls: KernelCalls, height: Any, width: Any) -> Sequence[Any]:
    return kept_of_image(calls, dict(enumerate(crop_of(calls, "HWC", (height, width)))), height, width)


crop.views()
crop.varying("crop_h", "crop_w", "crop_d", "crop_pos_x", "crop_pos_y", "crop_pos_z")


@crop.check
def _(args: Any) -> None:
    check_policy(args)
    check_rounding(args)


@crop.resamples
def _(axes: Sequence[Axis], args: Any) -> list[Axis] | None:
    return None if args.dtype is not None else cropped(axes, args)


@crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    spec, window = specs[0], window_of(specs[0].layout, specs[0].shape, args)
    return windowing(spec, window.view) if args.dtype is None and window.inside else None


@crop.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    layout = depth_of(spec.layout, args)
    axes = spatial(layout)
    letters = "".join(layout[axis] for axis in axes)
    sizes = crop_extents(letters, [spec.shape[axis] for axis in axes], args)
    shape = list(spec.shape)
    trimmed = args.out_of_bounds_policy == "trim_to_shape"
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = min(size, spec.shape[axis]) if trimmed else size
    return Spec(tuple(shape), args.dtype or spec.dtype, spec.layout)


@operator(
    "slice",
    compiled=True,
    takes=BOUNDS | OUT_OF_BOUNDS | DTYPE,
    gpu=True,
    host_inputs=True,
    no_effect=NO_IMAGE_TYPE,
    former=FORMER_DTYPE,
    examples=["fn.slice(image, start=(5, 8), shape=(10, 12), axes=(0, 1))"],
)
def slice(
    data: Sample, anchor: Sample | None = None, shape_input: Sample | None = None, /, *, args: Args, layouts: Any
) -> Sample:
    """Cuts a part out of the data by start and end, or start and shape, in elements or relative to the extent.

    Anchor and shape may be inputs: then integers are elements, and floats are relative. Without ``axes`` the values are in
    the order width, height.
    """
    if anchor is None and shape_input is None:
        chosen, anchors, sizes = _kept_window(data.shape, layouts[0], _bounds(args))
    else:
        chosen, anchors, sizes = slice_window(data.shape, layouts[0], anchor, shape_input, args)
    channel = layouts[0].find("C") if layouts[0] else -1
    return cut(data, chosen, anchors, sizes, args.out_of_bounds_policy, args.fill_values, channel, args.dtype)


_bounds = attrgetter(*BOUNDS)


@lru_cache(maxsize=256)
def _kept_window(
    extents: tuple[int, ...], layout: str, given_values: tuple[Any, ...]
) -> tuple[list[int], list[int], list[int]]:
    return slice_window(extents, layout, None, None, Args(**dict(zip(BOUNDS, given_values, strict=True))))


def slice_window(
    extents: Sequence[int], layout: str, anchor: Any, shape: Any, args: Any
) -> tuple[list[int], list[int], list[int]]:
    """The axes of a slice, and its start and size along them."""
    chosen = slice_axes(extents, layout, args)
    anchors, sizes = bounds_of([extents[axis] for axis in chosen], anchor, shape, args)
    for axis, size in zip(chosen, sizes):
        if size < 0:
            raise ValueError(f"the slice ends before it starts along axis {axis}: its size would be {size}")
    return chosen, anchors, sizes


LETTERS = {2: "HW", 3: "HWC", 4: "DHWC"}  # of slices of data that has no layout


def slice_axes(shape: Sequence[int], layout: str, args: Any) -> list[int]:
    """The axes of a slice: the given ones, all for an empty list; else width and height if the layout has them, or the axes 1
    and 0.

    Without a layout, the letters are those of images and volumes.
    """
    if args.axes is None and args.axis_names is None:
        by_letters = "W" in layout and "H" in layout
        numbers = None if by_letters else (0,) if len(shape) == 1 else (1, 0)
        return axes_of(layout, len(shape), numbers, "WH" if by_letters else None)
    axes = args.axes if args.axes is not None and len(args.axes) else None
    return axes_of(layout or LETTERS.get(len(shape), ""), len(shape), axes, args.axis_names or None)


@slice.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    shapes, layout = specs[0].shapes, specs[0].layout
    require(not isinstance(args.axes, np.ndarray))
    axes = slice_axes(shapes[0], layout, args)
    extents = shapes[:, axes]
    start = np.zeros(extents.shape)
    for name in ("rel_start", "start"):
        if getattr(args, name) is not None:
            start = spread_columns(args, name, extents)
            break
    end: Any = extents
    for name in ("end", "rel_end", "shape", "rel_shape"):
        if getattr(args, name) is not None:
            end = spread_columns(args, name, extents)
            end = start + end if name.endswith("shape") else end
            if name == "rel_shape" and args.rel_start is not None:  # two shares are added in double precision
                end = sum(np.asarray(part, np.float32).astype(np.float64) for part in (args.rel_start, args.rel_shape))
                end = end * extents
            break
    anchors = half_up_all(start)
    sizes = half_up_all(end) - anchors
    require(sizes >= 0)
    table = cuts_of(shapes, axes, anchors, sizes, args.out_of_bounds_policy)
    require_filling(table, args.fill_values, layout.find("C"))
    return table


def spread_columns(args: Any, name: str, extents: np.ndarray) -> np.ndarray:
    """One number for each axis of each sample; the numbers of relative arguments are multiplied by the extents (`share_of`)."""
    values = np.asarray(getattr(args, name), np.float64)
    require(values.shape[-1] in (1, extents.shape[1]))
    if not name.startswith("rel_"):
        return np.broadcast_to(values, extents.shape)
    require(np.abs(values) < 1e9)
    return (values.astype(np.float32) * extents.astype(np.float32)).astype(np.float64)


@slice.calls
def _(calls: KernelCalls) -> None:
    args, data, layout = calls.args, calls.input, calls.layouts[0]
    require(len(calls.inputs) == 1 and not isinstance(args.axes, Several))
    axes = slice_axes(data.extents, layout, args)
    cut_image(calls, slice_parts(calls, [data.extents[axis] for axis in axes], args), axes)


slice.views()
for _op in (crop, slice):
    _op.loads(load_moving)
slice.varying("start", "rel_start", "end", "rel_end", "shape", "rel_shape")


@slice.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    spec = specs[0]
    if len(specs) > 1 or args.dtype is not None:
        return None
    window = slice_window(spec.shape, spec.layout, None, None, args)
    return cutting(spec, *window, args.out_of_bounds_policy, args.fill_values)


@slice.check
def _(args: Any) -> None:
    check_policy(args)
    check_bounds(args)


def check_bounds(args: Any) -> None:
    """Raises ValueError if two arguments of a slice give the same bound."""
    for names in (("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")):
        given = [name for name in names if getattr(args, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are mutually exclusive: give one of them")


@slice.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    dtype = args.dtype or spec.dtype
    if len(specs) > 1 or args.out_of_bounds_policy == "trim_to_shape" or spec.layout is None:
        return Spec(None, dtype, spec.layout)
    axes = slice_axes(spec.shape, spec.layout, args)
    extents = [spec.shape[axis] for axis in axes]
    shape = list(spec.shape)
    if args.shape is not None and args.rel_start is None:
        sizes = list(args.shape) * len(axes) if len(args.shape) == 1 else list(args.shape)
    else:
        _, sizes = bounds_of(extents, None, None, args)
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    return Spec(tuple(shape), dtype, spec.layout)


# ----------------------------------------------------------------------------------------------------
# flip


@operator(
    "flip",
    compiled=True,
    begins_in_numpy=True,
    layouts="FDHWC FHWC DHWC HWC FCDHW FCHW CDHW CHW",
    sequences=True,
    gpu=True,
    infer="like image",
    examples=["fn.flip(image, vertical=1)"],
)
def flip(
    image: Sample,
    /,
    *,
    horizontal: Arg[bool] = default(True, "mirror left to right"),
    vertical: Arg[bool] = default(False, "mirror top to bottom"),
    depthwise: Arg[bool] = default(False, "mirror front to back, where the layout has a D"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Mirrors the image left to right; with ``vertical`` top to bottom, with ``depthwise`` front to back."""
    layout = layouts[0]
    pixel = image.shape[-1] if layout[-1] == "C" else 1
    rows = layout.index("H")
    if depthwise and "D" in layout:
        image = np.flip(image, layout.index("D"))
    if not horizontal:  # whole rows move: NumPy copies them as they are
        np.copyto(out, image[(np.s_[:],) * rows + (np.s_[::-1],)] if vertical else image)
        return out
    outer = math.prod(image.shape[:rows])
    shape = (outer, image.shape[rows], image.shape[rows + 1] * pixel)
    for source, target in zip(np.ascontiguousarray(image).reshape(shape), out.reshape(shape), strict=True):
        kernels.everyday.mirror_image(source, pixel, vertical, horizontal, target)
    return out


flip.calls(flip_image)
flip.varying("horizontal", "vertical", "depthwise")


@flip.loads
def _(args: Args, dtype: np.dtype | None) -> None:
    del args
    kernels.later.load_if_waiting(*map(kernels.parts.mirroring, (UINT8, FLOAT) if dtype is None else (dtype,)))


@flip.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if specs[0].layout != "HWC" or 0 in shape:
        return None
    row = math.prod(shape[1:]) * dtype.itemsize
    if not args.horizontal and dtype == np.uint8:
        return kernels.moving.cutting_out(*((shape[0] - 1, 0, -1) if args.vertical else (0, 0)))
    if not args.horizontal:
        return kernels.moving.upside_down(row if args.vertical else row * shape[0], dtype.itemsize)
    return kernels.normalize.mirroring(row, args.vertical) if shape[2] == 3 and dtype == np.uint8 else None


@flip.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    shapes, layout = specs[0].shapes, specs[0].layout
    table = np.zeros(len(shapes), parts_of_data(shapes.shape[1]))
    table["shape"] = table["extents"] = shapes
    *_, height, width = spatial(layout)
    table["turned"][:, height], table["turned"][:, width] = args.vertical, args.horizontal
    if "D" in layout:
        table["turned"][:, layout.index("D")] = args.depthwise
    return table


@flip.resamples
def _(axes: Sequence[Axis], args: Any) -> list[Axis]:
    return [mirrored(axes[0], args.vertical), mirrored(axes[1], args.horizontal)]


# ----------------------------------------------------------------------------------------------------
# rotate90


@operator(
    "rotate90", compiled=True, layouts="HWC HW FHWC", sequences=True, gpu=True, examples=["fn.rotate90(image, times=3)"]
)
def rotate90(
    image: Sample, /, *, times: Arg[int] = default(1, "number of quarter turns, counter-clockwise"), out: Out
) -> Sample:
    """Turns the image by quarter turns; no value changes."""
    times %= 4
    if callable(out):
        out = out(turned_shape(image.shape, times), image.dtype)
    if times % 2:
        return kernels.moving.turn(image, times, out)
    if not times:
        out[...] = image
        return out
    pixel = image.shape[2] if image.ndim == 3 else 1
    flat = np.ascontiguousarray(image).reshape(len(image), -1)
    kernels.everyday.mirror_image(flat, pixel, True, True, out.reshape(len(image), -1))
    return out


def turned_shape(shape: Sequence[Any], times: int) -> tuple[Any, ...]:
    """The shape of an image that is turned by quarters."""
    return (shape[1], shape[0], *shape[2:]) if times % 2 else tuple(shape)


@rotate90.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape: Any = specs[0].shape
    if shape is not UNKNOWN and args.times is UNKNOWN:
        shape = (UNKNOWN, UNKNOWN, *shape[2:])
    elif shape is not UNKNOWN:
        shape = turned_shape(shape, args.times)
    return Spec(shape, specs[0].dtype, specs[0].layout)


# ----------------------------------------------------------------------------------------------------
# pad and erase


@operator(
    "pad",
    dtypes="number complex",
    compiled=True,
    gpu=True,
    examples=["fn.pad(image, axes=(0, 1), shape=(64, 64), fill_value=9)"],
)
def pad(
    data: Sample,
    /,
    *,
    fill_value: Arg[float] = default(0.0, "value of the added elements"),
    axes: Arg[Ints] = default(None, "axes that are padded, by number; default: all"),
    axis_names: Layout | None = default(None, "the same axes by their letters in the layout"),
    shape: Arg[Ints] = default(None, "extents to pad to; default or -1: those of the largest sample of the batch"),
    align: Arg[Ints] = default(None, "pad to multiples of this: one number, or one for each axis"),
    layouts: Any,
    out: Out,
) -> Sample:
    """Pads the data at its end up to ``shape`` and to multiples of ``align`` along the chosen axes.

    Without a shape, or if it is -1, the largest sample of the batch determines the extent. A sample that is larger than
    the shape is not changed.
    """
    if not isinstance(data, list):
        return padded(data, fill_value, out)
    dense = padded_alike(data, fill_value, (axes, axis_names, shape, align), layouts[0], out) if data else None
    if dense is not None:
        return dense
    many = [value if isinstance(value, list) else [value] * len(data) for value in (fill_value, axes, shape, align)]
    largest = [tuple(map(max, zip(*[sample.shape for sample in data], strict=True)))]
    results = []
    for sample, fill, chosen, size, multiple in zip(data, *many, strict=True):
        target = padded_shape(sample.shape, largest, chosen, axis_names, size, multiple, layouts[0])
        results.append(padded(sample, fill, out(target, sample.dtype)))
    return results


@pad.columns
def _(args: Any, dtype: np.dtype, axes: int, layout: str) -> Any:
    wanted = args.axes, args.axis_names, args.shape, args.align
    made = padding_of(dtype, axes, args.fill_value, wanted, layout)
    return made and (lambda samples, take: made(samples.columns, samples.extents(), take))


pad.loads(load_moving)


@pad.calls
def _(calls: KernelCalls) -> None:
    args, data = calls.args, calls.input
    chosen = axes_of(calls.layouts[0], len(data.extents), args.axes or None, args.axis_names or None)
    require(isinstance(args.shape, tuple) and all(size > 0 for size in args.shape))
    moved(calls, padded_parts(calls, chosen, args.shape, args.align), (args.fill_value,))


@pad.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    target = padded_shape(shape, [shape], args.axes, args.axis_names, args.shape, args.align, specs[0].layout)
    byte = byte_around(fill_values_of((args.fill_value,), dtype), target, shape, target)
    if byte is None or 0 in shape:
        return None
    return kernels.moving.framing(shape, dtype.itemsize, (0, 0), shape, (0, 0), byte, target)


@pad.traits
def _(args: Any) -> Traits:
    alone = isinstance(args.shape, tuple) and all(size > 0 for size in args.shape)
    return Traits("sample" if alone else "batch")


@pad.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if args.shape is None or args.shape is UNKNOWN or any(size <= 0 for size in args.shape) or spec.layout is None:
        unknown = UNKNOWN if spec.shape is UNKNOWN else (UNKNOWN,) * len(spec.shape)
        return Spec(unknown, spec.dtype, spec.layout)
    shape = padded_shape(spec.shape, [spec.shape], args.axes, args.axis_names, args.shape, args.align, spec.layout)
    return Spec(shape, spec.dtype, spec.layout)
