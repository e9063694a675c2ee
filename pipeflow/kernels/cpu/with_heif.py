"""HEIF by libheif, through pillow-heif: this library is kept up to date and has a wheel with a decoder for HEVC."""

import io

import numpy as np
import pillow_heif

from pipeflow.kernels.cpu.image_base import BadImage, Header
from pipeflow.kernels.cpu.image_headers import oriented


def heif(data: np.ndarray, header: Header) -> np.ndarray:
    """The primary image as stored, not turned."""
    file = pillow_heif.open_heif(io.BytesIO(data.tobytes()), convert_hdr_to_8bit=False, hdr_to_16bit=False)
    image = file[file.primary_index]
    if (image.size[1], image.size[0]) != header.oriented_size:
        raise BadImage(f"libheif reads {image.size[0]} x {image.size[1]} pixels in the {header}")
    pixels = np.asarray(image)
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    if pixels.shape[2] >= 3 and header.channels <= 2:
        pixels = pixels[..., [0, 3] if pixels.shape[2] == 4 and header.channels == 2 else [0]]
    # undoes the turn: libheif turns images as the file states
    return oriented(pixels, {6: 8, 8: 6}.get(header.orientation, header.orientation))
