"""The rows of moves on a device for all samples of a batch: ``operators/on_gpu/moves.py`` describes them, with NumPy."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, types_of

RUNS, PIXELS, ELEMENTS = 0, 1, 2  # how a box is moved


@kernel
def divider(extent):
    """Multiplier and shift that divide a number below 2**31 by the extent."""
    shift = 0
    while 1 << shift < extent:
        shift += 1
    return ((((1 << shift) - extent) << 32) // extent + 1) & 0xFFFFFFFF, shift


@kernel
def rows_of_boxes(extents, inputs, outputs, size, shortest_run, pixel, cell, numbers, axes):
    """Row i of `numbers` has the elements, the bytes of a run, the number of axes and the kind of move of box i; `axes` has, by
    box, the extents, multipliers, shifts and strides in input and output of its axes, innermost first.
    """
    found = np.empty((3, extents.shape[1] + 1), np.int64)  # extents and strides of the joined axes, outermost first
    for box in range(len(extents)):
        count = 0
        for axis in range(extents.shape[1]):
            extent, source, target = extents[box, axis], inputs[box, axis], outputs[box, axis]
            if extent == 1:
                continue
            if count and found[1, count - 1] == source * extent and found[2, count - 1] == target * extent:
                extent *= found[0, count - 1]
                count -= 1
            found[0, count], found[1, count], found[2, count] = extent, source, target
            count += 1
        if not count:
            found[0, 0], found[1, 0], found[2, 0] = 1, size, size
            count = 1
        extent, source, target = found[0, count - 1], found[1, count - 1], found[2, count - 1]
        kind, unit, run = ELEMENTS, size, 0
        if source == size and target == size and (count == 1 or extent * size >= shortest_run):
            kind, unit, run = RUNS, 1, extent * size
            found[0, count - 1], found[1, count - 1], found[2, count - 1] = (run + 2 * cell - 2) // cell, 0, 0
        elif size == 1 and count > 1 and extent == pixel and source == 1 and target == 1:
            whole = True
            for axis in range(count - 1):
                whole = whole and found[1, axis] % pixel == 0 and found[2, axis] % pixel == 0
            if whole:
                kind, unit = PIXELS, pixel
                count -= 1
        total = 1
        for place in range(axes.shape[2]):
            extent, multiplier, shift, source, target = 1, 1, 0, 0, 0
            if place < count:
                extent = found[0, count - 1 - place]
                source, target = found[1, count - 1 - place] // unit, found[2, count - 1 - place] // unit
                multiplier, shift = divider(extent)
                total *= extent
            axes[box, 0, place], axes[box, 1, place], axes[box, 2, place] = extent, multiplier, shift
            axes[box, 3, place], axes[box, 4, place] = source, target
        numbers[box, 0], numbers[box, 1], numbers[box, 2], numbers[box, 3] = total, run, count, kind


def loaded() -> bool:
    """True if the kernel is in memory."""
    return bool(rows_of_boxes.signatures)


def load() -> None:
    """Reads the kernel from the disk, or compiles it."""
    table = np.empty((1, 1), np.int64)
    rows_of_boxes.compile(types_of(table, table, table, 1, 1, 1, 1, table, np.empty((1, 1, 1), np.int64)))
