"""Sizes and positions of crops, and random windows, for all operators that cut something out."""

import math
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pipeflow import seeds
from pipeflow.declare import Arg, Floats, Ints, KernelCalls, Layout, Spec, parameters, require
from pipeflow.kernels import cpu as kernels

CROP_POSITION = parameters(
    crop_pos_x=(Arg[float], 0.5, "position of the window along the width: 0 is at the left, 1 at the right"),
    crop_pos_y=(Arg[float], 0.5, "position of the window along the height: 0 is at the top, 1 at the bottom"),
    crop_pos_z=(Arg[float], 0.5, "position of the window along the depth of a volume: 0 is in front, 1 at the back"),
)
ROUNDING = parameters(
    rounding=(str, "round", "rounding of a start between two pixels: `round` to the nearer one, or `truncate`")
)
CROP_SIZE = parameters(
    crop=(
        Arg[Floats],
        None,
        "extents of the window in the order of the layout (depth, height, width); one number: the same for all",
    ),
    crop_h=(Arg[float], 0.0, "height of the window; 0: the whole height"),
    crop_w=(Arg[float], 0.0, "width of the window; 0: the whole width"),
    crop_d=(Arg[float], 0.0, "depth of the window in a volume; 0: the whole depth"),
)
CROP_WINDOW = CROP_SIZE | CROP_POSITION | ROUNDING
OUT_OF_BOUNDS = parameters(
    out_of_bounds_policy=(
        str,
        "error",
        "for a window that leaves the data: `error`, `pad` it with fill_values, or `trim_to_shape` of the data",
    ),
    fill_values=(Floats, (0.0,), "value for `pad`: one number, or one for each channel"),
)
BOUNDS = parameters(
    start=(Arg[Ints], None, "first element of the part, along each of the axes"),
    rel_start=(Arg[Floats], None, "the same as a share of the extent, from 0 to 1"),
    end=(Arg[Ints], None, "first element after the part, along each of the axes; default: the end of the data"),
    rel_end=(Arg[Floats], None, "the same as a share of the extent, from 0 to 1"),
    shape=(Arg[Ints], None, "extent of the part along each of the axes, instead of its end"),
    rel_shape=(Arg[Floats], None, "the same as a share of the extent, from 0 to 1"),
    axes=(Arg[Ints], None, "axes of the values, by number; default: width and height; empty: all"),
    axis_names=(Layout, None, "the same axes by their letters in the layout"),
    normalized_anchor=(bool, True, "an anchor input of floats is a share of the extent; False: in elements"),
    normalized_shape=(bool, True, "a shape input of floats is a share of the extent; False: in elements"),
)
RANDOM_WINDOW = parameters(
    random_area=(Floats, (0.08, 1.0), "smallest and largest share of the image's area that the window has"),
    random_aspect_ratio=(Floats, (3 / 4, 4 / 3), "smallest and largest ratio of the window's width to its height"),
    num_attempts=(int, 10, "maximum number of windows that are drawn; if none fits, the largest centred one is taken"),
)
POLICIES = ("error", "pad", "trim_to_shape")


def single(value: float) -> np.float32:
    """A number in single precision, in which DALI computes places; numbers far outside of any data come nearer."""
    return np.float32(min(max(value, -1e30), 1e30))


def share_of(share: float, extent: float) -> float:
    """A share of an extent in single precision: its rounding decides about the last element."""
    return float(single(share) * np.float32(extent))


