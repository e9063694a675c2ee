"""Cutting, mirroring and padding on the GPU: boxes that are moved."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeflow.declare import Spec, all_of
from pipeflow.device.calls import DeviceCall, Item, View
from pipeflow.device.tables import ArrayColumn, TableCall
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import geometry, padding
from pipeflow.operators.axes import spatial
from pipeflow.operators.crop_tables import CUTS_LOAD
from pipeflow.operators.on_gpu.elementwise import cast_columns, cast_views
from pipeflow.operators.on_gpu.moves import (
    MOVES_LOAD,
    Box,
    DeviceTables,
    around,
    borders,
    box_of,
    filling,
    move,
    move_columns,
    parts,
)
from pipeflow.operators.windows import Cut, fill_table, place_cut

# ----------------------------------------------------------------------------------------------------
# crop and slice


class FilledCut(NamedTuple):
    """A cut, and the fill values for the part of it that is outside the data."""

    cut: Cut
    values: np.ndarray
    channel: int


def window_of(item: Item, axes: Sequence[int], anchors: Sequence[int], sizes: Sequence[int]) -> FilledCut:
    """The window of an item."""
    shape, layout, args = item.input.shape, item.layouts[0], item.args
    place = place_cut(shape, axes, anchors, sizes, args.out_of_bounds_policy)
    channel = layout.find("C")
    dtype = args.dtype or item.input.dtype
    values = fill_table(args.fill_values, dtype, shape, channel) if place.outside else np.zeros(1, dtype)
    return FilledCut(place, values, channel)


@geometry.crop.gpu_plan
def _(item: Item) -> FilledCut:
    return window_of(item, *geometry.crop_window(item.input.shape, item.layouts[0], item.args))


@geometry.slice.gpu_plan
def _(item: Item) -> FilledCut:
    anchor, shape, *_ = (*item.numbers, None, None)
    return window_of(item, *geometry.slice_window(item.input.shape, item.layouts[0], anchor, shape, item.args))


@geometry.slice.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    return [(Spec(x.plan.cut.shape, x.args.dtype or x.input.dtype, x.layouts[0]),) for x in items]


@geometry.crop.gpu
@geometry.slice.gpu
def _(call: DeviceCall) -> None:
    cut_windows(call)


@geometry.crop.gpu_table
@geometry.slice.gpu_table
def _(call: TableCall) -> None:
    source, target, table = call.input, call.output, call.table
    fills = []
    if (table["extents"] != target.shapes).any():
        channel = call.layout.find("C")
        values = fill_table(call.args.fill_values, target.dtype, target.shapes[0], channel)
        fills = borders(call, target, table["place"], table["extents"], values, channel)
    if target.dtype == source.dtype:
        move_columns(call, [parts(source, target, table), *fills], source.dtype.itemsize)
        return
    addresses = call.scratch_each(target.sizes * source.dtype.itemsize)
    cut = ArrayColumn(addresses, target.shapes, source.dtype)
    move_columns(call, [parts(source, cut, table)], source.dtype.itemsize)
    cast_columns(call, cut, target)
    move_columns(call, fills, target.dtype.itemsize)


def cut_windows(call: DeviceCall) -> None:
    """Moves the windows of all items, through scratch memory if the type changes; then the part outside the data is filled."""
    tables = DeviceTables(call)
    boxes: list[Box] = []
    fills: list[Box] = []
    casts: list[tuple[View, View]] = []
    for item in call.items:
        target, (place, values, channel) = item.output, item.plan
        if target.dtype != item.input.dtype:
            target = call.scratch_view(target.shape, item.input.dtype)
            casts.append((target, item.output))
        boxes.append(box_of(item.input, target, place.extents, place.low, place.offset))
        if place.outside:
            table = tables.address(values)
            for begin, extents in around(target.shape, place.offset, place.extents):
                fills.append(filling(table, values.size, item.output, extents, begin, channel))
    size = call.items[0].input.dtype.itemsize
    move(call, boxes if casts else boxes + fills, size)
    if casts:
        cast_views(call, casts)
        move(call, fills, call.items[0].output.dtype.itemsize)


# ----------------------------------------------------------------------------------------------------
# flip


@geometry.flip.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        layout, args, shape = item.layouts[0], item.args, item.input.shape
        *_, height, width = spatial(layout)
        turned = [
            (args.horizontal and axis == width) or (args.vertical and axis == height) for axis in range(len(shape))
        ]
        if "D" in layout:
            turned[layout.index("D")] = args.depthwise
        boxes.append(mirrored(box_of(item.input, item.output), turned))
    move(call, boxes, call.items[0].input.dtype.itemsize)


geometry.slice.rows_load = geometry.flip.rows_load = MOVES_LOAD
geometry.crop.rows_load = all_of(MOVES_LOAD, CUTS_LOAD)


@geometry.flip.gpu_table
def _(call: TableCall) -> None:
    move_columns(call, [parts(call.input, call.output, call.table)], call.input.dtype.itemsize)


def mirrored(box: Box, turned: Sequence[bool]) -> Box:
    """The box, but read from the other end along some axes."""
    start = box.input
    for extent, stride, turn in zip(box.extents, box.inputs, turned, strict=True):
        start += (extent - 1) * stride if turn else 0
    return box._replace(input=start, inputs=tuple(-s if turn else s for s, turn in zip(box.inputs, turned)))


@geometry.rotate90.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        times, axes = item.args.times % 4, len(item.input.shape)
        box = box_of(item.input, item.output, item.input.shape)
        if times % 2:  # the rows of the image are columns of the result
            box = box._replace(outputs=(box.outputs[1], box.outputs[0], *box.outputs[2:]))
        turned = [times > 1, times in (1, 2)] + [False] * (axes - 2)
        boxes.append(mirrored(box, turned))
    move(call, boxes, call.items[0].input.dtype.itemsize)


# ----------------------------------------------------------------------------------------------------
# pad and erase


@geometry.pad.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    shapes = [item.input.shape for item in items]
    result = []
    for item in items:
        args, layout = item.args, item.layouts[0]
        shape = padding.padded_shape(
            item.input.shape, shapes, args.axes, args.axis_names, args.shape, args.align, layout
        )
        result.append((Spec(shape, item.input.dtype, layout),))
    return result


@geometry.pad.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    boxes: list[Box] = []
    for item in call.items:
        source, target = item.input, item.output
        boxes.append(box_of(source, target))
        if source.shape != target.shape:
            value = kernels.casting.as_fill(item.args.fill_value, target.dtype)
            table = tables.address(value)
            for begin, extents in around(target.shape, [0] * len(target.shape), source.shape):
                boxes.append(filling(table, 1, target, extents, begin, -1))
    move(call, boxes, call.items[0].input.dtype.itemsize)
