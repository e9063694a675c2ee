"""Preparation of images for a model: normalize, gaussian_blur, jpeg_compression_distortion."""

import math
from collections.abc import Sequence
from operator import index
from typing import Annotated, Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    DType,
    Floats,
    Ints,
    KernelArray,
    KernelCalls,
    Layout,
    Out,
    Role,
    Sample,
    Several,
    Spec,
    Traits,
    default,
    largest,
    operator,
    parameters,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of, some_pixels, spatial
from pipeflow.operators.reduction_calls import FLOAT64, distances, kernel_of, means, parts_of, summed
from pipeflow.operators.reductions import squared_distances, sums
from pipeflow.operators.warp_calls import filtered

PAGE = """Operators that prepare images for a model, and some that change their look."""


FLOAT = np.dtype(np.float32)


# ----------------------------------------------------------------------------------------------------
# normalize


STATISTICS = parameters(
    mean=(
        Annotated[Any, Role.ARG],
        None,
        "value that is subtracted, an array that can be broadcast to the data; default: the mean of the data",
    ),
    stddev=(
        Annotated[Any, Role.ARG],
        None,
        "value by which the difference is divided; default: the standard deviation of the data",
    ),
    axes=(
        Ints,
        None,
        "axes of the mean and the deviation; default: the axes along which a given mean or deviation has one "
        "value, else all",
    ),
    axis_names=(Layout, None, "the same axes by their letters in the layout"),
    batch=(bool, False, "compute the mean and the deviation over the whole batch"),
    ddof=(int, 0, "subtracted from the number of elements by which the variance is divided"),
    epsilon=(float, 0.0, "added to the variance, to avoid a division by 0"),
    scale=(float, 1.0, "factor of the quotient"),
    shift=(float, 0.0, "value that is added at the end"),
    dtype=(DType, FLOAT, "type of the result"),
)


@operator("normalize", compiled=True, takes=STATISTICS, gpu=True)
def normalize(data: Sample, /, *, args: Args, layouts: Any, out: Out) -> Sample:
    """Normalises the data: ``scale * (x - mean) / stddev + shift``, with the mean and deviation of the data itself by
    default.

    Mean and deviation are taken over ``axes``, all by default, and with ``batch`` over the whole batch; ``epsilon`` is added to
    the variance, ``ddof`` is subtracted from the count. If the deviation is 0, the result is ``shift``.
    """
    if isinstance(data, list):
        return _normalize_batch(data, args, layouts[0], out)
    rows = _rows(data, args, layouts[0])
    if rows is not None:
        options = {"ddof": args.ddof, "epsilon": args.epsilon, "scale": args.scale, "shift": args.shift}
        kernels.rows.normalize(np.ascontiguousarray(data).reshape(rows), out.reshape(rows), **options)
        return out
    return _normalized(data, *_statistics([data], args, layouts[0]), args, out)


def _rows(data: np.ndarray, args: Any, layout: str) -> tuple[int, int] | None:
    """(rows, values) if each row of float32 is normalised separately, as in spectrograms; else None."""
    if args.mean is not None or args.stddev is not None or not data.size or {data.dtype, args.dtype} != {FLOAT}:
        return None
    reduced = sorted(axes_of(layout, data.ndim, args.axes, args.axis_names))
    if reduced != list(range(data.ndim - len(reduced), data.ndim)):
        return None
    return math.prod(data.shape[: data.ndim - len(reduced)]), math.prod(data.shape[data.ndim - len(reduced) :])


def normalized_axes(layout: str, ndim: int, args: Any) -> tuple[int, ...]:
    """The axes of the mean and the deviation: the given axes, else those along which the given statistics have one value."""
    if args.axes is None and args.axis_names is None:
        given = [np.shape(value) for value in (args.mean, args.stddev) if np.ndim(value) == ndim]
        if given:
            return tuple([axis for axis in range(ndim) if given[0][axis] == 1])
    return tuple(sorted(axes_of(layout, ndim, args.axes, args.axis_names)))


