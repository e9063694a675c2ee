"""Overwriting rectangles: erase."""

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from operator import index as operator_index
from typing import Any

import numpy as np

from pipeflow.declare import (
    Arg,
    Args,
    Floats,
    Ints,
    KernelCalls,
    Layout,
    Out,
    Sample,
    Spec,
    operator,
    parameters,
    require,
)
from pipeflow.errors import WrongShape
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.geometry_calls import AXES, erased_calls
from pipeflow.operators.windows import single

PAGE = """Overwriting rectangles of images and other data with a value.
"""


ERASE = parameters(
    anchor=(Arg[Floats], (), "start of each rectangle, along each of the axes"),
    shape=(Arg[Floats], (), "extents of each rectangle, along each of the axes"),
    axes=(Ints, None, "axes of the rectangles, by number; default: height and width"),
    axis_names=(Layout | None, None, "the same axes by their letters in the layout"),
    fill_value=(Arg[Floats], (0.0,), "value that is written: one number, or one for each channel"),
    normalized=(bool, False, "anchor and shape are shares of the extents; False: elements"),
    normalized_anchor=(bool, False, "the anchor is a share of the extents; False: in elements"),
    normalized_shape=(bool, False, "the shape is a share of the extents; False: in elements"),
    centered_anchor=(bool, False, "the anchor is the middle of the rectangle; False: its beginning"),
)


@operator(
    "erase",
    compiled=True,
    takes=ERASE,
    infer="like data",
    sequences=True,
    gpu=True,
    examples=["fn.erase(image, anchor=(5.0, 8.0), shape=(10.0, 12.0), fill_value=7)"],
)
def erase(data: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Overwrites rectangles with a value, or one value for each channel.

    ``anchor`` and ``shape`` hold one rectangle after another, each in the order of ``axis_names``, else of ``axes``, else
    height and width.
    """
    values, boxes = erased(data.shape, data.dtype, layouts[0], args)
    np.copyto(out, data)
    if values.size == 1:
        for low, high in boxes:
            out[tuple(map(slice, low, high))] = values[0]
        return out
    channel = erased_channel(layouts[0], data.ndim)
    values = values.reshape([-1 if axis == channel else 1 for axis in range(data.ndim)])
    for low, high in boxes:
        place = tuple(map(slice, low, high))
        own = [place[axis] if axis == channel else np.s_[:] for axis in range(data.ndim)]
        out[place] = values[tuple(own)]
    return out


@erase.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    spec = specs[0]
    values, boxes = erased(spec.shape, spec.dtype, spec.layout, args)
    if values.size > 1:
        return None
    places = [tuple(map(slice, low, high)) for low, high in boxes]
    value = values[0]

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        np.copyto(out, data)
        for place in places:
            out[place] = value
        return out

    return run


@erase.calls
def _(calls: KernelCalls) -> None:
    args, data, layout = calls.args, calls.input, calls.layouts[0]
    ndim = len(data.extents)
    chosen, channel = erased_axes(layout, ndim, args), erased_channel(layout, ndim)
    fill = kernels.casting.as_fill(args.fill_value or (0.0,), data.dtype)
    pixel = channel == ndim - 1 and channel not in chosen
    require(fill.size == 1 or pixel)
    if pixel:  # elements are whole pixels
        channels = operator_index(data.extents[-1])
        require(fill.size in (1, channels))
        fill = np.broadcast_to(fill, channels)
    begin = AXES - ndim + pixel

    def rectangles(args: Args, count: int) -> np.ndarray:
        sizes = np.asarray(args.shape, np.float64)
        anchors = np.asarray(args.anchor, np.float64) if len(args.anchor) else np.zeros_like(sizes)
        regions = sizes.shape[-1] // len(chosen)
        require(regions * len(chosen) == sizes.shape[-1] == anchors.shape[-1] and regions)
        require(np.isfinite(sizes).all() and np.isfinite(anchors).all())
        table = np.full((count, regions, AXES, 2), np.nan)
        places = [begin + axis for axis in chosen]
        for number, values in enumerate((anchors, sizes)):
            table[:, :, places, number] = np.clip(values, -1e30, 1e30).reshape(-1, regions, len(chosen))
        return table

    shares = args.normalized or args.normalized_anchor, args.normalized or args.normalized_shape, args.centered_anchor
    erased_calls(calls, rectangles, shares, fill, pixel)


erase.varying("anchor", "shape")
erase.loads(lambda _args, _dtype: kernels.later.load_if_waiting(kernels.parts.erasing()))


def erased_axes(layout: str, ndim: int, args: Any) -> list[int]:
    """The axes of the rectangles, by default all but the channels; data of two or three axes without a layout is HW or HWC."""
    if args.axis_names or args.axes:
        return axes_of(layout, ndim, None if args.axis_names else args.axes, args.axis_names or None)
    known = layout or {2: "HW", 3: "HWC"}.get(ndim, "")
    chosen = [axis for axis, letter in enumerate(known) if letter != "C"]
    if not chosen:
        raise WrongShape(f"give axes or axis_names: the layout {layout!r} of data with {ndim} axes does not say which")
    return chosen


def erased_channel(layout: str, ndim: int) -> int:
    """The axis along which fill values may differ."""
    return layout.find("C") if layout else ndim - 1


_erase = attrgetter(*ERASE)
Boxes = list[tuple[list[int], list[int]]]


def erased(shape: Sequence[int], dtype: np.dtype, layout: str, args: Any) -> tuple[np.ndarray, Boxes]:
    """The fill values (one, or one for each channel), and the start and the end of every rectangle along all axes."""
    return _erased(tuple(shape), dtype, layout, _erase(args))


@lru_cache(maxsize=256)
def _erased(
    shape: tuple[int, ...], dtype: np.dtype, layout: str, given_values: tuple[Any, ...]
) -> tuple[np.ndarray, Boxes]:
    args = Args(**dict(zip(ERASE, given_values, strict=True)))
    ndim = len(shape)
    chosen = erased_axes(layout, ndim, args)
    regions = len(args.shape) // len(chosen)
    anchors = list(args.anchor or (0.0,) * len(args.shape))
    shapes = list(args.shape)
    if len(shapes) != regions * len(chosen) or len(shapes) != len(anchors):
        given = f"anchor has {len(args.anchor)} and shape {len(args.shape)} values"
        raise WrongShape(f"{given}; both need {len(chosen)} for each rectangle")
    channel = erased_channel(layout, ndim)
    values = kernels.casting.as_fill(args.fill_value or (0.0,), dtype)
    if values.size > 1 and (channel < 0 or values.size != shape[channel]):
        count = shape[channel] if channel >= 0 else "no"
        raise WrongShape(f"fill_value has {values.size} values for {count} channels (layout {layout!r})")
    boxes = []
    for region in range(regions):
        first, last = [0] * ndim, list(shape)
        for i, axis in enumerate(chosen):
            extent = shape[axis]
            low, size = single(anchors[region * len(chosen) + i]), single(shapes[region * len(chosen) + i])
            low *= single(extent if args.normalized or args.normalized_anchor else 1)
            size *= single(extent if args.normalized or args.normalized_shape else 1)
            low -= size / single(2) if args.centered_anchor else single(0)
            begin, end = math.floor(low), math.floor(low + size)
            first[axis], last[axis] = min(max(begin, 0), extent), min(max(end, 0), extent)
        boxes.append((first, last))
    return values, boxes
