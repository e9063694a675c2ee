"""A decoded volume, and the check of its extents before it is decoded."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeflow.kernels.cpu import image_limits
from pipeflow.kernels.cpu.image_base import BadImage
from pipeflow.kernels.cpu.image_limits import Limits

# (depth, height, width) of a volume -> first elements and extents of the wanted part
Region = Callable[[tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


class Volume(NamedTuple):
    """A part of a volume as stored, and the numbers that convert it to the measured quantity: value * slope + intercept.

    There is one slope and one intercept for each slice, or one for all.
    """

    stored: np.ndarray
    slope: np.ndarray
    intercept: np.ndarray


def window_of(
    name: str,
    shape: tuple[int, ...],
    stored: np.dtype,
    length: int,
    limits: Limits,
    dtype: np.dtype,
    region: Region | None,
) -> tuple[slice, ...]:
    """The slices of the wanted part of a volume of `shape` (depth, height, width, channels), after the limits are checked."""
    text = f"{name} of {' x '.join(map(str, shape[:3]))} voxels"
    if min(shape) < 1:
        raise BadImage(f"the {name} header states an empty volume of {' x '.join(map(str, shape))}")
    voxels = shape[0] * shape[1] * shape[2]
    image_limits.check_pixels(text, voxels, length, limits)
    image_limits.check_bytes(text, voxels * shape[3] * stored.itemsize, limits)
    starts, sizes = ((0, 0, 0), shape[:3]) if region is None else region(shape[:3])
    for axis, start, size, extent in zip(["depth", "height", "width"], starts, sizes, shape):
        if start < 0 or size < 1 or start + size > extent:
            raise ValueError(
                f"a window of {size} from {start} on does not lie inside the {axis} of {extent} of the {text}"
            )
    image_limits.check_bytes(text, sizes[0] * sizes[1] * sizes[2] * shape[3] * dtype.itemsize, limits)
    return tuple(slice(start, start + size) for start, size in zip(starts, sizes))
