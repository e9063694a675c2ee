"""Computes colours from the raw data of a sensor, as OpenCV does: the bilinear form by an own kernel."""

import cv2
import numpy as np

from pipeflow.kernels.cpu.jit import Filling, kernel, over_elements, plain
from pipeflow.kernels.cpu.simd.bayer import colors_of_row

ENDINGS = {"bilinear_ocv": "2RGB", "edgeaware_ocv": "2RGB_EA", "vng_ocv": "2RGB_VNG", "gray_ocv": "2GRAY"}
TILES = {(0, 0): "BG", (0, 1): "GB", (1, 0): "GR", (1, 1): "RG"}


@kernel
def bilinear(source, width, blue_row, blue_column, out):
    """The outermost pixels are copies of their inner neighbours."""
    height, line = source.size // width, 3 * width
    if height < 3 or width < 3:
        out[:] = 0
        return
    for y in range(1, height - 1):
        begin = y * line
        colors_of_row(source, y * width, width, (y - 1 - blue_row) % 2 == 0, blue_column, out, begin)
        for k in range(3):
            out[begin + k] = out[begin + 3 + k]
            out[begin + line - 3 + k] = out[begin + line - 6 + k]
    out[:line] = out[line : 2 * line]
    out[out.size - line :] = out[out.size - 2 * line : out.size - line]


def bilinear_again(dtype: np.dtype, width: int, blue: tuple[int, int]) -> Filling:
    """The bilinear form of `debayer` for many calls."""
    return over_elements(bilinear, dtype, (width, *blue), dtype)


def debayer(raw: np.ndarray, blue: tuple[int, int], algorithm: str, out: np.ndarray) -> np.ndarray:
    """A sensor's data (H, W) as an image (H, W, 3), or (H, W, 1) if grey is requested."""
    if algorithm == "bilinear_ocv" and raw.dtype in (np.uint8, np.uint16):
        bilinear(plain(raw).reshape(-1), raw.shape[1], *blue, out.reshape(-1))
        return out
    return by_opencv(blue, algorithm, raw.shape)(raw, out)


def by_opencv(blue: tuple[int, int], algorithm: str, extents: tuple[int, ...]) -> Filling:
    """The other forms of `debayer`, for raw data with these extents."""
    code, compute = getattr(cv2, f"COLOR_Bayer{TILES[blue]}{ENDINGS[algorithm]}"), cv2.demosaicing

    def run(raw: np.ndarray, out: np.ndarray) -> np.ndarray:
        found = compute(np.ascontiguousarray(raw).reshape(extents), code, dst=out)
        if found is not out:  # OpenCV made an array of its own
            out[...] = found.reshape(out.shape)
        return out

    return run
