"""The first batches of a pipeline without compiled kernels; `kernels/cpu/start.py` has the rule.

The kernels of the plan are loaded by a thread after the second batch, so that no batch waits for them. If they have to be
compiled, another process does that from the first batch on, and leaves a mark on the disk. A program that ends before its
second batch loads no compiler at all.

PIPEFLOW_START=wait makes `build()` load or compile all kernels, and wait.
"""

import logging
import os
import pickle
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeflow import timing
from pipeflow.declare import Args, Bound, OpDef, find
from pipeflow.kernels import cpu as kernels

if TYPE_CHECKING:
    import subprocess

log = logging.getLogger("pipeflow.kernels")

WAITS = "wait"
_PROGRAM = "from pipeflow.compile import first_batches; first_batches.compile_here()"


@dataclass(frozen=True)
class Trial:
    """A step on a made-up sample: bytes and floats are noise, other types are zeros."""

    op: str
    constants: dict[str, Any]
    inputs: list[tuple[tuple[int, ...], np.dtype]]
    layouts: list[str]
    arguments: dict[str, np.ndarray]
    outputs: int

    def run(self) -> None:
        """Runs the step; the errors of an operator that cannot use the sample are ignored."""
        try:
            op = find(self.op)
            load_kernels(op, self.constants, self.inputs[0][1] if self.inputs else None)
            kernel = Bound(op, self.constants, self.outputs)
            inputs = [noise(shape, dtype) for shape, dtype in self.inputs]
            kernel(inputs, self.layouts, self.arguments, 1, lambda _, shape, dtype: np.empty(shape, dtype), "")
        except Exception as error:
            log.debug("%s cannot be prepared: %r", self.op, error)


def load_kernels(op: OpDef, constants: Mapping[str, Any], dtype: np.dtype | None = None) -> None:
    """Loads the kernels that an operator declares for chains with these arguments."""
    if op.loads_hook is not None:
        op.loads_hook(Args(**{**op.defaults, **constants}), dtype)


def noise(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Noise; it is the same at each call."""
    rng = np.random.default_rng(0)
    if dtype == np.uint8:
        return rng.integers(0, 256, shape, np.uint8)
    if dtype.kind == "f":
        return rng.uniform(-300, 300, shape).astype(dtype)
    return np.zeros(shape, dtype)


@dataclass
class Start:
    """The trials that are left in this process, and its progress."""

    waiting: dict[bytes, list[Trial]] = field(default_factory=dict)
    done: set[bytes] = field(default_factory=set)
    batches: int = 0
    compiling: "subprocess.Popen[bytes] | None" = None
    loading: threading.Thread | None = None
    since: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


_start = Start()


def _forget() -> None:
    """In a forked child: the process and the thread belong to the parent."""
    global _start
    _start = Start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def waits() -> bool:
    """True if `build()` waits for all kernels."""
    return os.environ.get("PIPEFLOW_START") == WAITS


def begin(trials: Sequence[Trial | None]) -> bool:
    """Begins with the NumPy forms; False if the kernels should be loaded now."""
    data = _data(trials)
    if waits() or data is None:
        return False
    with _start.lock:
        if data in _start.done or data in _start.waiting:
            return True
        mark = kernels.kernel_folder.KeptMark(data)
        kept = not any(trials) or mark.exists()
        if not kept and not mark.possible():
            return False
        if "pipeflow.kernels.cpu.jit" in sys.modules and kept and not _start.waiting:
            return False  # to load them takes almost no time
        _start.waiting[data] = [trial for trial in trials if trial is not None]
        _start.batches, _start.since = 0, timing.wall()
        kernels.start.state.begin()
    return True


def mark(trials: Sequence[Trial | None]) -> None:
    """Notes that the kernels of these trials are kept."""
    data = _data(trials)
    if data is not None and kernels.jit.cache_folder() is not None:
        kernels.kernel_folder.KeptMark(data).write()


def _data(trials: Sequence[Trial | None]) -> bytes | None:
    """The trials as data for another process; None if they cannot be sent."""
    try:
        data = pickle.dumps(trials)
    except Exception as error:
        log.debug("the kernels cannot be compiled by another process: %r", error)
        return None
    return data if len(data) <= kernels.elsewhere.LONGEST else None


def batch_taken() -> None:
    """Continues to load kernels; called with each batch that a pipeline returns."""
    if not _start.waiting or not _start.lock.acquire(blocking=False):
        return
    try:
        _start.batches += 1
        _go_on()
    except (OSError, RuntimeError) as error:  # no file, process or thread is left: the caller still gets the batch
        log.debug("loading kernels goes on with the next batch: %r", error)
    finally:
        _start.lock.release()


def _go_on() -> None:
    if _start.loading is not None:
        return
    if _start.compiling is not None and _start.compiling.poll() is None:
        return
    if _start.compiling is None:
        new = [
            data
            for data, trials in _start.waiting.items()
            if trials and not kernels.kernel_folder.KeptMark(data).exists()
        ]
        if new:
            log.info("images are processed by NumPy until the kernels for them are compiled, in another process")
            _start.compiling = kernels.elsewhere.begin(_PROGRAM, new[0])
            return
    elif _start.compiling.returncode:
        log.warning(
            "compiling kernels in another process ended with code %d: they are compiled in this one",
            _start.compiling.returncode,
        )
    if _start.batches > 1:
        loading = threading.Thread(target=_load, name="pipeflow kernels")
        loading.start()
        _start.loading = loading


def _load() -> None:
    """Loads the kernels and compares them with NumPy."""
    with _start.lock:
        waiting = dict(_start.waiting)
    with kernels.start.state.trials():
        for trials in waiting.values():
            for trial in trials:
                trial.run()
    with _start.lock:
        _start.done.update(waiting)
        for data in waiting:
            del _start.waiting[data]
        _start.loading = _start.compiling = None
        if not _start.waiting:
            kernels.start.state.end()
            log.info("images are processed by compiled kernels from now on, after %.1f s", timing.wall() - _start.since)


def compile_here() -> None:
    """The work of the other process: it compiles the kernels of the given trials and notes that they are kept."""
    data = kernels.elsewhere.given()
    trials = pickle.loads(data)
    with kernels.start.state.trials():
        for trial in trials:
            if trial is not None:
                trial.run()
    mark(trials)
