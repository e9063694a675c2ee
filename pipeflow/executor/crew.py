"""The threads of an executor."""

import _thread
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pipeflow import system
from pipeflow.backends.cpu import Arena
from pipeflow.executor.clocks import Lap

if TYPE_CHECKING:
    from pipeflow.executor.workers.pool import WorkerPool

log = logging.getLogger("pipeflow")
CLOSE_SECONDS = 5.0  # the time that close() waits for a running step


class Tasks(Protocol):
    """The executor, as its threads see it."""

    def claim(self, last: bool = False) -> Any:
        """Takes the oldest work that no thread has, or None; with ``last`` only what running work may wait for.

        Called under the lock.
        """

    def perform(self, task: Any, arena: Arena, lap: Lap) -> Any:
        """Does a task; returns the next one, or None if the thread has to look for work."""


NOTICED_SECONDS = 1.0


class Gate:
    """A gate at which one thread waits until another opens it. If it was opened before, the wait is over at once.

    A condition variable is not safe here: its ``wait`` is Python code, and an interrupt (Ctrl-C) inside it leaves its lock
    in the wrong state. Here the wait is one call of a lock, which an interrupt ends cleanly.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None = None) -> bool:
        """Returns when the gate is opened, or after a number of seconds, and closes it again; True if it was opened."""
        return self._lock.acquire(timeout=-1 if seconds is None else seconds)

    def wait_a_while(self, seconds: float | None = None) -> bool:
        """The same for at most NOTICED_SECONDS: an interrupt that comes just before a wait does not end it, only the next one."""
        return self.wait(NOTICED_SECONDS if seconds is None else min(seconds, NOTICED_SECONDS))

    def open(self) -> bool:
        """Lets the thread continue; returns True if the gate was closed. Only one thread at a time may open it."""
        if not self._lock.locked():
            return False
        self._lock.release()
        return True


def undisturbed(work: Callable[[], None]) -> None:
    """Runs a function in another thread, where no interrupt reaches it, and raises its exception."""
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


class Inside(threading.local):
    """True in a thread that works for an executor. The attribute of the class spares the others an exception at each look."""

    active = False


class Crew:
    """The threads, and the gates at which they wait.

    It refers to the executor weakly, and so do its threads while they wait: a pipeline that can be reached only from its own
    functions is collected like any other garbage, and its threads end.
    """

    def __init__(self, size: int, affinity: bool) -> None:
        self.size = size
        self.affinity = affinity
        self.lock = threading.Lock()
        self._starting = threading.Lock()
        self.threads: list[threading.Thread] = []  # each thread adds itself when it begins
        self.idle: list[Gate] = []  # gates of threads without work
        self.callers: list[Gate] = []  # gates of callers that wait for a batch, or until nothing runs
        self.closing = False
        self.alone = False  # True if no thread can be started: callers do the work
        self.wakers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self.inside = Inside()
        self.process = os.getpid()
        self.workers: WorkerPool | None = None
        self.hanging: set[int] = set()  # threads that hang in a function and were replaced
        self.helps: dict[int, int] = {}  # a thread of ``beside`` -> the thread that it works for
        _OPEN.add(self)

    def start(self, executor: Tasks) -> None:
        """Starts the threads that are missing. It may be interrupted anywhere and called again."""
        if len(self.threads) >= self.size or self.closing or self.alone:
            return
        if self.workers is not None and self.workers.start_method == "fork" and not self.threads:
            self.workers.start()  # before the threads: a process should have only one thread when it is forked
        try:
            undisturbed(partial(self._start, weakref.ref(executor)))
        except RuntimeError as error:  # at the end of the interpreter, or beyond the system's limit
            if not self.threads:
                program_ends = not threading.main_thread().is_alive()
                level = logging.DEBUG if program_ends else logging.WARNING
                log.log(
                    level, "no thread can be started, so each batch is made by the thread that calls for it: %s", error
                )
                self.alone = True

    def _start(self, reference: "weakref.ref[Tasks]") -> None:
        with self._starting:
            while len(self.threads) < self.size and not self.closing:
                born = Gate()
                name = f"pipeflow-{len(self.threads)}"
                threading.Thread(target=self._serve, args=(reference, born), name=name, daemon=True).start()
                born.wait()

    def wake(self, room: int) -> None:
        """Lets one idle thread look for work, unless as many as there is room for are about to; called under the lock."""
        for gate in reversed(self.idle):  # the caches still have the work of the one that was the last to become idle
            if room <= 0 or gate.open():
                return
            room -= 1

    def resize(self, size: int) -> None:
        """Sets the number of threads. Those that are too many end when they have no work, the next call starts missing ones.

        Called under the lock.
        """
        self.size = size
        if len(self.threads) > size:
            for gate in self.idle:
                gate.open()

    def finished(self) -> None:
        """Wakes all callers, which check whether they can continue; called under the lock."""
        for gate in self.callers:
            gate.open()
        self.callers.clear()

    def leave(self, identity: int) -> None:
        """Gives up a thread that hangs; ``start`` starts another in its place. Called under the lock."""
        self.hanging.add(identity)
        self.threads = [thread for thread in self.threads if thread.ident != identity]

    def beside(self, works: Sequence[Callable[[], None]]) -> None:
        """Runs several functions at the same time: the first one in this thread, each other one in its own thread."""
        owner = threading.get_ident()
        errors: list[BaseException] = []

        def do(work: Callable[[], None]) -> None:
            self.inside.active = True
            self.helps[threading.get_ident()] = owner
            try:
                work()
            except BaseException as error:
                errors.append(error)
            finally:
                self.helps.pop(threading.get_ident(), None)

        helpers = [threading.Thread(target=do, args=(work,), name="pipeflow-beside", daemon=True) for work in works[1:]]
        for helper in helpers:
            helper.start()
        works[0]()
        for helper in helpers:
            helper.join()
        if errors:
            raise errors[0]

    def start_workers(self) -> None:
        """Starts the worker processes if there are any."""
        if self.workers is None:
            return
        if self.workers.start_method == "fork":
            self.workers.start()  # in this thread, so that the child is a copy of a process with one thread
        else:
            undisturbed(self.workers.start)

    def close(self) -> None:
        """Ends the threads: running steps are finished first, nothing new is started."""
        self.let_go()
        if os.getpid() != self.process or self._on_own_thread():
            return
        if self.workers is not None:
            self.workers.close()
        for thread in self.threads:
            thread.join(CLOSE_SECONDS)
        self.threads.clear()

    def let_go(self) -> None:
        """Lets the threads and the worker processes end, and does not wait for them.

        The garbage collector may call it at any time, also while its thread has a lock that one of them waits for.
        """
        if os.getpid() != self.process:
            return
        self.closing = True
        if self._on_own_thread():
            # The garbage collector may run in one of the pipeline's threads, even under the lock: that thread ends
            # when it comes back to its loop, and wakes the others.
            return
        for waker in self.wakers:
            wake = waker()
            if wake is not None:
                wake()  # a source that waits for data must release its thread
        with self.lock:
            self._let_all_go()
        if self.workers is not None:
            self.workers.let_go()

    def _on_own_thread(self) -> bool:
        """True in one of these threads. ``threading.current_thread()`` is not called: in a thread that was not started by
        ``threading.Thread`` it makes an entry in ``threading.enumerate()`` that stays. A new thread may have the number of one
        that has ended.
        """
        number = threading.get_ident()
        return any(thread.ident == number and thread.is_alive() for thread in self.threads)

    def _let_all_go(self) -> None:
        for gate in self.idle:
            gate.open()
        self.finished()

    def _serve(self, reference: "weakref.ref[Tasks]", born: Gate) -> None:
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
                task = None if executor is None else executor.claim(last=over)
                if over and task is None:
                    self._let_all_go()
                    return
                if task is None and len(self.threads) > self.size:  # fewer are enough now
                    self.threads.remove(threading.current_thread())
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
            while task is not None:
                task = executor.perform(task, arena, lap)
            del executor
            if self.hanging and threading.get_ident() in self.hanging:  # the function that seemed to hang has returned
                self.hanging.discard(threading.get_ident())
                return


_OPEN: "weakref.WeakSet[Crew]" = weakref.WeakSet()


def _at_exit() -> None:
    """Waits for the threads of all pipelines: none may work while the interpreter shuts down."""
    for crew in list(_OPEN):
        crew.close()


atexit.register(_at_exit)
