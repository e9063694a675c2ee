"""Filters with a given kernel, and sums of second derivatives: filter, laplacian."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, DType, Floats, Ints, Out, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import spatial
from pipeflow.operators.image import BLUR_LAYOUTS

PAGE = """Sums over the neighbourhood of each pixel."""


FLOAT = np.dtype(np.float32)
# As in displacement.py; DALI has other names for them here.
BORDERS = {"constant": 0, "clamp": 1, "reflect_1001": 2, "reflect_101": 3, "wrap": 4, "1001": 2, "101": 3}


def planes_of(image: np.ndarray, out: np.ndarray, layout: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of arrays with the spatial axes first and the channels last; there is at least one channel."""
    if layout[-1] == "C":
        return [(image, out)]
    outer = image.shape[: len(layout) - layout.count("D") - 2]  # channels, and frames after them
    return [(image[index][..., None], out[index][..., None]) for index in np.ndindex(*outer)]


def over_planes(layout: str, work: Callable[[np.ndarray, np.ndarray], Any]) -> Callable[..., np.ndarray]:
    """The work on each pair of `planes_of`, as a short form of a body. ``work`` returns its second argument."""
    if layout == "HWC":
        return work

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        if layout == "HW":
            work(image[..., None], out[..., None])
        else:
            for source, target in planes_of(image, out, layout):
                work(source, target)
        return out

    return run


# ----------------------------------------------------------------------------------------------------
# filter


