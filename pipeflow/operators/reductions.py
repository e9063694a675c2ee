"""Reductions: sum, mean, mean_square, rms, max, min, std_dev, variance over some or all axes of a sample."""

import math
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Args,
    DType,
    Ints,
    KernelCalls,
    Layout,
    OpDef,
    Sample,
    Spec,
    operator,
    parameters,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.reduction_calls import ReducedParts, distances, kernel_of, means, parts_of, summed

PAGE = """Sums, means and extremes over some or all axes of a sample."""


FLOAT = np.dtype(np.float32)


def reduced_axes(layout: str, ndim: int, args: Any) -> tuple[int, ...]:
    """The axes to reduce: the named ones, or all."""
    return tuple(sorted(axes_of(layout, ndim, args.axes, args.axis_names)))


def reduced_spec(specs: tuple[Spec, ...], args: Any, dtype: Any) -> Spec:
    """The Spec without the reduced axes, or with extents of 1."""
    spec = specs[0]
    if spec.shape is UNKNOWN or (spec.layout is None and args.axis_names):
        return Spec(None, dtype, None)
    axes = reduced_axes(spec.layout or "", len(spec.shape), args)
    if args.keep_dims:
        shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(spec.shape))
        return Spec(shape, dtype, spec.layout)
    left = [axis for axis in range(len(spec.shape)) if axis not in axes]
    return Spec(
        tuple(spec.shape[axis] for axis in left), dtype, spec.layout and "".join(spec.layout[axis] for axis in left)
    )


