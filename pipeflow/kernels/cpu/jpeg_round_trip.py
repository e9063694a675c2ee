"""Computes the effect of JPEG compression on an image: it is encoded and decoded again, in memory."""

import cv2
import numpy as np
import simplejpeg

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import jpeg_switch

_QUALITY, _SAMPLING = cv2.IMWRITE_JPEG_QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR


def distort(image: np.ndarray, quality: int, out: np.ndarray) -> np.ndarray:
    """An RGB image after JPEG with 4:2:0 chroma: by the compiled kernel, or by libraries with the same result."""
    target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    if not jpeg_switch.distorting.ready() or not kernels.jpeg_forward.distort(image, quality, target):
        by_library(image, quality, target)
    if target is not out:
        out[...] = target
    return out


def by_library(image: np.ndarray, quality: int, out: np.ndarray) -> None:
    """The same by libraries, into contiguous memory: the image is encoded and decoded.

    OpenCV encodes, because simplejpeg always encodes with the fast and less exact transform. simplejpeg decodes: the pixels are
    the same, it writes them directly into `out`, and is a fifth faster.
    """
    options = [_QUALITY, quality, _SAMPLING, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420]
    done, data = cv2.imencode(".jpg", cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2BGR), options)
    if not done:
        raise RuntimeError(f"an image of shape {image.shape} cannot be encoded as JPEG")
    simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False, buffer=out.reshape(-1))
