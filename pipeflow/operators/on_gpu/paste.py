"""Puts images into other images, or hides parts of them, on the GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Spec
from pipeflow.device.calls import DeviceCall, Item, View, ceil_div
from pipeflow.kernels.gpu import WORDS
from pipeflow.operators import paste
from pipeflow.operators.on_gpu.elementwise import cast_views
from pipeflow.operators.on_gpu.moves import DIVIDER, Box, DeviceTables, around, box_of, divide_by, filling, move
from pipeflow.operators.windows import fill_table

GRID_ROW = np.dtype(
    [
        ("input", "u8"), ("output", "u8"), ("cos", "f8"), ("sin", "f8"), ("shift_x", "f8"), ("shift_y", "f8"),
        ("ratio", "f8"), ("columns", DIVIDER), ("pixel", DIVIDER), ("total", "u4"),
    ], align=True,
)  # fmt: skip


@paste.paste.gpu_plan
def _(item: Item) -> Any:
    return paste.canvas_of(item.input.shape, item.args)


@paste.paste.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    boxes: list[Box] = []
    for item in call.items:
        source, target = item.input, item.output
        _, start = item.plan
        values = fill_table(item.args.fill_value, source.dtype, source.shape, 2)
        boxes.append(box_of(source, target, source.shape, to=[*start, 0]))
        for begin, extents in around(target.shape, [*start, 0], source.shape):
            boxes.append(filling(tables.address(values), values.size, target, extents, begin, 2))
    move(call, boxes, call.items[0].input.dtype.itemsize)


@paste.multi_paste.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    found = []
    for number, item in enumerate(items):
        regions, canvas = regions_of(items, number)
        shapes = [view.shape for view in pool_of(items, number)]
        channels = paste.check_channels(regions, [shape[-1] for shape in shapes])
        shape = (*item.input.shape[:-3], *canvas, channels)
        found.append((Spec(shape, item.args.dtype or item.input.dtype, item.layouts[0]),))
    return found


def pool_of(items: Sequence[Item], number: int) -> list[View]:
    """The images that the parts of one canvas come from."""
    if items[number].args.in_ids is not None:
        return [item.input for item in items]
    return list(items[number].inputs)


def regions_of(items: Sequence[Item], number: int) -> tuple[list[paste.PastedRegion], tuple[int, int]]:
    """The parts of one canvas, and its extents."""
    item = items[number]
    canvas = paste.canvas_shape(item.args, item.input.shape)
    sizes = [paste.height_width(view.shape) for view in pool_of(items, number)]
    return paste.regions_of(item.args, sizes, canvas, len(item.inputs)), canvas


@paste.multi_paste.gpu
def _(call: DeviceCall) -> None:
    items = call.items
    dtype = items[0].input.dtype
    tables = DeviceTables(call)
    zero = tables.address(np.zeros(1, dtype))
    targets = [item.output for item in items]
    if targets[0].dtype != dtype:
        targets = [call.scratch_view(view.shape, dtype) for view in targets]
    layers: list[list[Box]] = [[filling(zero, 1, view, view.shape, [0] * len(view.shape), -1) for view in targets]]
    for number, target in enumerate(targets):
        pool = pool_of(items, number)
        # Parts may overlap: each part is moved after the parts that it covers.
        for depth, region in enumerate(regions_of(items, number)[0], 1):
            if len(layers) <= depth:
                layers.append([])
            source = pool[region.source]
            outer = len(source.shape) - 3
            extents = [*source.shape[:outer], *region.extents, source.shape[-1]]
            at, to = ([0] * outer + [*place, 0] for place in (region.start, region.corner))
            layers[depth].append(box_of(source, target, extents, at, to))
    for boxes in layers:
        move(call, boxes, dtype.itemsize)
    if targets[0].dtype != items[0].output.dtype:
        cast_views(call, [(view, item.output) for view, item in zip(targets, items, strict=True)])


@paste.grid_mask.gpu_plan
def _(item: Item) -> tuple[float, float, float, float]:
    if item.args.tile < 1:
        raise ValueError(f"tile must be at least 1, got {item.args.tile}")
    if item.outputs[0].size >= 1 << 31:
        raise ValueError(f"the result has {item.outputs[0].size} values; the GPU form makes fewer than 2**31")
    return paste.grid_steps(item.args.tile, item.args.angle, item.args.shift_x, item.args.shift_y)


@paste.grid_mask.gpu
def _(call: DeviceCall) -> None:
    rows = []
    for item in call.items:
        shape, layout = item.input.shape, item.layouts[0]
        pixel = shape[2] if layout == "HWC" else 1
        planes = shape[0] if layout == "CHW" else 1
        each = item.input.size // max(planes, 1)
        if not each:
            continue
        width = shape[layout.index("W")]
        step = each * item.input.dtype.itemsize
        grid = (*item.plan, item.args.ratio, divide_by(width), divide_by(pixel), each)
        starts = (plane * step for plane in range(planes))
        rows += [(item.input.address + start, item.output.address + start, *grid) for start in starts]
    table = np.array(rows, GRID_ROW)
    word = WORDS[call.items[0].input.dtype.itemsize]
    call.launch(f"masking.cu:mask_squares<{word}>", table, [ceil_div(int(total), 1024) for total in table["total"]])
