"""The table from the kind of a stage to the class that runs it."""

from collections.abc import Callable

from pipeflow.executor import workers
from pipeflow.executor.device.arrival import ArrivalStage
from pipeflow.executor.device.functions import FunctionStage
from pipeflow.executor.device.segment import DeviceSegment
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.reading import SourceStage
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.executor.runners.whole import WholeStep
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan


def _processes(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    return workers.stage.ProcessStep(plan, number, surroundings)  # loaded with the first plan that needs it


RUNNERS: dict[str, Callable[[Plan, int, Surroundings], StageRunner]] = {
    "source": SourceStage,
    "sample": SampleStage,
    "batch": WholeStep,
    "processes": _processes,
    "device": DeviceSegment,
    "function": FunctionStage,
    "arrival": ArrivalStage,
}


def runner_of(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    """The runner of one stage."""
    stage = plan.stages[number]
    runner = RUNNERS[stage.kind](plan, number, surroundings)
    runner.ordered = stage.ordered
    return runner
