"""The JPEG kernels built a second time, with every array access checked and without vector instructions."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numba
from decoders import plain_simd

from pipeflow.kernels import cpu
from pipeflow.kernels.cpu import jit, jpeg, jpeg_entropy, jpeg_forward, jpeg_headers, jpeg_pixels, jpeg_simd

# In the order of their imports.
KERNELS = (jpeg_headers, jpeg_entropy, jpeg_pixels, jpeg, jpeg_forward)


def checked_kernel(function=None, **options):
    """What `jit.kernel` does, with checked accesses and without a cache."""
    settings = {"nogil": True, "error_model": "numpy", "boundscheck": True, **options}
    return numba.njit(**settings) if function is None else numba.njit(**settings)(function)


def build(wanted=jpeg):
    """A copy of the module that was made with the checked twins."""
    names = [module.__name__.rpartition(".")[2] for module in KERNELS]
    originals = {name: getattr(cpu, name) for name in ["jit", "jpeg_simd", *names]}
    fake_jit = ModuleType(jit.__name__)
    fake_jit.kernel, fake_jit.plain, fake_jit.types_of = checked_kernel, jit.plain, jit.types_of
    try:
        install("jit", fake_jit)
        install("jpeg_simd", plain_simd)
        for name in names:
            path = Path(jpeg_simd.__file__).with_name(f"{name}.py")
            spec = importlib.util.spec_from_file_location(f"{cpu.__name__}.{name}", path)
            module = importlib.util.module_from_spec(spec)
            install(name, module)
            spec.loader.exec_module(module)
        return sys.modules[wanted.__name__]
    finally:
        for name, original in originals.items():
            install(name, original)


def install(name, module):
    sys.modules[f"{cpu.__name__}.{name}"] = module
    setattr(cpu, name, module)