def half_up(value: float) -> int:
    """The nearest integer, halves rounded away from zero."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


class Window(NamedTuple):
    """The position of a window in data of some layout and shape."""

    axes: tuple[int, ...]  # the spatial ones
    sizes: tuple[int, ...]
    anchors: tuple[int, ...]
    inside: bool
    view: tuple[Any, ...]  # the index of the window, if it is inside the data


def cuts_frames(layout: str, values: Mapping[str, Any]) -> bool:
    """True if a crop with these arguments takes the frames of a sequence as its depth; of columns, if one sample does."""
    if "D" in layout:
        return False
    crop, depth = values.get("crop"), values.get("crop_d")
    deep = depth.any() if isinstance(depth, np.ndarray) else depth
    return bool(deep) or (crop is not None and np.shape(crop)[-1] == 3)


def depth_of(layout: str, args: Any) -> str:
    """The layout, with the frames of a sequence as depth if the window has one."""
    return layout.replace("F", "D") if "F" in layout and cuts_frames(layout, vars(args)) else layout


def window_of(layout: str, shape: Sequence[int], args: Any) -> Window:
    """The window of the arguments of a crop. Most samples have one of a few windows, so each is computed once."""
    return _window_of(
        depth_of(layout, args),
        tuple(shape),
        args.crop,
        args.crop_d,
        args.crop_h,
        args.crop_w,
        args.crop_pos_z,
        args.crop_pos_y,
        args.crop_pos_x,
        args.rounding,
    )


@lru_cache(maxsize=4096)
def _window_of(
    layout: str,
    shape: tuple[int, ...],
    crop: Any,
    depth: float,
    height: float,
    width: float,
    z: float,
    y: float,
    x: float,
    rounding: str,
) -> Window:
    axes = tuple(axis for axis, letter in enumerate(layout) if letter in "DHW")
    letters = "".join(layout[axis] for axis in axes)
    extents = tuple(shape[axis] for axis in axes)
    sizes = _crop_extents(letters, extents, crop, depth, height, width)
    anchors = _place_window(letters, extents, sizes, z, y, x, rounding)
    inside = all(a >= 0 and a + size <= extent for a, size, extent in zip(anchors, sizes, extents, strict=True))
    index = [slice(None)] * len(shape)
    for axis, anchor, size in zip(axes, anchors, sizes, strict=True):
        index[axis] = slice(anchor, anchor + size)
    return Window(axes, sizes, anchors, inside, tuple(index))


def crop_extents(letters: str, extents: Sequence[int], args: Any) -> tuple[int, ...]:
    """The size of the window along the given axes; an axis without one keeps its whole extent."""
    return _crop_extents(letters, tuple(extents), args.crop, args.crop_d, args.crop_h, args.crop_w)


@lru_cache(maxsize=4096)
def _crop_extents(
    letters: str, extents: tuple[int, ...], crop: Any, depth: float, height: float, width: float
) -> tuple[int, ...]:
    named = {"D": depth, "H": height, "W": width}
    if crop is not None and len(crop):
        for name, value in (("crop_d", depth), ("crop_h", height), ("crop_w", width)):
            if value:
                raise ValueError(f"crop and {name} exclude each other: give one of them")
        values = list(crop) * 3 if len(crop) == 1 else list(crop)
        if len(values) > 3:
            raise ValueError(f"crop has {len(values)} values, and there are at most depth, height and width")
        named = dict(zip("DHW"[3 - len(values) :], values, strict=True))
    whole = {letter: int(size or 0) for letter, size in named.items()}  # fractions of a pixel are cut off
    return tuple([size if (size := whole.get(letter, 0)) > 0 else extent for letter, extent in zip(letters, extents)])


def place_window(letters: str, extents: Sequence[int], sizes: Sequence[int], args: Any) -> tuple[int, ...]:
    """The first element of the window along the given axes."""
    return _place_window(letters, extents, sizes, args.crop_pos_z, args.crop_pos_y, args.crop_pos_x, args.rounding)


def _place_window(
    letters: str, extents: Sequence[int], sizes: Sequence[int], z: float, y: float, x: float, rounding: str
) -> tuple[int, ...]:
    positions = {"D": z, "H": y, "W": x}
    anchors = []
    for letter, extent, size in zip(letters, extents, sizes, strict=True):
        position = positions[letter]
        if not 0 <= position <= 1:
            raise ValueError(f"the crop position along {letter} must be between 0 and 1, got {position}")
        exact = position * (extent - size)
        anchors.append(half_up(exact) if rounding == "round" else int(exact))
    return tuple(anchors)


def bounds_of(extents: Sequence[int], anchor: Any, shape: Any, args: Any) -> tuple[list[int], list[int]]:
    """Start and size along the chosen axes, from any form of the arguments."""
    count = len(extents)

    def listed(values: Any, name: str) -> list[float] | None:
        if values is None:
            return None
        values = [float(value) for value in (values if type(values) is tuple else np.ravel(values))]
        values = values * count if len(values) == 1 else values
        if len(values) != count:
            raise ValueError(f"{name} has {len(values)} values for {count} axes")
        if not all(map(math.isfinite, values)):
            raise ValueError(f"argument {name!r}: must be finite, got {tuple(values)}")
        return values

    start = [0.0] * count
    given = listed(args.start, "start")
    relative = listed(args.rel_start, "rel_start")
    if anchor is not None:
        start = (
            [a * e for a, e in zip(listed(anchor, "anchor") or [], extents)]
            if _relative(anchor, args.normalized_anchor)
            else (listed(anchor, "anchor") or [])
        )
    elif relative is not None:
        start = list(map(share_of, relative, extents))
    elif given is not None:
        start = given
    end: list[float] = [float(extent) for extent in extents]
    if shape is not None:
        sizes = listed(shape, "shape") or []
        if _relative(shape, args.normalized_shape):
            sizes = [s * e for s, e in zip(sizes, extents)]
        end = [a + s for a, s in zip(start, sizes)]
    elif args.end is not None:
        end = listed(args.end, "end") or []
    elif args.rel_end is not None:
        end = list(map(share_of, listed(args.rel_end, "rel_end") or [], extents))
    elif args.shape is not None:
        end = [a + s for a, s in zip(start, listed(args.shape, "shape") or [])]
    elif args.rel_shape is not None:
        shares = listed(args.rel_shape, "rel_shape") or []
        if anchor is None and relative is not None:  # two shares are added in double precision
            end = [(float(single(a)) + float(single(s))) * e for a, s, e in zip(relative, shares, extents)]
        else:
            end = [a + share_of(s, e) for a, s, e in zip(start, shares, extents)]
    first = [half_up(value) for value in start]
    return first, [half_up(value) - low for value, low in zip(end, first)]


def _relative(values: Any, normalized: bool) -> bool:
    """True if the numbers are relative: integers are pixels, floats are fractions of the extent, unless the arguments say
    otherwise.
    """
    return normalized and np.asarray(values).dtype.kind == "f"


def random_window(
    key: Any, height: int, width: int, area: Sequence[float], ratio: Sequence[float], attempts: int
) -> tuple[int, int, int, int]:
    """A random window (top, left, height, width) by its share of the area and its aspect ratio (width / height).

    After `attempts` windows that do not fit, the largest centred window with an allowed ratio is taken.
    """
    if not height * width:
        raise ValueError(f"the image has no pixels: {height} x {width}")
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for attempt in range(attempts):
        target = height * width * key.uniform(4 * attempt, area[0], area[1])
        aspect = math.exp(key.uniform(4 * attempt + 1, low, high))
        wide, tall = half_up(math.sqrt(target * aspect)), half_up(math.sqrt(target / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            top = key.integer(4 * attempt + 2, 0, height - tall + 1)
            left = key.integer(4 * attempt + 3, 0, width - wide + 1)
            return top, left, tall, wide
    return largest_window(height, width, area, ratio)


def largest_window(height: int, width: int, area: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
    """The largest centred window with an allowed ratio and area."""
    aspect = min(max(width / height, ratio[0]), ratio[1])
    wide = min(width, max(1, half_up(height * aspect)))
    tall = min(height, max(1, half_up(width / aspect)))
    scale = math.sqrt(min(1.0, area[1] * height * width / (wide * tall)))
    wide, tall = max(1, int(wide * scale)), max(1, int(tall * scale))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def _are_compiled() -> bool:
    return MODULE in sys.modules and kernels.random_windows.loaded()  # this imports no kernels


MODULE = "pipeflow.kernels.cpu.random_windows"
# If ``compiled_windows`` is loaded, and the function that loads it.
WINDOWS_LOADS = _are_compiled, lambda: kernels.random_windows.load()


def compiled_windows(
    keys: np.ndarray,
    extents: np.ndarray,
    area: Sequence[float],
    ratio: Sequence[float],
    attempts: int,
    starts: np.ndarray,
    sizes: np.ndarray,
) -> None:
    """The windows of ``random_window`` by compiled code; the arrays have a row of height and width for each sample."""
    kernels.random_windows.windows(keys, extents, *window_options(area, ratio, attempts), starts, sizes)


def window_options(area: Sequence[float], ratio: Sequence[float], attempts: int) -> tuple[Any, ...]:
    """The options of a random window, as the kernels take them."""
    return *map(float, (*area, *ratio)), *map(math.log, ratio), attempts


def random_windows(
    keys: np.ndarray, extents: np.ndarray, area: Sequence[float], ratio: Sequence[float], attempts: int
) -> tuple[np.ndarray, np.ndarray]:
    """The starts and sizes of the window of ``random_window`` for each sample of a batch; the arrays have a row of height and
    width for each sample.
    """
    if WINDOWS_LOADS[0]():
        windows = np.empty((2, len(keys), 2), np.int32)
        require(extents > 0)
        compiled_windows(keys, np.ascontiguousarray(extents), area, ratio, attempts, windows[0], windows[1])
        return windows[0], windows[1]
    limits = np.empty((len(keys), 2))
    limits[:] = extents[:, ::-1]
    require(limits > 0)
    taken = np.empty(len(keys), np.int64)  # the attempt of each sample
    sizes = np.empty((len(keys), 2))  # width and height
    left = np.arange(len(keys))  # the samples without a window that fits
    for begin, end in ((0, 1), (1, attempts)):  # most samples need one attempt, and the others few
        if not left.size or begin >= end:
            break
        limit = limits if begin == 0 else limits[left]
        numbers = 4 * np.arange(begin, end)[:, None] + _SHAPE_NUMBERS
        units = seeds.units_of(seeds.bits_at((keys if begin == 0 else keys[left])[:, None, None], numbers))
        tried = _sizes_of(limit[:, 0] * limit[:, 1], units, area, ratio)
        each = (tried > 0) & (tried <= limit[:, None])
        fits = each[:, :, 0] & each[:, :, 1]
        first = fits.argmax(1)
        row = np.flatnonzero(fits.any(1))
        chosen, first = left[row], first[row]
        taken[chosen], sizes[chosen] = begin + first, tried[row, first]
        left = np.delete(left, row)
    for sample in left.tolist():
        taken[sample], sizes[sample] = 0, limits[sample]
    words = seeds.bits_at(keys[:, None], 4 * taken[:, None] + _PLACE_NUMBERS)
    found = np.empty((2, len(keys), 2), np.int64)
    found[0], found[1] = seeds.integers_of(words, (limits - sizes + 1)[:, ::-1]), sizes[:, ::-1]
    for sample in left.tolist():
        height, width = extents[sample].tolist()
        window = largest_window(height, width, area, ratio)
        found[0, sample], found[1, sample] = window[:2], window[2:]
    return found[0], found[1]


_SHAPE_NUMBERS, _PLACE_NUMBERS = np.arange(2), np.arange(2, 4)  # of the four random numbers of an attempt
UNSURE = 1e-7  # pixels; more than NumPy's exponential moves a size of which it rounds the last bit differently


def _sizes_of(pixels: np.ndarray, units: np.ndarray, area: Sequence[float], ratio: Sequence[float]) -> np.ndarray:
    """Width and height of windows of images with so many pixels, from two random numbers for each attempt."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    target = pixels[:, None] * (area[0] + (area[1] - area[0]) * units[:, :, 0])
    powers = low + (high - low) * units[:, :, 1]
    aspect = np.exp(powers)
    sizes = np.empty((*target.shape, 2))
    while True:
        np.multiply(target, aspect, out=sizes[:, :, 0])
        np.divide(target, aspect, out=sizes[:, :, 1])
        np.sqrt(sizes, out=sizes)
        sizes += 0.5
        whole = np.floor(sizes)
        sizes -= whole
        if sizes.min() > UNSURE and sizes.max() < 1 - UNSURE:
            return whole
        # math and not NumPy, as in the body: NumPy's exponential may differ in the last bit
        exact = np.fromiter(map(math.exp, powers.ravel().tolist()), np.float64, powers.size).reshape(powers.shape)
        if aspect is exact or (exact == aspect).all():
            return whole
        aspect = exact


