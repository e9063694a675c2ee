"""The loop in a worker: receives chunks of samples from its socket, calls functions, and writes the results into shared
memory.

It writes its progress to a status page that it shares with the parent, so that the parent knows which sample ended or blocked
the worker.
"""

import ctypes
import faulthandler
import gc
import io
import mmap
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeflow import system, timing
from pipeflow.executor.workers.channel import Channel
from pipeflow.executor.workers.exceptions import PackedException, pack_exception
from pipeflow.executor.workers.segments import (
    FillsRoom,
    PackedTable,
    Segment,
    SegmentWriter,
    read,
    read_columns,
    unpack,
)
from pipeflow.tensors import Block

# Read by BLAS libraries, OpenMP, Numba and OpenCV when they load: there are several workers, so each has one thread.
THREAD_LIMITS = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "OPENCV_FOR_THREADS_NUM",
    ),
    "1",
)

# The signal to write the Python stack. A real-time signal if there is one, because programs use SIGUSR1 for themselves.
STACK_SIGNAL: int = signal.SIGRTMAX - 1 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR1

RUN, LOAD, STOP = range(3)  # first field of a message to a worker
IDLE, LOADING = -1, -2  # on the status page in place of a ticket
STATUS_SIZE = mmap.PAGESIZE
SLOT = 3  # on the status page: the number of the worker in its pool
INSIDE = "PIPEFLOW_INSIDE_WORKER"  # set in workers, to their number: a worker may not start workers
CONNECTION_LOST = 71  # exit code of a worker whose function closed its socket


@dataclass(frozen=True)
class WorkerFunction:
    """A function as the workers know it."""

    number: int
    name: str
    whole_chunk: bool = False
    writable: bool = False
    keep_going: bool = False


class ChunkOrder(NamedTuple):
    """The order to run a task on the samples in a segment, and to write the results into another segment."""

    ticket: int
    task: int
    samples: tuple[Any, ...]  # a Packed
    input: int
    input_size: int
    output: int
    output_size: int
    block: int  # the segment for results of known shapes, 0 for none
    block_size: int
    places: tuple[tuple[int, Any, tuple[int, ...]] | None, ...]  # of each result in it: first offset, dtype, shape
    new: tuple[int, ...]  # numbers of the segments whose descriptors come with this message
    gone: tuple[int, ...]  # numbers of segments that will not be used again


class Done(NamedTuple):
    """The outcome of a chunk; `content` has the entries of the results in order, and the failures by sample.

    The entries are None if every result is in its place in the block; the same holds for the entry of a sample, and of a result.
    """

    ticket: int
    content: tuple[Any, ...]  # a Packed
    output_size: int
    output_used: int  # bytes written there
    input_kept: bool  # the function still refers to its input: the segment must not be used again
    nanoseconds: int
    cpu_nanoseconds: int
    began: int  # in nanoseconds of ``timing.stamp``, which is the same in all processes


@dataclass
class _Loaded:
    task: WorkerFunction
    function: Callable[..., Any] | None
    broken: PackedException | None = None


def main(descriptors: list[int], inherited: dict[int, Callable[..., Any]]) -> None:
    """Runs a worker until its parent stops it or has ended; it never returns to the forked code."""
    code = 1
    try:
        connection, parent, stack, status = descriptors
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end_with_parent(parent)
        faulthandler.enable(file=stack)
        faulthandler.register(STACK_SIGNAL, file=stack, all_threads=True, chain=False)
        reseed()
        _WorkerLoop(connection, status, inherited).run()
        code = 0
    except BaseException:
        traceback.print_exc()  # an error in this package: exceptions of user code are results
    finally:
        flush_output()
        os._exit(code)


