"""Resizing: resize, random_resized_crop, resize_crop_mirror.

All end in one description per spatial axis (`Axis`): the extent of the input, the region of it that is used, the extent
of the whole output and the window of it that is kept. The kernels know nothing else, so a crop after a resize, a mirror
and a random window are different descriptions of the same work.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    UNKNOWN,
    Arg,
    Args,
    Drawn,
    Floats,
    Out,
    Sample,
    Spec,
    UnknownValue,
    alias,
    operator,
    parameters,
    required,
)
from pipeflow.errors import WrongShape
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.windows import CROP_WINDOW, RANDOM_WINDOW, crop_extents, place_window, random_window
from pipeflow.types import INTERP_LINEAR, DALIInterpType

PAGE = """Sizes may be given by axis, by the shorter or the longer side, or as limits; a region of the image may be
resized in place of the whole. [Image operators](../image-operators.md) has examples.
"""


LAYOUTS = "HWC FHWC CHW FCHW CFHW DHWC FDHWC CDHW FCDHW CFDHW"
IGNORED = {
    "image_type": "no longer used: the channels are resized alike, whatever they mean",
    "minibatch_size": "samples are resized one by one",
    "temp_buffer_hint": "intermediate rows live in a few kilobytes of the thread's own memory",
}


LEAST = 1e-3  # pixels of a region
BEYOND = 65_536.0  # pixels between a region and the image
RESIZE = parameters(
    size=(
        Arg[Floats],
        None,
        "extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror",
    ),
    resize_x=(Arg[float], None, "width of the result; 0 keeps the ratio, a negative one mirrors"),
    resize_y=(Arg[float], None, "height of the result; 0 keeps the ratio, a negative one mirrors"),
    resize_z=(Arg[float], None, "depth of the result; 0 keeps the ratio, a negative one mirrors"),
    resize_shorter=(Arg[float], None, "extent of the shorter side of the result, with the ratio kept"),
    resize_longer=(Arg[float], None, "extent of the longer side of the result, with the ratio kept"),
    mode=(
        str,
        "default",
        "what the extents mean: `default` (those not given follow the ratio), `stretch` (those not given stay as they are), "
        "`not_larger` or `not_smaller` (limits, with the ratio kept)",
    ),
    max_size=(Floats, None, "limit of the extents of the result: one number, or one for each axis"),
    subpixel_scale=(
        bool,
        True,
        "move the region by the fraction that rounding takes off the result, so that the scale is exact",
    ),
)
FILTERS = parameters(
    interp_type=(Arg[DALIInterpType], INTERP_LINEAR, "filter, where min_filter or mag_filter say nothing else"),
    min_filter=(Arg[DALIInterpType], None, "filter for axes that shrink"),
    mag_filter=(Arg[DALIInterpType], None, "filter for axes that grow"),
    antialias=(bool, True, "widen the filter when shrinking, so that every pixel of the input counts"),
)
REGION = parameters(
    roi_start=(Arg[Floats], None, "where the region begins that is resized in place of the whole image"),
    roi_end=(Arg[Floats], None, "where that region ends; an end before the start mirrors"),
    roi_relative=(bool, False, "the region is given in shares of the extents, not in pixels"),
)
SAVE_ATTRS = parameters(save_attrs=(bool, False, "give the extents of the input as a second output"))
MIRROR = parameters(mirror=(Arg[int], 0, "1 mirrors left to right, 2 top to bottom, 4 front to back; or a sum of them"))


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a resize: input extent, used region, extent of the output grid, kept window, direction."""

    size: int
    low: float
    high: float
    full: int
    first: int = 0
    count: int = -1
    mirror: bool = False

    @property
    def extent(self) -> int:
        """The extent of the result."""
        return self.full if self.count < 0 else self.count


def spatial_axes(layout: str) -> tuple[int, int]:
    """First spatial axis and the number of them; H and W, with D a volume."""
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    return axes[0], len(axes)


BY_AXIS = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


def asked_by(args: Any) -> str:
    """The one way in which the extents are given: by "size", "resize_shorter", "resize_longer", or each axis by its name."""
    ways = [name for name in ("resize_shorter", "resize_longer", "size") if getattr(args, name) is not None]
    if any(getattr(args, name) is not None for name in BY_AXIS.values()):
        ways.append("resize_x/y/z")
    if len(ways) > 1:
        raise WrongShape(f"{' and '.join(ways)} exclude each other: give one of them")
    if not ways:
        raise WrongShape("give size, resize_x, resize_y, resize_z, resize_shorter or resize_longer")
    return ways[0]


