"""AVIF by libavif and JPEG XL by libjxl, through imagecodecs.

It decodes both formats and returns more than 8 bits. Pillow cuts AVIF files of 10 and 12 bits to 8 bits, and only some versions
of OpenCV's wheels decode AVIF.
"""

import imagecodecs
import numpy as np

from pipeflow.kernels.cpu.image_base import BadImage, Header
from pipeflow.kernels.cpu.image_boxes import without_sequence


def avif(data: np.ndarray, header: Header) -> np.ndarray:
    """The primary image as stored, not turned."""
    # Of a file with a sequence, imagecodecs 2026.3.6 writes all images into the memory of the one that is wanted.
    return _checked(imagecodecs.avif_decode(without_sequence(data), index=0, numthreads=1), header)


def jpeg_xl(data: np.ndarray, header: Header) -> np.ndarray:
    """The first frame as stored, not turned."""
    return _checked(imagecodecs.jpegxl_decode(data, index=0, keeporientation=True, numthreads=1), header)


def _checked(image: np.ndarray, header: Header) -> np.ndarray:
    image = image if image.ndim == 3 else image[..., None]
    if image.ndim != 3 or image.dtype.itemsize * 8 != header.bits:
        raise BadImage(f"the {header} has {image.dtype} values of shape {image.shape}, and its header states others")
    return image