def flush_output() -> None:
    """Writes the buffers of the program's output."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # there may be none, or it is closed
            stream.flush()


def end_with_parent(descriptor: int) -> None:
    """Ends this process when the last write end of a pipe, which only the parent has, is closed."""
    if not system.killed_by_end_of(descriptor):
        threading.Thread(target=_wait_for_end, args=(descriptor,), daemon=True, name="pipeflow parent watch").start()
        return
    with suppress(BlockingIOError):
        if os.read(descriptor, 1) == b"":  # the parent ended before the signal was set
            os._exit(1)


def _wait_for_end(descriptor: int) -> None:
    os.read(descriptor, 1)
    os._exit(1)


def prepare() -> None:
    """Prepares the process for workers. A fork server does this once, before it forks them, so that they share its pages."""
    limit_threads()
    system.keep_freed_memory()


def limit_threads() -> None:
    """One thread for the numerical libraries that are loaded already; others read the environment when they load."""
    os.environ.update(THREAD_LIMITS)
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)  # 1 would wait for threads that a forked copy does not have
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    for setter in _blas_setters():
        setter(1)


def _blas_setters() -> Iterator[Callable[[int], Any]]:
    """The functions that set the number of threads in each OpenBLAS of this process."""
    with suppress(OSError):
        files = {line.split(maxsplit=5)[-1] for line in system.lines_of("/proc/self/maps") if "openblas" in line}
        for library in map(ctypes.CDLL, files):
            for prefix in ("scipy_", ""):
                for suffix in ("64_", ""):
                    setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                    if setter is not None:
                        yield setter


def reseed() -> None:
    """Gives this worker another global NumPy generator: forked copies would all draw the same numbers."""
    if "numpy.random" in sys.modules:
        np.random.seed()


class _WorkerLoop:
    def __init__(self, connection: int, status: int, inherited: dict[int, Callable[..., Any]]) -> None:
        self.channel = Channel(socket.socket(fileno=connection))
        self.status = memoryview(mmap.mmap(status, STATUS_SIZE)).cast("q")
        os.close(status)
        self.status[0] = IDLE
        os.environ[INSIDE] = str(self.status[SLOT])
        self.segments: dict[int, Segment] = {}
        self.tasks: dict[int, _Loaded] = {}
        self.inherited = inherited

    def run(self) -> None:
        with self.channel.socket:
            self.serve()

    def serve(self) -> None:
        while True:
            messages = self.channel.receive()
            if messages is None:
                return
            for message, descriptors in messages:
                if message[0] == RUN:
                    self.run_chunk(ChunkOrder._make(message[1:]), descriptors)
                elif message[0] == LOAD:
                    self.load(WorkerFunction(*message[1:]), descriptors)
                else:
                    return

    def load(self, task: WorkerFunction, descriptors: list[int]) -> None:
        """Makes a function ready; a failure is kept and reported by each chunk that wants the function."""
        self.status[0], self.status[4] = LOADING, task.number
        try:
            if descriptors:
                with io.FileIO(descriptors[0]) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                    function = pickle.loads(data)
                limit_threads()  # also for the libraries that the function has loaded
            else:
                function = self.inherited[task.number]
            self.tasks[task.number] = _Loaded(task, function)
        except BaseException as error:
            error.add_note(f"while the worker process loaded {task.name}")
            self.tasks[task.number] = _Loaded(task, None, pack_exception(error))
        self.status[0] = IDLE

    def run_chunk(self, chunk: ChunkOrder, descriptors: list[int]) -> None:
        began, began_cpu = timing.stamp(), time.process_time_ns()
        for number in chunk.gone:
            if number in self.segments:
                self.segments.pop(number).close()
        for number, descriptor in zip(chunk.new, descriptors):
            self.segments[number] = Segment(number, descriptor, os.fstat(descriptor).st_size)
        source, target = self.segments[chunk.input], self.segments[chunk.output]
        source.remap(chunk.input_size)
        target.remap(chunk.output_size)
        returned: deque[Block] = deque()
        places: list[np.ndarray | None] = []
        if chunk.block:
            block = self.segments[chunk.block]
            block.remap(chunk.block_size)
            places = [x and np.ndarray(x[2], x[1], block.flat, x[0]) for x in chunk.places]
        writer = SegmentWriter(target)
        content = self.results(chunk, self.tasks[chunk.task], returned, writer, places)
        if not returned:
            gc.collect(0)  # a reference cycle of the function may keep its input; collect it once
        elapsed, worked = timing.stamp() - began, time.process_time_ns() - began_cpu
        try:
            self.channel.send(
                Done(chunk.ticket, tuple(content), target.size, writer.end, not returned, elapsed, worked, began)
            )
        except OSError:
            os._exit(CONNECTION_LOST)
        self.status[0] = IDLE

    def results(
        self,
        chunk: ChunkOrder,
        loaded: _Loaded,
        returned: "deque[Block]",
        writer: SegmentWriter,
        places: "Sequence[np.ndarray | None]",
    ) -> PackedTable:
        """Calls the function for every sample, and writes its results to their places or into the output segment."""
        flat = self.segments[chunk.input].lease(returned)
        if not loaded.task.writable:
            flat.flags.writeable = False
        content = unpack(PackedTable._make(chunk.samples), self.segments[chunk.input])
        if isinstance(content, tuple):
            count, columns = content
            samples = read_columns(count, columns, flat)
        else:
            samples = [read(entry, flat) for entry in content]
        del flat
        entries: list[tuple[Any, ...] | None] = []
        failures: list[tuple[int, PackedException | None]] = []
        calls = [(samples,)] if loaded.task.whole_chunk else samples
        room = (writer.room,) if isinstance(loaded.function, FillsRoom) else ()
        for index, arguments in enumerate(calls):
            self.status[1], self.status[2] = index, timing.stamp()
            self.status[0] = chunk.ticket
            if loaded.function is None:
                failures.append((index, loaded.broken))
                break
            try:
                value = loaded.function(*room, *arguments)
                entries.append(_lay(value, index, places, writer) if places else writer.put(value))
                del value
            except BaseException as error:
                entries.append(None)
                failures.append((index, pack_exception(error)))
                if not loaded.task.keep_going:
                    break
        try:
            expected = bool(places) and not failures and not any(entries)
            return writer.pack((None if expected else entries, failures))
        except BaseException as error:
            error.add_note("while the results were sent from the worker process")
            writer.end = 0
            return writer.pack(([], [(0, pack_exception(error))]))


def _lay(
    value: Any, index: int, places: "Sequence[np.ndarray | None]", writer: SegmentWriter
) -> tuple[Any, ...] | None:
    """Writes the results of a sample to their places; results of unexpected types or shapes go elsewhere."""
    if type(value) is not tuple or len(value) != len(places):
        return writer.put(value)
    entries: list[Any] = []
    for result, place in zip(value, places):
        plain = type(result) is np.ndarray
        if plain and place is not None and result.dtype == place.dtype and result.shape == place.shape[1:]:
            place[index] = result
            entries.append(None)
        else:
            entries.append(writer.put(result))
    return (True, entries) if any(entries) else None
