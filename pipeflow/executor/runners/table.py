"""The table from the kind of a stage to the class that runs it."""

from collections.abc import Callable

from pipeflow.executor import device, workers
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.reading import SourceStage
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.executor.runners.whole import WholeStep
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan

# Worker processes and devices are loaded by the first plan that needs them.


def _processes(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    return workers.stage.ProcessStep(plan, number, surroundings)


def _device(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    return device.segment.DeviceSegment(plan, number, surroundings)


def _function(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    return device.functions.FunctionStage(plan, number, surroundings)


def _arrival(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    return device.arrival.ArrivalStage(plan, number, surroundings)


RUNNERS: dict[str, Callable[[Plan, int, Surroundings], StageRunner]] = {
    "source": SourceStage,
    "sample": SampleStage,
    "batch": WholeStep,
    "processes": _processes,
    "device": _device,
    "function": _function,
    "arrival": _arrival,
}


def runner_of(plan: Plan, number: int, surroundings: Surroundings) -> StageRunner:
    """The runner of one stage."""
    stage = plan.stages[number]
    runner = RUNNERS[stage.kind](plan, number, surroundings)
    runner.ordered = stage.ordered
    return runner
