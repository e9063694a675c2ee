"""Compiles kernels: once for each (kernel, argument types), to run without the GIL, and kept on disk.

The stamp of a kept kernel (`kernel_folder.py`) is a digest of all kernel sources. Numba's own stamp covers only the file of the
function: a kernel would be kept although its helper in another module has changed. ``kept_code.py`` decides where the files are.
"""

import sys
from collections.abc import Callable, Sequence
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

    While Numba's array functions are loaded, the module is only looked for and not imported. When a function of the user with
    linear algebra is compiled, Numba checks again, and then the module is imported.
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

    A product and a sum may become a fused multiply-add (one rounding instead of two); nothing else is reordered.
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
    """The types for which a kernel is compiled when it gets these arguments."""
    return tuple(numba.typeof(argument) for argument in arguments)


def machine_code(compiled: dispatcher.Dispatcher, *arguments: Any) -> Callable[..., Any]:
    """A kernel for arguments of the types of these: the types of later arguments are not looked up, and not checked.

    It saves a third of the time of a call. Arrays may be read-only, because kernels never write to their inputs.
    """
    signature = types_of(*arguments)
    compiled.compile(signature)
    return compiled.overloads[signature].entry_point


Filling = Callable[[np.ndarray, np.ndarray], np.ndarray]  # fills its second argument and returns it


def over_elements(compiled: dispatcher.Dispatcher, source: Any, numbers: Sequence[Any], target: Any) -> Filling:
    """A kernel of (flat source, *numbers, flat result) for many calls on arrays of these element types."""
    compute = machine_code(compiled, np.empty(0, source), *numbers, np.empty(0, target))

    def run(values: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(values.ravel(), *numbers, out.ravel())
        return out

    return run


# Arguments for `machine_code`, instead of flat arrays of bytes and whole numbers.
BYTES, NUMBER = np.empty(0, np.uint8), 0


def kept(compiled: dispatcher.Dispatcher, signature: tuple[Any, ...]) -> bool:
    """True if the kernel for these types is in memory or on disk."""
    if signature in compiled.overloads:
        return True
    cache = compiled._cache  # type: ignore[attr-defined]
    if not isinstance(cache, KernelCache):
        return False
    return cache._cache_file.path(cache._index_key(signature, compiled.targetctx.codegen())).exists()


def kept_code_of(compiled: Any, *arguments: Any) -> tuple[Callable[..., Any], int] | None:
    """`machine_code` of a kernel that is in memory or on disk, and the number of its results, -1 for one that is no tuple; None
    for any other function.
    """
    if not (hasattr(compiled, "overloads") and kept(compiled, types_of(*arguments))):
        return None
    code = machine_code(compiled, *arguments)
    result = compiled.overloads[types_of(*arguments)].signature.return_type
    return code, 0 if result == numba.none else result.count if isinstance(result, numba.types.BaseTuple) else -1


def compiled_count() -> int:
    """The number of kernels that this process has compiled, without those read from the cache."""
    return sum(sum(one.stats.cache_misses.values()) for one in KERNELS)


class Writable:
    """Gives access to an array's memory without its read-only flag."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.__array_interface__["data"][0], False)}


def plain(array: np.ndarray) -> np.ndarray:
    """The array in the form for kernels: C-contiguous and of the writable type, so that a kernel is compiled once for each dtype.

    Numba gives read-only arrays another type. Kernels never write to their inputs.
    """
    if not array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    if not array.flags.writeable and array.size:
        return np.asarray(Writable(array))
    return array
