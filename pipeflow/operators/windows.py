"""Where a crop lies: sizes, positions and random windows, shared by every operator that cuts something out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.kernels import cpu as kernels

POLICIES = ("error", "pad", "trim_to_shape")


class Options:
    """The arguments of a body (its ``locals()``) by name, as ``infer`` gets them, so that both can share functions."""

    means: Any
    factors: Any

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def half_up(value: float) -> int:
    """The nearest integer, halves rounded away from zero."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


def crop_extents(letters: str, extents: Sequence[int], args: Any) -> list[int]:
    """The size of the window along the given axes; an axis without one keeps its whole extent."""
    crop = args.crop
    named = {"D": args.crop_d, "H": args.crop_h, "W": args.crop_w}
    if crop is not None and len(crop):
        for name, value in (("crop_d", args.crop_d), ("crop_h", args.crop_h), ("crop_w", args.crop_w)):
            if value:
                raise ValueError(f"crop and {name} exclude each other: give one of them")
        spatial = [letter for letter in "DHW" if letter in letters]
        values = list(crop) * len(spatial) if len(crop) == 1 else list(crop)
        if len(values) > len(spatial):
            raise ValueError(f"crop has {len(values)} values for the axes {''.join(spatial)}")
        named = dict(zip(spatial[len(spatial) - len(values) :], values, strict=True))
    sizes = []
    for letter, extent in zip(letters, extents, strict=True):
        size = named.get(letter) or 0
        if size < 0:
            raise ValueError(f"the crop along {letter} must not be negative, got {size}")
        sizes.append(half_up(size) if size else extent)
    return sizes


def place_window(letters: str, extents: Sequence[int], sizes: Sequence[int], args: Any) -> list[int]:
    """The first element of the window along the given axes."""
    positions = {"D": args.crop_pos_z, "H": args.crop_pos_y, "W": args.crop_pos_x}
    anchors = []
    for letter, extent, size in zip(letters, extents, sizes, strict=True):
        position = positions[letter]
        if not 0 <= position <= 1:
            raise ValueError(f"the crop position along {letter} must lie between 0 and 1, got {position}")
        exact = position * (extent - size)
        anchors.append(half_up(exact) if args.rounding == "round" else int(exact))
    return anchors


def random_window(
    key: Any, height: int, width: int, area: Sequence[float], ratio: Sequence[float], attempts: int
) -> tuple[int, int, int, int]:
    """A random window (top, left, height, width) by its share of the area and its aspect ratio (width / height).

    After `attempts` windows that do not fit, the largest centred one with an allowed ratio is taken.
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
    aspect = min(max(width / height, ratio[0]), ratio[1])
    wide = min(width, max(1, half_up(height * aspect)))
    tall = min(height, max(1, half_up(width / aspect)))
    scale = math.sqrt(min(1.0, area[1] * height * width / (wide * tall)))
    wide, tall = max(1, int(wide * scale)), max(1, int(tall * scale))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def cut(
    data: np.ndarray, axes: Sequence[int], anchors: Sequence[int], sizes: Sequence[int], policy: str,
    fill_values: Sequence[float], channel: int,
) -> np.ndarray:  # fmt: skip
    """A window of the data: a view where it lies inside; else an error, a padded copy or what there is of it."""
    index: list[Any] = [np.s_[:]] * data.ndim
    place: list[Any] = [np.s_[:]] * data.ndim
    target = list(data.shape)
    outside = False
    for axis, anchor, size in zip(axes, anchors, sizes, strict=True):
        extent = data.shape[axis]
        if anchor < 0 or anchor + size > extent:
            outside = True
            if policy == "error":
                raise RuntimeError(
                    f"Slice can't be placed out of bounds with current policy. Got: {anchor} to {anchor + size} of an "
                    f"extent of {extent} along axis {axis} (shape {data.shape}); "
                    "use out_of_bounds_policy='pad' or 'trim_to_shape'"
                )
        low, high = min(max(anchor, 0), extent), max(min(anchor + size, extent), 0)
        index[axis] = np.s_[low : max(low, high)]
        place[axis] = np.s_[low - anchor : max(low, high) - anchor]
        target[axis] = size
    part = data[tuple(index)]
    if not outside or policy == "trim_to_shape":
        return part
    out = np.empty(target, data.dtype)
    values = kernels.casting.as_type(np.array(fill_values, np.float64), data.dtype)
    if values.size > 1:
        if channel < 0 or values.size != data.shape[channel]:
            count = data.shape[channel] if channel >= 0 else "no"
            raise ValueError(f"fill_values has {values.size} values, the data has {count} channels")
        values = values.reshape([-1 if axis == channel else 1 for axis in range(data.ndim)])
    out[...] = values
    if part.size:
        out[tuple(place)] = part
    return out
