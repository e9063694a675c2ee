"""The threads of an executor."""

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pipeflow.backends.cpu import Arena
from pipeflow.executor.clocks import Lap

if TYPE_CHECKING:
    from pipeflow.executor.workers.pool import WorkerPool

CLOSE_SECONDS = 5.0  # how long close() waits for a step that is running


class Work(Protocol):
    """What the threads work on."""

    def claim(self) -> Any:
        """Takes the oldest work that no thread has; None where there is none. Called under the lock."""

    def perform(self, task: Any, arena: Arena, lap: Lap) -> None:
        """Does it."""


class Crew:
    """The threads and what they wait for.

    It refers to the executor weakly, and so do its threads while they wait: a pipeline that can be reached only from its own
    functions is collected like any other garbage, and its threads end.
    """

    def __init__(self, size: int, affinity: bool) -> None:
        self.size = size
        self.affinity = affinity
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.finished = threading.Condition(self.lock)
        self.threads: list[threading.Thread] = []
        self.idle = 0
        self.closing = False
        self.wakers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self.inside = threading.local()
        self.process = os.getpid()
        self.workers: WorkerPool | None = None
        self.hanging: set[int] = set()  # threads that hang in a function and have a successor
        _OPEN.add(self)

    def start(self, executor: Work) -> None:
        """Starts the worker processes, where the plan needs any, and then the threads."""
        if self.workers is not None:
            self.workers.start()
        for number in range(self.size):
            self._start_thread(executor, number)

    def replace(self, executor: Work, identity: int) -> None:
        """Leaves a thread that hangs to itself and starts another in its place; called under the lock."""
        self.hanging.add(identity)
        gone = [thread for thread in self.threads if thread.ident == identity]
        self.threads = [thread for thread in self.threads if thread not in gone]
        self._start_thread(executor, len(self.threads))

    def _start_thread(self, executor: Work, number: int) -> None:
        arguments = (weakref.ref(executor), number)
        thread = threading.Thread(target=self._serve, args=arguments, name=f"pipeflow-{number}", daemon=True)
        self.threads.append(thread)
        thread.start()

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
            self.work.notify_all()
            self.finished.notify_all()
        if self.workers is not None:
            self.workers.let_go()

    def _serve(self, reference: "weakref.ref[Work]", number: int) -> None:
        self.inside.active = True
        if self.affinity and hasattr(os, "sched_setaffinity"):
            allowed = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {allowed[number % len(allowed)]})
        arena, lap = Arena(), Lap()
        while True:
            with self.lock:
                while True:
                    executor = reference()
                    if self.closing or executor is None:
                        break
                    task = executor.claim()
                    if task is not None:
                        break
                    del executor
                    self.idle += 1
                    self.work.wait()
                    self.idle -= 1
                    lap.start()
            if self.closing or executor is None:
                with self.lock:
                    self.work.notify_all()
                return
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