def wanted_sizes(letters: str, args: Any) -> tuple[list[float], str]:
    """The asked extents, 0 where none was, and the mode that combines them."""
    way = asked_by(args)
    if way in ("resize_shorter", "resize_longer"):
        return [getattr(args, way)] * len(letters), "not_smaller" if way == "resize_shorter" else "not_larger"
    if way != "size":
        return [getattr(args, BY_AXIS[letter]) or 0.0 for letter in letters], args.mode
    return one_each(args.size, letters, "size"), args.mode


def one_each(values: Sequence[float], letters: str, name: str) -> list[float]:
    """One value for each axis; a single one counts for all."""
    if len(values) not in (1, len(letters)):
        raise WrongShape(f"{name} has {len(values)} values for the {len(letters)} axes {letters}")
    return list(values) * len(letters) if len(values) == 1 else list(values)


def output_sizes(extents: Sequence[float], wanted: list[float], mode: str, limits: Sequence[float]) -> list[float]:
    """Signed output extents before rounding, from the used extents of the input."""
    known = [i for i, size in enumerate(wanted) if size]
    if not known:
        return [float(extent) for extent in extents]
    result = list(wanted)
    if mode in ("default", "stretch"):
        if len(known) < len(wanted):
            scale = (
                math.prod(abs(wanted[i]) / extents[i] for i in known) ** (1 / len(known)) if mode == "default" else 1.0
            )
            for i in range(len(wanted)):
                if i not in known:
                    result[i] = extents[i] * scale
        if limits:
            result = [math.copysign(min(abs(size), limit), size) for size, limit in zip(result, limits, strict=True)]
        return result
    pick = max if mode == "not_smaller" else min
    scale = pick(abs(wanted[i]) / extents[i] for i in known)
    if limits:
        scale = min(scale, *(limit / extent for limit, extent in zip(limits, extents, strict=True)))
    return [math.copysign(extent * scale, size) for extent, size in zip(extents, wanted, strict=True)]


def region(extents: Sequence[int], args: Any) -> list[tuple[float, float]]:
    """The used region of every axis."""
    if (args.roi_start is None) != (args.roi_end is None):
        raise ValueError("roi_start and roi_end must be given together")
    if args.roi_start is None:
        return [(0.0, float(extent)) for extent in extents]
    if len(args.roi_start) != len(extents) or len(args.roi_end) != len(extents):
        raise ValueError(f"roi_start and roi_end must have {len(extents)} values, one for each spatial axis")
    bounds = list(zip(args.roi_start, args.roi_end, strict=True))
    if args.roi_relative:
        bounds = [(low * extent, high * extent) for (low, high), extent in zip(bounds, extents, strict=True)]
    return [widened(low, high) for low, high in bounds]


def widened(low: float, high: float) -> tuple[float, float]:
    """A region with an extent: one without any, a line or a point of the image, is taken a thousandth of a pixel wide."""
    if abs(high - low) >= LEAST:
        return low, high
    middle = (low + high) / 2
    return middle - math.copysign(LEAST / 2, high - low), middle + math.copysign(LEAST / 2, high - low)


def whole_pixels(size: float) -> int:
    """The nearest positive number of pixels, halves rounded up."""
    return max(1, math.floor(abs(size) + 0.5))


# The arguments that a resize's geometry follows from.
GEOMETRY = (*RESIZE, *REGION)
_geometry = attrgetter(*GEOMETRY)


def resize_axes(extents: Sequence[int], letters: str, args: Any) -> list[Axis]:
    """The description of a resize of an image with these spatial extents."""
    return list(_resize_axes(tuple(extents), letters, _geometry(args)))


@lru_cache(maxsize=64)
def _plain_sizes(letters: str, values: tuple[Any, ...]) -> list[int] | None:
    """The extents of the most common case: whole images to a given number of pixels; None for every other."""
    args = Args(**dict(zip(GEOMETRY, values, strict=True)))
    if args.roi_start is not None or args.roi_end is not None:
        return None
    wanted, _ = wanted_sizes(letters, args)
    sizes = known_sizes(letters, args)
    return sizes if sizes is not None and all(full == size for full, size in zip(sizes, wanted, strict=True)) else None


@lru_cache(maxsize=1024)
def _resize_axes(extents: tuple[int, ...], letters: str, values: tuple[Any, ...]) -> list[Axis]:
    args = Args(**dict(zip(GEOMETRY, values, strict=True)))
    plain = _plain_sizes(letters, values)
    if plain is not None and all(extents):
        return [Axis(extent, 0.0, float(extent), full) for extent, full in zip(extents, plain, strict=True)]
    for letter, extent in zip(letters, extents, strict=True):
        if extent is not UNKNOWN and not extent:
            raise ValueError(f"the input has no pixels: its extent along {letter} is 0")
    wanted, mode = wanted_sizes(letters, args)
    limits = one_each(args.max_size, letters, "max_size") if args.max_size else []
    axes = []
    bounds = region(extents, args)
    used = [max(abs(high - low), LEAST) for low, high in bounds]
    sizes = output_sizes(used, wanted, mode, limits)
    for extent, (low, high), size in zip(extents, bounds, sizes, strict=True):
        full = whole_pixels(size)
        if args.subpixel_scale and full != abs(size):
            centre, half = (low + high) / 2, (high - low) / 2 * full / abs(size)
            low, high = centre - half, centre + half
        if size < 0:
            low, high = high, low
        axes.append(Axis(extent, *clamped(low, high, extent), full))
    return axes


