"""The geometry that resize, crop, flip and random windows share: how pixels are sampled along the axes of an image.

Each operator is described by one `Axis` for each spatial axis: the extent of the input, the region of it that is used, the
extent of the whole output and the window of it that is kept. The kernels need nothing else. So a crop after a resize, a mirror
and a random window are different values of the same description, and a chain of them is one description.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, Args, Floats, KernelCalls, Several, Spec, SpecColumn, parameters, require
from pipeflow.errors import WrongShape
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.image_calls import Resize, real
from pipeflow.operators.windows import crop_extents, place_window
from pipeflow.types import INTERP_LINEAR, DALIInterpType

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
        "meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), "
        "`not_larger` or `not_smaller` (limits, with the ratio kept)",
    ),
    max_size=(Floats, None, "limit of the extents of the result: one number, or one for each axis"),
    subpixel_scale=(
        bool,
        True,
        "change the region by the fraction that rounding changes the result, so that the scale is exact",
    ),
)
FILTERS = parameters(
    interp_type=(Arg[DALIInterpType], INTERP_LINEAR, "filter, unless min_filter or mag_filter is given"),
    min_filter=(Arg[DALIInterpType], None, "filter for axes that become smaller"),
    mag_filter=(Arg[DALIInterpType], None, "filter for axes that become larger"),
    antialias=(bool, True, "widen the filter if an axis becomes smaller, so that every pixel of the input contributes"),
)
REGION = parameters(
    roi_start=(Arg[Floats], None, "start of the region that is resized instead of the whole image"),
    roi_end=(Arg[Floats], None, "end of that region; an end before the start mirrors"),
    roi_relative=(bool, False, "the region is in shares of the extents; False: in pixels"),
)


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


@lru_cache(maxsize=64)
def spatial_axes(layout: str) -> tuple[int, int]:
    """The number of the first spatial axis, and the number of spatial axes: H and W, and D for volumes."""
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    return axes[0], len(axes)


BY_AXIS = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


def asked_by(args: Any) -> str:
    """The form in which the extents are given: by "size", "resize_shorter", "resize_longer", or each axis by its name."""
    ways = [name for name in ("resize_shorter", "resize_longer", "size") if getattr(args, name) is not None]
    if any(getattr(args, name) is not None for name in BY_AXIS.values()):
        ways.append("resize_x/y/z")
    if len(ways) > 1:
        raise WrongShape(f"{' and '.join(ways)} exclude each other: give one of them")
    if not ways:
        raise WrongShape("give size, resize_x, resize_y, resize_z, resize_shorter or resize_longer")
    return ways[0]


def wanted_sizes(letters: str, args: Any) -> tuple[list[float], str]:
    """The requested extents, 0 if not given, and the mode that combines them."""
    way = asked_by(args)
    if way in ("resize_shorter", "resize_longer"):
        return [getattr(args, way)] * len(letters), "not_smaller" if way == "resize_shorter" else "not_larger"
    if way != "size":
        return [getattr(args, BY_AXIS[letter]) or 0.0 for letter in letters], args.mode
    return one_each(args.size, letters, "size"), args.mode


def one_each(values: Sequence[float], letters: str, name: str) -> list[float]:
    """One value for each axis; a single value is for all axes."""
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


def unlimited(limits: Sequence[float]) -> list[float]:
    """Limits of extents; a number that is not positive means no limit."""
    return [limit if limit > 0 else math.inf for limit in limits]


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
    """A region that is not empty: a line or a point is widened to a thousandth of a pixel."""
    if abs(high - low) >= LEAST:
        return low, high
    middle = (low + high) / 2
    return middle - math.copysign(LEAST / 2, high - low), middle + math.copysign(LEAST / 2, high - low)


def whole_pixels(size: float) -> int:
    """The nearest positive number of pixels, halves rounded up."""
    return max(1, math.floor(abs(size) + 0.5))


# The arguments that determine the geometry of a resize.
GEOMETRY = (*RESIZE, *REGION)
_geometry = attrgetter(*GEOMETRY)


def resize_axes(extents: Sequence[int], letters: str, args: Any) -> list[Axis]:
    """The description of a resize of an image with these spatial extents."""
    return list(_resize_axes(tuple(extents), letters, _geometry(args)))


@lru_cache(maxsize=64)
def _plain_sizes(letters: str, values: tuple[Any, ...]) -> list[int] | None:
    """The extents of the most common case: whole images to a given number of pixels; None for other cases."""
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
    limits = unlimited(one_each(args.max_size, letters, "max_size")) if args.max_size else []
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


# May differ from sample to sample in programs.
RESIZED_BY = "size", "resize_x", "resize_y", "resize_shorter", "resize_longer"


def resize_numbers(calls: KernelCalls, args: Any, height: Any, width: Any) -> Resize:
    """The resize of a whole image for programs of kernel calls, whose kernels refuse extents that are negative."""
    require(args.roi_start is None and args.roi_end is None and not args.max_size)
    tall: Any
    wide: Any
    if isinstance(args.size, Several):
        (tall, wide), mode = calls.reals(partial(_sizes, args.size.name)), args.mode
    else:
        (tall, wide), mode = wanted_sizes("HW", args)
    programs = kernels.image_programs
    if mode in ("not_smaller", "not_larger"):
        how = programs.NOT_SMALLER if mode == "not_smaller" else programs.NOT_LARGER
    else:
        require(mode in ("default", "stretch"))
        how = programs.RATIO if mode == "default" else programs.EACH
    extents = real(tall), real(wide), how, bool(args.subpixel_scale)
    return Resize((0, 0, height, width), extents, filter_numbers(args))


def _sizes(name: str, args: Any, count: int) -> np.ndarray:
    """The two extents of each sample."""
    given = np.asarray(getattr(args, name), np.float64)
    require(given.shape[-1] in (1, 2))
    return np.broadcast_to(given, (count, 2))


def filter_numbers(args: Any) -> tuple[Any, ...]:
    """The filter for axes that become smaller, the filter for axes that become larger, and True if the first is widened."""
    kinds = [int(args.interp_type if kind is None else kind) for kind in (args.min_filter, args.mag_filter)]
    return *kinds, bool(args.antialias)


def clamped(low: float, high: float, extent: int) -> tuple[float, float]:
    """The region, limited to a distance of `BEYOND` from the image: outside the image, every pixel is that of the border.

    A filter adds up all pixels of its window, so a window of a billion pixels would take hours.
    """
    if min(low, high) >= -BEYOND and (extent is UNKNOWN or max(low, high) <= extent + BEYOND):
        return low, high
    return widened(*(min(max(bound, -BEYOND), extent + BEYOND) for bound in (low, high)))


def filters(args: Any, axis: Axis) -> int:
    """The filter along one axis: the one for shrinking or the one for enlarging."""
    chosen = args.min_filter if axis.full < abs(axis.high - axis.low) else args.mag_filter
    return int(args.interp_type if chosen is None else chosen)


# The fields of Axis, and the filter along the axis, for one axis of every sample.
AXES = np.dtype(
    [
        ("size", np.int64),
        ("low", np.float64),
        ("high", np.float64),
        ("full", np.int64),
        ("first", np.int64),
        ("count", np.int64),
        ("mirror", np.bool_),
        ("kind", np.int64),
    ]
)


def axes_row(axes: Sequence[Axis], args: Any) -> np.ndarray:
    """The axes of one sample."""
    rows = [(x.size, x.low, x.high, x.full, x.first, x.extent, x.mirror, filters(args, x)) for x in axes]
    return np.array(rows, AXES)


@lru_cache(maxsize=16)
def resizes(ndim: int, axes: int) -> np.dtype:
    """The rows of operators that resize: the extents of the result, and the resized axes."""
    return np.dtype([("shape", np.int64, (ndim,)), ("axes", AXES, (axes,))])


def resize_table(specs: Sequence[SpecColumn], args: Any) -> np.ndarray:
    """The axes of ``resize_axes`` for each sample of a batch."""
    layout = specs[0].layout
    first, count = spatial_axes(layout)
    letters = layout[first : first + count]
    extents = specs[0].shapes[:, first : first + count]
    require(specs[0].shapes.all())
    wanted, mode = _wanted_columns(letters, args)
    low, high = _regions(extents, args)
    used = np.abs(high - low)
    sizes = _output_columns(used, wanted, mode, _limits(letters, args))
    full = np.maximum(1, np.floor(np.abs(sizes) + 0.5))
    exact = full == np.abs(sizes)
    if args.subpixel_scale and not exact.all():
        centre, half = (low + high) / 2, (high - low) / 2 * full / np.abs(sizes)
        low, high = np.where(exact, low, centre - half), np.where(exact, high, centre + half)
    least, most = low, high
    turned = sizes < 0
    if turned.any():
        low, high = np.where(turned, high, low), np.where(turned, low, high)
    if args.roi_start is not None:
        least, most = np.minimum(low, high), np.maximum(low, high)
    require((least >= -BEYOND) & (most <= extents + BEYOND))
    return axes_table(specs, args, extents, low, high, full.astype(np.int64))


def axes_table(
    specs: Sequence[SpecColumn], args: Any, extents: np.ndarray, low: np.ndarray, high: np.ndarray, full: np.ndarray
) -> np.ndarray:
    """The rows of a table for a resize of these regions to these extents."""
    shapes = specs[0].shapes
    first, count = spatial_axes(specs[0].layout)
    table = np.zeros(len(shapes), resizes(shapes.shape[1], count))
    table["shape"] = shapes
    table["shape"][:, first : first + count] = full
    axes = table["axes"]
    axes["size"], axes["low"], axes["high"], axes["full"], axes["count"] = extents, low, high, full, full
    filters = (args.interp_type if kind is None else kind for kind in (args.min_filter, args.mag_filter))
    shrinking, enlarging = (kind[:, None] if isinstance(kind, np.ndarray) else int(kind) for kind in filters)
    if shrinking is enlarging:
        axes["kind"] = shrinking
    else:
        axes["kind"] = np.where(full < np.abs(high - low), shrinking, enlarging)
    return table


def windowed(axes: np.ndarray, low: np.ndarray, extents: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Applies windows and mirrors to the axes, as ``cropped`` and ``mirrored`` do."""
    # In a mirrored axis the window is counted from the other end of the grid.
    mirror = axes["mirror"]
    axes["first"] += np.where(mirror, axes["count"] - low - extents, low) if mirror.any() else low
    axes["count"] = extents
    axes["mirror"] ^= turned
    return axes


