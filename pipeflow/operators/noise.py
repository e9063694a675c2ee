"""Noise on every element: noise.gaussian, noise.salt_and_pepper, noise.shot.

The random numbers of an element are a function of the sample's key and the element's place, so they do not depend on threads or
on the order of work.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, Out, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels

PAGE = """The noise of an element depends on the sample's key and on the element's place only, not on threads or on the
order of work.
"""


@operator(
    "noise.gaussian", compiled=True, gpu=True, infer="like data", examples=["fn.noise.gaussian(image, stddev=9.0)"]
)
def gaussian(
    data: Sample,
    /,
    *,
    mean: Arg[float] = default(0.0, "mean of the noise"),
    stddev: Arg[float] = default(1.0, "standard deviation of the noise"),
    key: Any,
    out: Out,
) -> Sample:
    """Adds normally distributed noise; integers are rounded and limited to their range."""
    return kernels.noise.add_gaussian(data, key.value, mean, stddev, out)


@gaussian.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    dtype = specs[0].dtype
    if dtype not in kernels.noise.FAST:
        return None
    numbers, like = (np.float32(args.mean), np.float32(args.stddev)), np.empty(0, dtype)
    compute = kernels.jit.machine_code(kernels.noise.gaussian_flat, like, np.uint64(0), *numbers, like)

    def run(data: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(data.ravel(), key, *numbers, out.ravel())
        return out

    return run


def extents_of(shape: Sequence[int], layout: str, per_channel: bool) -> tuple[int, int, int]:
    """The number of elements before the channel axis, of channels that change together, and of elements after the axis.

    Without a layout the channels are the last axis.
    """
    if per_channel or not shape or (layout and "C" not in layout):
        return math.prod(shape), 1, 1
    axis = layout.index("C") if layout else len(shape) - 1
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def salt_and_pepper_values(dtype: np.dtype, salt: float | None, pepper: float | None) -> np.ndarray:
    """Both values in the type of the data: by default the ends of its range, 1 and -1 for floats."""
    if dtype.kind in "iu":
        limits: tuple[Any, Any] = (np.iinfo(dtype).max, np.iinfo(dtype).min)
    else:
        limits = (1, 0 if dtype.kind == "b" else -1)
    found = [np.array(end, dtype) for end in limits]
    for number, value in enumerate((salt, pepper)):
        if value is not None:
            found[number] = kernels.casting.as_type(np.array([value], np.float64), dtype)[0]
    return np.array(found, dtype)


def check_shares(prob: float, salt_vs_pepper: float) -> None:
    """Raises an error unless both numbers are probabilities."""
    for name, value in (("prob", prob), ("salt_vs_pepper", salt_vs_pepper)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {value}")


@operator(
    "noise.salt_and_pepper",
    compiled=True,
    gpu=True,
    infer="like data",
    examples=["fn.noise.salt_and_pepper(image, prob=0.3)", "fn.noise.salt_and_pepper(signal, salt_val=0.5)"],
)
def salt_and_pepper(
    data: Sample,
    /,
    *,
    prob: Arg[float] = default(0.05, "probability that an element, or a pixel, becomes salt or pepper"),
    salt_vs_pepper: Arg[float] = default(0.5, "probability of salt among these"),
    salt_val: Arg[float] = default(None, "value of salt; default: the largest of an integer type, 1 for floats"),
    pepper_val: Arg[float] = default(None, "value of pepper; default: the smallest of an integer type, -1 for floats"),
    per_channel: bool = default(False, "each channel is set by itself; False: all channels of a pixel together"),
    key: Any,
    layouts: Any,
    out: Out,
) -> Sample:
    """Sets some elements to the largest value and some to the smallest one.

    If the data has no layout, the last axis is the channels.
    """
    check_shares(prob, salt_vs_pepper)
    values = salt_and_pepper_values(data.dtype, salt_val, pepper_val)
    extents = extents_of(data.shape, layouts[0], per_channel)
    return kernels.noise.salt_and_pepper(data, key.value, prob, salt_vs_pepper, values, extents, out)


@salt_and_pepper.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_shares(args.prob, args.salt_vs_pepper)
    spec = specs[0]
    values = salt_and_pepper_values(spec.dtype, args.salt_val, args.pepper_val)
    extents = extents_of(spec.shape, spec.layout, args.per_channel)
    return kernels.noise.salting(args.prob, args.salt_vs_pepper, values, extents)


def check_factor(factor: float) -> None:
    """Raises if the factor is negative."""
    if not factor >= 0:
        raise ValueError(f"factor must not be negative, got {factor}")


@operator(
    "noise.shot",
    compiled=True,
    gpu=True,
    infer="like data",
    dtypes="number",
    examples=["fn.noise.shot(image, factor=20.0)"],
)
def shot(
    data: Sample,
    /,
    *,
    factor: Arg[float] = default(
        12.0, "value of one count: a larger value makes more noise; 0 does not change the data"
    ),
    key: Any,
    out: Out,
) -> Sample:
    """Adds the noise of counted light: each value becomes a Poisson number with this mean, in units of ``factor``.

    Values that are not positive become 0; integers are limited to their range.
    """
    check_factor(factor)
    if not factor:
        out[...] = data
        return out
    return kernels.noise.shot(data, key.value, factor, out)


@shot.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_factor(args.factor)
    return (
        kernels.noise.shot_again(specs[0].dtype, args.factor) if args.factor and specs[0].dtype != np.float16 else None
    )


@salt_and_pepper.check
def _(args: Any) -> None:
    if args.prob is not UNKNOWN and args.salt_vs_pepper is not UNKNOWN:
        check_shares(args.prob, args.salt_vs_pepper)
