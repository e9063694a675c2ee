"""Resizing on the GPU, from the tap tables of the CPU: tiles in one pass, or one pass an axis."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.kernels.gpu import RESIZED, TYPE_CODES, TYPES, WORDS
from pipeflow.operators import resize
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by, move, whole
from pipeflow.operators.sampling import Axis, resize_axes, spatial_axes, taps_of

TILE_ROWS, TILE_FLOATS = 8, 6144  # as in resize_tiles.cu
TILE_WIDTHS = (64, 32, 16, 8, 4, 2, 1)
MOST = 1 << 31  # elements that the kernels count in 32 bits
FLOAT = np.dtype(np.float32)
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in RESIZED}

TILE_ROW = row_type(
    input="u8",
    output="u8",
    input_end="u8",
    y_starts="u8",
    x_starts="u8",
    y_weights="u8",
    x_weights="u8",
    input_plane="i8",
    output_plane="i8",
    input_row="i4",
    height="i4",
    width="i4",
    pixel="i4",
    y_taps="i4",
    x_taps="i4",
    tile_width="i4",
    tiles_x="i4",
    tiles_y="i4",
)
AXIS_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("starts", "u8"),
        ("weights", "u8"),
        ("extent", "i8"),
        ("inner", DIVIDER),
        ("result", DIVIDER),
        ("taps", "i4"),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)
PICK_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("rows", "u8"),
        ("columns", "u8"),
        ("input_plane", "i8"),
        ("input_row", "i8"),
        ("pixel", DIVIDER),
        ("width", DIVIDER),
        ("height", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)


class Plan(NamedTuple):
    """Extents of the axes before, of the resized axes (old and new), and of the axes after them; and their taps."""

    outer: int
    given: tuple[int, ...]
    wanted: tuple[int, ...]
    pixel: int
    taps: list[tuple[np.ndarray, np.ndarray]]


def plan_of(item: Item, axes: Sequence[Axis]) -> Plan:
    """The plan for an item with these descriptions of its spatial axes."""
    shape = item.input.shape
    first, count = spatial_axes(item.layouts[0])
    if not (item.input.size and item.outputs[0].size):
        raise ValueError(f"cannot resize an image of shape {shape} to {item.outputs[0].shape}: it has no pixels")
    wanted = tuple(axis.extent for axis in axes)
    pixel = math.prod(shape[first + count :])
    return Plan(math.prod(shape[:first]), shape[first : first + count], wanted, pixel, taps_of(axes, item.args))


def spatial(item: Item) -> tuple[tuple[int, ...], str]:
    """Extents and letters of the axes that are resized."""
    layout = item.layouts[0]
    first, count = spatial_axes(layout)
    return item.input.shape[first : first + count], layout[first : first + count]


@resize.resize.gpu_plan
def _(item: Item) -> Plan:
    return plan_of(item, resize_axes(*spatial(item), item.args))


@resize.resize_crop_mirror.gpu_plan
def _(item: Item) -> Plan:
    return plan_of(item, resize.cropped_axes(*spatial(item), item.args))


@resize.random_resized_crop.gpu_plan
def _(item: Item) -> Plan:
    return plan_of(item, resize.window_axes(spatial(item)[0], item.args.size, item.args.window))


@resize.resize.gpu
@resize.resize_crop_mirror.gpu
@resize.random_resized_crop.gpu
def _(call: DeviceCall) -> None:
    resized(call, [(item.input, item.output, item.plan) for item in call.items])
    if len(call.items[0].outputs) > 1:  # save_attrs
        boxes = []
        for item in call.items:
            sizes = item.outputs[1]
            boxes.append(whole(sizes._replace(address=call.upload(np.array(item.plan.given, np.int32))), sizes))
        move(call, boxes, 4)


class Work:
    """Rows for several kernels, launched together at the end of a pass."""

    def __init__(self, call: DeviceCall) -> None:
        self.call = call
        self._rows: dict[str, tuple[np.dtype, list[Any], list[int]]] = {}
        self._tables: dict[int, tuple[Any, int, int]] = {}

    def taps(self, table: tuple[np.ndarray, np.ndarray]) -> tuple[int, int]:
        """The addresses of starts and weights on the device; a table of many samples is uploaded once."""
        if id(table) not in self._tables:
            starts, weights = self.call.upload(table[0].astype(np.int32)), self.call.upload(table[1])
            self._tables[id(table)] = (table, starts, weights)  # the table is kept so that its id stays its own
        return self._tables[id(table)][1:]

    def add(self, kernel: str, layout: np.dtype, row: tuple[Any, ...], blocks: int) -> None:
        """One more row for a kernel."""
        _, rows, counts = self._rows.setdefault(kernel, (layout, [], []))
        rows.append(row)
        counts.append(blocks)

    def launch(self) -> None:
        """Queues the rows that were added since the last call."""
        for kernel, (layout, rows, counts) in self._rows.items():
            self.call.launch(kernel, np.array(rows, layout), counts)
        self._rows = {}


def resized(call: DeviceCall, several: Sequence[tuple[View, View, Plan]]) -> None:
    """Queues the resizes of arrays into others."""
    work = Work(call)
    left = []
    for source, target, plan in several:
        if len(plan.taps) == 3:  # the outermost axis first, as on the CPU
            depth, height, width = plan.given
            deep = call.scratch_view((plan.outer * plan.wanted[0] * height * width * plan.pixel,), FLOAT)
            add_axis(work, source, deep, plan.outer, depth, plan.wanted[0], height * width * plan.pixel, plan.taps[0])
            flat = Plan(plan.outer * plan.wanted[0], plan.given[1:], plan.wanted[1:], plan.pixel, plan.taps[1:])
            left.append((deep, target, flat))
        else:
            left.append((source, target, plan))
    work.launch()
    last = []
    for source, target, plan in left:
        (height, width), (tall, _) = plan.given, plan.wanted
        if source.dtype == target.dtype and plan.taps[0][1].shape[1] == plan.taps[1][1].shape[1] == 1:
            add_pick(work, source, target, plan)
        elif (source.dtype, target.dtype) in TUNED and (tile := tile_width(plan.taps[1], plan.pixel)):
            add_tiles(work, source, target, plan, tile)
        else:
            rows = call.scratch_view((plan.outer * tall * width * plan.pixel,), FLOAT)
            add_axis(work, source, rows, plan.outer, height, tall, width * plan.pixel, plan.taps[0])
            last.append((rows, target, plan))
    work.launch()
    for rows, target, plan in last:
        outer = plan.outer * plan.wanted[0]
        add_axis(work, rows, target, outer, plan.given[1], plan.wanted[1], plan.pixel, plan.taps[1])
    work.launch()


def tile_width(taps: tuple[np.ndarray, np.ndarray], pixel: int) -> int:
    """The widest tile whose blended rows fit into shared memory; 0 if not even those of one column do."""
    starts, weights = taps
    most = TILE_FLOATS // TILE_ROWS
    for width in TILE_WIDTHS:
        begin = starts[::width]
        end = starts[np.minimum(np.arange(width - 1, len(starts) + width - 1, width), len(starts) - 1)]
        span = (int(np.abs(end - begin[: len(end)]).max()) + weights.shape[1]) * pixel
        if ceil_div(span, 4) * 4 <= most:
            return width
    return 0


def add_tiles(work: Work, source: View, target: View, plan: Plan, tile: int) -> None:
    """One row of resize_tiles."""
    (height, width), (tall, wide) = plan.given, plan.wanted
    (y_starts, y_weights), (x_starts, x_weights) = work.taps(plan.taps[0]), work.taps(plan.taps[1])
    tiles_x, tiles_y = ceil_div(wide, tile), ceil_div(tall, TILE_ROWS)
    row = (
        source.address,
        target.address,
        source.address + source.nbytes,
        y_starts,
        x_starts,
        y_weights,
        x_weights,
        height * width * plan.pixel,
        tall * wide * plan.pixel,
        width * plan.pixel,
        tall,
        wide,
        plan.pixel,
        plan.taps[0][1].shape[1],
        plan.taps[1][1].shape[1],
        tile,
        tiles_x,
        tiles_y,
    )
    kernel = f"resize_tiles.cu:resize_tiles<{TYPES[source.dtype.name]}, {TYPES[target.dtype.name]}>"
    work.add(kernel, TILE_ROW, row, plan.outer * tiles_x * tiles_y)


def add_axis(
    work: Work,
    source: View,
    target: View,
    outer: int,
    extent: int,
    result: int,
    inner: int,
    taps: tuple[np.ndarray, np.ndarray],
) -> None:
    """One row of resize_axis."""
    total = outer * result * inner
    if total >= MOST:
        raise ValueError(f"the GPU resizes to fewer than 2**31 values at a time, got {total}")
    starts, weights = work.taps(taps)
    row = (
        source.address,
        target.address,
        starts,
        weights,
        extent,
        divide_by(inner),
        divide_by(result),
        taps[1].shape[1],
        total,
        TYPE_CODES[source.dtype],
        TYPE_CODES[target.dtype],
    )
    read = "double" if source.dtype == np.float64 else "float"
    work.add(f"resize.cu:resize_axis<{read}>", AXIS_ROW, row, ceil_div(total, 1024))


def add_pick(work: Work, source: View, target: View, plan: Plan) -> None:
    """One row of pick."""
    (height, width), (tall, wide) = plan.given, plan.wanted
    if target.size >= MOST:
        raise ValueError(f"the GPU resizes to fewer than 2**31 values at a time, got {target.size}")
    rows, columns = work.taps(plan.taps[0])[0], work.taps(plan.taps[1])[0]
    row = (
        source.address,
        target.address,
        rows,
        columns,
        height * width * plan.pixel,
        width * plan.pixel,
        divide_by(plan.pixel),
        divide_by(wide),
        divide_by(tall),
        target.size,
    )
    work.add(f"resize.cu:pick<{WORDS[source.dtype.itemsize]}>", PICK_ROW, row, ceil_div(target.size, 1024))
