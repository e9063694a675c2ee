"""EXR by OpenEXR, the reference library of the format.

If pixels are damaged, its class `File` prints an error to the terminal and returns the others; `InputFile` raises an error.
"""

import io

import numpy as np
import OpenEXR

from pipeflow.kernels.cpu import image_exr
from pipeflow.kernels.cpu.image_base import Header

_TYPES = (np.uint32, np.float16, np.float32)


def exr(data: np.ndarray, header: Header) -> np.ndarray:
    """All channels of the data window, colours first."""
    layout = image_exr.read(data.data)
    file = OpenEXR.InputFile(io.BytesIO(data.tobytes()))
    try:
        planes = [np.frombuffer(plane, _TYPES[layout.kind]) for plane in file.channels(layout.channels)]
    finally:
        file.close()
    return np.stack([plane.reshape(layout.height, layout.width) for plane in planes], axis=-1)
