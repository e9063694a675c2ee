"""The door to ``tuning.py``, which is loaded by the first pipeline with automatic settings."""

from collections.abc import Callable, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.claims import Claims
from pipeflow.executor.crew import Crew
from pipeflow.executor.crowd import Crowd
from pipeflow.executor.measuring import Effort
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings

if TYPE_CHECKING:
    from pipeflow.executor.tuning import Tuner


def tuner_of(
    settings: Settings, stages: Sequence[StageRunner], on_device: bool, look: Callable[[], Effort], whole: bool
) -> "Tuner | None":
    """What chooses the automatic settings of a pipeline; None if all its settings are fixed. ``whole``: see ``Tuner``."""
    if not settings.automatic and not any(runner.alone_if_better for runner in stages):
        return None
    tuner: type[Tuner] = resolve_name("pipeflow.executor.tuning:Tuner")
    return tuner.of(settings, stages, on_device, look, whole)


def adapt(
    tuner: "Tuner | None", crowd: Crowd | None, claims: Claims, crew: Crew, pool: HeapPool, now: float, asked: float
) -> None:
    """Changes the number of threads after a batch, if this was found to be better; ``asked`` is the time of the call for it."""
    if tuner is not None:
        if tuner.rests():
            return
        if tuner.delivered(now, asked, pool.all_reserved):
            claims.threads, claims.alone = tuner.threads, tuner.alone
        wanted = tuner.threads if tuner.settled else max(tuner.threads, crew.size)
        if crew.size != wanted:  # a thread that may not work takes turns with those that may
            crew.resize(wanted)
    elif crowd is not None and crowd.delivered(now):
        claims.threads = crowd.threads
