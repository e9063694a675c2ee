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
from pipeflow.executor.workers import check_start_method, zygote
from pipeflow.executor.workers.dispatcher import Dispatcher, Job, Registered
from pipeflow.executor.workers.exceptions import unpack_exception
from pipeflow.executor.workers.functions import dumps_function
from pipeflow.executor.workers.segments import OWN_BELOW, Writer, create_descriptor, read, reserve, unpack
from pipeflow.executor.workers.worker import Task


@dataclass(frozen=True, eq=False)
class Handle:
    """A function that the workers know."""

    _registered: Registered

    @property
    def name(self) -> str:
        return self._registered.task.name


class InputBuffer:
    """Shared memory to write inputs straight into; arrays from `place` are sent without a copy."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Writer | None = writer
        self.place = writer.place

    def take(self) -> Writer:
        if self._writer is None:
            raise InvalidState("this input buffer has been submitted already: get a new one for each chunk")
        writer, self._writer = self._writer, None
        return writer


class Ticket:
    """A submitted chunk; its results can be taken once."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def failed_sample(self) -> int | None:
        """Which sample of the chunk the error raised by `result` belongs to, where that is known."""
        return self._job.error_sample

    def done(self) -> bool:
        return self._job.finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the chunk is finished, well or not."""
        return self._job.finished.wait(timeout)

    def cancel(self) -> None:
        """Gives the chunk up if no worker has it yet."""
        self._job.cancelled = True

    def result(self, timeout: float | None = None) -> list[Any]:
        """The results in order; arrays are views of shared memory that is used again when the last view is gone."""
        values, failures = self._take(timeout)
        flat, self._job.flat = self._job.flat, None
        assert flat is not None
        results = [None if entry is None else read(entry, flat, OWN_BELOW) for entry in values]
        for index, error in failures:
            results[index] = Failed(error)
        return results

    def copy_into(self, destinations: Sequence[Sequence[np.ndarray]], timeout: float | None = None) -> list[Any]:
        """Copies the results of each sample into the arrays given for it and gives the shared memory back at once.

        A sample's result is one array or a tuple of arrays. Returns, per sample, True or a `Failed`.
        """
        results = self.result(timeout)
        outcome: list[Any] = []
        for index, (result, targets) in enumerate(zip(results, destinations, strict=True)):
            if isinstance(result, Failed):
                outcome.append(result)
                continue
            arrays = result if isinstance(result, tuple | list) else (result,)
            if len(arrays) != len(targets):
                raise ValueError(f"sample {index} of the chunk has {len(arrays)} results, {len(targets)} are expected")
            for number, (array, target) in enumerate(zip(arrays, targets)):
                if array.shape != target.shape or array.dtype != target.dtype:
                    raise ValueError(
                        f"result {number} of sample {index} of the chunk is {array.dtype} {array.shape}, "
                        f"its destination {target.dtype} {target.shape}"
                    )
                np.copyto(target, array)
            outcome.append(True)
        return outcome

    def _take(self, timeout: float | None) -> tuple[list[Any], list[tuple[int, BaseException]]]:
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

    def __init__(self, num_workers: int = 1, start_method: str = "forkserver", timeout: float | None = None) -> None:
        """`timeout` limits each single call of a function, in seconds; `register` can set another one."""
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        check_start_method(start_method, "start_method")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be positive or None, got {timeout}")
        zygote.check_platform()
        self.num_workers = num_workers
        self.start_method = start_method
        self.timeout = timeout
        self._dispatcher = Dispatcher(num_workers, start_method)
        self._started = False
        self._starting = threading.Lock()
        self._inherited: dict[int, Callable[..., Any]] = {}
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
        """Starts the workers and returns at once; the first `submit` does it too. "fork" wants it before any thread."""
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
    ) -> Handle:
        """Sends a callable to all workers, those that come later included.

        It is called as `function(*sample)`, or with `whole_chunk` once with the list of all samples. `writable` lets it
        change its input arrays, which nobody else sees. With `keep_going` a failing sample becomes a `Failed` and the
        others go on; otherwise the chunk ends there.
        """
        self._check_usable()
        task = Task(next(_TASKS), name or function_name(function), whole_chunk, writable, keep_going)
        descriptor = None
        if self.start_method == "fork" and not self._started:
            self._inherited[task.number] = function  # copied with the process: even what cannot be pickled
        else:
            descriptor = _in_shared_memory(dumps_function(function))
        registered = Registered(task, descriptor, self.timeout if timeout is None else timeout)
        self._dispatcher.registry[task.number] = registered
        if self._started:
            self._dispatcher.loads.append(registered)
            self._dispatcher.ring()
        return Handle(registered)

    def input_buffer(self, size: int = 0) -> InputBuffer:
        """Shared memory for the arrays of one chunk, with room for `size` bytes at first; it grows as needed."""
        self._check_usable()
        return InputBuffer(Writer(self._dispatcher.inputs.take(size)))

    def submit(
        self,
        handle: Handle,
        samples: Iterable[tuple[Any, ...]],
        *,
        buffer: InputBuffer | None = None,
        on_done: Callable[[], Any] | None = None,
        pinned: bool = False,
    ) -> Ticket:
        """Queues a chunk; `on_done` is called when it is finished, on the pool's thread, and must be brief.

        Chunks that are `pinned` all go to the same worker, one after another: to functions that keep a state there.
        """
        if not self._started:
            self.start()
        self._check_usable()
        registered = handle._registered
        writer = buffer.take() if buffer is not None else Writer(self._dispatcher.inputs.take(registered.input_bytes))
        try:
            entries = [writer.put(sample) for sample in samples]
            packed = writer.pack(entries)
        except BaseException:
            self._dispatcher.inputs.give_back(writer.segment)
            raise
        registered.input_bytes = max(registered.input_bytes, writer.end)
        job = Job(next(_JOBS), registered, writer.segment, packed, len(entries), on_done, pinned=pinned)
        (self._dispatcher.pinned if pinned else self._dispatcher.queue).append(job)
        if self._dispatcher.has_room or pinned:
            self._dispatcher.ring()
        if self._dispatcher.broken is not None or self._dispatcher.closing:
            self._fail_late(job)
        return Ticket(job)

    def close(self) -> None:
        """Ends the workers, after a moment for what they are doing; chunks that still wait fail."""
        _ask_to_end(self._dispatcher)
        if self._started and threading.current_thread() is not self._dispatcher and self._owner == os.getpid():
            self._dispatcher.join()

    def chunk_size(self, handle: Handle, samples: int) -> int:
        """How many samples to submit at once: chunks worth a few milliseconds, and a share for every worker."""
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
        return sorted(x.size for x in list(self._dispatcher.outputs.made))

    def statistics(self) -> dict[str, int]:
        """Sizes of the shared memory and the number of replaced workers."""
        inputs, outputs = list(self._dispatcher.inputs.made), list(self._dispatcher.outputs.made)
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
                "make a pipeline of its own in the child"
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


CHUNK_NANOSECONDS = 8e6  # of work in a chunk: its own cost is about 0.15 ms

_TASKS = itertools.count(1)
_JOBS = itertools.count(1)


def _in_shared_memory(data: bytes) -> int:
    descriptor = create_descriptor("pipeflow-function")
    try:
        reserve(descriptor, 0, len(data))
        os.pwrite(descriptor, data, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _ask_to_end(dispatcher: Dispatcher) -> None:
    """Brief and without locks, because the garbage collector may call it anywhere."""
    dispatcher.closing = True
    dispatcher.ring()


def _at_exit() -> None:
    """Gives all workers their moment to finish and to flush what they printed."""
    dispatchers = [x for x in threading.enumerate() if isinstance(x, Dispatcher)]
    for dispatcher in dispatchers:
        _ask_to_end(dispatcher)
    for dispatcher in dispatchers:
        dispatcher.join()


atexit.register(_at_exit)
