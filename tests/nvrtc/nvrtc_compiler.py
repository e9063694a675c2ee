"""NVRTC through CuPy's thin layer over it, which asks for no device, unlike cupy.RawModule."""

import functools
import importlib
import os

from pipeflow.kernels import gpu

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
    folder = importlib.import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    if not folder:
        raise RuntimeError(f"the headers of the CUDA runtime are missing. {INSTALL}")
    return folder


def compiled(text, file, names, architecture):
    """The machine code, and the lowered names of the instances; RuntimeError with the compiler's messages."""
    nvrtc = layer()
    program = nvrtc.createProgram(text, file, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        options = [f"-arch=sm_{architecture}", "--std=c++17", f"-I{gpu.FOLDER}", f"-I{headers()}"]
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            raise RuntimeError(nvrtc.getProgramLog(program)) from None
        return nvrtc.getCUBIN(program), [nvrtc.getLoweredName(program, name) for name in names]
    finally:
        nvrtc.destroyProgram(program)
