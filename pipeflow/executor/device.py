"""Stages that run on a device: what the executor asks of a runtime, whichever it is.

There are two runtimes: CuPy's (backends/gpu.py), and a fake one in the tests whose streams do their work late and in any
order that the recorded waits allow.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pipeflow import declare
from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.batch import BatchRun
from pipeflow.plan import Plan, Stage


class Runtime(Protocol):
    """Batches on a device. The arrays it returns are the device's; nothing here waits for them."""

    def upload(self, samples: Sequence[np.ndarray]) -> Any:
        """Queues the copy of a batch to the device."""
        ...

    def download(self, batch: Any) -> Sequence[np.ndarray]:
        """The batch in CPU memory; waits for the copy alone."""
        ...

    def launch(self, op: declare.OpDef, inputs: Sequence[Any], arguments: dict[str, Any]) -> Any:
        """Queues one operator over a batch that lies on the device."""
        ...


class DeviceStage:
    """One step on the device, or one transfer to or from it."""

    def __init__(self, plan: Plan, stage: Stage, runtime: Runtime | None) -> None:
        self.step = stage.steps[0]
        self.op = declare.find(self.step.op)
        self.constants = {name: plan.constant(value) for name, value in self.step.constants}
        if runtime is None:
            raise RuntimeError(f"{self.step.title} runs on the GPU and this pipeline has none: give it a device_id")
        self.runtime = runtime

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        """Queues the work of one batch."""
        del pool  # the runtime has memory of its own
        inputs = [batch.values[slot] for slot in self.step.inputs]
        if self.step.op != "_transfer":
            result = self.runtime.launch(self.op, inputs, self.constants)
        elif self.step.device == "gpu":
            result = self.runtime.upload(list(inputs[0]))
        else:
            result = list(self.runtime.download(inputs[0]))
        for slot in self.step.outputs:
            batch.values[slot] = result
            batch.layouts[slot] = batch.layouts[self.step.inputs[0]] if self.step.inputs else ""
