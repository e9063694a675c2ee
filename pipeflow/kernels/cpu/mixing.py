"""Mixes two arrays."""

import numpy as np

from pipeflow.kernels.cpu.casting import as_type, cast, convert
from pipeflow.kernels.cpu.jit import kernel, plain


@kernel
def mix_flat(first, second, share, out):
    """Computes share * first + (1 - share) * second, rounded once."""
    for i in range(first.size):
        a, b = np.float32(first[i]), np.float32(second[i])
        out[i] = convert(b + share * (a - b), out)


def mix(first: np.ndarray, second: np.ndarray, share: float, out: np.ndarray) -> np.ndarray:
    """Mixes two arrays of the same shape and type."""
    floats = [as_type(x, np.float32) if x.dtype == np.float16 else x for x in (first, second)]
    target = np.empty(out.shape, np.float32) if out.dtype == np.float16 else out
    mix_flat(*(plain(x).reshape(-1) for x in floats), np.float32(share), target.reshape(-1))
    return out if target is out else cast(target, out)
