"""The dispatcher: the one thread that owns the workers of a pool.

All state of the workers belongs to it. Callers only append tickets to a queue and ring its bell, so a KeyboardInterrupt
in a caller cannot leave a message half sent, and nothing here needs a lock. It sends each worker a second chunk in advance
if chunks are short, because between two chunks this thread may have to wait for the interpreter.
"""

import itertools
import mmap
import os
import re
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeflow import timing
from pipeflow.errors import FunctionTimeout, InvalidState, WorkerDied
from pipeflow.executor.workers import anonymous_files, zygote
from pipeflow.executor.workers.channel import Channel
from pipeflow.executor.workers.segments import PackedTable, Recycler, Segment, name_of, reserve
from pipeflow.executor.workers.worker import (
    IDLE,
    LOAD,
    LOADING,
    RUN,
    SLOT,
    STACK_SIGNAL,
    STATUS_SIZE,
    STOP,
    ChunkOrder,
    Done,
    WorkerFunction,
)

_SHORT_CHUNK = 100_000_000  # nanoseconds; a worker gets a second chunk in advance if chunks take less
_GRACE = 1.0  # seconds for a worker to finish its chunk when the pool closes
_STACK_WAIT = 2.0  # seconds for a worker to write its stack
_QUIET = (
    4  # a stack is complete if it has not grown for so many checks: a busy machine may stop its writer for a moment
)
_NOTHING = np.empty(0, np.uint8)
_LIBRARY = str(Path(__file__).parents[2]) + os.sep
_FRAME = re.compile(r'File "(.+)", line (\d+)')


@dataclass
class Registered:
    """A task with its pickle in shared memory, unless the workers inherit the function itself."""

    task: WorkerFunction
    descriptors: list[int]  # the descriptor of the pickle, at most one; the code that closes it removes it
    timeout: float | None
    nanoseconds: float = 0.0  # running mean of a chunk's time
    nanoseconds_per_sample: float = (
        0.0  # of work: waiting for a processor, or a sleeping function, does not make chunks smaller
    )
    total_nanoseconds: int = 0
    input_bytes: int = 0
    result_bytes: int = 0  # of the largest chunks: the next output segment starts with this size

    def __post_init__(self) -> None:
        # The dispatcher closes it, if it ever starts: a pipeline may be built and dropped without a run.
        weakref.finalize(self, _close_descriptors, self.descriptors).atexit = False