def clamped(low: float, high: float, extent: int) -> tuple[float, float]:
    """A region that is not farther than `BEYOND` from the image: there, every pixel is that of its border.

    A filter weighs all pixels of its window: a box of a billion pixels would take hours.
    """
    if min(low, high) >= -BEYOND and (extent is UNKNOWN or max(low, high) <= extent + BEYOND):
        return low, high
    return widened(*(min(max(bound, -BEYOND), extent + BEYOND) for bound in (low, high)))


def filters(args: Any, axis: Axis) -> int:
    """The filter along one axis: that of shrinking or that of stretching."""
    chosen = args.min_filter if axis.full < abs(axis.high - axis.low) else args.mag_filter
    return int(args.interp_type if chosen is None else chosen)


def taps_of(axes: Sequence[Axis], args: Any) -> list[Any]:
    """The tap tables of all axes."""
    return [
        _taps(
            axis.size,
            axis.low,
            axis.high,
            axis.full,
            filters(args, axis),
            args.antialias,
            axis.first,
            axis.count,
            axis.mirror,
        )
        for axis in axes
    ]


@lru_cache(maxsize=256)
def _taps(*description: Any) -> Any:
    return kernels.resample.axis_taps(*description)


def run(image: np.ndarray, layout: str, axes: Sequence[Axis], args: Any, out: np.ndarray) -> np.ndarray:
    """Resizes one sample."""
    return kernels.resample.resample_any(image, spatial_axes(layout)[0], taps_of(axes, args), out)


def resized_spec(spec: Spec, args: Any, extents: Sequence[Any]) -> Spec:
    """The input's Spec with other spatial extents."""
    first, count = spatial_axes(spec.layout)
    shape = (*spec.shape[:first], *extents, *spec.shape[first + count :])
    return Spec(shape, args.dtype or spec.dtype, spec.layout)


def known_sizes(letters: str, args: Any) -> list[int] | None:
    """The output extents where they do not depend on the input's."""
    if (
        args.max_size
        or args.mode not in ("default", "stretch")
        or asked_by(args) in ("resize_shorter", "resize_longer")
    ):
        return None
    wanted, _ = wanted_sizes(letters, args)
    return [whole_pixels(size) for size in wanted] if all(wanted) else None


