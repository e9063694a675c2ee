"""Debug runs: the same declarations, run at once in the user's stack, so that print, pdb and tracebacks work.

The definition is called anew for every batch. Each operator call is recorded, for its name and its randomness, and run
immediately over the whole batch, so a debug run equals the compiled run bit for bit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import Call, Request
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.steps import Placement, SampleStep, SourceStep, WholeStep, sample_step
from pipeflow.graph import DataNode, GraphNode, Recorder, collect_outputs, recording
from pipeflow.plan import External, Plan, Slot, Step
from pipeflow.seeds import node_key
from pipeflow.tensors import TensorListCPU


class DebugNode(DataNode):
    """A DataNode that has its values already."""

    __slots__ = ()

    @property
    def value(self) -> TensorListCPU:
        """The batch."""
        assert isinstance(self._recorder, DebugRecorder)
        return self._recorder.value(self)

    def get(self) -> TensorListCPU:
        """The batch."""
        return self.value

    def __repr__(self) -> str:
        return f"DataNode(name={self.name!r}, device={self.device!r})\n{self.value!r}"


class DebugRecorder(Recorder):
    """Records a call and runs it."""

    def __init__(self, run: "DebugRun") -> None:
        super().__init__(run)
        self.run = run
        self.batch = BatchRun(run.iteration, 0)
        self.batch.epoch, self.batch.iteration, self.batch.epochs = run.epoch, run.iteration, run.epoch
        self.slots: dict[Any, int] = {}
        self.plan = Plan((), (), (), ())

    def _record(self, call: Call, inputs: Any, member: int = 0, scope: Any = None) -> Any:
        before = len(self.graph.nodes)
        result = super()._record(call, inputs, member, scope)
        for node in self.graph.nodes[before:]:
            if (node.id, 0) not in self.slots or not node.count:
                self._perform(node)
        nodes = [DebugNode(self, self.graph.nodes[-1], index) for index in range(self.graph.nodes[-1].count)]
        return call.op.pack(nodes, call.constants) if isinstance(result, (DataNode, list)) else result

    def value(self, node: DataNode) -> TensorListCPU:
        """The values of a node as a batch."""
        slot = self.slots[(node.source.id, node.index)]
        values = self.batch.values[slot]
        origin = self.plan.origins[slot]
        info = self.batch.origins.get(origin)
        return TensorListCPU.from_parts(values, node.spec.dtype, node.spec.ndim, self.batch.layouts[slot] or "", info)

    def _slot(self, edge: Any) -> int:
        return self.slots[(edge.node, edge.index)]

    def _perform(self, node: GraphNode) -> None:
        origins = list(self.plan.origins)
        inherited = next((origins[self._slot(edge)] for edge in node.inputs if origins[self._slot(edge)] >= 0), -1)
        outputs = []
        slots = list(self.plan.slots)
        for index, spec in enumerate(node.specs):
            number = len(slots)
            self.slots[(node.id, index)] = number
            slots.append(Slot(number, spec, "table"))
            origins.append(len(self.batch.origins) if node.op.factory else inherited)
            outputs.append(number)
            self.batch.values.append(None)
            self.batch.layouts.append(None)
        self.plan = Plan(tuple(slots), (), (), tuple(origins))
        step = Step(
            op=node.op.name, name=node.name, inputs=tuple(self._slot(edge) for edge in node.inputs),
            constants=tuple((name, External(name)) for name in node.constants),
            nodes=tuple((name, self._slot(edge)) for name, edge in node.nodes.items()),
            outputs=tuple(outputs), device=node.device, guard=tuple((self._slot(edge), on) for edge, on in node.guard),
            key=node_key(self.run.seed if node.seed is None else node.seed, node.random_name), specs=node.specs, hint=node.hint,
            origin=node.origin, user_code=False,
        )  # fmt: skip
        self.plan.externals = dict(node.constants)
        if node.op.factory is not None:
            self._read(node, step)
        elif node.op.name == "_constant":
            value = node.constants["value"]
            self.batch.values[outputs[0]] = np.broadcast_to(value, (self._size(), *value.shape))
            self.batch.layouts[outputs[0]] = node.specs[0].layout or ""
        elif node.op.traits_of(node.constants).granularity == "batch":
            self._size()
            WholeStep(self.plan, step).run(self.batch, self.run.pool)
        else:
            self._each(sample_step(self.plan, step, set(), None))
        self._raise()

    def _each(self, step: SampleStep) -> None:
        size = self._size()
        step.enter(self.batch, self.run.pool)
        place = Placement(self.batch, step, Arena(), self.run.pool)
        row: list[Any] = [None] * len(self.plan.slots)
        mask = step.mask(self.batch)
        for sample in range(size):
            if mask is not None and not mask[sample]:
                continue
            try:
                step.run(self.batch, sample, row, place)
            except Exception as error:
                self.batch.fail(error, step.step, sample)
                return
        step.finish(self.batch)

    def _size(self) -> int:
        """The batch size: what the sources gave, or the largest there may be where there is no source."""
        if not len(self.batch.positions):
            self.batch.size = self.run.batch_size
            self.batch.positions = np.arange(self.run.position, self.run.position + self.batch.size)
        return self.batch.size

    def _read(self, node: GraphNode, step: Step) -> None:
        request = Request(self.run.batch_size, self.run.epoch, self.run.iteration, self.run.position, step.key or 0)
        source = self.run.source(node.name, lambda: SourceStep(self.plan, step, len(self.batch.origins)))
        source.step = step
        if not node.op.fetches:
            size = source.run(self.batch, request, self.run.pool)
        else:
            feed = source.source.next(request)
            size = feed.size
            self.batch.origins[source.number] = feed.source_info
            if feed.positions is not None:
                self.batch.positions = feed.positions
            if feed.epochs is not None:
                self.batch.epochs = feed.epochs
            rows = [source.source.fetch(int(index)) for index in feed.outputs[0]]  # type: ignore[attr-defined]
            for position, slot in enumerate(step.outputs):
                self.batch.values[slot] = [row[position] if isinstance(row, tuple) else row for row in rows]
                self.batch.layouts[slot] = node.specs[position].layout or ""
        if self.batch.size and size != self.batch.size:
            raise RuntimeError(
                f"the sources of a batch gave different numbers of samples ({size} and {self.batch.size})"
            )
        self.batch.size = size
        if len(self.batch.positions) != size:
            self.batch.positions = np.arange(self.run.position, self.run.position + size)

    def _raise(self) -> None:
        error = self.batch.failure()
        if error is not None:
            raise error


class DebugRun:
    """Runs a pipeline definition batch by batch."""

    def __init__(self, define: Callable[[], Any], seed: int, batch_size: int, enable_conditionals: bool = False) -> None:
        self.define = define
        self.enable_conditionals = enable_conditionals
        self.seed = seed
        self.batch_size = batch_size
        self.pool = HeapPool()
        self.epoch = 0
        self.iteration = 0
        self.position = 0
        self._sources: dict[str, SourceStep] = {}
        self._waiting: dict[str, list[tuple[Any, str | None]]] = {}

    def source(self, name: str, make: Callable[[], SourceStep]) -> SourceStep:
        """The source of a name; it lives from batch to batch."""
        if name not in self._sources:
            self._sources[name] = make()
        for data, layout in self._waiting.pop(name, []):
            self._sources[name].source.feed(data, layout)  # type: ignore[attr-defined]
        return self._sources[name]

    def feed(self, name: str, data: Any, layout: str | None) -> None:
        """Keeps a batch for an external source until the definition reaches it."""
        self._waiting.setdefault(name, []).append((data, layout))

    def run(self) -> tuple[TensorListCPU, ...]:
        """One batch."""
        recorder = DebugRecorder(self)
        with recording(recorder):
            recorder.session.enabled = self.enable_conditionals
            returned = recorder.session.call(self.define)()
            edges = collect_outputs(recorder, returned)
        nodes = [DataNode(recorder, recorder.graph.nodes[edge.node], edge.index) for edge in edges]
        self.iteration += 1
        self.position += recorder.batch.size
        outputs = [recorder.value(node) for node in nodes]
        return tuple(
            TensorListCPU([np.array(sample) for sample in batch.samples()], batch.layout()) for batch in outputs
        )

    def reset(self) -> None:
        """Starts the next epoch."""
        for item in self._sources.values():
            item.source.reset()
        self.epoch += 1
        self.iteration = self.position = 0