def _statistics(samples: list[np.ndarray], args: Any, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the chosen axes of all samples, with those axes kept."""
    ndim = samples[0].ndim
    reduced = normalized_axes(layout, ndim, args)
    kept = [1 if axis in reduced else samples[0].shape[axis] for axis in range(ndim)]
    count = sum(math.prod(x.shape[axis] for axis in reduced) for x in samples)
    if args.mean is None:
        mean = sum(sums(x, reduced) for x in samples) / max(count, 1)
    else:
        mean = given_statistic(args.mean, kept)
    if args.stddev is not None:
        return mean, given_deviation(args.stddev, kept, args.epsilon)
    squares = sum(squared_distances(x, reduced, mean) for x in samples)
    return mean, np.sqrt(squares / max(count - args.ddof, 1) + args.epsilon)


def given_statistic(values: Any, kept: list[int]) -> np.ndarray:
    """A given mean or deviation, to be combined with statistics of these extents."""
    array = np.asarray(values, np.float64)
    if array.ndim == 1 and array.size == max(kept):
        array = array.reshape(kept)
    if array.ndim and (array.ndim != len(kept) or any(a not in (1, k) for a, k in zip(array.shape, kept))):
        raise ValueError(f"mean and stddev must be numbers or of shape {tuple(kept)}, got {array.shape}")
    return array


def given_deviation(values: Any, kept: list[int], epsilon: float) -> np.ndarray:
    """A given deviation, with ``epsilon`` added to its square; without an ``epsilon`` it keeps its sign."""
    deviation = given_statistic(values, kept)
    return np.sqrt(np.square(deviation) + epsilon) if epsilon else deviation


def factor_of(deviation: np.ndarray, scale: float) -> np.ndarray:
    """The factor of distances from the mean; 0 if the deviation is 0."""
    return np.where(deviation != 0, scale / np.where(deviation != 0, deviation, 1), 0.0)


def _normalized(data: np.ndarray, mean: np.ndarray, deviation: np.ndarray, args: Any, out: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = factor_of(deviation, args.scale)
    if np.size(mean) == np.size(factor) == 1:
        a = float(np.ravel(factor)[0])
        values = data if data.dtype in (np.uint8, np.float32) else kernels.casting.as_type(data, FLOAT)
        return kernels.color.linear_values(values, a, args.shift - float(np.ravel(mean)[0]) * a, out)
    channels = data.shape[-1]
    if (
        data.ndim == 3
        and data.size
        and all(np.size(x) in (1, channels) and np.shape(x)[-1:] in ((), (channels,)) for x in (mean, factor))
    ):
        spread = [np.ascontiguousarray(np.broadcast_to(np.ravel(x), channels), np.float32) for x in (mean, factor)]
        return kernels.normalize.normalize_window(data, False, 0, 0, False, *spread, args.shift, out, False)
    values = kernels.casting.as_type(data, FLOAT)
    result = np.subtract(values, mean.astype(np.float32), out=out if out.dtype == FLOAT else None)
    result *= factor.astype(np.float32)
    if args.shift:
        result += np.float32(args.shift)
    return kernels.casting.as_type(result, args.dtype)


def _normalize_batch(data: list[np.ndarray], args: Any, layout: str, empty: Any) -> list[np.ndarray]:
    given = {name: value[0] if isinstance(value, list) else value for name, value in vars(args).items()}
    mean, deviation = _statistics(data, Args(**given), layout)
    return [_normalized(sample, mean, deviation, args, empty(sample.shape, args.dtype)) for sample in data]


@normalize.traits
def _(args: Any) -> Traits:
    return Traits("batch" if args.batch else "sample")


@normalize.calls
def _(calls: KernelCalls) -> None:
    data, args = calls.input, calls.args
    if args.mean is not None or args.stddev is not None:
        _given_calls(calls)
        return
    axes = sorted(axes_of(calls.layouts[0], len(data.extents), args.axes, args.axis_names))
    kept = len(data.extents) - len(axes)
    if data.dtype == args.dtype == FLOAT and axes == list(range(kept, len(data.extents))):
        calls.require(data.size > 0)
        rows = math.prod(data.extents[:kept]), math.prod(data.extents[kept:])
        out = calls.output(data.extents, FLOAT)
        options = args.ddof, float(args.epsilon), float(args.scale), float(args.shift)
        calls.call(kernels.rows.normalize_rows, data.reshaped(*rows), out.reshaped(*rows), *options)
        return
    calls.require(len(axes) > 0 and axes[0] == 0)
    given = parts_of(calls, axes, True)
    mean = calls.scratch((given.results,), FLOAT64)
    means(calls, summed(calls, given, 1), given.count, False, mean)
    squares = distances(calls, given, mean)
    spread = largest(given.count - args.ddof, 1), float(args.epsilon), float(args.scale)
    if len(axes) == len(data.extents):
        numbers = calls.scratch((2,), FLOAT64)
        kernel_of(calls, kernels.reduce_programs.factor_and_offset, mean, squares, *spread, float(args.shift), numbers)
        _line_calls(calls, numbers)
        return
    calls.require(given.results > 1)  # one number is a factor, as above
    factors = calls.scratch((2, given.results), FLOAT)
    middle = KernelArray(factors.address, (given.results,), FLOAT)
    factor = KernelArray(factors.address + given.results * FLOAT.itemsize, (given.results,), FLOAT)
    kernel_of(calls, kernels.reduce_programs.mean_and_factor, mean, squares, *spread, middle, factor)
    if len(data.extents) == 3 and len(axes) == 2:
        _channel_calls(calls, middle, factor)
        return
    require(args.dtype == FLOAT and data.dtype in FAST_INPUTS)
    out = calls.output(data.extents, FLOAT)
    rows = given.count, given.results
    kernel_of(
        calls,
        kernels.reduce_programs.scale_columns,
        data.reshaped(*rows),
        middle,
        factor,
        float(args.shift),
        out.reshaped(*rows),
    )


FAST_INPUTS = {np.dtype(np.uint8), FLOAT}


def _line_calls(calls: KernelCalls, numbers: KernelArray | np.ndarray) -> None:
    """The values times a number plus another one."""
    require({calls.input.dtype, calls.args.dtype} <= FAST_INPUTS)
    out = calls.output_like_input(calls.args.dtype)
    kernel_of(calls, kernels.reduce_programs.line_by, calls.input.flat, numbers, out.flat)


def _channel_calls(calls: KernelCalls, mean: KernelArray | np.ndarray, factor: KernelArray | np.ndarray) -> None:
    """An image with a mean and a factor for each channel, as in ``kernels.normalize.normalize_window``."""
    image, target = calls.input, calls.args.dtype
    require(image.dtype in FAST_INPUTS and target in kernels.everyday.NORMALIZED)
    out = calls.output_like_input(target)
    height, width, channels = image.extents
    row = width * channels
    rows = [calls.scratch((row,), FLOAT) for _ in range(2)]
    for values, repeated in zip((mean, factor), rows):
        kernel_of(calls, kernels.reduce_programs.repeat, values, repeated)
    stored = KernelArray(out.flat.address, out.flat.extents, kernels.image_programs.raw_type(target))
    numbers = float(calls.args.shift), False, stored, height, width
    kernel_of(calls, kernels.normalize.to_rows, image.flat, 0, row + 0, channels + 0, *rows, *numbers)


def _given_calls(calls: KernelCalls) -> None:
    """With a mean and a deviation that are constants."""
    data, args = calls.input, calls.args
    require(args.mean is not None and args.stddev is not None)
    axes = normalized_axes(calls.layouts[0], len(data.extents), args)
    sizes = [np.size(value) for value in (args.mean, args.stddev)]
    channels = 1
    if max(sizes) > 1:
        require(len(data.extents) == 3 and axes == (0, 1))
        channels = index(data.extents[2])
    kept = [1, 1, channels] if channels > 1 else [1] * len(data.extents)
    mean = given_statistic(args.mean, kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = factor_of(given_deviation(args.stddev, kept, args.epsilon), args.scale)
    if np.size(mean) == np.size(factor) == 1:
        a = float(np.ravel(factor)[0])
        _line_calls(calls, np.array([a, args.shift - float(np.ravel(mean)[0]) * a]))
        return
    require(all(np.size(x) in (1, channels) and np.shape(x)[-1:] in ((), (channels,)) for x in (mean, factor)))
    each = [np.ascontiguousarray(np.broadcast_to(np.ravel(x), channels), np.float32) for x in (mean, factor)]
    _channel_calls(calls, *each)


@normalize.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec(specs[0].shape, args.dtype, specs[0].layout)


# ----------------------------------------------------------------------------------------------------
# gaussian_blur


def blur_windows(sigma: Any, sizes: Any, axes: int) -> list[np.ndarray]:
    """One window for each axis; if sigma or size is missing, it follows from the other."""
    deviations = list(sigma) * axes if len(sigma) == 1 else list(sigma)
    extents = list(sizes) * axes if len(sizes) == 1 else list(sizes)
    given: dict[str, Sequence[float]] = {"sigma": deviations, "window_size": extents}
    for name, values in given.items():
        if len(values) != axes:
            raise ValueError(f"{name} has {len(values)} values for {axes} spatial axes")
    windows = []
    for deviation, size in zip(deviations, extents, strict=True):
        if deviation < 0 or size < 0 or not (deviation or size):
            raise ValueError(f"sigma or window_size must be positive, got sigma={deviation}, window_size={size}")
        size = size or 2 * math.ceil(3 * deviation) + 1
        if size % 2 == 0:
            raise ValueError(f"window_size must be odd, got {size}")
        windows.append(kernels.filters.gaussian_window(size, deviation or ((size - 1) * 0.5 - 1) * 0.3 + 0.8))
    return windows


MOST_TAPS = 129  # of a window in a table; the body computes with larger ones


def windows_of_batch(args: Args, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The deviations and sizes of ``blur_windows`` along two axes, with a row for each sample."""
    given = [
        np.broadcast_to(np.asarray(x, np.float64), (count, np.shape(x)[-1])) for x in (args.sigma, args.window_size)
    ]
    require(all(x.shape[1] in (1, 2) for x in given))
    deviations, sizes = (np.broadcast_to(x, (count, 2)) for x in given)
    require((deviations >= 0) & (sizes >= 0) & (deviations + sizes > 0) & (deviations < MOST_TAPS))
    sizes = np.where(sizes > 0, sizes, 2 * np.ceil(3 * deviations) + 1).astype(np.int64)
    require((sizes % 2 == 1) & (sizes <= MOST_TAPS))
    return np.where(deviations > 0, deviations, ((sizes - 1) * 0.5 - 1) * 0.3 + 0.8), sizes


def gaussian_windows(deviations: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The windows of ``gaussian_window`` for each sample and axis, in the first numbers of a row."""
    table = np.zeros((*sizes.shape, MOST_TAPS), np.float32)
    for size in set(sizes.ravel().tolist()):
        chosen = sizes == size
        distance = np.arange(size) - size // 2
        sigma = deviations[chosen][:, None]
        window = np.exp(-(distance**2) / (2 * sigma * sigma))
        table[chosen, :size] = window / window.sum(1, keepdims=True)
    return table


# Data without a layout gets the first one that fits: as in DALI, every axis is spatial.
BLUR_LAYOUTS = "HW DHW HWC FHWC DHWC FDHWC CHW FCHW CDHW FCDHW CFHW CFDHW FHW"


@operator(
    "gaussian_blur",
    compiled=True,
    layouts=BLUR_LAYOUTS,
    sequences=True,
    generic=True,
    gpu=True,
    examples=["fn.gaussian_blur(image, sigma=1.5)"],
)
def gaussian_blur(
    image: Sample,
    /,
    *,
    sigma: Arg[Floats] = default(
        (0.0,), "standard deviation in pixels: one number, or one for each spatial axis; 0: from the window"
    ),
    window_size: Arg[Ints] = default(
        (0,), "extent of the window, odd: one number, or one for each spatial axis; 0: from sigma"
    ),
    dtype: DType | None = default(None, "type of the result: that of the input, or FLOAT"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Blurs with a Gaussian window along every spatial axis; borders are mirrored without repeating the border pixel.

    In a pipeline, data without a layout is blurred along all its axes: give images with channels their layout, ``"HWC"``.

    Give ``sigma`` or ``window_size`` or both, for all axes or for each; the missing one follows from the other. The
    result has the input's type, or FLOAT if ``dtype`` is FLOAT.
    """
    del dtype
    layout = layouts[0]
    axes = spatial(layout)
    windows = blur_windows(sigma, window_size, len(axes))
    some_pixels(image.shape)
    if layout[0] == "C":
        for index in np.ndindex(image.shape[: axes[0]]):  # channels, and the frames after them
            kernels.filters.filter_separable(image[index], windows, out[index])
        return out
    return kernels.filters.filter_separable(image, windows, out)


@gaussian_blur.calls
def _(calls: KernelCalls) -> None:
    require(len(spatial(calls.layouts[0])) == 2)
    sigma, sizes = calls.args.sigma, calls.args.window_size
    if not isinstance(sigma, Several) and not isinstance(sizes, Several):
        filtered(calls, blur_windows(sigma, sizes, 2))
        return
    counts = calls.integers(lambda args, count: windows_of_batch(args, count)[1])
    row = calls.row(lambda args, count: gaussian_windows(*windows_of_batch(args, count)))
    step = MOST_TAPS * FLOAT.itemsize
    filtered(calls, [KernelArray(row.address + axis * step, (counts[axis],), FLOAT) for axis in range(2)])


gaussian_blur.varying("sigma", "window_size")


@gaussian_blur.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if specs[0].layout != "HWC" or 0 in shape or args.dtype not in (None, dtype):
        return None
    return kernels.filters.filtering(shape, dtype, blur_windows(args.sigma, args.window_size, 2))


@gaussian_blur.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec(specs[0].shape, args.dtype or specs[0].dtype, specs[0].layout)


# ----------------------------------------------------------------------------------------------------
# jpeg_compression_distortion


@operator(
    "jpeg_compression_distortion",
    compiled=True,
    begins_in_numpy=True,
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8",
    gpu=True,
)
def jpeg_compression_distortion(
    image: Sample, /, *, quality: Arg[int] = default(50, "quality of the compression, from 1 to 100"), out: Out
) -> Sample:
    """Compresses the image as JPEG (4:2:0) with the given quality, 1 to 100, and decodes it again."""
    check_compressible(image.shape, quality)
    return kernels.jpeg_round_trip.distort(image, quality, out)


@jpeg_compression_distortion.loads
def _(_args: Args, _dtype: np.dtype | None) -> None:
    kernels.jpeg_switch.distorting.wait()


def check_compressible(shape: tuple[int, ...], quality: int) -> None:
    """Raises if JPEG cannot store the image."""
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be between 1 and 100, got {quality}")
    if shape[-1] != 3:
        raise ValueError(f"jpeg_compression_distortion needs 3 channels, the image has {shape[-1]}")
    some_pixels(shape)


@jpeg_compression_distortion.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    quality, distort = args.quality, kernels.jpeg_round_trip.distort
    check_compressible(specs[0].shape, quality)
    return lambda image, out: distort(image, quality, out)


@jpeg_compression_distortion.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0] if specs[0].shape is not UNKNOWN else Spec(None, specs[0].dtype, specs[0].layout)
