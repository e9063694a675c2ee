"""The JPEG kernels built a second time, with every array access checked and without vector instructions."""

import importlib.util
import sys
from types import ModuleType

import numba
from decoders import plain_simd

from pipeflow.kernels.cpu import (
    jit,
    jpeg,
    jpeg_bands,
    jpeg_entropy,
    jpeg_forward,
    jpeg_headers,
    jpeg_pixels,
    jpeg_progressive,
)
from pipeflow.kernels.cpu.simd import bits, jpeg_colors, jpeg_cosines, moves

# In the order of their imports.
KERNELS = (jpeg_headers, jpeg_entropy, jpeg_pixels, jpeg, jpeg_bands, jpeg_progressive, jpeg_forward)
# The modules whose vector functions they call.
VECTORS = (bits, jpeg_colors, jpeg_cosines, moves)


def checked_kernel(function=None, **options):
    """What `jit.kernel` does, with checked accesses and without a cache."""
    settings = {"nogil": True, "error_model": "numpy", "boundscheck": True, **options}
    return numba.njit(**settings) if function is None else numba.njit(**settings)(function)


def build(*wanted):
    """Copies of these modules that were made with the checked twins."""
    originals = {module.__name__: module for module in (jit, *VECTORS, *KERNELS)}
    fake_jit = ModuleType(jit.__name__)
    fake_jit.kernel, fake_jit.plain, fake_jit.types_of = checked_kernel, jit.plain, jit.types_of
    try:
        install(jit.__name__, fake_jit)
        for module in VECTORS:
            install(module.__name__, plain_simd)
        for original in KERNELS:
            spec = importlib.util.spec_from_file_location(original.__name__, original.__file__)
            module = importlib.util.module_from_spec(spec)
            install(original.__name__, module)
            spec.loader.exec_module(module)
        return [sys.modules[one.__name__] for one in wanted]
    finally:
        for name, original in originals.items():
            install(name, original)


def install(name, module):
    package, _, last = name.rpartition(".")
    sys.modules[name] = module
    setattr(sys.modules[package], last, module)
