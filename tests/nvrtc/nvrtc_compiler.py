"""NVRTC through CuPy's thin layer over it, which asks for no device, unlike cupy.RawModule."""

import functools
import importlib
import os

from pipeflow import backends
from pipeflow.backends import cuda_programs

# What compiles for the oldest compiles for the others too, as a rule; `make test-nvrtc ARCHITECTURES=all` tries them all.
ALL = (75, 80, 86, 89, 90, 100, 120)
ARCHITECTURES = ALL if os.environ.get("ARCHITECTURES") == "all" else ALL[:1]
INSTALL = "Install it: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"


@functools.cache
def layer():
    """The compiler; RuntimeError says what is missing."""
    try:
        nvrtc = importlib.import_module("cupy").cuda.nvrtc
        nvrtc.getVersion()
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"NVRTC cannot be used: {error}. {INSTALL}") from None
    return nvrtc


@functools.cache
def headers():
    """The folder of cuda_fp16.h, from the wheel of the CUDA runtime."""
    folder = backends.gpu.headers_folder()
    if not folder:
        raise RuntimeError(f"the headers of the CUDA runtime are missing. {INSTALL}")
    return folder


def compiled(text, file, names, architecture):
    """The machine code, and the lowered names of the instances, as pipelines compile them."""
    made = cuda_programs.compiled(layer(), file, text, names, architecture, headers())
    return made.code, list(made.lowered.values())
