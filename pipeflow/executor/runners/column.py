"""Steps that are computed for all samples of a batch in one call."""

from pipeflow import seeds
from pipeflow.backends.cpu import HeapPool
from pipeflow.errors import widened
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.base import BoundStep


class ColumnStep(BoundStep):
    """A step that is computed for all samples in one call."""

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        """Fills the slots of the step."""
        step, op = self.step, self.op
        inputs = [batch.values[slot] for slot in step.inputs]
        if not op.random:  # samples of other numbers of axes are broadcast
            axes = max((x.ndim for x in inputs), default=1)
            inputs = [x.reshape(x.shape[:1] + (1,) * (axes - x.ndim) + x.shape[1:]) for x in inputs]
        arguments = {**op.defaults, **self.constants}
        for name, slot in step.arguments:
            arguments[name] = batch.values[slot]
        arguments = op.keywords(arguments)
        if "key" in op.wants:
            arguments["key"] = seeds.Key(self.batch_keys(batch))
        if "layouts" in op.wants:
            arguments["layouts"] = tuple(batch.layouts[slot] or "" for slot in step.inputs)
        if "out" in op.wants:
            outs = tuple(pool.empty((batch.size, *spec.shape), spec.dtype) for spec in step.specs)
            arguments["out"] = outs[0] if self.count == 1 else outs
        try:
            result = op.body(*inputs, **arguments)
        except (ValueError, TypeError) as error:
            raise widened(error) from error.__cause__
        for slot, values, spec in zip(step.outputs, (result,) if self.count == 1 else result, step.specs):
            batch.values[slot] = values
            batch.layouts[slot] = spec.layout
