"""The rows of normalisations on a device for all samples of a batch: ``operators/on_gpu/crop_mirror_normalize.py`` describes
them, with NumPy. The type of ``rows`` is defined there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.box_moves import divider
from pipeflow.kernels.cpu.jit import kernel, machine_code


@kernel
def _strides(extents, found):
    """The strides of a C-contiguous array, in elements."""
    stride = 1
    for axis in range(len(extents) - 1, -1, -1):
        found[axis] = stride
        stride *= extents[axis]


@kernel
def pixel_rows(source, target, letters, parts, numbers, joined, shift, per_block, rows, blocks):
    """The rows of all planes of all samples, and their numbers of blocks.

    `source` and `target` have the addresses, ends, extents and bytes of an element; `letters` the places of C, H, W and D in the
    layouts of both, -1 for none; `parts` the low bounds and extents of the part of each image, its place in the result and its
    mirror; `numbers` the means and factors. A row has `joined` channels.
    """
    inputs, ends, shapes, size = source
    outputs, _, results, size_out = target
    (c, h, w, d), (c_out, h_out, w_out, d_out) = letters
    low, extents, place, mirror = parts
    mean, factor = numbers
    step, step_out = np.empty(shapes.shape[1], np.int64), np.empty(shapes.shape[1], np.int64)
    number = 0
    for i in range(len(inputs)):
        _strides(shapes[i], step)
        _strides(results[i], step_out)
        begin, goal = mirror[i] * (extents[i, w] - 1) * step[w], 0
        for axis in range(len(step)):
            begin += low[i, axis] * step[axis]
            goal += place[i, axis] * step_out[axis]
        height, width = extents[i, h], extents[i, w]
        groups = max((width + 3) // 4, 1)
        multiplier, bits = divider(groups)
        for plane in range(extents[i, d] if d >= 0 else 1):
            for channel in range(0, mean.shape[1], joined):
                row = rows[number]
                start, end = begin + channel * step[c], goal + channel * step_out[c_out]
                if d >= 0:
                    start, end = start + plane * step[d], end + plane * step_out[d_out]
                row.input, row.output = inputs[i] + start * size, outputs[i] + end * size_out
                row.input_begin, row.input_end = inputs[i], ends[i]
                row.input_row, row.output_row = step[h], step_out[h_out]
                row.output_pixel, row.output_channel = step_out[w_out], step_out[c_out]
                for k in range(joined):
                    row.mean[k], row.factor[k] = mean[i, channel + k], factor[i, channel + k]
                row.shift, row.mirror, row.total, row.width = shift, mirror[i], height * groups, width
                row.groups.extent, row.groups.multiplier, row.groups.shift = groups, multiplier, bits
                blocks[number] = (height * groups + per_block - 1) // per_block
                number += 1


def load(row_type: np.dtype) -> Callable[..., Any]:
    """Reads the kernel from the disk, or compiles it."""
    column, table = (
        np.empty(4, np.int64)[::2],
        np.empty((2, 4), np.int64)[:, ::2],
    )  # with gaps, as fields and slices are
    flags, numbers = np.empty(4, np.bool_)[::2], np.empty((2, 4), np.float32)[:, ::2]
    arrays, letters = (column, column, table, 1), (1, 1, 1, 1)
    parts, rows = (table, table, table, flags), np.empty(1, row_type)
    return machine_code(
        pixel_rows, arrays, arrays, (letters, letters), parts, (numbers, numbers), 1, 1.0, 1, rows, column
    )
