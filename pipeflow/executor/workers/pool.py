"""`WorkerPool`: functions run on chunks of samples in worker processes, results come back in shared memory.

    with WorkerPool(num_workers=2) as pool:
        augment = pool.register(function)
        tickets = [pool.submit(augment, chunk) for chunk in chunks]
        for ticket in tickets:
            samples = ticket.result()

A chunk is a list of samples, a sample the tuple of the function's arguments: arrays of any shape and dtype, and small
objects that pickle.
"""

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from pipeflow.errors import Failed, InvalidState, function_name
from pipeflow.executor.workers import anonymous_files, check_start_method, zygote
from pipeflow.executor.workers.dispatcher import Dispatcher, ExpectedResults, Job, Kind, Registered
from pipeflow.executor.workers.exceptions import unpack_exception
from pipeflow.executor.workers.segments import OWN_BELOW, Region, name_of, read, reserve, unpack
from pipeflow.executor.workers.worker import Done, WorkerFunction
from pipeflow.saving.functions import dumps_function


@dataclass(frozen=True, eq=False)
class FunctionHandle:
    """A function that the workers know."""

    _registered: Registered

    @property
    def name(self) -> str:
        return self._registered.task.name

    @property
    def seconds(self) -> float:
        """The time that the workers have spent in the function."""
        return self._registered.total_nanoseconds / 1e9


class Column:
    """One argument of all calls of a batch, copied into a region once: a dense array, a list of arrays, or plain values."""

    def __init__(self, region: Region, values: Any, samples: Sequence[int], plain: bool = False) -> None:
        self._offset: int | None = None
        self._entries: list[Any] | None = None
        self._values = values
        if plain:
            return
        if isinstance(values, np.ndarray) and not values.dtype.hasobject and len(samples) == len(values):
            self._offset = region.dense(values)
        elif type(values) is list:
            self._entries = [region.put(values[sample]) for sample in samples]
        else:
            self._entries = [region.put(values[sample, ...]) for sample in samples]

    def part(self, begin: int, end: int) -> tuple[bool | None, Any]:
        """The message to a worker about some of the calls."""
        if self._entries is not None:
            return False, self._entries[begin:end]
        if self._offset is None:
            return None, self._values[begin:end]
        values = self._values
        stride = values.nbytes // len(values)
        return True, (self._offset + begin * stride, name_of(values.dtype), (end - begin, *values.shape[1:]))


class Ticket:
    """A submitted chunk; its results can be taken once."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def failed_sample(self) -> int | None:
        """The sample of the chunk to which the error raised by `result` belongs, if it is known."""
        return self._job.error_sample

    def done(self) -> bool:
        return self._job.finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the chunk is finished, with results or with an error."""
        return self._job.finished.wait(timeout)

    def cancel(self) -> None:
        """Gives the chunk up if no worker has it yet."""
        self._job.cancelled = True

    def result(self, timeout: float | None = None) -> list[Any]:
        """The results in order; arrays are views of shared memory that is used again when the last view is gone."""
        values, failures = self._take(timeout)
        assert values is not None, "no results were expected"
        flat, self._job.flat = self._job.flat, None
        assert flat is not None
        results = [read(entry, flat, OWN_BELOW) for entry in values]
        for index, error in failures:
            results[index] = Failed(error)
        return results

    def results_beside(self) -> list[Any] | None:
        """Like `result`, with None for results that are in the place chosen in advance: a sample, one of its results, or all."""
        values, failures = self._take(None)
        if values is None:
            return None
        flat, self._job.flat = self._job.flat, None
        assert flat is not None
        results = [read(entry, flat, OWN_BELOW) for entry in values]
        for index, error in failures:
            results[index] = Failed(error)
        return results

    def _take(self, timeout: float | None) -> tuple[list[Any] | None, list[tuple[int, BaseException]]]:
        job = self._job
        if not job.finished.wait(timeout):
            raise TimeoutError(f"the chunk of {job.registered.task.name} is not finished after {timeout:g} s")
        if job.error is not None:
            raise job.error
        if job.flat is None or job.content is None or job.output is None:
            raise InvalidState("the results of this chunk have been taken already")
        entries, packed = unpack(job.content, job.output)
        failures = [(index, unpack_exception(x)) for index, x in packed]
        if failures and not (job.registered.task.keep_going and len(entries) > failures[-1][0]):
            index, job.error = failures[0]
            job.error_sample = index
            job.flat = None
            raise job.error
        return entries, failures


