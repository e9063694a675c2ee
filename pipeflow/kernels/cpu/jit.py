"""How the kernels are compiled: once per (kernel, argument types), without the GIL, and kept on disk.

The cache lies in the user's cache folder, never beside the sources, so a read-only install compiles once a
user; its stamp is a digest of every kernel source, because Numba's own stamp covers only the function's file
and would keep a kernel whose helper in another module has changed. Files are written under another name and
moved into place, so processes that compile at the same moment do not disturb each other.
"""

import hashlib
import logging
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import caching, dispatcher
from numba.core.serialize import dumps
from numba.np import linalg

log = logging.getLogger("pipeflow.kernels")


def _look_for_scipy_only(ensure_blas: Callable[[], None]) -> Callable[[], None]:
    """Numba imports the whole of scipy.linalg only to see whether it is there, a third of the time to the first batch.

    While Numba's array functions are being loaded, looking for it is enough. Functions of the user's that do linear
    algebra ask again when they are compiled, and then it is imported.
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

# Types that elements are moved as where nobody computes with them: one compiled kernel an element size.
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Every kernel of this process, in order of definition.
KERNELS: list[dispatcher.Dispatcher] = []


@cache
def stamp() -> str:
    """Digest of all kernel sources and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def usable(folder: Path) -> bool:
    """Creates the folder; true when it is writable and nobody else could have put files there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if hasattr(os, "getuid"):
            status = folder.stat()
            return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    except OSError:
        return False
    return True


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept: `PIPEFLOW_CACHE_DIR`, else the user's cache folder; None when neither
    is writable.

    Compiled code is run as it is read, so a folder that belongs to someone else, or that others may write, is
    not used.
    """
    chosen = os.environ.get("PIPEFLOW_CACHE_DIR")
    base = (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "pipeflow"
    )
    folder = base / f"kernels-{stamp()}"
    if usable(folder):
        return folder
    log.warning(
        "%s is not a writable folder of this user: kernels are compiled again in every process; set PIPEFLOW_CACHE_DIR",
        base,
    )
    return None


class KernelFiles:
    """One file a specialisation, named by the digest of its key.

    Numba's own cache numbers its files in an index that two processes may write at once, and then one process
    can read the other's code under its own signature.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def path(self, key: Any) -> Path:
        return self.folder / f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc"

    def load(self, key: Any) -> Any:
        """The stored specialisation, or None; a file that cannot be read counts as absent."""
        try:
            return pickle.loads(self.path(key).read_bytes())
        except Exception as error:
            if not isinstance(error, FileNotFoundError):
                log.debug("kernel %s cannot be read from the cache and is compiled again: %r", self.name, error)
            return None

    def save(self, key: Any, data: Any) -> None:
        path = self.path(key)
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(dumps(data))
            os.replace(temporary, path)
        except OSError as error:
            Path(temporary).unlink(missing_ok=True)
            log.debug("kernel %s was not stored: %r", self.name, error)

    def flush(self) -> None:
        for path in self.folder.glob(f"{self.name}-*.nbc"):
            path.unlink(missing_ok=True)


class Locator(caching._CacheLocator):
    """Tells Numba's cache about our folder and our stamp."""

    def __init__(self, function: Callable, folder: Path) -> None:
        self.folder = folder
        self.line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return stamp()

    def get_disambiguator(self) -> str:
        return str(self.line)

    @classmethod
    def from_function(cls, function: Callable, _source: str) -> "Locator | None":
        folder = cache_folder()
        return None if folder is None else cls(function, folder)


class CacheFiles(caching.CompileResultCacheImpl):
    _locator_classes = (Locator,)


class KernelCache(caching.FunctionCache):
    _impl_class = CacheFiles

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file = KernelFiles(Path(self._cache_path), self._impl.filename_base)


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Compiles a function of arrays and numbers with Numba: without the GIL, cached on disk.

    Sums may be contracted to fused multiply-adds (one rounding instead of two); nothing else is reordered.
    """
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}} | options

    def make(target: Callable) -> dispatcher.Dispatcher:
        compiled = numba.njit(**settings)(target)
        if cache_folder() is not None:
            compiled._cache = KernelCache(target)
        KERNELS.append(compiled)
        return compiled

    return make if function is None else make(function)


def compiled_count() -> int:
    """How many specialisations this process has had to compile, not counting those read from the cache."""
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
