"""Images of bytes that are resized eight rows at a time."""

import numpy as np
import pytest

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu.everyday import CUBIC, LANCZOS3, NEAREST, TRIANGULAR

SIZES = [(7, 100), (8, 6), (9, 70), (16, 5), (40, 97), (52, 64), (64, 65), (65, 129)]


@pytest.mark.parametrize("given", [(8, 11), (17, 129), (33, 5), (61, 83), (100, 16)])
@pytest.mark.parametrize("kind", [NEAREST, TRIANGULAR, CUBIC, LANCZOS3])
def test_resized_bytes_are_the_rounded_floats(given, kind):
    """Every size of the result, mirrored or not, of the image or of a region that may leave it; floats take another way."""
    rng = np.random.default_rng(sum(given))
    (height, width), image = given, rng.integers(0, 256, (*given, 3), dtype=np.uint8)
    rows, regions = image.reshape(height, -1), [(0.0, 1.0), (0.2, 0.9), (-0.05, 1.1)]
    for place, (h, w) in enumerate([*SIZES, given]):
        low, high = regions[place % 3]
        y, x = (
            kernels.resample.axis_taps(size, low * size, high * size, full, kind, place % 2 == 0, mirror=mirror)
            for size, full, mirror in ((height, h, place % 4 > 1), (width, w, place % 5 > 2))
        )
        memory, floats = np.full((h + 2, w * 3), 7, np.uint8), np.empty((h, w * 3), np.float32)
        kernels.resample.resample(rows, 3, y, x, memory[1:-1])
        kernels.resample.resample(rows, 3, y, x, floats)
        np.testing.assert_array_equal(memory[1:-1], kernels.casting.as_type(floats, np.dtype(np.uint8)))
        assert (memory[[0, -1]] == 7).all()
