"""Moves boxes of elements: the GPU form of crops, slices, flips, transposes and joins.

A box has extents, and an address and strides in the input and in the output. Axes that follow one another in both are joined. If
enough bytes are next to one another in both, they are moved as runs, sixteen bytes by each thread; else element by element.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device import tables
from pipeflow.device.calls import DeviceCall, Launcher, View, ceil_div, row_type
from pipeflow.device.tables import ArrayColumn
from pipeflow.kernels.gpu import WORDS
from pipeflow.operators.on_gpu.transposes import transpose_of

AXES = 6
MOVE_ROW = row_type(
    input="u8",
    output="u8",
    input_end="u8",
    total="u4",
    run="u4",
    ndim="i4",
    extents="6u4",
    multipliers="6u4",
    shifts="6i4",
    inputs="6i8",
    outputs="6i8",
)
SHORTEST_RUN = 48  # bytes
PIXEL = 3  # bytes of an element of move<Three>
CELL = 16  # bytes that a thread of move_runs fills
MOST = 1 << 28  # elements of one row: the kernels count in 32 bits, runs in bytes


DIVIDER = row_type(extent="u4", multiplier="u4", shift="i4")


class Box(NamedTuple):
    """Elements to move: addresses of the first one, extents, and strides in bytes, outermost first."""

    input: int
    output: int
    extents: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_end: int  # the end of the memory of the input


@lru_cache(maxsize=4096)
def strides_of(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a C-contiguous array."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def box_of(
    source: View, target: View, extents: Sequence[int] | None = None, at: Sequence[int] = (), to: Sequence[int] = ()
) -> Box:
    """A box of one array, from place ``at``, that is moved to place ``to`` of another array with as many axes; by default the
    whole.
    """
    size = source.dtype.itemsize
    inputs, outputs = strides_of(source.shape, size), strides_of(target.shape, size)
    start = source.address + sum(place * stride for place, stride in zip(at, inputs))
    goal = target.address + sum(place * stride for place, stride in zip(to, outputs))
    extents = source.shape if extents is None else extents
    return Box(start, goal, tuple(extents), inputs, outputs, source.address + source.nbytes)


def whole(source: View, target: View) -> Box:
    """The box of a whole array."""
    step = (source.dtype.itemsize,)
    return Box(source.address, target.address, (source.size,), step, step, source.address + source.nbytes)


def filling(table: int, values: int, target: View, extents: Sequence[int], to: Sequence[int], channel: int) -> Box:
    """A box of the target that is filled from a table in device memory: with its only entry, or with one for each channel."""
    size = target.dtype.itemsize
    outputs = strides_of(target.shape, size)
    goal = target.address + sum(place * stride for place, stride in zip(to, outputs))
    inputs = [0] * len(target.shape)
    start = table
    if values > 1:
        inputs[channel] = size
        start += to[channel] * size
    return Box(start, goal, tuple(extents), tuple(inputs), outputs, table + values * size)


def around(shape: Sequence[int], low: Sequence[int], extents: Sequence[int]) -> Iterable[tuple[list[int], list[int]]]:
    """The part of an array outside a box in it, as the places and extents of boxes that do not overlap."""
    place, extent = [0] * len(shape), list(shape)
    if not all(extents):
        yield place, extent
        return
    for axis, (begin, size) in enumerate(zip(low, extents)):
        for start, stop in ((0, begin), (begin + size, shape[axis])):
            if stop > start:
                yield [*place[:axis], start, *place[axis + 1 :]], [*extent[:axis], stop - start, *extent[axis + 1 :]]
        place[axis], extent[axis] = begin, size


@lru_cache(maxsize=4096)
def divider(extent: int) -> tuple[int, int]:
    """Multiplier and shift that divide a number below 2**31 by the extent."""
    shift = (extent - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - extent) // extent + 1) & 0xFFFFFFFF, shift


def divide_by(extent: int) -> tuple[int, int, int]:
    """The Divider of divide.cuh."""
    return (extent, *divider(extent))


def joined(extents: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> list[tuple[int, int, int]]:
    """The axes of a box (extent, input stride, output stride), outermost first, joined to as few as possible."""
    axes: list[tuple[int, int, int]] = []
    for extent, source, target in zip(extents, inputs, outputs, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == source * extent and axes[-1][2] == target * extent:
            axes[-1] = (axes[-1][0] * extent, source, target)
        else:
            axes.append((extent, source, target))
    return axes


def split(box: Box, most: int) -> Iterable[Box]:
    """The box, or parts of it along its outermost axis that have no more than `most` elements each."""
    total = 1
    for extent in box.extents:
        total *= extent
    if total <= most:
        yield box
        return
    axis = next(axis for axis, extent in enumerate(box.extents) if extent > 1)
    step = max(1, box.extents[axis] * most // total)
    for begin in range(0, box.extents[axis], step):
        part = min(step, box.extents[axis] - begin)
        inner = box._replace(
            input=box.input + begin * box.inputs[axis],
            output=box.output + begin * box.outputs[axis],
            extents=(*box.extents[:axis], part, *box.extents[axis + 1 :]),
        )
        yield from split(inner, most)


def move(call: DeviceCall, boxes: Iterable[Box], itemsize: int) -> None:
    """Queues the moves of all boxes: one launch for those of long runs, one for the others."""
    rows: dict[str, list[Any]] = {}
    blocks: dict[str, list[int]] = {}
    for large in boxes:
        if not all(large.extents):
            continue
        for box in split(large, MOST):
            kernel, row, count = row_of(box, itemsize)
            rows.setdefault(kernel, []).append(row)
            blocks.setdefault(kernel, []).append(count)
    for kernel, several in rows.items():
        call.launch(kernel, np.array(several, MOVE_ROW), blocks[kernel])


def row_of(box: Box, itemsize: int) -> tuple[str, tuple[Any, ...], int]:
    """The kernel for a box, its row and the number of blocks."""
    kernel, row, blocks = form_of(box.extents, box.inputs, box.outputs, itemsize)
    return kernel, (box.input, box.output, box.input_end, *row), blocks


def _whole_pixels(axes: Sequence[tuple[int, int, int]]) -> bool:
    """True if the strides of the axes are multiples of a pixel of three bytes."""
    return bool(axes) and all(source % PIXEL == target % PIXEL == 0 for _, source, target in axes)


@lru_cache(maxsize=4096)
def form_of(
    extents: tuple[int, ...], inputs: tuple[int, ...], outputs: tuple[int, ...], itemsize: int
) -> tuple[str, tuple[Any, ...], int]:
    """The kernel for boxes of this form, the fields of their rows after the addresses, and the number of blocks."""
    axes = joined(extents, inputs, outputs)
    if not axes:
        axes = [(1, itemsize, itemsize)]
    run = axes[-1][0] * itemsize if axes[-1][1] == axes[-1][2] == itemsize else 0
    if run >= SHORTEST_RUN or (run and len(axes) == 1):
        cells = (run + 2 * CELL - 2) // CELL
        counted = [(cells, 0, 0), *axes[-2::-1]]
        row, total = _fields(counted, 1, run)
        return f"move.cu:move_runs<{WORDS[1]}>", row, ceil_div(total, 1024)
    unit, name = itemsize, WORDS[itemsize]
    if itemsize == 1 and axes[-1] == (PIXEL, 1, 1) and _whole_pixels(axes[:-1]):
        axes, unit, name = axes[:-1], PIXEL, "Three"
    crossed = transpose_of(axes, unit, name)
    if crossed is not None:
        row, _ = _fields(crossed.axes, unit, 0, crossed.blocks)
        outer = prod(extent for extent, _, _ in crossed.axes[2:])
        return f"transpose.cu:{crossed.kernel}", row, prod(crossed.blocks) * outer
    row, total = _fields(axes[::-1], unit, 0)
    return f"move.cu:move<{name}>", row, ceil_div(total, 2048)


def _fields(
    counted: Sequence[tuple[int, int, int]], unit: int, run: int, blocks: tuple[int, ...] = ()
) -> tuple[tuple[Any, ...], int]:
    """The fields of a row after the addresses, for these axes, innermost first; and the number of elements.

    The dividers of the first axes are for ``blocks`` and not for their extents.
    """
    if len(counted) > AXES:
        raise ValueError(
            f"the GPU moves data of at most {AXES} axes that do not follow one another, got {len(counted)}"
        )
    extents = tuple(extent for extent, _, _ in counted)
    total = prod(extents)
    spare = (0,) * (AXES - len(counted))
    ones = (1,) * (AXES - len(counted))
    by = [divider(extent) for extent in (*blocks, *extents[len(blocks) :])]
    row = (
        total,
        run,
        len(counted),
        extents + ones,
        tuple(multiplier for multiplier, _ in by) + ones,
        tuple(shift for _, shift in by) + spare,
        tuple(source // unit for _, source, _ in counted) + spare,
        tuple(target // unit for _, _, target in counted) + spare,
    )
    return row, total


def dividers(extents: np.ndarray) -> np.ndarray:
    """The Divider of each extent."""
    found = np.empty(extents.shape, DIVIDER)
    shift = np.frexp((extents - 1).astype(np.float64))[1].astype(np.int64)  # the bits of extent - 1
    found["extent"], found["shift"] = extents, shift
    found["multiplier"] = ((((1 << shift) - extents) << 32) // extents + 1) & 0xFFFFFFFF
    return found


class Boxes(NamedTuple):
    """The fields of Box as columns."""

    input: np.ndarray
    output: np.ndarray
    extents: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    input_end: np.ndarray


def parts(source: ArrayColumn, target: ArrayColumn, table: np.ndarray) -> Boxes:
    """The part of each input that a table describes, mirrored along some axes, at its place in the output."""
    size = source.dtype.itemsize
    inputs, outputs = tables.strides_of(source.shapes, size), tables.strides_of(target.shapes, size)
    extents, turned = table["extents"], table["turned"]
    start = source.addresses + ((table["low"] + turned * (extents - 1)) * inputs).sum(1)
    goal = target.addresses + (table["place"] * outputs).sum(1)
    return Boxes(start, goal, extents, np.where(turned, -inputs, inputs), outputs, source.ends)


def borders(
    call: Launcher, target: ArrayColumn, place: np.ndarray, extents: np.ndarray, values: np.ndarray, channel: int
) -> list[Boxes]:
    """Boxes that fill the outputs around boxes in them, with one value, or one for each channel."""
    shapes, size = target.shapes, target.dtype.itemsize
    values = np.ascontiguousarray(values, target.dtype)
    address, outputs = call.upload(values), tables.strides_of(shapes, size)
    empty = np.logical_not(extents.all(1))[:, None]
    place, extents = np.where(empty, 0, place), np.where(empty, 0, extents)
    begins, sizes, found = np.zeros_like(shapes), shapes.copy(), []
    for axis in range(shapes.shape[1]):
        before, inside, whole = place[:, axis], extents[:, axis], shapes[:, axis]
        for begin, end in ((np.zeros_like(before), before), (before + inside, whole)):
            low, extent = begins.copy(), sizes.copy()
            low[:, axis], extent[:, axis] = begin, end - begin
            rows = np.flatnonzero(extent.all(1))
            if not len(rows):
                continue
            low, extent = low[rows], extent[rows]
            inputs, start = np.zeros_like(low), np.full(len(rows), address)
            if values.size > 1:
                inputs[:, channel] = size
                start += low[:, channel] * size
            goal = target.addresses[rows] + (low * outputs[rows]).sum(1)
            ends = np.full(len(rows), address + values.nbytes)
            found.append(Boxes(start, goal, extent, inputs, outputs[rows], ends))
        begins[:, axis], sizes[:, axis] = before, inside
    return found


def move_columns(call: Launcher, boxes: Sequence[Boxes], size: int) -> None:
    """Queues the moves of boxes that are rows of columns, as ``move`` does for single boxes."""
    if not boxes:
        return
    start, goal, extents, inputs, outputs, end = (
        boxes[0] if len(boxes) == 1 else [np.concatenate(columns) for columns in zip(*boxes)]
    )
    axes, count = _joined_columns(extents, inputs, outputs, size)
    filled = extents.all(1)
    last = axes[np.arange(len(count)), count - 1]  # the innermost axis: extent, strides
    run = np.where((last[:, 1] == size) & (last[:, 2] == size), last[:, 0] * size, 0)
    by_runs = (run >= SHORTEST_RUN) | ((run > 0) & (count == 1))
    pixels = np.zeros(len(count), bool)
    if size == 1:
        inner = np.arange(axes.shape[1]) < count[:, None] - 1
        steps = (axes[:, :, 1] % PIXEL == 0) & (axes[:, :, 2] % PIXEL == 0)
        pixels = (last == (PIXEL, 1, 1)).all(1) & (count > 1) & (steps | ~inner).all(1) & ~by_runs
    for chosen, kernel, unit, per_block, dropped in (
        (by_runs, f"move_runs<{WORDS[1]}>", 1, 1024, 0),
        (pixels, "move<Three>", PIXEL, 2048, 1),
        (~by_runs & ~pixels, f"move<{WORDS[size]}>", size, 2048, 0),
    ):
        rows = np.flatnonzero(chosen & filled)
        if not len(rows):
            continue
        table = np.zeros(len(rows), MOVE_ROW)
        left = count[rows] - dropped
        # innermost first; axes that a box does not have are of extent 1
        order = left[:, None] - 1 - np.arange(int(left.max()))
        known = order >= 0
        counted = np.where(known[:, :, None], axes[rows[:, None], order.clip(0)], (1, 0, 0))
        if kernel.startswith("move_runs"):
            table["run"] = run[rows]
            counted[:, 0] = 0
            counted[:, 0, 0] = (run[rows] + 2 * CELL - 2) // CELL
        table["input"], table["output"], table["input_end"] = start[rows], goal[rows], end[rows]
        table["total"], table["ndim"] = counted[:, :, 0].prod(1), left
        by = dividers(counted[:, :, 0])
        table["extents"] = table["multipliers"] = 1
        used = np.s_[:, : order.shape[1]]
        table["extents"][used], table["multipliers"][used] = by["extent"], by["multiplier"]
        table["shifts"][used] = by["shift"]
        table["inputs"][used], table["outputs"][used] = counted[:, :, 1] // unit, counted[:, :, 2] // unit
        call.launch(f"move.cu:{kernel}", table, ceil_div(table["total"].astype(np.int64), per_block))


def _joined_columns(
    extents: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The axes (extent, strides) that ``joined`` returns for each box, and the number of axes, which is at least 1."""
    boxes, ndim = extents.shape
    if ndim > 1 and (extents != 1).all():
        return _joined_alike(extents, inputs, outputs)
    axes = np.zeros((boxes, max(ndim, 1), 3), np.int64)
    axes[:, 0] = (1, size, size)
    count = np.zeros(boxes, np.int64)
    rows = np.arange(boxes)
    for axis in range(ndim):
        extent, source, target = extents[:, axis], inputs[:, axis], outputs[:, axis]
        place = count - 1
        before = axes[rows, place]
        joins = (count > 0) & (before[:, 1] == source * extent) & (before[:, 2] == target * extent)
        longer = extent != 1
        place = np.where(joins, place, count)[longer]
        some = rows[longer]
        axes[some, place, 0] = np.where(joins, before[:, 0] * extent, extent)[longer]
        axes[some, place, 1], axes[some, place, 2] = source[longer], target[longer]
        count += longer & ~joins
    return axes, np.maximum(count, 1)


