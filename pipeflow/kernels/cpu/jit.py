"""Compiling kernels: once for each (kernel, argument types), without the GIL, and kept on disk.

The stamp of a kept kernel (`kernel_folder.py`) is a digest of all kernel sources, because Numba's own stamp covers only the
function's file and would keep a kernel whose helper in another module has changed. ``kept_code.py`` says where the files are.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import dispatcher
from numba.np import linalg

from pipeflow.kernels.cpu.kernel_files import cache_class, keep
from pipeflow.kernels.cpu.kernel_folder import stamp
from pipeflow.kernels.kept_code import folder_for


def _look_for_scipy_only(ensure_blas: Callable[[], None]) -> Callable[[], None]:
    """Numba imports scipy.linalg only to check that it exists; this takes a third of the time to the first batch.

    While Numba's array functions are loaded, it is enough to find it. Functions of the user that do linear
    algebra check again when they are compiled, and then it is imported.
    """

    def ensure() -> None:
        arrays = sys.modules.get("numba.np.arraymath")
        if arrays is None or hasattr(arrays, "_HAVE_BLAS"):
            ensure_blas()
        elif find_spec("scipy") is None:
            raise ImportError("scipy is required for linear algebra")

    return ensure


if hasattr(linalg, "ensure_blas"):
    linalg.ensure_blas = _look_for_scipy_only(linalg.ensure_blas)

# The types of elements that are only moved: one compiled kernel for each element size.
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Every kernel of this process, in order of definition.
KERNELS: list[dispatcher.Dispatcher] = []


@cache
def cache_folder() -> Path | None:
    """The folder of the compiled kernels of this version; None if no folder can be written."""
    return folder_for(_folder_name())


def _folder_name() -> str:
    return f"kernels-{stamp()}"


KernelCache = cache_class(stamp, _folder_name)


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Compiles a function of arrays and numbers with Numba: without the GIL, cached on disk.

    Sums may be contracted to fused multiply-adds (one rounding instead of two); nothing else is reordered.
    """
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}} | options

    def make(target: Callable) -> dispatcher.Dispatcher:
        compiled = numba.njit(**settings)(target)
        if cache_folder() is not None:
            keep(compiled, KernelCache)
        KERNELS.append(compiled)
        return compiled

    return make if function is None else make(function)


def types_of(*arguments: Any) -> tuple[Any, ...]:
    """The types by which a kernel is compiled for such arguments."""
    return tuple(numba.typeof(argument) for argument in arguments)


def kept(compiled: dispatcher.Dispatcher, signature: tuple[Any, ...]) -> bool:
    """True if nothing has to be compiled for these types: the kernel is in memory or on disk."""
    if signature in compiled.overloads:
        return True
    cache = compiled._cache  # type: ignore[attr-defined]
    if not isinstance(cache, KernelCache):
        return False
    return cache._cache_file.path(cache._index_key(signature, compiled.targetctx.codegen())).exists()


def compiled_count() -> int:
    """The number of kernels that this process has compiled, without those read from the cache."""
    return sum(sum(one.stats.cache_misses.values()) for one in KERNELS)


class Writable:
    """Lends an array's memory without its read-only mark."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.__array_interface__["data"][0], False)}


def plain(array: np.ndarray) -> np.ndarray:
    """The array as kernels take it: C-contiguous and of the writable type, so that each kernel compiles once
    a dtype.

    Numba gives read-only arrays a type of their own. The kernels never write to their inputs.
    """
    if not array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    if not array.flags.writeable and array.size:
        return np.asarray(Writable(array))
    return array
