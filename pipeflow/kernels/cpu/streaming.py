"""Copies without the caches.

A write to memory that is not in the cache first reads this memory, and removes other data from the cache that is needed next. So
a batch that is larger than the caches is written with instructions that do neither: 600 kB take 23 us instead of 38 (plain copy)
or 80 (element by element in several streams).
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain
from pipeflow.kernels.cpu.simd.moves import stream_bytes


@kernel
def stream(source, out):
    stream_bytes(source, out, source.size)


def loaded() -> bool:
    """True if the kernel is in memory."""
    return bool(stream.signatures)


def load() -> None:
    """Reads the kernel from the disk, or compiles it."""
    copy(np.zeros(1, np.uint8), np.zeros(1, np.uint8))


def copy(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Copies the source to `out`, which has its shape and type."""
    if source.flags.c_contiguous and out.flags.c_contiguous:
        stream(plain(source).reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8))
    else:
        np.copyto(out, source)
    return out
