"""Kernels of chains that bodies do not use: a thread loads or compiles them when a chain needs them first, so no batch waits."""

import os
import threading
from collections.abc import Sequence
from typing import Any

from pipeflow.kernels.cpu import start

Wanted = tuple[Any, tuple[Any, ...]]  # a kernel and the types of its arguments


class _Loading:
    """What threads of this process load."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun: set[Wanted] = set()


_loading = _Loading()


def _forget() -> None:
    """In a forked child: the threads belong to the parent."""
    global _loading
    _loading = _Loading()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def load_if_waiting(*lists: Sequence[Wanted]) -> None:
    """With PIPEFLOW_START=wait, loads these kernels now, in `build()`."""
    if os.environ.get("PIPEFLOW_START") == "wait":
        for wanted in lists:
            _load(wanted)


def ready(wanted: Sequence[Wanted]) -> bool:
    """True if these kernels are in memory. If not, a thread loads them, unless PIPEFLOW_START=wait: then this call does."""
    load_if_waiting(wanted)
    missing = [one for one in wanted if one[1] not in one[0].overloads]
    if not missing:
        return True
    if start.state.starting:
        return False
    with _loading.lock:
        new = [one for one in missing if one not in _loading.begun]
        if new:
            thread = threading.Thread(target=_load, args=(new,), name="pipeflow programs")
            try:
                thread.start()
            except RuntimeError:  # the program ends, or the system has no thread left
                return False
            _loading.begun.update(new)
    return False


def _load(wanted: Sequence[Wanted]) -> None:
    for compiled, signature in wanted:
        compiled.compile(signature)
