"""The oldest NVRTC of each version of CUDA that is supported, without CuPy, which loads the newest one only.

`make test-nvrtc` puts them into folders of the environment. ``Layer`` has the functions of ``cupy.cuda.nvrtc`` that are used.
"""

import ctypes
import sys
from functools import cache
from pathlib import Path

FOLDER = Path(sys.prefix, "older-compilers")
VERSIONS = ("12.0", "13.0")


class NVRTCError(Exception):
    """The compiler refuses."""


class Layer:
    """One compiler."""

    NVRTCError = NVRTCError

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def _call(self, name, *arguments):
        if getattr(self._library, name)(*arguments):
            raise NVRTCError(name)

    def _text(self, kind, program):
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, text)
        return text.raw

    def createProgram(self, text, file, _headers, _names):
        """A program."""
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), file.encode(), 0, None, None)
        return program

    def addNameExpression(self, program, name):
        """Asks for an instance."""
        self._call("nvrtcAddNameExpression", program, name.encode())

    def compileProgram(self, program, options):
        """Compiles it."""
        texts = [option.encode() for option in options]
        self._call("nvrtcCompileProgram", program, len(texts), (ctypes.c_char_p * len(texts))(*texts))

    def getProgramLog(self, program):
        """What the compiler says."""
        return self._text("ProgramLog", program).rstrip(b"\0").decode()

    def getLoweredName(self, program, name):
        """The name of an instance in the code."""
        found = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(found))
        return found.value

    def getCUBIN(self, program):
        """The code."""
        return self._text("CUBIN", program)

    def destroyProgram(self, program):
        """Frees it."""
        self._call("nvrtcDestroyProgram", ctypes.byref(program))


@cache
def compiler(version):
    """The compiler of a version of CUDA, and the folder of its headers."""
    place = FOLDER / version / "nvidia"
    (library,) = place.glob("*/lib/libnvrtc.so.1?")
    (header,) = place.glob("*/include/cuda_fp16.h")
    for part in library.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(part))  # the compiler looks for it by its name alone
    return Layer(library), str(header.parent)
