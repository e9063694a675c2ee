"""Sets parts of an image to 0."""

import math

import numpy as np

from .jit import Filling, kernel, machine_code, plain


@kernel
def mask_squares(source, pixel, steps, ratio, out):
    """Copies rows (H, W * pixel), with 0 for the pixels in the squares of a grid."""
    cos, sin = steps[0], steps[1]
    hidden = np.empty(out.shape[1] // pixel, np.bool_)
    for y in range(out.shape[0]):
        start_x, start_y = -sin * y - steps[2], cos * y - steps[3]
        for x in range(hidden.size):
            across, down = cos * x + start_x, sin * x + start_y
            hidden[x] = (across - np.floor(across) < ratio) & (down - np.floor(down) < ratio)
        row, target = source[y], out[y]
        if pixel == 1:
            for x in range(hidden.size):
                target[x] = 0 if hidden[x] else row[x]
        else:
            for x in range(hidden.size):
                for k in range(x * pixel, (x + 1) * pixel):
                    target[k] = 0 if hidden[x] else row[k]


def grid_mask(source: np.ndarray, pixel: int, steps: tuple[float, ...], ratio: float, out: np.ndarray) -> np.ndarray:
    """An image (H, W, C) or (H, W) with 0 in the squares of a grid."""
    raw = np.dtype(np.uint16) if source.dtype == np.float16 else source.dtype
    if source.size:
        rows = plain(source.view(raw)).reshape(source.shape[0], -1)
        mask_squares(rows, pixel, steps, ratio, out.view(raw).reshape(rows.shape))
    return out


def masking(shape: tuple[int, ...], dtype: np.dtype, steps: tuple[float, ...], ratio: float) -> Filling:
    """`grid_mask` for images of one shape, for many calls; not for float16."""
    rows, pixel = (shape[0], math.prod(shape[1:])), shape[2] if len(shape) == 3 else 1
    like = np.empty((0, 0), dtype)
    compute = machine_code(mask_squares, like, pixel, steps, ratio, like)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source.ravel().reshape(rows), pixel, steps, ratio, out.reshape(rows))
        return out

    return run
