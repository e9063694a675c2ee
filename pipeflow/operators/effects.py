"""Effects: sharpen, unsharp_mask, enhance, motion_blur, channel_shuffle, channel_dropout, jigsaw."""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from pipeflow.declare import Arg, Ints, OpDef, Out, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import some_pixels
from pipeflow.operators.filters import BORDERS

PAGE = """Effects of augmentation libraries that DALI does not have. Their random numbers are a function of the sample's key."""

effect = partial(operator, compiled=True, infer="like image", layouts="HWC FHWC", sequences=True, gpu=True)

SMOOTHED = np.array([[-1, -1, -1], [-1, 8, -1], [-1, -1, -1]], np.float32)


def _correlated(image: np.ndarray, taps: np.ndarray, out: np.ndarray) -> np.ndarray:
    some_pixels(image.shape)
    place = tuple(size // 2 for size in taps.shape)
    return kernels.correlation.correlate(image, taps, place, BORDERS["reflect_101"], 0.0, False, out)


def _correlating(op: OpDef, taps_of: Callable[[Any], np.ndarray]) -> None:
    """The short form of a filter of images with mirrored borders."""

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        if specs[0].layout != "HWC" or 0 in specs[0].shape:
            return None
        like, taps = np.empty((1, 1, 1), specs[0].dtype), taps_of(args)
        work = kernels.correlation.correlating(like, BORDERS["reflect_101"], like)
        place = taps.shape[0] // 2, taps.shape[1] // 2
        return None if work is None else work(taps, place)


@effect("sharpen", examples=["fn.sharpen(image, alpha=0.4)"])
def sharpen(
    image: Sample,
    /,
    *,
    alpha: Arg[float] = default(0.3, "share of the sharp image in the result, from 0 to 1"),
    lightness: Arg[float] = default(1.0, "weight of the pixel itself in the sharp image; above 1 it is lighter"),
    out: Out,
) -> Sample:
    """Mixes the image with a sharpened form of it: each pixel plus its differences from its eight neighbours."""
    return _correlated(image, sharpen_taps(alpha, lightness), out)


@lru_cache(maxsize=256)
def sharpen_taps(alpha: float, lightness: float) -> np.ndarray:
    """The weights of a pixel and its eight neighbours."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    taps = alpha * SMOOTHED
    taps[1, 1] += 1 - alpha + alpha * lightness
    return taps.astype(np.float32)


# Two well-known filters of a pixel and its eight neighbours.
ENHANCED = {
    "edges": np.array([[-1, -1, -1], [-1, 10, -1], [-1, -1, -1]], np.float32) / 2,
    "details": np.array([[0, -1, 0], [-1, 10, -1], [0, -1, 0]], np.float32) / 6,
}


@effect("enhance", examples=["fn.enhance(image, mode='details', alpha=0.7)"])
def enhance(
    image: Sample,
    /,
    *,
    mode: str = default("edges", "the effect: `edges`, or the softer `details`"),
    alpha: Arg[float] = default(0.75, "share of the enhanced image in the result, from 0 to 1"),
    out: Out,
) -> Sample:
    """Mixes the image with a form of it that has stronger edges or details, like Pillow's filters of these names."""
    return _correlated(image, enhance_taps(mode, alpha), out)


@lru_cache(maxsize=256)
def enhance_taps(mode: str, alpha: float) -> np.ndarray:
    """The weights of a pixel and its eight neighbours."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    taps = alpha * ENHANCED[mode]
    taps[1, 1] += 1 - alpha
    return taps.astype(np.float32)


@enhance.check
def _(args: Any) -> None:
    if args.mode not in ENHANCED:
        raise ValueError(f"mode must be 'edges' or 'details', got {args.mode!r}")


@effect("motion_blur", examples=["fn.motion_blur(image, size=7)"])
def motion_blur(
    image: Sample,
    /,
    *,
    size: Arg[int] = default(5, "length of the movement in pixels, an odd number"),
    angle: Arg[float] = default(0.0, "angle of the movement in degrees, counter-clockwise from the right"),
    direction: Arg[float] = default(0.0, "from -1 to 1: a larger value gives the end more weight than the beginning"),
    out: Out,
) -> Sample:
    """Blurs along a line, like the movement of a camera."""
    return _correlated(image, motion_taps(size, angle, direction), out)


@lru_cache(maxsize=256)
def motion_taps(size: int, angle: float, direction: float) -> np.ndarray:
    """The weights along a line through the middle of a square; each is divided between the two nearest pixels."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"size must be an odd number of at least 1, got {size}")
    if not -1 <= direction <= 1:
        raise ValueError(f"direction must be from -1 to 1, got {direction}")
    taps = np.zeros((size, size))
    middle, turn = size // 2, math.radians(angle)
    across, down = math.cos(turn), -math.sin(turn)
    scale = max(abs(across), abs(down))
    for step, weight in zip(range(-middle, middle + 1), np.linspace(1 - direction, 1 + direction, size), strict=True):
        x, y = middle + step * across / scale, middle + step * down / scale
        low_x, low_y = math.floor(x + 1e-9), math.floor(y + 1e-9)
        for i, j, share in (
            (low_y, low_x, (1 - (y - low_y)) * (1 - (x - low_x))),
            (low_y, low_x + 1, (1 - (y - low_y)) * (x - low_x)),
            (low_y + 1, low_x, (y - low_y) * (1 - (x - low_x))),
        ):
            if i < size and j < size:
                taps[i, j] += max(share, 0.0) * weight
    return (taps / taps.sum()).astype(np.float32)


@effect("unsharp_mask", dtypes="uint8")
def unsharp_mask(
    image: Sample,
    /,
    *,
    sigma: Arg[float] = default(1.0, "deviation of the Gaussian window that blurs"),
    amount: Arg[float] = default(0.5, "factor of the differences from the blurred image"),
    threshold: Arg[float] = default(0.0, "differences up to this value are not amplified"),
    out: Out,
) -> Sample:
    """Increases the differences from a blurred form of the image."""
    some_pixels(image.shape)
    return kernels.effects.unsharp(image, blur_window(sigma), amount, threshold, out)


@unsharp_mask.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if specs[0].layout != "HWC" or 0 in specs[0].shape:
        return None
    return kernels.effects.unsharpening(blur_window(args.sigma), args.amount, args.threshold)


@lru_cache(maxsize=64)
def blur_window(sigma: float) -> np.ndarray:
    """A Gaussian window that reaches to three deviations."""
    if sigma <= 0:
        raise ValueError(f"sigma must be above 0, got {sigma}")
    reach = max(math.ceil(3 * sigma), 1)
    line = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return (line / line.sum()).astype(np.float32)


@lru_cache(maxsize=64)
def blur_taps(sigma: float) -> np.ndarray:
    """The weights of the window along both axes."""
    window = blur_window(sigma).astype(np.float64)
    return np.outer(window, window).astype(np.float32)


_correlating(sharpen, lambda args: sharpen_taps(args.alpha, args.lightness))
_correlating(enhance, lambda args: enhance_taps(args.mode, args.alpha))
_correlating(motion_blur, lambda args: motion_taps(args.size, args.angle, args.direction))


@operator("channel_shuffle", compiled=True, infer="like image", layouts="HWC FHWC", gpu=True)
def channel_shuffle(image: Sample, /, *, key: Any, out: Out) -> Sample:
    """Puts the channels into a random order, one for all frames of a sequence."""
    return kernels.effects.in_order(image, channel_order(image.shape[-1], key), out) if image.size else out


@channel_shuffle.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    return kernels.effects.shuffling() if shape[-1] == 3 and dtype == np.uint8 and 0 not in shape else None


def channel_order(channels: int, key: Any) -> list[int]:
    """The numbers of the channels in random order."""
    return sorted(range(channels), key=key.unit)


@operator(
    "channel_dropout",
    compiled=True,
    gpu=True,
    infer="like image",
    layouts="HWC FHWC",
    examples=["fn.channel_dropout(image, fill=9.0)"],
)
def channel_dropout(
    image: Sample,
    /,
    *,
    count: Arg[int] = default(1, "number of channels that are dropped"),
    fill: Arg[float] = default(0.0, "value of dropped channels"),
    key: Any,
    out: Out,
) -> Sample:
    """Fills random channels with one value."""
    check_dropped(image.shape[-1], count)
    dropped = channel_order(image.shape[-1], key)[:count]
    return kernels.effects.filled(image, dropped, fill_of(fill, out.dtype)[0], out)


@channel_dropout.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    check_dropped(shape[-1], args.count)
    if shape[-1] != 3 or dtype != np.uint8 or 0 in shape:
        return None
    return kernels.effects.dropping(args.count, int(fill_of(args.fill, dtype)[0]))


@lru_cache(maxsize=64)
def fill_of(value: float, dtype: np.dtype) -> np.ndarray:
    """The value of dropped channels in the type of the image."""
    return kernels.casting.as_type(np.array([value], np.float64), dtype)


def check_dropped(channels: int, count: int) -> None:
    """Raises if an image has fewer channels than are dropped."""
    if not 0 <= count <= channels:
        raise ValueError(f"count must be from 0 to {channels}, the number of channels, got {count}")


@operator(
    "jigsaw",
    compiled=True,
    infer="like image",
    layouts="HWC FHWC",
    gpu=True,
    examples=["fn.jigsaw(image, grid=(2, 3))"],
)
def jigsaw(
    image: Sample, /, *, grid: Arg[Ints] = default((4, 4), "number of rows and columns of parts"), key: Any, out: Out
) -> Sample:
    """Puts the parts of a grid into a random order; only parts of equal size change places.

    `fn.distortions.jigsaw` makes maps that move boxes and points, too.
    """
    return kernels.effects.moved_parts(image, rows_and_columns(grid), key.value, out)


@jigsaw.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    grid, shape = rows_and_columns(args.grid), specs[0].shape
    return None if 0 in shape else kernels.effects.moving_parts(shape, specs[0].dtype.itemsize, grid)


Part = tuple[slice, slice]  # of rows and of columns


def moved_parts(extents: tuple[int, ...], grid: tuple[int, ...], key: Any) -> Iterator[tuple[Part, Part]]:
    """For each part of the result, its place and the part of the image that goes there."""
    places, members, ends = kernels.effects.parts_of(*extents, *rows_and_columns(grid))
    sources = np.empty(len(places), np.int64)
    kernels.effects.sources_of(np.uint64(key.value), members, ends, sources)
    parts = [(slice(top, bottom), slice(left, right)) for top, bottom, left, right in places.tolist()]
    return zip(parts, [parts[source] for source in sources.tolist()], strict=True)


def rows_and_columns(grid: tuple[int, ...]) -> tuple[int, int]:
    """The numbers of parts along both axes; an error unless there are one or two numbers, and none is 0."""
    if len(grid) not in (1, 2) or min(grid) < 1:
        raise ValueError(f"grid must be one or two numbers of at least 1, got {list(grid)}")
    return grid[0], grid[-1]
