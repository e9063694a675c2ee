"""Normalises the rows of an array by their own mean and deviation, without the GIL."""

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.jit import kernel


# The sums may be computed in any order: in float64 the differences do not show in float32 results.
@kernel(fastmath={"reassoc"})
def _sum(row, mean, squared):
    total = 0.0
    if squared:
        for value in row:
            total += (value - mean) * (value - mean)
    else:
        for value in row:
            total += value
    return total


@kernel(fastmath=False)
def normalize_rows(data, out, ddof, epsilon, scale, shift):
    count = data.shape[1]
    for i in range(data.shape[0]):
        mean = _sum(data[i], 0.0, False) / count
        deviation = np.sqrt(_sum(data[i], mean, True) / max(count - ddof, 1) + epsilon)
        factor = np.float32(scale / deviation if deviation > 0 else 0.0)
        middle, offset = np.float32(mean), np.float32(shift)
        for j in range(count):
            out[i, j] = (data[i, j] - middle) * factor + offset


def normalize(
    data: NDArray[np.float32], out: NDArray[np.float32], *, ddof: int, epsilon: float, scale: float, shift: float
) -> None:
    """Computes scale * (x - mean) / deviation + shift for each row of (rows, values); shift if the deviation is 0."""
    normalize_rows(data, out, ddof, float(epsilon), float(scale), float(shift))
