"""Moves boxes of elements: the GPU form of crops, slices, flips, transposes and joins.

A box has extents, and an address and strides in the input and in the output. Axes that follow one another in both are joined. If
enough bytes are next to one another in both, they are moved as runs, sixteen bytes by each thread; else element by element.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device import tables
from pipeflow.device.calls import DeviceCall, Launcher, View, ceil_div, row_type
from pipeflow.device.tables import ArrayColumn, dots, products
from pipeflow.kernels import cpu as kernels
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


MOST_KNOWN = 8192  # extents whose dividers are kept: to look them up takes a fifth of the time of computing them
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
    if extents.max(initial=0) < MOST_KNOWN:
        return _known_dividers()[extents]
    return _computed_dividers(extents)


@cache
def _known_dividers() -> np.ndarray:
    known = np.zeros(MOST_KNOWN, DIVIDER)  # no extent is 0, or the row that has it is left out
    known[1:] = _computed_dividers(np.arange(1, MOST_KNOWN))
    return known


def _computed_dividers(extents: np.ndarray) -> np.ndarray:
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
    start = source.addresses + dots(table["low"] + turned * (extents - 1), inputs)
    goal = target.addresses + dots(table["place"], outputs)
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
            goal = target.addresses[rows] + dots(low, outputs[rows])
            ends = np.full(len(rows), address + values.nbytes)
            found.append(Boxes(start, goal, extent, inputs, outputs[rows], ends))
        begins[:, axis], sizes[:, axis] = before, inside
    return found


class Alike(NamedTuple):
    """Boxes that have as many axes after joining, as columns."""

    input: np.ndarray
    output: np.ndarray
    input_end: np.ndarray
    axes: list[tuple[np.ndarray, np.ndarray, np.ndarray]]  # extents, strides in input and output; outermost first

    def split(self, chosen: np.ndarray) -> tuple["Alike | None", "Alike | None"]:
        """The chosen ones, and the others."""
        part = self.some(chosen)
        return part, None if part is self else self if part is None else self.some(~chosen)

    def some(self, chosen: np.ndarray) -> "Alike | None":
        """The chosen ones of the boxes; None if there are none."""
        (rows,) = chosen.nonzero()
        if len(rows) in (0, len(chosen)):
            return self if len(rows) else None
        axes = [(extent[rows], source[rows], target[rows]) for extent, source, target in self.axes]
        return Alike(self.input[rows], self.output[rows], self.input_end[rows], axes)


def move_columns(call: Launcher, boxes: Sequence[Boxes], size: int) -> None:
    """Queues the moves of boxes that are rows of columns, as ``move`` does for single boxes."""
    if not boxes:
        return
    every = boxes[0] if len(boxes) == 1 else Boxes(*[np.concatenate(columns) for columns in zip(*boxes)])
    if not every.extents.all():
        filled = every.extents.all(1)
        every = Boxes(*[column[filled] for column in every])
    if MOVES_LOAD[0]():
        for kernel, table in _compiled_rows(every, size):
            _launch(call, kernel, table)
        return
    tables: dict[str, list[np.ndarray]] = {}
    for group in _alike(every, size):
        extent, source, target = group.axes[-1]
        runs = (source == size) & (target == size)
        if len(group.axes) > 1:
            runs &= extent * size >= SHORTEST_RUN
        for part, queue in zip(group.split(runs), (_add_runs, _add_elements)):
            if part is not None:
                queue(tables, part, size)
    for kernel, several in tables.items():
        _launch(call, kernel, several[0] if len(several) == 1 else np.concatenate(several))


def _launch(call: Launcher, kernel: str, table: np.ndarray) -> None:
    per_block = 1024 if kernel.startswith("move_runs") else 2048
    call.launch(f"move.cu:{kernel}", table, ceil_div(table["total"].astype(np.int64), per_block))


# If the compiled code that makes the rows is loaded, and the function that loads it. The first question imports no kernels.
MOVES_LOAD = (
    lambda: "pipeflow.kernels.cpu.box_moves" in sys.modules and kernels.box_moves.loaded(),
    lambda: kernels.box_moves.load(),
)


def _compiled_rows(boxes: Boxes, size: int) -> Iterable[tuple[str, np.ndarray]]:
    """The kernels that move the boxes, with the rows of each."""
    count = len(boxes.input)
    numbers, axes = np.empty((count, 4), np.int64), np.empty((count, 5, AXES), np.int64)
    kernels.box_moves.rows_of_boxes(
        *map(np.ascontiguousarray, boxes[2:5]), size, SHORTEST_RUN, PIXEL, CELL, numbers, axes
    )
    table = np.zeros(count, MOVE_ROW)
    table["input"], table["output"], table["input_end"] = boxes.input, boxes.output, boxes.input_end
    for number, name in enumerate(("total", "run", "ndim")):
        table[name] = numbers[:, number]
    for number, name in enumerate(("extents", "multipliers", "shifts", "inputs", "outputs")):
        table[name] = axes[:, number]
    names = {
        kernels.box_moves.RUNS: f"move_runs<{WORDS[1]}>",
        kernels.box_moves.PIXELS: "move<Three>",
        kernels.box_moves.ELEMENTS: f"move<{WORDS[size]}>",
    }
    kinds = numbers[:, 3]
    for kind, name in names.items():
        (rows,) = (kinds == kind).nonzero()
        if len(rows):
            yield name, table if len(rows) == count else table[rows]


def _add_runs(tables: dict[str, list[np.ndarray]], boxes: Alike, size: int) -> None:
    run = boxes.axes[-1][0] * size
    none = np.zeros_like(run)
    cells = (run + 2 * CELL - 2) // CELL, none, none
    table = _rows(boxes._replace(axes=[*boxes.axes[:-1], cells]), 1)
    table["run"] = run
    tables.setdefault(f"move_runs<{WORDS[1]}>", []).append(table)


def _add_elements(tables: dict[str, list[np.ndarray]], boxes: Alike, size: int) -> None:
    left: Alike | None = boxes
    if size == 1 and len(boxes.axes) > 1:
        (extent, source, target), *others = boxes.axes[::-1]
        pixels = (extent == PIXEL) & (source == 1) & (target == 1)
        for _, given, wanted in others if pixels.any() else ():
            pixels &= (given % PIXEL == 0) & (wanted % PIXEL == 0)
        part, left = boxes.split(pixels)
        if part is not None:
            table = _rows(part._replace(axes=part.axes[:-1]), PIXEL)
            tables.setdefault("move<Three>", []).append(table)
    if left is not None:
        tables.setdefault(f"move<{WORDS[size]}>", []).append(_rows(left, size))


def _rows(boxes: Alike, unit: int) -> np.ndarray:
    """The rows of boxes; ``unit`` is the number of bytes of an element."""
    table = np.zeros(len(boxes.input), MOVE_ROW)
    table["input"], table["output"], table["input_end"], table["ndim"] = *boxes[:3], len(boxes.axes)
    count = len(boxes.axes)
    if count < AXES:
        table["extents"][:, count:] = table["multipliers"][:, count:] = 1  # of axes that the boxes do not have
    axes = np.array(boxes.axes[::-1]).transpose(1, 2, 0)  # extents, strides in input and output; boxes; innermost first
    by = dividers(axes[0])
    table["extents"][:, :count], table["multipliers"][:, :count] = axes[0], by["multiplier"]
    table["shifts"][:, :count] = by["shift"]
    strides = axes[1:] if unit == 1 else axes[1:] // unit
    table["inputs"][:, :count], table["outputs"][:, :count] = strides
    table["total"] = products(axes[0])
    return table


def _alike(boxes: Boxes, size: int) -> Iterable[Alike]:
    """Groups of boxes, with the axes that ``joined`` returns for each box."""
    start, goal, extents, inputs, outputs, end = boxes
    if not len(extents):
        return
    ones = extents == 1
    if ones.any():
        several = np.flatnonzero(~ones.all(0))  # an axis that has one element in every box is left out
        extents, inputs, outputs = extents[:, several], inputs[:, several], outputs[:, several]
        if not len(several) or ones[:, several].any():
            table, counts = _joined_columns(extents, inputs, outputs, size)
            for count in set(counts.tolist()):
                axes = [tuple(table[:, axis].T) for axis in range(count)]
                found = Alike(start, goal, end, axes).some(counts == count)
                assert found is not None
                yield found
            return
    columns = list(zip(extents.T, inputs.T, outputs.T))
    joins = np.zeros(len(extents), np.int64)  # bit i: axis i is joined with the next one
    for axis, ((_, source, target), (extent, near, close)) in enumerate(pairwise(columns)):
        same = (source == near * extent) & (target == close * extent)
        joins += same.astype(np.int64) << axis
    for way in set(joins.tolist()):
        axes = []
        for axis, (extent, source, target) in enumerate(columns):
            if axis and way >> (axis - 1) & 1:
                extent = axes.pop()[0] * extent
            axes.append((extent, source, target))
        found = Alike(start, goal, end, axes).some(joins == way)
        assert found is not None
        yield found


def _joined_columns(
    extents: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The axes (extent, strides) that ``joined`` returns for each box, and the number of axes, which is at least 1."""
    boxes, ndim = extents.shape
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
