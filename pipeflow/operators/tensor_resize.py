"""Resizing along any axes of any data: tensor_resize.

A resize is described by a `sampling.Axis` for each axis. Neighbouring axes are resampled together, the others one by one.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import (
    DTYPE,
    UNKNOWN,
    Arg,
    Args,
    Floats,
    Ints,
    Layout,
    Out,
    Sample,
    Spec,
    UnknownValue,
    operator,
    parameters,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.resize import IGNORED, MODES
from pipeflow.operators.sampling import FILTERS, LEAST, REGION, Axis, clamped, output_sizes, region, taps_of, unlimited

ROUNDINGS = {"round": lambda x: math.floor(x + 0.5), "truncate": math.floor, "ceil": math.ceil}
FLOAT = np.dtype(np.float32)
SIZES = parameters(
    sizes=(Arg[Floats], None, "extents of the result along the axes; 0 keeps the ratio, negative ones mirror"),
    scales=(Arg[Floats], None, "factors of the extents, instead of sizes; negative ones mirror"),
    axes=(Ints, None, "axes of the values, by number; default: all"),
    axis_names=(Layout, None, "the same axes by their letters in the layout"),
    mode=(
        str,
        "default",
        "meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), "
        "`not_larger` or `not_smaller` (limits, with the ratio kept)",
    ),
    max_size=(Floats, None, "limit of the extents of the result: one number, or one for each axis"),
    size_rounding=(str, "round", "rounding of extents to whole numbers: `round`, `truncate` or `ceil`"),
    subpixel_scale=(
        bool,
        True,
        "move the ends of the region by the fraction that rounding takes off the result, so that the scale is exact",
    ),
    alignment=(Arg[Floats], (0.5,), "the point of the region that does not move in this: 0 its start, 1 its end"),
)


def spread(values: Sequence[float], count: int, name: str) -> list[float]:
    """One value for each axis; a single value is for all axes."""
    if len(values) not in (1, count):
        raise ValueError(f"{name} has {len(values)} values for {count} axes")
    return list(values) * count if len(values) == 1 else list(values)


def axes_to_resize(shape: Sequence[int], layout: str, args: Any) -> list[tuple[int, Axis]]:
    """The axes that are resized, in their order, and how."""
    if not shape:
        raise ValueError("a single number has no axes to resize")
    chosen = axes_of(layout, len(shape), args.axes, args.axis_names)
    extents = [shape[axis] for axis in chosen]
    bounds = region(extents, args)
    used = [max(abs(high - low), LEAST) for low, high in bounds]
    if args.sizes is not None:
        wanted = spread(args.sizes, len(chosen), "sizes")
    else:
        wanted = [scale * extent for scale, extent in zip(spread(args.scales, len(chosen), "scales"), extents)]
    limits = unlimited(spread(args.max_size, len(chosen), "max_size")) if args.max_size else []
    sizes = output_sizes(used, wanted, args.mode, limits)
    places = spread(args.alignment, len(chosen), "alignment")
    found = []
    for axis, extent, (low, high), size, place in zip(chosen, extents, bounds, sizes, places, strict=True):
        full = max(1, int(ROUNDINGS[args.size_rounding](abs(size))))
        if size < 0:
            low, high = high, low
        if args.subpixel_scale and full != abs(size):
            middle, length = low + place * (high - low), (high - low) * full / abs(size)
            low, high = middle - place * length, middle + (1 - place) * length
        found.append((axis, Axis(extent, *clamped(low, high, extent), full)))
    return sorted(found, key=lambda one: one[0])


class AxisPass(NamedTuple):
    """One or two neighbouring axes of data, as (outer, *given, pixel) to (outer, *wanted, pixel)."""

    outer: int
    given: tuple[int, ...]
    wanted: tuple[int, ...]
    pixel: int
    axes: tuple[Axis, ...]


def passes(shape: Sequence[int], chosen: Sequence[tuple[int, Axis]], together: int) -> list[AxisPass]:
    """The passes over the axes that change; a pass has at most ``together`` neighbouring axes."""
    left = [(axis, one) for axis, one in chosen if (one.low, one.high, one.full) != (0, one.size, one.size)]
    now, found = list(shape), []
    while left:
        count = 2 if together > 1 and len(left) > 1 and left[1][0] == left[0][0] + 1 else 1
        part, left = left[:count], left[count:]
        first, last = part[0][0], part[-1][0] + 1
        given = tuple(now[first:last])
        for axis, one in part:
            now[axis] = one.full
        wanted = tuple(now[first:last])
        found.append(
            AxisPass(math.prod(now[:first]), given, wanted, math.prod(now[last:]), tuple(one for _, one in part))
        )
    return found


@operator(
    "tensor_resize",
    compiled=True,
    takes=SIZES | FILTERS | REGION | DTYPE,
    gpu=True,
    no_effect=IGNORED,
    examples=["fn.tensor_resize(array, sizes=(6, 2))", "fn.tensor_resize(image, scales=(0.5,), axes=(1,))"],
)
def tensor_resize(data: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Resizes data along any of its axes.

    Sums are float32 for every type.
    """
    chosen = axes_to_resize(data.shape, layouts[0], args)
    if not data.size:
        raise ValueError(f"the data has no elements: shape {data.shape}")
    if callable(out):
        out = out(resized_shape(data.shape, chosen), args.dtype or data.dtype)
    steps = passes(data.shape, chosen, 2)
    if not steps:
        out[...] = kernels.casting.as_type(data, out.dtype)
    source = data
    for number, step in enumerate(steps):
        tables = taps_of(step.axes, args)
        copied = source.dtype == out.dtype and all(weights.shape[1] == 1 for _, weights in tables)
        last = number == len(steps) - 1
        shape = (step.outer, *step.wanted, step.pixel)
        target = out.reshape(shape) if last else np.empty(shape, source.dtype if copied else FLOAT)
        given, wanted, both = with_neighbour(step, tables)
        kernels.resample.resample_any(source.reshape(given), 1, both, target.reshape(wanted))
        source = target
    return out


