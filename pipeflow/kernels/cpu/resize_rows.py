"""The rows of resizes on a device for all samples of a batch: ``operators/on_gpu/resize_rows.py`` describes them, with NumPy.

The arguments ``axes`` and ``rows`` are structured arrays, whose types the operators define.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, machine_code


@kernel(fastmath=False)  # as NumPy: with a fused multiply-add, a sum that is a whole number might not be one
def tap_counts(axes, antialias, radii, edges, triangles, nearest, counts):
    """The largest number of pixels that an output of each axis is computed from."""
    for i in range(axes.shape[0]):
        for j in range(axes.shape[1]):
            axis = axes[i, j]
            if axis.kind == nearest:
                counts[i, j] = 1
                continue
            scale = (axis.high - axis.low) / axis.full
            widen = max(abs(scale), 1.0) if antialias else 1.0
            counts[i, j] = min(np.ceil(2 * (widen * radii[axis.kind] + edges[axis.kind])), axis.size)
            if triangles[axis.kind] and widen == 1 and (scale == np.floor(scale) or axis.count == 1):
                centre = axis.low + (axis.first + 0.5) * scale - 0.5
                if centre == np.floor(centre):
                    counts[i, j] = 1


@kernel(fastmath=False)
def tap_rows(axes, antialias, counts, outputs_of_block, alignment, rows, blocks):
    """The rows of the kernel that makes tap tables, and their numbers of blocks; the tables begin at address 0. Returns their
    end.
    """
    end = 0
    for i in range(axes.shape[0]):
        for j in range(axes.shape[1]):
            axis, row, taps = axes[i, j], rows[i, j], counts[i, j]
            row.starts, row.weights, row.taps, row.antialias = end, end + 4 * axis.count, taps, antialias
            row.low, row.high, row.size, row.full = axis.low, axis.high, axis.size, axis.full
            row.first, row.count, row.mirror, row.kind = axis.first, axis.count, axis.mirror, axis.kind
            blocks[i, j] = -(-axis.count // outputs_of_block)
            end = (end + 4 * axis.count * (1 + taps) + alignment - 1) // alignment * alignment
    return end


@kernel(fastmath=False)
def tile_widths(axes, y_taps, x_taps, pixel, copied, widths, most, found):
    """The widest tile for each sample, of `widths`, whose blended rows have no more than `most` values; 0 if there is none, and
    for pixels that are only copied.
    """
    for i in range(len(axes)):
        axis = axes[i]
        scale = abs(axis.high - axis.low) / axis.full
        found[i] = 0
        if copied and y_taps[i] == 1 and x_taps[i] == 1:
            continue
        for width in widths:
            between = np.floor(scale * (min(width, axis.count) - 1)) + 2 * (width > 1)
            if min(between + x_taps[i], axis.size) * pixel[i] <= most:
                found[i] = width
                break


@kernel(fastmath=False)
def tile_rows(inputs, outputs, ends, outer, axes, pixel, taps, tiles, tile_height, rows, blocks):
    """The rows of resizes by tiles, and their numbers of blocks; `taps` are those of the rows and of the columns."""
    (y_starts, y_weights, y_taps), (x_starts, x_weights, x_taps) = taps
    for i in range(len(rows)):
        y, x, row = axes[i, 0], axes[i, 1], rows[i]
        row.input, row.output, row.input_end = inputs[i], outputs[i], ends[i]
        row.y_starts, row.y_weights, row.y_taps = y_starts[i], y_weights[i], y_taps[i]
        row.x_starts, row.x_weights, row.x_taps = x_starts[i], x_weights[i], x_taps[i]
        row.input_row = x.size * pixel[i]
        row.input_plane, row.output_plane = y.size * x.size * pixel[i], y.count * x.count * pixel[i]
        row.height, row.width, row.pixel, row.tile_width = y.count, x.count, pixel[i], tiles[i]
        row.tiles_x, row.tiles_y = -(-x.count // tiles[i]), -(-y.count // tile_height)
        blocks[i] = outer[i] * row.tiles_x * row.tiles_y


class Code(NamedTuple):
    """The kernels in machine code."""

    tap_counts: Callable[..., Any]
    tap_rows: Callable[..., Any]
    tile_widths: Callable[..., Any]
    tile_rows: Callable[..., Any]


def load(axes_type: np.dtype, taps_type: np.dtype, tile_type: np.dtype) -> Code:
    """Reads the kernels from the disk, or compiles them."""
    axes, column = (
        np.empty((2, 4), axes_type)[:, ::2],
        np.empty(4, np.int64)[::2],
    )  # with gaps, as fields and slices are
    table, numbers, flags = np.empty((2, 4), np.int64)[:, ::2], np.empty(1), np.empty(1, np.bool_)
    places = column.view(np.uint64)
    taps = ((places, places, column),) * 2
    return Code(
        machine_code(tap_counts, axes, True, numbers, numbers, flags, 1, table),
        machine_code(tap_rows, axes, True, table, 1, 1, np.empty((1, 1), taps_type), np.empty((1, 1), np.int64)),
        machine_code(tile_widths, axes[:, 0], column, column, column, True, np.empty(1, np.int64), 1, column),
        machine_code(
            tile_rows, column, column, column, column, axes, column, taps, column, 1, np.empty(1, tile_type), column
        ),
    )