def _joined_alike(extents: np.ndarray, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same if no axis has extent 1: all boxes whose axes are joined in the same way are computed at once."""
    boxes, ndim = extents.shape
    joins = (inputs[:, :-1] == inputs[:, 1:] * extents[:, 1:]) & (outputs[:, :-1] == outputs[:, 1:] * extents[:, 1:])
    ways = joins @ (1 << np.arange(ndim - 1))
    axes, count = np.zeros((boxes, ndim, 3), np.int64), np.empty(boxes, np.int64)
    for way in set(ways.tolist()):
        ends = [axis for axis in range(ndim - 1) if not way >> axis & 1] + [ndim - 1]
        rows = ways == way
        begins = [0, *[end + 1 for end in ends[:-1]]]
        axes[rows, : len(ends), 0] = np.multiply.reduceat(extents[rows], begins, axis=1)
        axes[rows, : len(ends), 1], axes[rows, : len(ends), 2] = inputs[rows][:, ends], outputs[rows][:, ends]
        count[rows] = len(ends)
    return axes, count


class DeviceTables:
    """Small arrays in device memory; equal arrays are uploaded once."""

    def __init__(self, call: DeviceCall) -> None:
        self._call = call
        self._known: dict[Any, int] = {}

    def address(self, array: np.ndarray) -> int:
        """The address of the array on the device."""
        key = (array.tobytes(), array.dtype)
        if key not in self._known:
            self._known[key] = self._call.upload(array)
        return self._known[key]
