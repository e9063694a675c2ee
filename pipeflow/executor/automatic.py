"""The door to ``tuning.py``, which is loaded by the first pipeline with automatic settings."""

from collections.abc import Callable, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pipeflow.executor.measuring import Effort
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings

if TYPE_CHECKING:
    from pipeflow.executor.tuning import Tuner


def tuner_of(
    settings: Settings, stages: Sequence[StageRunner], on_device: bool, look: Callable[[], Effort]
) -> "Tuner | None":
    """What chooses the automatic settings of a pipeline; None if all its settings are fixed."""
    if not settings.automatic and not any(runner.alone_if_better for runner in stages):
        return None
    tuner: type[Tuner] = resolve_name("pipeflow.executor.tuning:Tuner")
    return tuner.of(settings, stages, on_device, look)