@tensor_resize.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape = specs[0].shape
    steps = passes(shape, axes_to_resize(shape, specs[0].layout, args), 2)
    if len(steps) != 1 or 0 in shape:
        return None
    (step,), work = steps, kernels.resample.resample_any
    given, wanted, tables = with_neighbour(step, taps_of(step.axes, args))
    dtype = specs[0].dtype
    short = kernels.resample.resampling(given[1:], wanted[1:], dtype, args.dtype or dtype, tables)
    if short is not None and given[0] == 1:
        return short

    def each(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        assert short is not None
        for image, result in zip(data.reshape(given), out.reshape(wanted)):
            short(image, result)
        return out

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        work(data.reshape(given), 1, tables, out.reshape(wanted))
        return out

    return run if short is None else each


def with_neighbour(step: AxisPass, tables: list[Any]) -> tuple[Any, Any, list[Any]]:
    """The extents of a pass before and after it, and the tables of two axes: a single axis gets a neighbour that stays."""
    given, wanted = (step.outer, *step.given, step.pixel), (step.outer, *step.wanted, step.pixel)
    if len(tables) == 2:
        return given, wanted, tables
    outer, pixel, (starts, weights) = step.outer, step.pixel, tables[0]
    before = pixel == 1 or (outer > 1 and pixel <= FEW_CHANNELS)  # one call for an image: not one for each of its rows
    count = outer if before else 1
    same = np.arange(count, dtype=starts.dtype), np.ones((count, 1), weights.dtype)
    if before:
        return (1, outer, *step.given, pixel), (1, outer, *step.wanted, pixel), [same, *tables]
    return (outer, *step.given, 1, pixel), (outer, *step.wanted, 1, pixel), [*tables, same]


FEW_CHANNELS = 4


def resized_shape(shape: Sequence[int], chosen: Sequence[tuple[int, Axis]]) -> tuple[int, ...]:
    """The extents of the result."""
    extents = list(shape)
    for axis, one in chosen:
        extents[axis] = one.full
    return tuple(extents)


@tensor_resize.check
def _(args: Any) -> None:
    if (args.sizes is None) == (args.scales is None):
        raise ValueError("give either sizes or scales")
    if args.scales is not None and args.mode.startswith("not_"):
        raise ValueError(f"scales exclude mode={args.mode!r}, which is for sizes")
    if args.axes is not None and args.axis_names is not None:
        raise ValueError("axes and axis_names exclude each other: give one of them")
    if args.mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {args.mode!r}")
    if args.size_rounding not in ROUNDINGS:
        raise ValueError(f"size_rounding must be one of {', '.join(ROUNDINGS)}, got {args.size_rounding!r}")


@tensor_resize.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    dtype = args.dtype or spec.dtype
    if spec.shape is UNKNOWN or spec.layout is None:
        return Spec(None, dtype, spec.layout)
    try:
        return Spec(resized_shape(spec.shape, axes_to_resize(spec.shape, spec.layout, args)), dtype, spec.layout)
    except UnknownValue:
        return Spec((UNKNOWN,) * len(spec.shape), dtype, spec.layout)
