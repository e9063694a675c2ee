"""The threads of an executor."""

import _thread
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pipeflow import system
from pipeflow.backends.cpu import Arena
from pipeflow.executor.clocks import Lap

if TYPE_CHECKING:
    from pipeflow.executor.workers.pool import WorkerPool

log = logging.getLogger("pipeflow")
CLOSE_SECONDS = 5.0  # how long close() waits for a step that is running


class Work(Protocol):
    """What the threads work on."""

    def claim(self) -> Any:
        """Takes the oldest work that no thread has; None where there is none. Called under the lock."""

    def perform(self, task: Any, arena: Arena, lap: Lap) -> None:
        """Does it."""


class Gate:
    """Where one thread waits until another opens it; opened before the wait, the wait is over at once.

    A condition variable would not do: its ``wait`` is Python code, and an interrupt (Ctrl-C) in the middle of it leaves its lock
    in the wrong state. Here the waiting is one call of a lock, which an interrupt ends without a trace.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None = None) -> None:
        """Returns when the gate has been opened, or after so many seconds, and closes it again."""
        self._lock.acquire(timeout=-1 if seconds is None else seconds)

    def open(self) -> bool:
        """Lets the thread go on, and says whether the gate was closed; only one thread at a time may open it."""
        if not self._lock.locked():
            return False
        self._lock.release()
        return True


def undisturbed(work: Callable[[], None]) -> None:
    """Does something in a thread of its own, where no interrupt reaches it, and raises what it raises."""
    over = Gate()
    errors: list[Exception] = []

    def do() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)
        over.open()

    _thread.start_new_thread(do, ())  # Thread.start() is Python code, and may be interrupted half-way
    over.wait()
    if errors:
        raise errors[0]


class Crew:
    """The threads and what they wait for.

    It refers to the executor weakly, and so do its threads while they wait: a pipeline that can be reached only from its own
    functions is collected like any other garbage, and its threads end.
    """

    def __init__(self, size: int, affinity: bool) -> None:
        self.size = size
        self.affinity = affinity
        self.lock = threading.Lock()
        self._starting = threading.Lock()
        self.threads: list[threading.Thread] = []  # each puts itself in when it begins
        self.idle: list[Gate] = []  # of threads without work
        self.callers: list[Gate] = []  # of callers who wait for a batch, or until nothing runs
        self.closing = False
        self.alone = False  # no thread can be started: callers do the work
        self.wakers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self.inside = threading.local()
        self.process = os.getpid()
        self.workers: WorkerPool | None = None
        self.hanging: set[int] = set()  # threads that hang in a function and have a successor
        _OPEN.add(self)

    def start(self, executor: Work) -> None:
        """Starts the threads that are missing. It may be interrupted anywhere and called again."""
        if len(self.threads) >= self.size or self.closing or self.alone:
            return
        if self.workers is not None and self.workers.start_method == "fork" and not self.threads:
            self.workers.start()  # first: a process that is forked should have one thread only
        try:
            undisturbed(partial(self._start, weakref.ref(executor)))
        except RuntimeError as error:  # at the end of the interpreter, or beyond the system's limit
            if not self.threads:
                log.warning("the thread that asks for a batch makes it, because no other can be started: %s", error)
                self.alone = True

    def _start(self, reference: "weakref.ref[Work]") -> None:
        with self._starting:
            while len(self.threads) < self.size and not self.closing:
                born = Gate()
                name = f"pipeflow-{len(self.threads)}"
                threading.Thread(target=self._serve, args=(reference, born), name=name, daemon=True).start()
                born.wait()

    def wake(self) -> None:
        """Lets one idle thread look for work; called under the lock."""
        for gate in self.idle:
            if gate.open():
                return

    def finished(self) -> None:
        """Lets all callers look whether what they wait for has come; called under the lock."""
        for gate in self.callers:
            gate.open()
        self.callers.clear()

    def leave(self, identity: int) -> None:
        """Leaves a thread that hangs to itself; ``start`` starts another in its place. Called under the lock."""
        self.hanging.add(identity)
        self.threads = [thread for thread in self.threads if thread.ident != identity]

    def start_workers(self) -> None:
        """Starts the worker processes if there are any."""
        if self.workers is None:
            return
        if self.workers.start_method == "fork":
            self.workers.start()  # in this thread: the child should be a copy of a process with one thread
        else:
            undisturbed(self.workers.start)

    def close(self) -> None:
        """Ends the threads: what is running is finished first, nothing new is started."""
        self.let_go()
        if os.getpid() != self.process or threading.current_thread() in self.threads:
            return
        if self.workers is not None:
            self.workers.close()
        for thread in self.threads:
            thread.join(CLOSE_SECONDS)
        self.threads.clear()

    def let_go(self) -> None:
        """Asks the threads and the worker processes to end, and waits for none of them.

        The garbage collector may call it anywhere, while the caller holds a lock that one of them is waiting for.
        """
        if os.getpid() != self.process:
            return
        self.closing = True
        if threading.current_thread() in self.threads:
            # The garbage collector may find the pipeline from one of its own threads, even under the lock: that thread ends
            # when it comes back to its loop, and wakes the others.
            return
        for waker in self.wakers:
            wake = waker()
            if wake is not None:
                wake()  # a source that waits for data must not keep its thread
        with self.lock:
            self._let_all_go()
        if self.workers is not None:
            self.workers.let_go()

    def _let_all_go(self) -> None:
        for gate in self.idle:
            gate.open()
        self.finished()

    def _serve(self, reference: "weakref.ref[Work]", born: Gate) -> None:
        with self.lock:
            number = len(self.threads)
            self.threads.append(threading.current_thread())
            born.open()
        self.inside.active = True
        if self.affinity:
            allowed = system.processors()
            system.keep_to(allowed[number % len(allowed)])
        gate, arena, lap = Gate(), Arena(), Lap()
        while True:
            with self.lock:
                executor = reference()
                over = self.closing or executor is None
                task = None if executor is None or over else executor.claim()
                if over:
                    self._let_all_go()
                    return
                if task is None:
                    self.idle.append(gate)
            if task is None:
                del executor
                gate.wait()
                with self.lock:
                    self.idle.remove(gate)
                lap.start()
                continue
            assert executor is not None
            executor.perform(task, arena, lap)
            del task, executor
            if threading.get_ident() in self.hanging:  # the function came back after all
                self.hanging.discard(threading.get_ident())
                return


_OPEN: "weakref.WeakSet[Crew]" = weakref.WeakSet()


def _at_exit() -> None:
    """Waits for the threads of all pipelines, which must not be at work while the interpreter is taken down."""
    for crew in list(_OPEN):
        crew.close()


atexit.register(_at_exit)
