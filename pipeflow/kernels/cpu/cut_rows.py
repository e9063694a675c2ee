"""The windows of crops for all samples of a batch: ``operators/crop_tables.py`` describes them, with NumPy."""

from collections.abc import Callable

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, machine_code
from pipeflow.kernels.cpu.parts import cropped_axis


@kernel(fastmath=False)
def cuts(shapes, axes, sizes, positions, rounds, policy, low, extents, place, results):
    """Windows along these axes, with one of the policies of `parts.py`; False if a sample must be planned on its own.

    `sizes` (0 or less: the whole extent) and `positions` have a column for each axis, and one row or one for each sample.
    """
    for i in range(len(shapes)):
        for axis in range(shapes.shape[1]):
            low[i, axis], place[i, axis] = 0, 0
            extents[i, axis] = results[i, axis] = shapes[i, axis]
        for number, axis in enumerate(axes):
            size, position = sizes[i % len(sizes), number], positions[i % len(positions), number]
            low[i, axis], extents[i, axis], place[i, axis], results[i, axis] = cropped_axis(
                shapes[i, axis], size, position, rounds, policy
            )
            if results[i, axis] < 0:
                return False
    return True


def load() -> Callable[..., bool]:
    """Reads the kernel from the disk, or compiles it."""
    table, axes, numbers = (
        np.empty((2, 4), np.int64)[:, ::2],
        np.empty(0, np.int64),
        np.empty((1, 0)),
    )  # fields have gaps
    return machine_code(cuts, table, axes, numbers, numbers, True, 1, table, table, table, table)