class Cut(NamedTuple):
    """A window: its part of the data, the position of this part in the window, and the shape of the window."""

    low: list[int]
    extents: list[int]
    offset: list[int]
    shape: list[int]
    outside: bool


def place_cut(
    shape: Sequence[int], axes: Sequence[int], anchors: Sequence[int], sizes: Sequence[int], policy: str
) -> Cut:
    """A window of data of this shape; RuntimeError if it leaves the data and the policy forbids this."""
    low, extents, place, target = [0] * len(shape), list(shape), [0] * len(shape), list(shape)
    outside = False
    for axis, anchor, size in zip(axes, anchors, sizes, strict=True):
        extent = shape[axis]
        if anchor < 0 or anchor + size > extent:
            outside = True
            if policy == "error":
                raise RuntimeError(
                    f"Slice can't be placed out of bounds with current policy. Got: {anchor} to {anchor + size} of an "
                    f"extent of {extent} along axis {axis} (shape {tuple(shape)}); "
                    "use out_of_bounds_policy='pad' or 'trim_to_shape'"
                )
        low[axis] = min(max(anchor, 0), extent)
        extents[axis] = max(min(anchor + size, extent) - low[axis], 0)
        place[axis] = low[axis] - anchor
        target[axis] = size
    if policy == "trim_to_shape":
        return Cut(low, extents, [0] * len(shape), extents, False)
    return Cut(low, extents, place, target, outside)