class WorkerPool:
    """A fixed number of worker processes that run registered functions and are replaced when they die or hang."""

    def __init__(
        self,
        num_workers: int = 1,
        start_method: str = "forkserver",
        timeout: float | None = None,
        beside_threads: bool = False,
    ) -> None:
        """`timeout` limits each single call of a function, in seconds; `register` can set another one.

        `beside_threads` lets "fork" copy a process with several threads.
        """
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        check_start_method(start_method, "start_method")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be positive or None, got {timeout}")
        zygote.check_platform()
        self.num_workers = num_workers
        self.start_method = start_method
        self.timeout = timeout
        self._dispatcher = Dispatcher(num_workers, start_method, beside_threads)
        self._started = False
        self._starting = threading.Lock()
        self._inherited: dict[int, Callable[..., Any]] = {}
        self._region_bytes = 0
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _ask_to_end, self._dispatcher)
        self._finalizer.atexit = False

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Starts the workers and returns at once; the first `submit` does it too. With "fork", call it before threads start."""
        with self._starting:
            if not self._started:
                self._check_usable()
                self._dispatcher.prepare(self._inherited)
                self._dispatcher.start()
                self._started = True

    def register(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        whole_chunk: bool = False,
        writable: bool = False,
        keep_going: bool = False,
        timeout: float | None = None,
    ) -> FunctionHandle:
        """Sends a callable to all workers, also to workers that start later.

        It is called as `function(*sample)`, or with `whole_chunk` once with the list of all samples. `writable` lets it
        change its input arrays, which are its own. With `keep_going` a failing sample becomes a `Failed` and the
        others continue; otherwise the chunk ends there.
        """
        self._check_usable()
        task = WorkerFunction(next(_TASKS), name or function_name(function), whole_chunk, writable, keep_going)
        descriptors = []
        if self.start_method == "fork" and not self._started:
            self._inherited[task.number] = function  # copied with the process, also if it cannot be pickled
        else:
            descriptors.append(_in_shared_memory(dumps_function(function)))
        registered = Registered(task, descriptors, self.timeout if timeout is None else timeout)
        self._dispatcher.registry[task.number] = registered
        if self._started:
            self._dispatcher.loads.append(registered)
            self._dispatcher.ring()
        return FunctionHandle(registered)

    def region(self, size: int = 0) -> Region:
        """Shared memory for inputs: arrays made in it are sent without a copy. It grows as needed."""
        self._check_usable()
        return Region(self._dispatcher.inputs, max(size, self._region_bytes))

    def expect(self, samples: int, kinds: Sequence[Kind | None]) -> ExpectedResults:
        """Memory for the results of a batch whose types are known, None for a result of unknown type."""
        return ExpectedResults(self._dispatcher.blocks, samples, kinds)

    def submit(
        self,
        handle: FunctionHandle,
        samples: Iterable[tuple[Any, ...]],
        *,
        region: Region | None = None,
        on_done: Callable[[], Any] | None = None,
        pinned: int | None = None,
    ) -> Ticket:
        """Queues a chunk; `on_done` is called when it is finished, on the pool's thread, and must be brief.

        Arrays of the samples that were made in `region` are not copied. Chunks that are `pinned` go to the worker of that
        number, one after another: to functions that keep a state there.
        """
        if not self._started:
            self.start()
        self._check_usable()
        registered = handle._registered
        if region is None:
            region = Region(self._dispatcher.inputs, registered.input_bytes)
        entries = [region.put(sample) for sample in samples]
        packed = region.pack(entries)
        registered.input_bytes = max(registered.input_bytes, region.end)
        job = Job(next(_JOBS), registered, region.segment, region.lease, packed, len(entries), on_done, pinned=pinned)
        return self._queue([job])[0]

    def submit_columns(
        self,
        handle: FunctionHandle,
        columns: Sequence[Column],
        chunks: Sequence[tuple[int, int]],
        *,
        region: Region,
        expected: ExpectedResults | None = None,
        on_done: Callable[[], Any] | None = None,
        mark: tuple[int, int] | None = None,
    ) -> list[Ticket]:
        """Queues a batch whose arguments are in a region, one chunk for each range of samples."""
        if not self._started:
            self.start()
        self._check_usable()
        jobs = []
        for begin, end in chunks:
            packed = region.pack((end - begin, [column.part(begin, end) for column in columns]))
            jobs.append(
                Job(
                    next(_JOBS),
                    handle._registered,
                    region.segment,
                    region.lease,
                    packed,
                    end - begin,
                    on_done,
                    expected,
                    () if expected is None else expected.places(begin, end),
                    mark=mark,
                )
            )
        self._region_bytes = max(self._region_bytes, region.end)
        return self._queue(jobs)

    def _queue(self, jobs: Sequence[Job]) -> list[Ticket]:
        dispatcher = self._dispatcher
        for job in jobs:
            (dispatcher.queue if job.pinned is None else dispatcher.pinned[job.pinned]).append(job)
        if dispatcher.has_room or jobs[0].pinned is not None:
            dispatcher.ring()
        if dispatcher.broken is not None or dispatcher.closing:
            for job in jobs:
                self._fail_late(job)
        return list(map(Ticket, jobs))

    def let_go(self) -> None:
        """Lets the workers end, and does not wait for them."""
        _ask_to_end(self._dispatcher)

    def close(self) -> None:
        """Ends the workers, after a moment to finish; chunks that still wait fail."""
        self.let_go()
        if self._started and threading.current_thread() is not self._dispatcher and self._owner == os.getpid():
            self._dispatcher.join()

    def watch(self, watched: Callable[[Job, int, Done], object]) -> None:
        """Calls this function after each chunk, with the process that ran it and the times; in the thread of the dispatcher."""
        self._dispatcher.watched = watched

    def chunk_size(self, handle: FunctionHandle, samples: int) -> int:
        """The number of samples to submit at once: chunks of a few milliseconds, and a share for every worker."""
        share = -(-samples // self.num_workers)
        per_sample = handle._registered.nanoseconds_per_sample
        if not per_sample:
            return max(1, share)
        rounds = max(1, round(share * per_sample / CHUNK_NANOSECONDS))
        return max(1, -(-share // rounds))

    def worker_pids(self) -> list[int]:
        """The process numbers of the workers that are alive now."""
        return [x.process.pid for x in self._dispatcher.workers if x is not None]

    def result_blocks(self) -> list[int]:
        """The sizes of the shared memory for results, in bytes."""
        return sorted(x.size for x in (*self._dispatcher.outputs.made, *self._dispatcher.blocks.made))

    def statistics(self) -> dict[str, int]:
        """Sizes of the shared memory and the number of replaced workers."""
        inputs = list(self._dispatcher.inputs.made)
        outputs = [*self._dispatcher.outputs.made, *self._dispatcher.blocks.made]
        return {
            "input_segments": len(inputs),
            "input_bytes": sum(x.size for x in inputs),
            "output_segments": len(outputs),
            "output_bytes": sum(x.size for x in outputs),
            "replaced_workers": self._dispatcher.replaced,
        }

    def _check_usable(self) -> None:
        if self._owner != os.getpid():
            raise InvalidState(
                f"this worker pool belongs to process {self._owner}, from which process {os.getpid()} was forked: "
                "make another pipeline in the child"
            )
        if self._dispatcher.broken is not None:
            raise InvalidState(f"the worker pool has stopped: {self._dispatcher.broken}") from self._dispatcher.broken
        if self._dispatcher.closing:
            raise InvalidState("the worker pool is closed")

    def _fail_late(self, job: Job) -> None:
        """Ends a chunk that was queued while the dispatcher was already leaving."""
        self._dispatcher.join()
        if not job.finished.is_set():
            job.error = self._dispatcher.broken or InvalidState("the worker pool is closed")
            job.finished.set()


CHUNK_NANOSECONDS = 8e6  # of work in a chunk: the chunk itself costs about 0.15 ms

_TASKS = itertools.count(1)
_JOBS = itertools.count(1)


def _in_shared_memory(data: bytes) -> int:
    descriptor = anonymous_files.anonymous_file("pipeflow-function")
    try:
        reserve(descriptor, 0, len(data))
        os.pwrite(descriptor, data, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _ask_to_end(dispatcher: Dispatcher) -> None:
    """Asks the dispatcher to end. It is brief and takes no locks, because the garbage collector may call it at any time."""
    dispatcher.closing = True
    dispatcher.ring()


def _at_exit() -> None:
    """Gives all workers a moment to finish and to flush their output."""
    dispatchers = [x for x in threading.enumerate() if isinstance(x, Dispatcher)]
    for dispatcher in dispatchers:
        _ask_to_end(dispatcher)
    for dispatcher in dispatchers:
        dispatcher.join()


atexit.register(_at_exit)