def filter_anchor(anchor: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """The element of the kernel that is over the pixel of the result."""
    given = list(anchor) * len(sizes) if len(anchor) == 1 else list(anchor)
    if len(given) != len(sizes):
        raise ValueError(f"anchor has {len(anchor)} values for a kernel of {len(sizes)} axes")
    for place, size in zip(given, sizes):
        if not -1 <= place < size:
            raise ValueError(f"anchor {tuple(anchor)} is not in the kernel of {' x '.join(map(str, sizes))}")
    return tuple(size // 2 if place == -1 else place for place, size in zip(given, sizes))


def filtered_shape(layout: str, shape: Sequence[Any], sizes: Sequence[int], mode: str) -> tuple[Any, ...]:
    """The extents of the result."""
    axes = spatial(layout)
    if len(sizes) != len(axes):
        letters = "".join(layout[axis] for axis in axes)
        raise ValueError(f"the kernel has {len(sizes)} axes, the data has {len(axes)} spatial ones ({letters})")
    if 0 in sizes:
        raise ValueError(f"the kernel is empty: shape {tuple(sizes)}")
    result = list(shape)
    if mode == "valid":
        for axis, size in zip(axes, sizes):
            result[axis] -= size - 1
            if result[axis] is not UNKNOWN and result[axis] < 1:
                raise ValueError(
                    f"the kernel of {' x '.join(map(str, sizes))} is larger than the data, shape {tuple(shape)}"
                )
    return tuple(result)


@operator(
    "filter",
    compiled=True,
    layouts=BLUR_LAYOUTS,
    sequences=True,
    generic=True,
    gpu=True,
    examples=["fn.filter(image, window)"],
)
def filter(
    data: Sample,
    kernel: Sample,
    fill: Sample | None = None,
    /,
    *,
    anchor: Arg[Ints] = default(
        (-1,), "the element of the kernel over the result, one number or one an axis; -1 is its middle"
    ),
    border: str = default(
        "reflect_101", "values outside the data: `reflect_101`, `reflect_1001`, `clamp`, `wrap` or `constant`"
    ),
    mode: str = default(
        "same", "`same` keeps the extents; `valid` returns only results that need no values from outside"
    ),
    dtype: DType | None = default(None, "the type of the result; that of the data by default"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Correlates images or volumes with a kernel: the second input, of two or three axes.

    In a pipeline, data without a layout is filtered along all its axes: give images with channels their layout, ``"HWC"``.

    Each result is the sum of the values under the kernel, each times its number of the kernel; the kernel is not flipped. The
    third input is the value outside the data if ``border`` is "constant"; without it that value is 0.
    """
    del dtype
    layout = layouts[0]
    place = filter_anchor(anchor, kernel.shape)
    if fill is not None and fill.size != 1:
        raise ValueError(f"the fill value must be one number, got shape {fill.shape}")
    filtered_shape(layout, data.shape, kernel.shape, mode)
    if 0 in data.shape:
        raise ValueError(f"the data has no pixels: shape {data.shape}")
    outside = 0.0 if fill is None else float(fill.item())
    for source, target in planes_of(data, out, layout):
        kernels.correlation.correlate(source, kernel, place, BORDERS[border], outside, mode == "valid", target)
    return out


@filter.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    data, kernel = specs[:2]
    if len(specs) > 2 or data.layout != "HWC" or args.mode != "same" or 0 in data.shape:
        return None
    filtered_shape(data.layout, data.shape, kernel.shape, args.mode)
    place = filter_anchor(args.anchor, kernel.shape)
    like, target = np.empty((1, 1, 1), data.dtype), np.empty((1, 1, 1), args.dtype or data.dtype)
    work = kernels.correlation.correlating(like, BORDERS[args.border], target)
    return None if work is None else lambda image, taps, out: work(taps, place)(image, out)


@filter.check
def _(args: Any) -> None:
    if args.border not in BORDERS:
        raise ValueError(f"border must be one of {', '.join(BORDERS)}, got {args.border!r}")
    if args.mode not in ("same", "valid"):
        raise ValueError(f"mode must be 'same' or 'valid', got {args.mode!r}")


@filter.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    data, kernel = specs[:2]
    shape = data.shape if args.mode == "same" else filtered_shape(data.layout, data.shape, kernel.shape, args.mode)
    return Spec(shape, args.dtype or data.dtype, data.layout)


# ----------------------------------------------------------------------------------------------------
# laplacian

LARGEST = 31


@lru_cache(maxsize=64)
def binomial(size: int) -> np.ndarray:
    """A smoothing window."""
    window = np.ones(1)
    for _ in range(size - 1):
        window = np.convolve(window, [1.0, 1.0])
    return window


@lru_cache(maxsize=256)
def derivatives(
    axes: int, windows: tuple[int, ...], smoothing: tuple[int, ...], scales: tuple[float, ...], normalized: bool
) -> list[list[np.ndarray]]:
    """For every axis, the windows along all axes: a second derivative along this axis, smoothing along the others."""

    def spread(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
        if len(values) not in (1, axes):
            raise ValueError(f"{name} has {len(values)} values for {axes} spatial axes")
        return values * axes if len(values) == 1 else values

    windows, scales = spread(windows, "window_size"), spread(scales, "scale")
    smoothing = spread(smoothing, "smoothing_size") if smoothing else ()
    for name, values, least in (("window_size", windows, 3), ("smoothing_size", smoothing, 1)):
        for size in values:
            if not least <= size <= LARGEST or size % 2 == 0:
                raise ValueError(f"{name} must be an odd number from {least} to {LARGEST}, got {size}")
    parts = []
    for axis, (size, scale) in enumerate(zip(windows, scales)):
        factors = []
        for other in range(axes):
            smooth = smoothing[other] if smoothing else size
            factor = np.convolve([1.0, -2.0, 1.0], binomial(size - 2)) * scale if other == axis else binomial(smooth)
            if normalized:
                factor = factor / 2.0 ** (size - 3 if other == axis else smooth - 1)
            factors.append(factor.astype(np.float32))
        parts.append(factors)
    return parts


def laplacian_kernel(parts: list[list[np.ndarray]]) -> np.ndarray:
    """One kernel over all axes with the same effect as the windows."""
    extents = [max(len(part[axis]) for part in parts) for axis in range(len(parts))]
    total = np.zeros(extents)
    for part in parts:
        product = np.ones((1,) * len(parts))
        for axis, window in enumerate(part):
            margin = (extents[axis] - len(window)) // 2
            line = np.pad(window.astype(np.float64), margin)
            product = product * line.reshape([-1 if i == axis else 1 for i in range(len(parts))])
        total += product
    return total.astype(np.float32)


def derivatives_of(layout: str, args: Any) -> list[list[np.ndarray]]:
    """The windows for data of a layout."""
    count = len(spatial(layout))
    return derivatives(count, args.window_size, args.smoothing_size or (), args.scale, args.normalized_kernel)


@lru_cache(maxsize=256)
def dense_laplacian(*windows: Any) -> tuple[np.ndarray, tuple[int, ...], bool] | None:
    """For the arguments of `derivatives`: one kernel, its middle, and True if halves are rounded away from zero; None if a pass
    along each axis is faster.
    """
    total = laplacian_kernel(derivatives(*windows))
    if np.count_nonzero(total) > DENSE:
        return None
    middle = tuple(size // 2 for size in total.shape)
    return total, middle, bool((total % 1).any())  # only then can halves occur; DALI rounds them away from zero here


DENSE = 30  # up to this number of taps, one kernel is faster than a pass along every axis for each derivative


@operator(
    "laplacian",
    compiled=True,
    infer="like image",
    layouts=BLUR_LAYOUTS,
    sequences=True,
    generic=True,
    gpu=True,
    examples=["fn.laplacian(image, dtype=types.FLOAT)"],
)
def laplacian(
    image: Sample,
    /,
    *,
    window_size: Arg[Ints] = default(
        (3,), "the size of the derivative's window, one odd number from 3 to 31 or one an axis"
    ),
    smoothing_size: Arg[Ints] = default(
        None,
        "the size of the window that smooths, odd, from 1 to 31, one or one an axis; default: that of the derivative",
    ),
    scale: Arg[Floats] = default((1.0,), "factors of the derivatives, one number or one an axis"),
    normalized_kernel: bool = default(False, "scales every window so that flat areas and edges keep their size"),
    dtype: DType | None = default(None, "the type of the result; that of the image by default"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Adds up the second derivatives along all spatial axes, each smoothed along the other ones.

    In a pipeline, data without a layout is filtered along all its axes: give images with channels their layout, ``"HWC"``.

    Borders are mirrored without repeating the border pixel. A result of an unsigned type has no negative values: use
    ``dtype=types.FLOAT`` to keep them.
    """
    del dtype
    layout = layouts[0]
    count = len(spatial(layout))
    if 0 in image.shape:
        raise ValueError(f"the image has no pixels: shape {image.shape}")
    given = count, window_size, smoothing_size or (), scale, normalized_kernel
    parts, dense = derivatives(*given), dense_laplacian(*given)
    if dense is not None:
        total, middle, away = dense
        for source, target in planes_of(image, out, layout):
            kernels.correlation.correlate(source, total, middle, BORDERS["reflect_101"], 0.0, False, target, away)
        return out
    for source, target in planes_of(image, out, layout):
        sums, one = np.zeros(source.shape, np.float32), np.empty(source.shape, np.float32)
        for windows in parts:
            sums += kernels.filters.filter_separable(source, windows, one)
        kernels.casting.cast(sums, target)
    return out


@laplacian.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    image, windows = specs[0], (args.window_size, args.smoothing_size or (), args.scale, args.normalized_kernel)
    if 0 in image.shape:
        return None
    found = dense_laplacian(len(spatial(image.layout)), *windows)
    if found is None:
        return None
    total, middle, away = found
    target, border = args.dtype or image.dtype, BORDERS["reflect_101"]
    compute = kernels.correlation.correlate
    like = np.empty((1, 1, 1), image.dtype), np.empty((1, 1, 1), target)
    short = kernels.correlation.correlating(like[0], border, like[1]) if total.ndim == 2 else None
    if short is not None and not (away and target.kind != "f"):
        return over_planes(image.layout, short(total, middle))
    return over_planes(image.layout, lambda source, out: compute(source, total, middle, border, 0.0, False, out, away))


@laplacian.check
def _(args: Any) -> None:
    if args.normalized_kernel and args.scale != (1.0,):
        raise ValueError("normalized_kernel and scale exclude each other: give one of them")
    for name, least in (("window_size", 3), ("smoothing_size", 1)):
        values = getattr(args, name)
        if values is not UNKNOWN and values and not all(least <= x <= LARGEST and x % 2 for x in values):
            raise ValueError(f"{name} must be odd numbers from {least} to {LARGEST}, got {tuple(values)}")
