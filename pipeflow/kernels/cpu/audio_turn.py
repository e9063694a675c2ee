"""Transposes a matrix of floats, tile by tile. Frames one after another become frames with one in each lane, and back."""

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.frames import transpose_tile
from pipeflow.kernels.cpu.simd.instructions import LANES


@kernel(fastmath=False)
def turn(source, offset, stride, rows, columns, target, target_offset, target_stride):
    """Sets target[c, r] = source[r, c], whole tiles by vector instructions; offsets and strides (of rows) are in elements."""
    for row in range(0, rows, LANES):
        for column in range(0, columns, LANES):
            begin, place = offset + row * stride + column, target_offset + column * target_stride + row
            if row + LANES <= rows and column + LANES <= columns:
                transpose_tile(source, begin, stride, target, place, target_stride)
                continue
            for r in range(min(LANES, rows - row)):
                for c in range(min(LANES, columns - column)):
                    target[place + c * target_stride + r] = source[begin + r * stride + c]
