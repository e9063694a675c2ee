"""Warps in compiled programs: the geometry of `operators.warp` for one sample."""

import math

import numpy as np

from pipeflow.kernels.cpu.casting import cast_flat
from pipeflow.kernels.cpu.displacement import through_matrix_cubic, through_matrix_linear
from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.later import Wanted


@kernel(fastmath=False)
def turned_extents(height, width, cos, sin):
    """Height and width of the canvas that contains a turned image; `cos` and `sin` are not negative."""
    wide, tall = (
        np.int64(math.ceil(cos * width + sin * height - 0.01)),
        np.int64(math.ceil(cos * height + sin * width - 0.01)),
    )
    rows, columns = (height, width) if sin <= cos else (width, height)
    return tall + (tall - rows) % 2, wide + (wide - columns) % 2


@kernel(fastmath=False)
def turn_matrix(height, width, rows, columns, cos, sin, out):
    """The matrix from positions of a canvas to positions of an image."""
    x, y = columns / 2, rows / 2
    out[0, 0], out[0, 1], out[0, 2] = cos, -sin, width / 2 - (cos * x - sin * y)
    out[1, 0], out[1, 1], out[1, 2] = sin, cos, height / 2 - (sin * x + cos * y)


@kernel
def perspective_linear(source, places, us, vs, matrix, origin, border, fill, line, out):
    """Computes perspective with room in three arrays; blends four pixels."""
    through_matrix_linear(source, (places, us, vs), matrix, origin, border, fill, line, out)


@kernel
def perspective_cubic(source, places, us, vs, matrix, origin, border, fill, line, out):
    """The same; blends sixteen pixels."""
    through_matrix_cubic(source, (places, us, vs), matrix, origin, border, fill, line, out)


def turning() -> list[Wanted]:
    """The kernels of rotations."""
    return [(turned_extents, types_of(1, 1, 0.5, 0.5)), (turn_matrix, types_of(1, 1, 1, 1, 0.5, 0.5, np.zeros((1, 1))))]


def widening() -> list[Wanted]:
    """The kernel that converts matrices."""
    return [(cast_flat, types_of(np.zeros(1, np.float32), np.zeros(1)))]


def perspective(dtype: np.dtype, cubic: bool) -> list[Wanted]:
    """The kernel of projective matrices for images of a type."""
    few, image = np.zeros(1, np.float32), np.zeros((1, 1, 1), dtype)
    types = types_of(image, np.zeros(1, np.int32), few, few, np.zeros(1), 0.5, 1, few, few, image)
    return [(perspective_cubic if cubic else perspective_linear, types)]
