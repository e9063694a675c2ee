"""Numba's compiled kernels on disk; `kept_code.py` says where their files are. NUMBA_CACHE_DIR is not read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from pipeflow.kernels.kept_code import KernelFiles, Turns, folder_for


def keep(compiled: Dispatcher, kept: "type[caching.FunctionCache]") -> None:
    """Keeps the code that a dispatcher compiles on disk, by a class that `cache_class` has made."""
    cache_of = compiled._cache = kept(compiled.py_func)  # type: ignore[attr-defined]
    compile_now = compiled.compile

    def compile_in_turn(signature: Any) -> Any:
        # Numba's lock is taken here too, so that the two locks are always released in the reverse order.
        with global_compiler_lock, cache_of.turns.given_back():
            return compile_now(signature)

    compiled.compile = compile_in_turn  # type: ignore[method-assign, assignment]


def cache_class(stamp: Callable[[], str], name: Callable[[], str]) -> type[caching.FunctionCache]:
    """A class of caches for Numba's dispatchers: files with this stamp in their names, in the folder of that name."""

    class Locator(caching._CacheLocator):
        """Tells Numba about the folder and the stamp."""

        def __init__(self, function: Callable[..., Any], folder: Path) -> None:
            self.folder = folder
            self.line = function.__code__.co_firstlineno

        def get_cache_path(self) -> str:
            return str(self.folder)

        def get_source_stamp(self) -> str:
            return stamp()

        def get_disambiguator(self) -> str:
            return str(self.line)

        @classmethod
        def from_function(cls, function: Callable[..., Any], _source: str) -> "Locator | None":
            folder = folder_for(name())
            return None if folder is None else cls(function, folder)

    class CompiledFunctions(caching.CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class Cache(caching.FunctionCache):
        _impl_class = CompiledFunctions

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__(function)
            self._cache_file = KernelFiles(Path(self._cache_path), f"{self._impl.filename_base}-{stamp()}", dumps)
            self.turns = Turns(Path(self._cache_path))

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = super().load_overload(sig, target_context)
            if found is None and self.turns.wait(self._cache_file.path(self._index_key(sig, target_context.codegen()))):
                found = super().load_overload(sig, target_context)
            return found

    return Cache
