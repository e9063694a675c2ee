"""Batches that are read in worker processes, and the call that a worker makes for each of them."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

# NumPy loads this module when it is first used. Each worker sets the seed, and would load its own copy: 28 ms and 4 MB.
import numpy.random  # noqa: F401

from pipeflow.errors import Failed
from pipeflow.executor.workers import check_start_method
from pipeflow.executor.workers.exceptions import pack_exception, unpack_exception
from pipeflow.executor.workers.pool import WorkerPool
from pipeflow.executor.workers.segments import FillsRoom
from pipeflow.executor.workers.worker import INSIDE
from pipeflow.loading.carriers import PendingBatch
from pipeflow.loading.light import TensorsLater
from pipeflow.loading.parcels import Joining, packed, unpacked
from pipeflow.loading.rows import Room
from pipeflow.loading.walks import BatchItems
from pipeflow.loading.work import ItemReader, Read, described, frame_of, seed_everything
from pipeflow.saving.functions import travels


class InWorker(FillsRoom):
    """Reads batches in a worker process and puts them into shared memory."""

    def __init__(
        self, reader: ItemReader, workers: int, seed: int, worker_init_fn: Callable[[int], Any] | None
    ) -> None:
        self.source = reader.dataset  # messages name this object if it cannot be sent
        self.reader = reader
        self.workers = workers
        self.seed = seed
        self.worker_init_fn = worker_init_fn
        self._entered = False

    def __call__(self, room: Room, wanted: BatchItems) -> tuple[bytes, list[Any]]:
        if not self._entered:
            self._enter()
        seed_everything(wanted.key, self._frame())
        read = self.reader.run(wanted, Joining(self._frame, room))
        if self.reader.model is not None and read.batch is not None:
            rows = [pack_exception(x.error) if isinstance(x, Failed) else x for x in read.batch]
            read = read._replace(batch=rows)
        return packed(tuple(read), self._frame())

    def _frame(self) -> Any:
        """The framework in the worker: torch is loaded only if the data set or a function of the user may use it."""
        if self.reader.frame == "torch" and "torch" not in sys.modules:
            return TensorsLater()
        return frame_of(self.reader.frame)

    def _enter(self) -> None:
        number = int(os.environ[INSIDE])
        self.reader.find_frame = self._frame
        asked = self.reader.stream or self.worker_init_fn is not None
        frame = frame_of(self.reader.frame) if asked else self._frame()
        if hasattr(frame, "enter_worker"):
            frame.enter_worker(number, self.workers, self.seed + number, self.reader.dataset)
        elif self.reader.stream:
            self.reader.dataset = part_of_stream(self.reader.dataset, number, self.workers)
        if self.worker_init_fn is not None:
            seed_everything(self.seed + number, frame)
            self.worker_init_fn(number)
        self._entered = True


def part_of_stream(dataset: Any, number: int, workers: int) -> Any:
    """The part of a worker, for a stream that has `shard()` as those of Hugging Face have; any other stream is read whole.

    With torch such a stream asks torch for the worker, and takes the same part.
    """
    shards = getattr(dataset, "num_shards", None)
    if not isinstance(shards, int) or not callable(getattr(dataset, "shard", None)):
        return dataset
    parts = min(workers, shards)
    return dataset.shard(num_shards=parts, index=number, contiguous=False) if number < parts else ()


class Processes:
    """Reads each batch in one of several worker processes; its arrays come in shared memory."""

    def __init__(
        self,
        reader: ItemReader,
        count: int,
        prefetch: int,
        timeout: float | None,
        context: Any,
        seed: int,
        worker_init_fn: Callable[[int], Any] | None,
    ) -> None:
        self.ahead = count * prefetch
        self._frame, self._of_items = frame_of(reader.frame), reader.model is not None
        in_worker = InWorker(reader, count, seed, worker_init_fn)
        method = start_method(context)
        if context is None and method == "fork" and _beside_threads() and travels(in_worker):
            method = "forkserver"
        self._pool = WorkerPool(count, method, timeout, beside_threads=context is None)
        try:
            self._handle = self._pool.register(in_worker, name=described(reader.dataset))
        except TypeError as error:
            error.add_note(
                "a data set is copied to its workers: open files and connections in __getitem__, or in worker_init_fn, "
                'or read it with workers="threads"'
            )
            raise
        self._pool.start()

    def submit(self, wanted: BatchItems) -> PendingBatch:
        """A batch that is being read."""
        return _InProcess(self, self._pool.submit(self._handle, [(wanted,)], pinned=wanted.slot))

    def received(self, parcel: Any) -> Read:
        """A batch from a worker."""
        data, arrays = parcel
        read = Read(*unpacked(data, arrays, self._frame))
        if not self._of_items or read.batch is None:
            return read
        return read._replace(batch=[x if type(x) is tuple else Failed(unpack_exception(x)) for x in read.batch])

    def close(self, wait: bool = True) -> None:
        """Ends the workers."""
        if wait:
            self._pool.close()
        else:
            self._pool.let_go()


class _InProcess:
    def __init__(self, home: Processes, ticket: Any) -> None:
        self._home, self._ticket = home, ticket

    def result(self) -> Read:
        [parcel] = self._ticket.result()
        return self._home.received(parcel)

    def cancel(self) -> None:
        self._ticket.cancel()


def _beside_threads() -> bool:
    """True if the program runs threads of its own: a forked copy would have the locks that they hold, locked for ever."""
    own = threading.current_thread()
    return any(thread is not own and not thread.name.startswith("pipeflow") for thread in threading.enumerate())


def start_method(context: Any) -> str:
    """The start method of workers: the given one, or that of `multiprocessing` and torch in this program.

    With "fork" the workers begin as copies of this process, so they have the data set and its libraries.
    """
    if context is None:
        usual = multiprocessing.get_all_start_methods()[0]  # get_start_method() alone would fix it for the program
        return multiprocessing.get_start_method(allow_none=True) or usual
    name = context if isinstance(context, str) else context.get_start_method()
    return check_start_method(name, "multiprocessing_context")