@operator(
    "resize",
    takes=RESIZE | FILTERS | REGION | SAVE_ATTRS | DTYPE,
    layouts=LAYOUTS,
    sequences=True,
    gpu="resize",
    no_effect=IGNORED,
    examples=["fn.resize(image, size=(20, 30))"],
)
def resize(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Resizes images, volumes and sequences of them.

    ``size`` gives the spatial extents in the order of the layout; 0 keeps the aspect ratio, a negative extent mirrors.
    With ``mode="not_larger"`` or ``"not_smaller"`` the ratio is kept and the extents are limits. ``antialias`` widens
    the filter when shrinking. The region between ``roi_start`` and ``roi_end`` is resized instead of the whole image;
    reversed bounds mirror. Sums are float32, whatever the type.
    """
    first, count = spatial_axes(layouts[0])
    extents = image.shape[first : first + count]
    axes = resize_axes(extents, layouts[0][first : first + count], args)
    target = out[0] if args.save_attrs else out
    if callable(target):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        target = target(shape, args.dtype or image.dtype)
    run(image, layouts[0], axes, args, target)
    return (target, np.array(extents, np.int32)) if args.save_attrs else target


@resize.outputs
def _(args: Any) -> int:
    return 2 if args.save_attrs else 1


MODES = ("default", "stretch", "not_larger", "not_smaller")


@resize.check
def _(args: Any) -> None:
    if args.mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {args.mode!r}")
    asked_by(args)


@resize.infer
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    layout = specs[0].layout
    first, count = spatial_axes(layout)
    letters = layout[first : first + count]
    extents: list[Any] | None = known_sizes(letters, args)
    if extents is None:
        try:
            axes = resize_axes(specs[0].shape[first : first + count], letters, args)
            extents = [axis.extent for axis in axes]
        except UnknownValue:
            extents = [UNKNOWN] * count
    spec = resized_spec(specs[0], args, extents)
    return (spec, Spec((count,), np.int32, "")) if args.save_attrs else spec


alias(resize, "experimental.resize")


@operator(
    "resize_crop_mirror",
    takes=RESIZE | FILTERS | REGION | CROP_WINDOW | MIRROR | DTYPE,
    layouts=LAYOUTS,
    sequences=True,
    gpu="resize",
    no_effect=IGNORED,
    examples=["fn.resize_crop_mirror(image, size=(20, 30), crop=(10, 12), mirror=1)"],
)
def resize_crop_mirror(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Resizes, crops the result and mirrors it in one pass over the input; only the kept window is computed.

    ``mirror`` is 1 for horizontal, 2 for vertical, 4 for depth, or a sum of them.
    """
    first, count = spatial_axes(layouts[0])
    axes = cropped_axes(image.shape[first : first + count], layouts[0][first : first + count], args)
    if callable(out):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        out = out(shape, args.dtype or image.dtype)
    return run(image, layouts[0], axes, args, out)


def cropped_axes(extents: Sequence[int], letters: str, args: Any) -> list[Axis]:
    """A resize whose result is cropped and mirrored."""
    axes = resize_axes(extents, letters, args)
    full = [axis.full for axis in axes]
    kept = crop_extents(letters, full, args)
    anchors = place_window(letters, full, kept, args)
    for letter, size, anchor, whole in zip(letters, kept, anchors, full, strict=True):
        if anchor < 0 or anchor + size > whole:
            raise ValueError(f"the crop of {size} along {letter} is larger than the resized image, which has {whole}")
    mirrored = {"W": bool(args.mirror & 1), "H": bool(args.mirror & 2), "D": bool(args.mirror & 4)}
    return [
        replace(axis, first=anchor, count=size, mirror=mirrored[letter])
        for axis, letter, anchor, size in zip(axes, letters, anchors, kept, strict=True)
    ]


@resize_crop_mirror.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    layout = specs[0].layout
    first, count = spatial_axes(layout)
    letters = layout[first : first + count]
    kept = crop_extents(letters, [0] * count, args)
    if all(kept):
        return resized_spec(specs[0], args, kept)
    return resized_spec(
        specs[0], args, [a.extent for a in cropped_axes(specs[0].shape[first : first + count], letters, args)]
    )


@operator(
    "random_resized_crop",
    takes=RANDOM_WINDOW | FILTERS | DTYPE,
    layouts="HWC CHW FHWC FCHW CFHW",
    sequences=True,
    gpu="resize",
    no_effect=IGNORED,
    examples=["fn.random_resized_crop(image, size=(20, 30))"],
)
def random_resized_crop(
    image: Sample,
    /,
    *,
    size: Arg[Floats] = required("height and width of the result; one number: a square"),
    args: Args,
    window: Drawn[tuple],
    out: Out,
    layouts: Any,
) -> Sample:
    """Crops a random window, by area and aspect ratio, and resizes it to ``size``."""
    first, count = spatial_axes(layouts[0])
    axes = window_axes(image.shape[first : first + count], size, window)
    if callable(out):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        out = out(shape, args.dtype or image.dtype)
    return run(image, layouts[0], axes, args, out)


def window_axes(extents: Sequence[int], size: Sequence[float], window: tuple[int, int, int, int]) -> list[Axis]:
    """A window (top, left, height, width) resized to `size` (one number: a square)."""
    height, width = (whole_pixels(one) for one in (size if len(size) == 2 else (size[0], size[0])))
    top, left, tall, wide = window
    return [Axis(extents[0], top, top + tall, height), Axis(extents[1], left, left + wide, width)]


@random_resized_crop.check
def _(args: Any) -> None:
    if len(args.size) not in (1, 2) or any(extent <= 0 for extent in args.size):
        raise ValueError(f"size must be one or two positive numbers, got {args.size}")
    for name in ("random_area", "random_aspect_ratio"):
        low_high = getattr(args, name)
        if len(low_high) != 2 or not 0 < low_high[0] <= low_high[1]:
            raise ValueError(f"{name} must be two positive numbers, the smaller one first, got {low_high}")


@random_resized_crop.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    size = args.size if len(args.size) == 2 else (args.size[0], args.size[0])
    return resized_spec(specs[0], args, [whole_pixels(extent) for extent in size])


@random_resized_crop.draw
def _(key: Any, specs: tuple[Spec, ...], args: Any) -> dict[str, Any]:
    first, count = spatial_axes(specs[0].layout)
    height, width = specs[0].shape[first : first + count]
    return {"window": random_window(key, height, width, args.random_area, args.random_aspect_ratio, args.num_attempts)}
