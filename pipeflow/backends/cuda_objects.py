"""Contexts, events and memory of CUDA by their handles; each is released while its own device is current.

They may be collected in any thread, also in one that never used CUDA. In such a thread, a call without a current context would
open a context on GPU 0. ``cuda`` is ``cupy.cuda``, which ``backends.gpu`` imports.
"""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

PORTABLE = 1  # cudaHostAllocPortable: pinned for all contexts


class Context:
    """A device that can be made current in any thread for a while.

    It uses contexts of the driver. ``setDevice`` would open a context on the chosen device, also when it only restores
    the device that was current before: half a gigabyte on GPU 0 for every process that works on another GPU.
    """

    def __init__(self, cuda: Any, device_id: int) -> None:
        self.cuda = cuda
        self.device_id = device_id
        self.process = os.getpid()
        self.streams: deque[Any] = (
            deque()
        )  # of closed pipelines: CuPy and torch keep memory for each stream, which is used again
        self.events: deque[int] = deque()
        opened: Future[int] = Future()
        thread = threading.Thread(target=self._open, args=(opened,))  # a new thread has no current device to restore
        thread.start()
        thread.join()
        self.handle = opened.result()

    def _open(self, opened: "Future[int]") -> None:
        try:
            self.cuda.runtime.setDevice(self.device_id)
            self.cuda.runtime.free(0)  # opens it
            opened.set_result(self.cuda.driver.ctxGetCurrent())
        except BaseException as error:
            opened.set_exception(error)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Makes the device current in this thread; at the end, the earlier device is current again."""
        driver = self.cuda.driver
        before = driver.ctxGetCurrent()
        driver.ctxSetCurrent(self.handle)
        try:
            yield
        finally:
            driver.ctxSetCurrent(before)

    @property
    def alive(self) -> bool:
        """True if CUDA can still be called: not in a forked process, and not when the interpreter ends."""
        return self.process == os.getpid() and not sys.is_finalizing()


class Event:
    """An event without a clock, which is cheaper; its handle is used again."""

    __slots__ = ("_context", "ptr")

    def __init__(self, context: Context) -> None:
        self._context = context
        try:
            self.ptr = context.events.popleft()
        except IndexError:
            self.ptr = context.cuda.runtime.eventCreateWithFlags(context.cuda.runtime.eventDisableTiming)

    def __del__(self) -> None:
        if hasattr(self, "ptr"):
            self._context.events.append(self.ptr)


class CapturedGraph:
    """Captured work that can be queued many times. The captured form is not kept."""

    __slots__ = ("_context", "ptr")

    def __init__(self, context: Context, captured: int) -> None:
        self._context = context
        try:
            self.ptr = context.cuda.runtime.graphInstantiate(captured)
        finally:
            context.cuda.runtime.graphDestroy(captured)

    def __del__(self) -> None:
        if hasattr(self, "ptr") and self._context.alive:
            with self._context.current():
                self._context.cuda.runtime.graphExecDestroy(self.ptr)


class PinnedMemory:
    """Page-locked memory; NumPy can make an array of it."""

    def __init__(self, context: Context, nbytes: int) -> None:
        self._context = context
        self._address = context.cuda.runtime.hostAlloc(nbytes, PORTABLE)
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (self._address, False), "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "_address") and self._context.alive:
            with self._context.current():
                self._context.cuda.runtime.freeHost(self._address)


class CudaMemory:
    """Device memory, released when this object is collected. CUDA waits then for work that still uses it."""

    def __init__(self, context: Context, nbytes: int) -> None:
        self._context = context
        self.nbytes = nbytes
        self.address = context.cuda.runtime.malloc(nbytes)

    def free(self) -> None:
        """Releases it, once."""
        address, self.address = self.address, 0
        if address and self._context.alive:
            with self._context.current():
                self._context.cuda.runtime.free(address)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.free()
