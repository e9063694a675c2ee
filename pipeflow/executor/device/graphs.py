"""CUDA graphs of a segment: its launches are captured once, and queued by one call for later batches.

Addresses of samples are in the rows that a batch copies to the device, not in the launches. The launches of two batches are
therefore equal if the batches have equal numbers and sizes of rows, in the same staged block. So a graph is never out of date:
it is used only for equal launches. Batches of other shapes are launched as usual.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from pipeflow.declare import OpDef
from pipeflow.device.runtime import Runtime
from pipeflow.plan import Step

MOST_SEEN = 64  # the most different batches that may come before one comes again


class Queued(NamedTuple):
    """Work of a step; ``queue`` is called with a stream. Equal work has equal names; None cannot be captured."""

    step: Step
    queue: Callable[[Any], None]
    name: Hashable


class LaunchGraphs:
    """The graphs of one segment, a few for each staged block."""

    def __init__(self, runtime: Runtime, blocks: int) -> None:
        self.runtime = runtime
        self.captured = 0
        self.replayed = 0
        self._most = 4 * blocks  # for full batches, and for batches at the end of an epoch
        self._graphs: OrderedDict[Hashable, Any] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def replay(self, queue: Sequence[Queued]) -> bool:
        """Queues the work by a graph; False if there is none. Work is captured when it comes for the second time."""
        name = tuple([one.name for one in queue])
        if len(name) < 2 or None in name:
            return False
        graph = self._graphs.get(name)
        if graph is None:
            if name not in self._seen:
                self._seen[name] = None
                if len(self._seen) > MOST_SEEN:
                    self._seen.popitem(last=False)
                return False
            graph = self._graphs[name] = self.runtime.capture([one.queue for one in queue])
            self.captured += 1
            if len(self._graphs) > self._most:
                self._graphs.popitem(last=False)
        else:
            self._graphs.move_to_end(name)
        self.runtime.replay(self.runtime.computing, graph)
        self.replayed += 1
        return True


def refuse(op: OpDef, reason: str) -> None:
    """Raises an error for a step that cannot be in a graph."""
    raise ValueError(f"cuda_graph=True: {op.title} {reason}, which a CUDA graph cannot contain. Leave cuda_graph out")
