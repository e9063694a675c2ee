"""The objects that the runners of one executor share."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import Source
from pipeflow.errors import InvalidState
from pipeflow.executor import workers
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.course import Course
from pipeflow.executor.settings import Settings, available_cpus

if TYPE_CHECKING:
    from pipeflow.executor.device.device import Device
    from pipeflow.executor.workers.pool import WorkerPool


def _not_sent(batch: BatchRun) -> None:
    raise AssertionError(f"batch {batch.index} was not sent anywhere")


def _in_turn(works: Sequence[Callable[[], None]]) -> None:
    for work in works:
        work()


@dataclass
class Surroundings:
    """Memory, device, worker processes, and the course of the run."""

    settings: Settings
    pool: HeapPool
    course: Course
    device: "Device | None" = None
    resume: Callable[[BatchRun], None] = _not_sent  # called when the worker processes return a batch
    readers: dict[str, Source] = field(default_factory=dict)  # by their names
    beside: Callable[[Sequence[Callable[[], None]]], None] = _in_turn  # runs several functions at the same time

    def __post_init__(self) -> None:
        if self.device is not None:
            self.pool.page_locked = self.device.sending

    @cached_property
    def workers(self) -> "WorkerPool":
        """The worker processes, made for the first stage or source that needs them and not started yet."""
        if not self.settings.py_num_workers:
            raise InvalidState(
                "this pipeline needs worker processes (parallel=True of a source, or parallel='processes' of a function) and "
                "has py_num_workers=0: give it at least 1"
            )
        return workers.pool.WorkerPool(self.settings.py_num_workers, self.settings.py_start_method)

    @cached_property
    def processors(self) -> int:
        """The number of processors that this process may use."""
        return available_cpus()

    @property
    def known_workers(self) -> "WorkerPool | None":
        """The worker processes, or None."""
        return self.__dict__.get("workers")


def weakly(method: Callable[[BatchRun], None]) -> Callable[[BatchRun], None]:
    """Calls a method without a reference to its object; once the object is gone, the call does nothing."""
    reference = weakref.WeakMethod(method)

    def call(batch: BatchRun) -> None:
        alive = reference()
        if alive is not None:
            alive(batch)

    return call