@lru_cache(maxsize=64)
def _kept_fill(values: tuple[float, ...], dtype: np.dtype) -> np.ndarray:
    return kernels.casting.as_fill(values, dtype)


def fill_values_of(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Fill values in the data's type. They are kept, except -0.0, which is equal to 0.0."""
    signed = any(value == 0 and math.copysign(1, value) < 0 for value in values)
    return kernels.casting.as_fill(values, dtype) if signed else _kept_fill(tuple(values), dtype)


def fill_table(values: Sequence[float], dtype: np.dtype, shape: Sequence[int], channel: int) -> np.ndarray:
    """The fill values in the data's type: one, or one for each channel."""
    table = fill_values_of(values, dtype)
    if table.size > 1 and (channel < 0 or table.size != shape[channel]):
        count = shape[channel] if channel >= 0 else "no"
        raise ValueError(f"fill_values has {table.size} values, the data has {count} channels")
    return table


def cut(
    data: np.ndarray,
    axes: Sequence[int],
    anchors: Sequence[int],
    sizes: Sequence[int],
    policy: str,
    fill_values: Sequence[float],
    channel: int,
    dtype: np.dtype | None = None,
) -> np.ndarray:
    """A window of the data: a view if it is inside, else an error, a padded copy or the part that is inside.

    If a type is given, the result is converted to it; the fill values are then converted only to this type.
    """
    window = _place_cut(data.shape, tuple(axes), tuple(anchors), tuple(sizes), policy)
    part = data[tuple([np.s_[begin : begin + size] for begin, size in zip(window.low, window.extents)])]
    if dtype is not None:
        part = kernels.casting.as_type(part, dtype)
    if not window.outside:
        return part
    out = np.empty(window.shape, part.dtype)
    values = fill_table(fill_values, part.dtype, data.shape, channel)
    if dtype in (None, data.dtype) and part.size:
        byte = byte_around(values, data.shape, window.extents, window.shape)
        if byte is not None:
            return kernels.moving.framed(data, window.low, window.extents, window.offset, byte, out)
    inside = tuple([np.s_[begin : begin + size] for begin, size in zip(window.offset, window.extents)])
    if values.size > 1 or not part.size:  # if no part is inside, `inside` has no meaning
        out[...] = values.reshape([-1 if axis == channel and values.size > 1 else 1 for axis in range(data.ndim)])
    else:
        fill_around(out, inside, values[0])
    if part.size:
        out[inside] = part
    return out


def cutting(
    spec: Spec,
    axes: Sequence[int],
    anchors: Sequence[int],
    sizes: Sequence[int],
    policy: str,
    fill_values: Sequence[float],
) -> Any:
    """`cut` for data of one shape and type; None if the window is partly outside and the fill value is not one byte."""
    shape, dtype = spec.shape, spec.dtype
    window = place_cut(shape, axes, anchors, sizes, policy)
    if not window.outside:
        return windowing(spec, [np.s_[begin : begin + size] for begin, size in zip(window.low, window.extents)])
    channel = spec.layout.find("C") if spec.layout else -1
    byte = byte_around(fill_table(fill_values, dtype, shape, channel), shape, window.extents, window.shape)
    if byte is None or 0 in window.extents:
        return None
    empty, target = np.empty, tuple(window.shape)
    fill = kernels.moving.framing(shape, dtype.itemsize, window.low, window.extents, window.offset, byte, target)
    return lambda data: fill(data, empty(target, dtype))


def windowing(spec: Spec, window: Sequence[Any]) -> Any:
    """A function that copies a window, inside of data of one shape and type."""
    view = tuple(window)
    bounds = [part.indices(extent)[:2] for part, extent in zip(view, spec.shape, strict=True)]
    if spec.dtype == np.uint8 and len(bounds) == 3 and bounds[2] == (0, spec.shape[2]):
        (top, _), (left, _), _ = bounds
        empty, target, dtype = np.empty, tuple([end - begin for begin, end in bounds]), spec.dtype
        cut = kernels.moving.cutting_out(top, left)
        return lambda data: cut(data, empty(target, dtype))
    return lambda data: data[view].copy()


_place_cut = lru_cache(maxsize=1024)(place_cut)


def check_random_window(args: Any) -> None:
    """Raises ValueError for ranges that are none, and for less than one attempt."""
    for name in ("random_area", "random_aspect_ratio"):
        bounds = getattr(args, name)
        if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
            raise ValueError(f"{name} must be two positive numbers, the smaller one first, got {bounds}")
    if args.num_attempts < 1:
        raise ValueError(f"num_attempts must be at least 1, got {args.num_attempts}")


def byte_around(values: np.ndarray, shape: Sequence[int], extents: Sequence[int], target: Sequence[int]) -> int | None:
    """The byte that fills everything outside a part of an image of this shape in a target; None if the values are not one
    byte, or if the part or the target has other extents than the image along axes after the first two.
    """
    if values.size != 1 or len(shape) < 2 or not list(extents[2:]) == list(shape[2:]) == list(target[2:]):
        return None
    found = values.tobytes()
    return found[0] if len(set(found)) == 1 else None


def fill_around(out: np.ndarray, inside: tuple[Any, ...], value: Any) -> None:
    """Fills everything outside a window."""
    for axis, window in enumerate(inside):
        if window.start > 0:
            out[(*inside[:axis], np.s_[: window.start])] = value
        if window.stop < out.shape[axis]:
            out[(*inside[:axis], np.s_[window.stop :])] = value


def random_window_calls(calls: KernelCalls, args: Any, height: Any, width: Any) -> Sequence[Any]:
    """The random window of a sample, for programs of kernel calls."""
    bounds = *args.random_area, *args.random_aspect_ratio
    options = *map(float, bounds), *map(math.log, args.random_aspect_ratio), args.num_attempts
    return calls.read(kernels.random_windows.random_window, calls.key, height, width, *options)