def _wanted_columns(letters: str, args: Any) -> tuple[list[Any], str]:
    """The requested extents along each axis, numbers or columns, as in ``wanted_sizes``."""
    way = asked_by(args)
    if way in ("resize_shorter", "resize_longer"):
        return [getattr(args, way)] * len(letters), "not_smaller" if way == "resize_shorter" else "not_larger"
    if way != "size":
        given = [getattr(args, BY_AXIS[letter]) for letter in letters]
        return [0.0 if value is None else value for value in given], args.mode
    size = np.asarray(args.size).T
    require(len(size) in (1, len(letters)))
    return list(size) * len(letters) if len(size) == 1 else list(size), args.mode


def _limits(letters: str, args: Any) -> list[float]:
    return unlimited(one_each(args.max_size, letters, "max_size")) if args.max_size else []


def _regions(extents: np.ndarray, args: Any) -> tuple[np.ndarray, np.ndarray]:
    """The used region of every axis, as in ``region``."""
    require((args.roi_start is None) == (args.roi_end is None))
    if args.roi_start is None:
        return np.zeros(extents.shape), extents.astype(np.float64)
    low, high = (np.broadcast_to(bound, extents.shape) for bound in (args.roi_start, args.roi_end))
    require(np.shape(args.roi_start)[-1] == np.shape(args.roi_end)[-1] == extents.shape[1])
    if args.roi_relative:
        low, high = low * extents, high * extents
    require(np.abs(high - low) >= LEAST)
    return low, high


