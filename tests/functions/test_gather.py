"""Results of compiled functions that are no contiguous memory are copied line by line to such memory."""

import numpy as np
import pytest

from pipeflow.kernels.cpu import user_calls

VIEWS = {
    "all": lambda x: x,
    "columns backwards": lambda x: x[:, ::-1],
    "every second row, columns backwards": lambda x: x[::2, ::-1],
    "channels backwards": lambda x: x[..., ::-1],
    "one channel": lambda x: x[..., 1],
    "two channels": lambda x: x[..., :2],
    "two channels backwards": lambda x: x[..., 1::-1],
    "window": lambda x: x[1:-2, 2:9],
    "transposed": lambda x: x.transpose(2, 0, 1),
    "turned": lambda x: x.transpose(1, 0, 2)[::-1],
    "one row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "without elements": lambda x: x[:, :0],
    "without rows": lambda x: x[:0, ::-1],
}


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 40])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_views_are_copied(dtype, channels):
    """For all sizes of elements, and pixels that are moved like one element; nothing is written after the end."""
    x = np.arange(7 * 11 * channels).reshape(7, 11, channels).astype(dtype)
    for name, view in VIEWS.items():
        if channels > 1 or "channel" not in name:
            y = view(x)
            memory = np.full(y.nbytes + 8, 77, np.uint8)
            lists = [np.array(numbers, np.int64) for numbers in (y.shape, y.strides)]
            address = [array.__array_interface__["data"][0] for array in (y, memory, *lists)]
            user_calls.gather(*address, y.ndim, y.itemsize)
            assert memory.tobytes() == y.tobytes() + b"M" * 8, name
