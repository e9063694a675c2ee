"""Chains on a device: if the kernel of a chain does not support a batch, its links process the batch one after another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceMemory, DevicePlanner, SampleValues, View
from pipeflow.device.tables import TablePlanner


class ChainPlanner(DevicePlanner):
    """Plans each link over the batch; only the last one writes into memory of the output."""

    def __init__(self, op: OpDef, constants: Mapping[str, Any], count: int, per_frame: Sequence[str] = ()) -> None:
        super().__init__(op, constants, count, per_frame)
        self._links = [TablePlanner(DevicePlanner(link.op, link.part(constants), 1)) for link in op.links]

    def __call__(
        self,
        samples: Sequence[SampleValues],
        layouts: Sequence[str],
        memory: DeviceMemory,
        failed: Callable[[int, Exception], None] | None = None,
    ) -> tuple[list[tuple[View, ...] | None], tuple[str, ...]]:
        """Queues the links. If a sample fails in one link, the next links leave it out."""
        found = tuple(layouts)
        left = list(range(len(samples)))
        results: list[tuple[View, ...] | None] = [sample.inputs for sample in samples]  # type: ignore[misc]
        for number, (link, planner) in enumerate(zip(self.op.links, self._links, strict=True), 1):
            planner.by_samples.per_frame = frozenset(own for name, own in link.names if name in self.per_frame)
            given = [
                SampleValues(results[row] or (), link.part(samples[row].arguments), samples[row].key) for row in left
            ]
            place = memory if number == len(self._links) else Between(memory)
            rows = list(left)
            report = None if failed is None else lambda index, error, rows=rows: failed(rows[index], error)
            made, found = planner.plan(given, found, place, report)
            for row, views in zip(rows, made, strict=True):
                results[row] = views
            left = [row for row in left if results[row] is not None]
        return results, found


class Between:
    """The memory of a link whose result only the next link reads."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self.scratch, self.upload = memory.scratch, memory.upload
        self.launch, self.run = memory.launch, memory.run

    def allocate(self, output: int, sizes: Sequence[int] | np.ndarray) -> Sequence[int] | np.ndarray:
        """Memory between two launches."""
        del output
        places = -(-np.asarray(sizes, np.int64) // 256) * 256
        ends = places.cumsum()
        addresses = self._memory.scratch(int(ends[-1])) + ends - places
        return addresses if isinstance(sizes, np.ndarray) else addresses.tolist()

    def view(self, output: int, views: Sequence[View]) -> Sequence[int]:
        """A result in memory of the inputs stays there."""
        del output
        return [view.address for view in views]
