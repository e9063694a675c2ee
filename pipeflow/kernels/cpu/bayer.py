"""Computes colours from the raw data of a sensor, with OpenCV."""

import cv2
import numpy as np

from pipeflow.kernels.cpu.histograms import written

ENDINGS = {"bilinear_ocv": "2RGB", "edgeaware_ocv": "2RGB_EA", "vng_ocv": "2RGB_VNG", "gray_ocv": "2GRAY"}
TILES = {(0, 0): "BG", (0, 1): "GB", (1, 0): "GR", (1, 1): "RG"}


def debayer(raw: np.ndarray, blue: tuple[int, int], algorithm: str, out: np.ndarray) -> np.ndarray:
    """A sensor's data (H, W) as an image (H, W, 3), or (H, W, 1) if grey is requested."""
    code = getattr(cv2, f"COLOR_Bayer{TILES[blue]}{ENDINGS[algorithm]}")
    return written(cv2.demosaicing(np.ascontiguousarray(raw), code, dst=out), out)
