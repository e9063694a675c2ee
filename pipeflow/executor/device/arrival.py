"""``.cpu()``: waits for the copy that was queued with the data."""

from collections.abc import Sequence

from pipeflow.backends.cpu import Arena
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.device.device import Landing
from pipeflow.executor.runners.base import BoundStep, StageRunner
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan


class ArrivalStage(BoundStep, StageRunner):
    """Receives the copies."""

    waits = True

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        BoundStep.__init__(self, plan, plan.stages[number].steps[0])
        self.blamed = self.step
        assert surroundings.device is not None, "a stage before this one runs on the device"
        self.runtime = surroundings.device.runtime

    @property
    def steps(self) -> Sequence[BoundStep]:  # type: ignore[override]
        """The one step."""
        return (self,)

    def ready(self, batch: BatchRun) -> bool:
        """True if the copy is done."""
        landing = batch.values[self.step.outputs[0]]
        if not isinstance(landing, Landing):
            return True
        with self.runtime.active():  # any thread may call this, and a query on another GPU would open a context there
            return all(map(self.runtime.done, landing.events))

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Stores the arrays in their slots."""
        del begin, end, arena
        (source,), (target,) = self.step.inputs, self.step.outputs
        landing = batch.values[target]
        assert isinstance(landing, Landing), "the stage that made the data has queued its copy"
        with self.runtime.active():
            for event in landing.events:
                self.runtime.synchronize(event)
        active = batch.active(self.step.guard)
        kept = landing.arrays
        if active is not None:
            chosen = set(active)
            kept = [x if row in chosen else None for row, x in enumerate(kept)]
        batch.values[target] = kept
        batch.layouts[target] = batch.layouts[source]
        return False

    def remake(self, batch: BatchRun, rows: set[int]) -> set[int]:
        """Receives the copies of rows that were made again."""
        if isinstance(batch.values[self.step.outputs[0]], Landing):
            self.run(batch, 0, batch.size, Arena())
        return rows
