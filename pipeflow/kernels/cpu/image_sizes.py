"""The sizes of several encoded images, read from their headers in one call."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from pipeflow.kernels.cpu.image_headers import JPEG_PIXELS_PER_BYTE
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.jpeg_headers import read_size
from pipeflow.kernels.cpu.kernel_calls import address_of


@intrinsic
def _bytes_at(_typing: Any, address: Any) -> Any:
    """A pointer to the bytes at an address."""
    del address

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return numba.types.CPointer(numba.types.uint8)(numba.types.int64), make


@kernel(fastmath=False)
def jpeg_sizes(places, oriented, sizes):
    """Height, width and components of each file, 0 if it is not a sequential JPEG file whose header is plain.

    `places` has the address and the number of bytes of each. With `oriented` the extents are those of the image as it is shown.
    """
    for i in range(places.shape[0]):
        length = places[i, 1]
        known, height, width, components, _, swapped, _, _ = read_size(numba.carray(_bytes_at(places[i, 0]), length))
        sizes[i, :] = 0
        if known and height * width // JPEG_PIXELS_PER_BYTE <= length:
            sizes[i, 0], sizes[i, 1], sizes[i, 2] = height, width, components
            if oriented and swapped:
                sizes[i, 0], sizes[i, 1] = width, height


def read_jpegs(files: list[np.ndarray], oriented: bool) -> np.ndarray:
    """The sizes of files, which are contiguous arrays of bytes."""
    places = np.array([(address_of(data), data.size) for data in files], np.int64).reshape(-1, 2)
    sizes = np.empty((len(files), 3), np.int64)
    jpeg_sizes(places, oriented, sizes)
    return sizes


def loaded() -> bool:
    """True if the kernel is in memory."""
    return bool(jpeg_sizes.signatures)


def load() -> None:
    """Reads the kernel from the disk, or compiles it."""
    read_jpegs([], False)