def _output_columns(used: np.ndarray, wanted: list[Any], mode: str, limits: list[float]) -> np.ndarray:
    """The signed extents before rounding, as in ``output_sizes``. The same axes must be given for all samples."""
    known = [axis for axis, size in enumerate(wanted) if (size.any() if isinstance(size, np.ndarray) else size)]
    require(all(wanted[axis].all() for axis in known if isinstance(wanted[axis], np.ndarray)))
    if not known:
        return used
    result = used.copy()
    if mode in ("default", "stretch"):
        if len(known) < len(wanted) and mode == "default":
            require(len(known) == 1)
            result *= (np.abs(wanted[known[0]]) / used[:, known[0]])[:, None]
        for axis in known:
            result[:, axis] = wanted[axis]
        return np.copysign(np.minimum(np.abs(result), limits), result) if limits else result
    pick = np.maximum if mode == "not_smaller" else np.minimum
    scale = pick.reduce([np.abs(wanted[axis]) / used[:, axis] for axis in known])
    for axis, limit in enumerate(limits):
        scale = np.minimum(scale, limit / used[:, axis])
    for axis, size in enumerate(wanted):
        result[:, axis] = np.copysign(used[:, axis] * scale, size)
    return result


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
    return kernels.everyday.axis_taps(*description)


def run(image: np.ndarray, layout: str, axes: Sequence[Axis], args: Any, out: np.ndarray) -> np.ndarray:
    """Resizes one sample."""
    return kernels.everyday.resample_any(image, spatial_axes(layout)[0], taps_of(axes, args), out)


def resized_spec(spec: Spec, args: Any, extents: Sequence[Any]) -> Spec:
    """The input's Spec with other spatial extents."""
    first, count = spatial_axes(spec.layout)
    shape = (*spec.shape[:first], *extents, *spec.shape[first + count :])
    return Spec(shape, args.dtype or spec.dtype, spec.layout)


def known_sizes(letters: str, args: Any) -> list[int] | None:
    """The output extents, if they do not depend on those of the input."""
    if (
        args.max_size
        or args.mode not in ("default", "stretch")
        or asked_by(args) in ("resize_shorter", "resize_longer")
    ):
        return None
    wanted, _ = wanted_sizes(letters, args)
    return [whole_pixels(size) for size in wanted] if all(wanted) else None


def mirrored(axis: Axis, mirror: bool = True) -> Axis:
    """The axis with a mirror applied."""
    return replace(axis, mirror=not axis.mirror) if mirror else axis


def cropped(axes: Sequence[Axis], args: Any) -> list[Axis] | None:
    """The axes with a crop applied; None if its window leaves the image: then the crop itself must run."""
    if not (args.crop or args.crop_h or args.crop_w):
        return list(axes)
    extents = [axis.extent for axis in axes]
    sizes = crop_extents("HW", extents, args)
    anchors = place_window("HW", extents, sizes, args)
    result = []
    for axis, extent, anchor, size in zip(axes, extents, anchors, sizes, strict=True):
        if anchor < 0 or anchor + size > extent:
            return None
        # In a mirrored axis the window is counted from the other end of the grid.
        first = axis.first + (extent - anchor - size if axis.mirror else anchor)
        result.append(replace(axis, first=first, count=size))
    return result