def shaped(data: Any, axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    """The extents of the result."""
    if keep:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
    return tuple(extent for axis, extent in enumerate(data.shape) if axis not in axes)


def three_extents(shape: Any, axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The extents of data as (outer, reduced, inner), if the reduced axes are neighbours and it has elements."""
    if not axes or axes[-1] - axes[0] + 1 != len(axes) or 0 in shape:
        return None
    ends = axes[0], axes[-1] + 1
    return math.prod(shape[: ends[0]]), math.prod(shape[slice(*ends)]), math.prod(shape[ends[1] :])


def three_parts(data: np.ndarray, axes: tuple[int, ...]) -> np.ndarray | None:
    """The data as (outer, reduced, inner), if the reduced axes are neighbours."""
    extents = three_extents(data.shape, axes)
    return None if extents is None else np.ascontiguousarray(data).reshape(extents)


def ready_parts(specs: tuple[Spec, ...], args: Any) -> tuple[Any, Any, tuple[int, ...], int]:
    """For a short form: the extents as three parts (None if there is no such form), the type, those of the result, and the number
    of elements for each result.
    """
    data = specs[0]
    axes = reduced_axes(data.layout, len(data.shape), args)
    parts = three_extents(data.shape, axes) if data.dtype != np.float16 else None
    return parts, data.dtype, shaped(data, axes, args.keep_dims), count_of(data, axes)


FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}


def count_of(data: Any, axes: tuple[int, ...]) -> int:
    """The number of elements that are reduced to one result."""
    return math.prod(data.shape[axis] for axis in axes)


def some_elements(name: str, data: Any, axes: tuple[int, ...]) -> None:
    """Raises an error if a result has no elements."""
    if not count_of(data, axes):
        raise ValueError(f"the {name} of no elements is not defined: shape {data.shape}, axes {axes}")


def divisor(name: str, data: Any, mean: Any, axes: tuple[int, ...], ddof: int) -> int:
    """The divisor of the squared distances from the mean."""
    size = math.prod(mean.shape)
    if size not in (1, math.prod(shaped(data, axes, True))):
        raise ValueError(f"the mean has shape {mean.shape}; the results have shape {shaped(data, axes, False)}")
    count = count_of(data, axes) - ddof
    if count <= 0:
        raise ValueError(f"the {name} of {count_of(data, axes)} elements with ddof={ddof} is not defined")
    return count


def sums(data: np.ndarray, axes: tuple[int, ...], power: int = 1, mean: np.ndarray | None = None) -> np.ndarray:
    """Sums of the elements or of their squares, in 64 bits, with the reduced axes kept."""
    shape = shaped(data, axes, True)
    parts = three_parts(data, axes)
    if parts is None or parts.dtype == np.float16 or mean is not None:
        values = data if mean is None else data.astype(np.float64) - mean
        values = values.astype(np.float64) if values.dtype.kind == "f" or power == 2 else values
        return (np.square(values) if power == 2 else values).sum(axes, keepdims=True).reshape(shape)
    return kernels.reduce.sums(parts, power).reshape(shape)


def squared_distances(data: np.ndarray, axes: tuple[int, ...], mean: np.ndarray) -> np.ndarray:
    """Sums of the squared distances from the mean, which has the reduced axes kept (or is one number)."""
    kept = shaped(data, axes, True)
    parts = three_parts(data, axes)
    if parts is None or parts.dtype == np.float16:
        return sums(data, axes, 2, mean)
    middle = np.broadcast_to(mean, kept).reshape(parts.shape[0], parts.shape[2])
    return kernels.reduce.squared_distances(parts, np.ascontiguousarray(middle, np.float64)).reshape(kept)


def in_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Results in the requested type; for integers the fraction is cut off, not rounded."""
    if dtype.kind in "iu" and values.dtype.kind == "f":
        values = np.trunc(values)
    return kernels.casting.as_type(np.asarray(values, order="C"), dtype)


def reduced(calls: KernelCalls) -> ReducedParts:
    """The parts for the arguments of a reduction."""
    args = calls.args
    return parts_of(calls, reduced_axes(calls.layouts[0], len(calls.input.extents), args), args.keep_dims)


AXES = parameters(
    axes=(Ints, None, "axes that are reduced; default: all"),
    axis_names=(Layout, None, "the same axes by their letters in the layout"),
    keep_dims=(bool, False, "keep the reduced axes with an extent of 1"),
)
DDOF = parameters(ddof=(int, 0, "subtracted from the number of elements by which the sum of squares is divided"))
MEAN_TYPE = parameters(dtype=(DType, None, "type of the result; default: FLOAT, or FLOAT64 for data of that type"))
SUM_TYPE = parameters(dtype=(DType, None, "type of the result; default: 64 bits for integers, else that of the data"))


def _mean_like(name: str, power: int, root: bool, summary: str) -> None:
    def body(data: Sample, /, *, args: Args, layouts: Any) -> Sample:
        chosen = reduced_axes(layouts[0], data.ndim, args)
        some_elements(name, data, chosen)
        means = sums(data, chosen, power) / count_of(data, chosen)
        result = (np.sqrt(means) if root else means).reshape(shaped(data, chosen, args.keep_dims))
        return in_type(result, mean_type(data.dtype, args.dtype))

    body.__name__ = name
    body.__doc__ = summary
    op = operator(
        f"reductions.{name}",
        compiled=True,
        takes=AXES | MEAN_TYPE,
        gpu=True,
        examples=[f"fn.reductions.{name}(image, axes=(0, 1))"],
    )(body)
    op.infer(lambda specs, args: reduced_spec(specs, args, mean_type(specs[0].dtype, args.dtype)))

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        parts, dtype, shape, count = ready_parts(specs, args)
        to = mean_type(dtype, args.dtype)
        if parts is None or to not in FLOATS:
            return None
        return kernels.reduce.summing(parts, dtype, power, count, root, shape, to)

    @op.calls
    def _(calls: KernelCalls) -> None:
        given = reduced(calls)
        out = calls.output(given.shape, mean_type(calls.input.dtype, calls.args.dtype))
        means(calls, summed(calls, given, power), given.count, root, out.flat)


def mean_type(dtype: Any, asked: np.dtype | None) -> Any:
    """Means are FLOAT unless ``dtype`` says otherwise; means of FLOAT64 are FLOAT64."""
    if asked is not None or dtype is UNKNOWN:
        return asked if asked is not None else UNKNOWN
    return dtype if dtype == np.float64 else FLOAT


_mean_like("mean", 1, False, "The mean over some or all axes.")
_mean_like("mean_square", 2, False, "The mean of the squares over some or all axes.")
_mean_like("rms", 2, True, "The root of the mean of the squares.")


@operator(
    "reductions.sum", compiled=True, takes=AXES | SUM_TYPE, gpu=True, examples=["fn.reductions.sum(image, axes=(0, 1))"]
)
def sum(data: Sample, /, *, args: Args, layouts: Any) -> Sample:
    """The sum over some or all axes. The sum of integers has 64 bits unless ``dtype`` says otherwise."""
    chosen = reduced_axes(layouts[0], data.ndim, args)
    return in_type(sums(data, chosen).reshape(shaped(data, chosen, args.keep_dims)), sum_type(data.dtype, args.dtype))


def sum_type(dtype: Any, asked: np.dtype | None) -> Any:
    """The type of a sum."""
    if asked is not None or dtype is UNKNOWN:
        return asked if asked is not None else UNKNOWN
    return {"u": np.dtype(np.uint64), "b": np.dtype(np.uint64), "i": np.dtype(np.int64)}.get(dtype.kind, dtype)


sum.infer(lambda specs, args: reduced_spec(specs, args, sum_type(specs[0].dtype, args.dtype)))


@sum.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    parts, dtype, shape, _ = ready_parts(specs, args)
    to = sum_type(dtype, args.dtype)
    if parts is None or to != sum_type(dtype, None):
        return None
    return kernels.reduce.summing(parts, dtype, 1, 1.0 if to == FLOAT else None, False, shape, to)


@sum.calls
def _(calls: KernelCalls) -> None:
    given, dtype = reduced(calls), calls.input.dtype
    kind, target = kernels.reduce.sum_type(dtype, 1), sum_type(dtype, calls.args.dtype)
    require(
        target == kind or (target.kind in "iuf" and target != np.float16 and (target.kind == "f" or kind.kind != "f"))
    )
    out = calls.output(given.shape, target).flat
    if target == kind:
        summed(calls, given, 1, out)
    else:
        kernel_of(calls, kernels.casting.cast_flat, summed(calls, given, 1), out)


def _extreme(name: str, summary: str) -> None:
    largest = name == "max"

    def body(data: Sample, /, *, args: Args, layouts: Any) -> Sample:
        chosen = reduced_axes(layouts[0], data.ndim, args)
        some_elements(name, data, chosen)
        shape = shaped(data, chosen, args.keep_dims)
        parts = three_parts(data, chosen)
        if parts is None or data.dtype.kind == "b" or data.dtype == np.float16:
            return np.asarray((np.max if largest else np.min)(data, chosen)).reshape(shape)
        return kernels.reduce.extremes(parts, largest).reshape(shape)

    body.__name__ = name
    body.__doc__ = summary
    op = operator(
        f"reductions.{name}",
        compiled=True,
        takes=AXES,
        gpu=True,
        examples=[f"fn.reductions.{name}(image, axes=(0, 1))"],
    )(body)
    op.infer(lambda specs, args: reduced_spec(specs, args, specs[0].dtype))

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        parts, dtype, shape, _ = ready_parts(specs, args)
        return None if parts is None or dtype.kind == "b" else kernels.reduce.picking(parts, dtype, largest, shape)

    @op.calls
    def _(calls: KernelCalls) -> None:
        given, dtype = reduced(calls), calls.input.dtype
        require(dtype.kind in "iu")  # NumPy decides about NaN and signs of zero
        out, parts = calls.output(given.shape, dtype).flat, calls.scratch((given.parts,), dtype)
        kernel_of(calls, kernels.reduce_programs.largest_parts, given.data, largest, parts, out)


_extreme("max", "The largest element over some or all axes.")
_extreme("min", "The smallest element over some or all axes.")


def _deviation(name: str, root: bool, summary: str) -> None:
    def body(data: Sample, mean: Sample, /, *, args: Args, layouts: Any) -> Sample:
        chosen = reduced_axes(layouts[0], data.ndim, args)
        kept = shaped(data, chosen, True)
        count = divisor(name, data, mean, chosen, args.ddof)
        centre = mean.reshape(kept if mean.size != 1 else (1,) * data.ndim).astype(np.float64)
        squares = squared_distances(data, chosen, centre)
        result = squares / count
        return in_type(
            (np.sqrt(result) if root else result).reshape(shaped(data, chosen, args.keep_dims)),
            mean_type(data.dtype, None),
        )

    body.__name__ = name
    body.__doc__ = summary
    example = f"fn.reductions.{name}(image, fn.reductions.mean(image))"
    op: OpDef = operator(f"reductions.{name}", compiled=True, takes=AXES | DDOF, gpu=True, examples=[example])(body)
    op.infer(lambda specs, args: reduced_spec(specs, args, mean_type(specs[0].dtype, None)))

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        parts, dtype, shape, count = ready_parts(specs, args)
        mean, to = specs[1], mean_type(dtype, None)
        fits = parts is not None and math.prod(mean.shape) in (1, parts[0] * parts[2]) and count > args.ddof
        if not fits or mean.dtype not in FLOATS:
            return None
        return kernels.reduce.measuring_distances(parts, dtype, mean.dtype, count - args.ddof, root, shape, to)

    @op.calls
    def _(calls: KernelCalls) -> None:
        given, mean = reduced(calls), calls.inputs[1]
        require(mean.dtype.kind == "f" and mean.dtype != np.float16)
        calls.require(mean.size == given.results)
        divisor = given.count - calls.args.ddof
        calls.require(divisor > 0)
        out = calls.output(given.shape, mean_type(calls.input.dtype, None))
        means(calls, distances(calls, given, mean.flat), divisor, root, out.flat)


_deviation(
    "std_dev",
    True,
    "The standard deviation over some or all axes, from the data and its mean; ``ddof`` is subtracted from the count.",
)
_deviation(
    "variance",
    False,
    "The variance over some or all axes, from the data and its mean; ``ddof`` is subtracted from the count.",
)
