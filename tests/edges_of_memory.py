"""Runs operators on arrays that end, or begin, where their process may not touch memory: run by test_edges_of_memory.py.

Every line of the standard input is a call as in the examples of the operators. It is printed before it runs, so that the
last line printed names the call that left its memory: the process has died there.
"""

import ctypes
import importlib
import math
import mmap
import sys

import example_data
import numpy as np

from pipeflow import fn, types

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
KEPT = []  # a mapping is never given back while the process lives, so an address never means two arrays


def memory(shape, dtype, at_the_end):
    """An array whose last byte, or whose first, has forbidden memory beside it."""
    size = math.prod(shape) * dtype.itemsize
    pages = max(1, -(-size // PAGE))
    block = mmap.mmap(-1, (pages + 2) * PAGE)
    KEPT.append(block)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for guard in (address, address + (pages + 1) * PAGE):
        if LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect failed")
    start = PAGE + pages * PAGE - size if at_the_end else PAGE
    return np.frombuffer(block, np.uint8, size, start).view(dtype).reshape(shape)


def guarded(value, at_the_end):
    """A copy of an array beside forbidden memory."""
    result = memory(value.shape, value.dtype, at_the_end)
    result[...] = value
    return result


def main():
    """Runs the calls, each with its arrays and its results at both edges."""
    arrays = example_data.arrays()
    places = {}
    module = importlib.import_module("pipeflow.declare.eager")
    assert module._fresh, "where the eager call makes its results"
    module._fresh = lambda _output, shape, dtype: memory(tuple(shape), np.dtype(dtype), places["end"])
    for line in sys.stdin:
        text = line.strip()
        used = [name for name in compile(text, "call", "eval").co_names if name in arrays]
        for places["end"] in (True, False):
            print(text, flush=True)  # noqa: T201
            names = {name: guarded(arrays[name], places["end"]) for name in used}
            eval(text, {"fn": fn, "types": types, "np": np, **names})
    print("all", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
