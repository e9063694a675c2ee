"""Compiled code that steps do without until a thread has loaded it."""

import contextlib
import os
import threading
from collections.abc import Callable

from pipeflow import seeds
from pipeflow.executor.batch import BatchRun
from pipeflow.kernels import cpu as kernels


class LateCode:
    """Compiled code. A thread loads it after the second batch, so that no batch waits for it, and a short program does without
    it.
    """

    def __init__(self, name: str, loaded: Callable[[], bool], load: Callable[[], None]) -> None:
        self._name = name
        self._in_memory = loaded
        self._load = load
        self._loaded = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ready(self, batch: BatchRun) -> bool:
        """True if the code may be used."""
        if not self._loaded:
            if self._in_memory():
                self._loaded = True
            elif os.environ.get("PIPEFLOW_START") == "wait":
                self._load()
                self._loaded = True
            elif batch.index > 1:
                self._begin()
        return self._loaded and not kernels.start.state.starting

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not kernels.start.state.starting:
                thread = threading.Thread(target=self._load, name=self._name, daemon=False)
                with contextlib.suppress(RuntimeError):  # the program ends, or the system has no thread left
                    thread.start()
                    self._thread = thread

    def _forget(self) -> None:
        """In a forked child: the thread belongs to the parent."""
        self._loaded = False
        self._thread = None
        self._lock = threading.Lock()


def _load_keys() -> None:
    seeds.compiled = kernels.keys.load()


_random_numbers = LateCode("pipeflow keys", lambda: seeds.compiled is not None, _load_keys)


def load_keys(batch: BatchRun) -> None:
    """Loads the compiled code of keys, which replaces that of NumPy."""
    _random_numbers.ready(batch)


_by_operator: dict[str, LateCode] = {}


def late_code(operator: str, loads: tuple[Callable[[], bool], Callable[[], None]]) -> LateCode:
    """The code that an operator uses for all samples of a batch: the functions that tell if it is loaded, and load it."""
    return _by_operator.get(operator) or _by_operator.setdefault(operator, LateCode(f"pipeflow {operator}", *loads))