class Kind(NamedTuple):
    """The shape and dtype that all samples of a result have."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The size of a sample."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(eq=False)
class Job:
    """A chunk in progress; `finished` is set when either `error` or the results are there.

    `lease` keeps the memory of the inputs, `block` that of results whose place was chosen in advance.
    """

    number: int
    registered: Registered
    input: Segment
    lease: np.ndarray | None
    samples: PackedTable
    count: int
    on_done: Callable[[], Any] | None
    block: "ExpectedResults | None" = None
    places: tuple[tuple[int, Any, tuple[int, ...]] | None, ...] = ()
    finished: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    error_sample: int | None = None
    content: PackedTable | None = None
    flat: np.ndarray | None = None
    output: Segment | None = None
    cancelled: bool = False
    pinned: int | None = None  # the number of the worker that must do it
    mark: tuple[int, int] | None = None  # batch and stage, for a trace


class ExpectedResults:
    """Memory for all results of a batch, one dense array for each output; it is free when nothing refers to it."""

    def __init__(self, home: Recycler, samples: int, kinds: Sequence[Kind | None]) -> None:
        size, self.offsets = 0, []
        for kind in kinds:
            self.offsets.append(size)
            if kind is not None:
                size += -(-samples * kind.nbytes // 64) * 64
        self.kinds = kinds
        self.segment = home.take(size)
        flat = self.segment.lease(home.free)
        self.arrays = [
            kind and flat[at : at + samples * kind.nbytes].view(kind.dtype).reshape(samples, *kind.shape)
            for at, kind in zip(self.offsets, kinds)
        ]

    def places(self, begin: int, end: int) -> tuple[tuple[int, Any, tuple[int, ...]] | None, ...]:
        """The place for the results of some samples: offset, dtype and shape of each output."""
        return tuple(
            kind and (at + begin * kind.nbytes, name_of(kind.dtype), (end - begin, *kind.shape))
            for at, kind in zip(self.offsets, self.kinds)
        )


class _Worker:
    """This side of one worker process."""

    def __init__(self, launcher: zygote.WorkerLauncher, slot: int) -> None:
        here, there = socket.socketpair()
        self.channel = Channel(here)
        parent_end, self._life = os.pipe()
        self.stack = anonymous_files.anonymous_file("pipeflow-stack")
        status = anonymous_files.anonymous_file("pipeflow-status")
        try:
            reserve(status, 0, STATUS_SIZE)
            self.status = memoryview(mmap.mmap(status, STATUS_SIZE)).cast("q")
            self.status[0], self.status[SLOT] = IDLE, slot
            self.oom_kills = zygote.oom_kills()
            self.process = launcher.launch((there.fileno(), parent_end, self.stack, status))
        except BaseException:
            os.close(self._life)
            os.close(self.stack)
            here.close()
            raise
        finally:
            os.close(status)
            os.close(parent_end)
            there.close()
        self._finalizer = weakref.finalize(self, _close_all, self.channel, self.process, [self._life, self.stack])
        self._finalizer.atexit = False
        self.jobs: deque[Job] = deque()
        self.known: set[int] = set()
        self.gone: list[int] = []
        self.answered = False

    def stack_text(self) -> str:
        """The Python stack that the worker wrote, without the lines of this package."""
        text = os.pread(self.stack, 1 << 16, 0).decode(errors="replace")
        lines = [line for line in text.splitlines() if f'File "{_LIBRARY}' not in line]
        return "\n".join(line for line in lines if 'File "<string>", line 1 in <module>' not in line)

    def running(self) -> tuple[Job | None, int | None]:
        """The chunk it works on and the sample in it."""
        job = self.jobs[0] if self.jobs else None
        return job, self.status[1] if job is not None and self.status[0] == job.number else None

    def close(self) -> None:
        self._finalizer()


def _close_all(channel: Channel, process: zygote.Process, descriptors: list[int]) -> None:
    channel.close()
    process.close()
    _close_descriptors(descriptors)


def _close_descriptors(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


class Dispatcher(threading.Thread):
    """Runs the workers; `queue`, `registry` and `ring` are all that other threads touch."""

    def __init__(self, num_workers: int, start_method: str, beside_threads: bool = False) -> None:
        super().__init__(name="pipeflow worker dispatcher", daemon=True)
        self.num_workers = num_workers
        self.start_method = start_method
        self.beside_threads = beside_threads
        self.queue: deque[Job] = deque()
        self.pinned: list[deque[Job]] = [deque() for _ in range(num_workers)]  # the chunks that only one worker may run
        self.registry: dict[int, Registered] = {}
        self.loads: deque[Registered] = deque()
        self.outputs = Recycler(itertools.count(3, 3))
        self.blocks = Recycler(itertools.count(2, 3))
        self.inputs = Recycler(itertools.count(1, 3))
        self.closing = False
        self.broken: BaseException | None = None
        self.has_room = True  # False while no worker can take another chunk: then callers need not ring
        self.replaced = 0
        self.watched: Callable[[Job, int, Done], object] | None = None  # is called after each chunk, with the process
        self.workers: list[_Worker | None] = [None] * num_workers
        self.launcher: zygote.WorkerLauncher | None = None
        self._bell, self._ringer = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ringer, False)
        # closed only with the object: the number of a closed descriptor may be used for another file
        weakref.finalize(self, _close_descriptors, [self._bell, self._ringer]).atexit = False
        self._selector: selectors.BaseSelector | None = None
        _LIVE.add(self)

    # --- what other threads call ---

    def ring(self) -> None:
        """Wakes the thread."""
        with suppress(BlockingIOError):
            os.write(self._ringer, b"!")

    def prepare(self, inherited: dict[int, Callable[..., Any]]) -> None:
        """Makes the launcher before this thread starts: "fork" needs a process with a single thread."""
        self.launcher = zygote.make_launcher(self.start_method, inherited, self.beside_threads)

    def abandon(self) -> None:
        """In a forked child: closes every descriptor whose other side must see this process's parent end."""
        self.closing = True
        self.broken = InvalidState("this worker pool belongs to the process that was forked")
        for worker in self.workers:
            if worker is not None:
                worker.close()
        if self.launcher is not None:
            self.launcher.abandon()

    # --- the thread ---

    def run(self) -> None:
        try:
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._bell, selectors.EVENT_READ, self._answer_bell)
            for slot in range(self.num_workers):
                self._fill(slot)
            while not self.closing:
                self._hand_out()
                patience = 0 if self.queue and self.has_room else self._patience()
                for key, _ in self._selector.select(patience):
                    key.data()
                self._end_hung_workers()
        except BaseException as error:
            self.broken = error
        finally:
            self._shut_down()

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._bell, 4096)
        while self.loads:
            registered = self.loads.popleft()
            for worker in self.workers:
                if worker is not None:
                    self._load(worker, registered)

    def _fill(self, slot: int) -> _Worker:
        """Puts a new worker into a slot and gives it all functions."""
        assert self.launcher is not None
        assert self._selector is not None
        worker = _Worker(self.launcher, slot)
        self.workers[slot] = worker
        self._selector.register(worker.channel, selectors.EVENT_READ, lambda: self._listen(slot, worker))
        if worker.process.descriptor is not None:
            self._selector.register(worker.process.descriptor, selectors.EVENT_READ, lambda: self._bury(slot, worker))
        for registered in list(self.registry.values()):
            self._load(worker, registered)
        return worker

    def _load(self, worker: _Worker, registered: Registered) -> None:
        if -registered.task.number in worker.known:
            return
        worker.known.add(-registered.task.number)
        descriptors = tuple(registered.descriptors)
        with suppress(OSError):  # the worker has ended: its descriptor reports it
            worker.channel.send((LOAD, *astuple(registered.task)), descriptors)

    def _hand_out(self) -> None:
        """Sends waiting chunks: pinned ones to their worker, others to the one with the fewest."""
        for slot, queue in enumerate(self.pinned):
            while queue and self._hand_over(queue, slot):
                pass
        while self.queue:
            if not self._hand_over(self.queue, min(range(self.num_workers), key=self._load_of)):
                self.has_room = False
                return
        self.has_room = True  # the queue is checked once more after this, for a job that arrived in between

    def _hand_over(self, queue: deque[Job], slot: int) -> bool:
        """Sends the first chunk of a queue to a worker; False if it has enough work."""
        worker = self.workers[slot]
        if worker is None:
            worker = self._fill(slot)
        # With a time limit no chunk waits after one that may be ended together with its worker.
        short = queue[0].registered.nanoseconds < _SHORT_CHUNK and queue[0].registered.timeout is None
        if len(worker.jobs) >= (2 if short else 1):
            return False
        job = queue.popleft()
        try:
            if job.cancelled:
                raise InvalidState("this chunk was cancelled")
            self._send(worker, job)
        except (MemoryError, OSError, InvalidState) as error:
            self._finish(job, error)
        return True

    def _load_of(self, slot: int) -> int:
        worker = self.workers[slot]
        return -1 if worker is None else len(worker.jobs)

    def _send(self, worker: _Worker, job: Job) -> None:
        job.output = self.outputs.take(job.registered.result_bytes)
        self._load(worker, job.registered)
        while self.inputs.dead:
            number = self.inputs.dead.popleft()
            for other in self.workers:
                if other is not None and number in other.known:
                    other.known.discard(number)
                    other.gone.append(number)
        block = job.block.segment if job.block is not None else None
        needed = (job.input, job.output) if block is None else (job.input, job.output, block)
        new = [x for x in needed if x.number not in worker.known]
        worker.known.update(x.number for x in new)
        chunk = ChunkOrder(
            ticket=job.number,
            task=job.registered.task.number,
            samples=tuple(job.samples),
            input=job.input.number,
            input_size=job.input.size,
            output=job.output.number,
            output_size=job.output.size,
            block=block.number if block is not None else 0,
            block_size=block.size if block is not None else 0,
            places=job.places,
            new=tuple(x.number for x in new),
            gone=tuple(worker.gone),
        )
        worker.gone.clear()
        worker.jobs.append(job)
        with suppress(OSError):  # the worker has ended, as in _load
            worker.channel.send((RUN, *chunk), tuple(x.descriptor for x in new))

    def _listen(self, slot: int, worker: _Worker) -> None:
        if self.workers[slot] is not worker:
            return  # another event of the same round has removed the worker
        messages = worker.channel.receive()
        if messages is None:
            self._bury(slot, worker)
            return
        for message, _ in messages:
            self._complete(worker, Done._make(message))

    def _complete(self, worker: _Worker, done: Done) -> None:
        job = worker.jobs.popleft()
        assert job.number == done.ticket
        assert job.output is not None
        worker.answered = True
        if self.watched is not None:
            self.watched(job, worker.process.pid, done)
        registered = job.registered
        weight = 0.3 if registered.nanoseconds else 1.0
        per_sample = done.cpu_nanoseconds / max(1, job.count)
        registered.total_nanoseconds += done.nanoseconds
        registered.nanoseconds += (done.nanoseconds - registered.nanoseconds) * weight
        registered.nanoseconds_per_sample += (per_sample - registered.nanoseconds_per_sample) * weight
        job.output.remap(done.output_size)
        if done.output_used > registered.result_bytes:
            registered.result_bytes = done.output_used
        else:  # slowly, so that memory does not shrink and grow for one small chunk among large ones
            registered.result_bytes += round((done.output_used - registered.result_bytes) * 0.1)
        if done.output_used:
            job.flat = job.output.lease(self.outputs.free)
        else:
            self.outputs.give_back(job.output)
            job.flat = _NOTHING
        job.content = PackedTable._make(done.content)
        if done.input_kept:
            job.input.retired = True
        self._finish(job, None)

    def _finish(self, job: Job, error: BaseException | None) -> None:
        job.error = error
        job.lease = job.block = None
        job.finished.set()
        if job.on_done is not None:
            job.on_done()

    # --- death and delay ---

    def _patience(self) -> float | None:
        """The time to wait for events: until the next running sample may be overdue."""
        limits = [x for x in (self._time_left(worker) for worker in self.workers) if x is not None]
        return max(0.001, min(limits)) if limits else None

    def _time_left(self, worker: _Worker | None) -> float | None:
        if worker is None or not worker.jobs or worker.jobs[0].registered.timeout is None:
            return None
        job, sample = worker.running()
        timeout = worker.jobs[0].registered.timeout
        if job is None or sample is None:
            return timeout
        return timeout - (timing.stamp() - worker.status[2]) / 1e9

    def _end_hung_workers(self) -> None:
        """Ends the workers whose running call is overdue, after they have written their stacks."""
        for slot, worker in enumerate(self.workers):
            left = self._time_left(worker)
            if worker is not None and left is not None and left <= 0:
                sample = worker.status[1]
                worker.process.kill(STACK_SIGNAL)
                stack = self._wait_for_stack(worker)
                worker.process.kill()
                worker.status[0], worker.status[1] = (
                    worker.jobs[0].number,
                    sample,
                )  # the signal may have let it continue
                self._bury(slot, worker, stack)

    def _wait_for_stack(self, worker: _Worker) -> str:
        """The stack that a worker writes on the signal; it is complete when it has stopped growing."""
        end = time.monotonic() + _STACK_WAIT
        length = quiet = 0
        while time.monotonic() < end and quiet < _QUIET:
            size = os.fstat(worker.stack).st_size
            quiet = quiet + 1 if size and size == length else 0
            length = size
            time.sleep(0.005)
        return worker.stack_text()

    def _bury(self, slot: int, worker: _Worker, hung: str | None = None) -> None:
        """Removes a worker that has ended: its chunk fails, the chunks after it go to other workers, and a new worker replaces
        it.
        """
        assert self._selector is not None
        if self.workers[slot] is not worker:
            return
        if hung is None:
            self._take_last_messages(worker)
        if not worker.process.ended(0.2):  # it has only closed its socket, or this system has no process descriptors
            worker.process.kill()
        status = worker.process.exit_status(2.0)
        self._selector.unregister(worker.channel)
        if worker.process.descriptor is not None:
            self._selector.unregister(worker.process.descriptor)
        job, sample = worker.running()
        waiting = list(worker.jobs)
        if sample is None and worker.answered and worker.status[0] != LOADING:
            job = None  # it ended between two chunks; for a worker that never finished one, this is not assumed
        if job is not None:
            waiting.remove(job)
            error = self._obituary(worker, job, sample, status, hung)
            job.error_sample = sample
        for other in reversed(waiting):
            self._take_back_output(other)
            (self.queue if other.pinned is None else self.pinned[other.pinned]).appendleft(other)
        useless = not worker.answered and job is None
        self.workers[slot] = None
        worker.close()
        try:
            if not self.closing and not useless:  # a worker that ended before any work is replaced when there is work
                self.replaced += 1
                self._fill(slot)
        finally:
            if job is not None:
                self._take_back_output(job)
                self._finish(job, error)

    def _take_last_messages(self, worker: _Worker) -> None:
        """Handles the messages that a worker sent before it ended."""
        worker.channel.socket.setblocking(False)
        with suppress(OSError):
            while (messages := worker.channel.receive()) is not None:
                for message, _ in messages:
                    self._complete(worker, Done._make(message))

    def _take_back_output(self, job: Job) -> None:
        if job.output is not None:
            job.output.remap(os.fstat(job.output.descriptor).st_size)  # the worker may have enlarged it
            self.outputs.give_back(job.output)
            job.output = None

    def _obituary(
        self, worker: _Worker, job: Job, sample: int | None, status: int | None, hung: str | None
    ) -> BaseException:
        task = job.registered.task
        error: BaseException
        if hung is not None:
            # If the worker has several threads, all are listed; functions run in the thread that got the signal.
            found = _FRAME.search(hung, max(hung.find("Current thread"), 0))
            where = f" and was at {found[1]}:{found[2]}" if found else ""
            error = FunctionTimeout(
                f"{task.name} did not return within {job.registered.timeout:g} s{where}; its worker process "
                f"{worker.process.pid} was ended and replaced"
            )
            stack = hung
        else:
            doing = f"while it loaded {task.name}" if worker.status[0] == LOADING else f"in {task.name}"
            how = zygote.how_it_ended(status, worker.oom_kills)
            error = WorkerDied(f"worker process {worker.process.pid} ended {doing}: {how}; it has been replaced")
            stack = worker.stack_text()
        if stack.strip():
            error.add_note(f"the worker's Python stack:\n{stack.rstrip()}")
        return error

    # --- the end ---

    def _shut_down(self) -> None:
        """Gives the workers a moment to finish, ends them, and fails the chunks that still wait."""
        reason = self.broken or InvalidState("the worker pool was closed while this chunk waited")
        workers = [x for x in self.workers if x is not None]
        for worker in workers:
            with suppress(OSError):
                worker.channel.send((STOP,))
        end = time.monotonic() + _GRACE
        for worker in workers:
            if not worker.process.ended(max(0.0, end - time.monotonic())):
                worker.process.kill()
                worker.process.exit_status(2.0)
            waiting = list(worker.jobs)
            worker.close()
            for job in waiting:
                self._finish(job, reason)
        self.workers = [None] * self.num_workers
        if self.launcher is not None:
            self.launcher.close()
        self.closing = True
        for queue in (*self.pinned, self.queue):
            while queue:
                self._finish(queue.popleft(), reason)
        for registered in self.registry.values():
            _close_descriptors(registered.descriptors)
        self.registry.clear()
        for recycler in (self.inputs, self.outputs, self.blocks):
            recycler.close()
        if self._selector is not None:
            self._selector.close()


_LIVE: "weakref.WeakSet[Dispatcher]" = weakref.WeakSet()


def _in_forked_child() -> None:
    """Closes descriptors in a child that the user forks. Workers end when these are closed, so a child must not keep them."""
    for dispatcher in list(_LIVE):
        dispatcher.abandon()
    _LIVE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
