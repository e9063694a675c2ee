"""Debug runs: the same declarations, run at once in the user's stack, so that print, pdb and tracebacks work.

The definition is called anew for every batch. Each operator call is recorded, for its name and its randomness, and run
immediately over the whole batch, so a debug run equals the compiled run bit for bit.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.compile import gradients
from pipeflow.compile.plan import External, Plan, Slot, Stage, Step
from pipeflow.declare import Call, Ending, Request, Spec
from pipeflow.errors import user_origin
from pipeflow.executor import Delivered, Settings
from pipeflow.executor.batch import BatchRun, put, value_at
from pipeflow.executor.course import Course
from pipeflow.executor.failures import Failures
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.source import SourceStep
from pipeflow.executor.runners.table import runner_of
from pipeflow.executor.surroundings import Surroundings
from pipeflow.operators import structure
from pipeflow.record.graph import GraphNode
from pipeflow.record.recorder import DataNode, Recorder, collect_outputs, recording
from pipeflow.seeds import node_key
from pipeflow.tensors import TensorCPU, TensorListCPU, traced


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
        super().__init__()
        self.run = run
        self.batch = BatchRun(run.course.iteration, 0)
        run.course.begin(self.batch)
        self.slots: dict[Any, int] = {}
        self.plan = Plan((), (Stage("source", ()),), (), ())
        self.runners: list[StageRunner] = [StageRunner()]  # of the stages: the sources, then every other step
        self.surroundings = Surroundings(run.settings, run.pool, run.course)
        self.unread = {item.step.name: item for item in run.course.sources}  # what this batch has not asked yet
        run.failures.begin()

    def _record(self, call: Call, inputs: Any, member: int = 0, scope: Any = None, group: Any = None) -> Any:
        before = len(self.graph.nodes)
        result = super()._record(call, inputs, member, scope, group)
        gradients.check_history(self.graph, self.run.settings.on_error)
        for node in self.graph.nodes[before:]:
            if (node.id, 0) not in self.slots or not node.count:
                self._perform(node)
        return result

    def data_node(self, recorded: GraphNode, index: int) -> DebugNode:
        """What users hold of an output: it has its values."""
        return DebugNode(self, recorded, index)

    def as_node(self, value: Any, what: str = "value") -> DataNode:
        """As in a recording; a list of arrays, or a batch that the user has taken out, is a batch again."""
        arrays = isinstance(value, list) and value and all(isinstance(x, (np.ndarray, TensorCPU)) for x in value)
        if not arrays and not isinstance(value, TensorListCPU):
            return super().as_node(value, what)
        call = Call(structure.given, (), {"batch_of": TensorListCPU(value)}, {}, origin=user_origin())
        return self._record(call, ())

    def value(self, node: DataNode, output: int | None = None) -> TensorListCPU:
        """The values of a node as a batch, without rows that were left out; as an output with what stands in their place."""
        slot = self.slots[(node.source.id, node.index)]
        values, info = self.batch.values[slot], self.batch.origins.get(self.plan.origins[slot])
        rows = self.batch.active(()) if output is None else self.batch.rows()
        if rows is not None:
            values = self.batch.delivered(values, rows, output or 0, None)
            info = None if info is None else [info[row] for row in rows]
        return TensorListCPU.from_parts(values, node.spec.dtype, node.spec.ndim, self.batch.layouts[slot] or "", info)

    def end(self, nodes: list[DataNode]) -> list[TensorListCPU]:
        """The outputs of the definition; rows that get values of their own instead of all outputs get them now."""
        self.plan.outputs = tuple(self.slots[(node.source.id, node.index)] for node in nodes)
        waiting, self.run.failures.waiting = self.run.failures.waiting, []
        for order in waiting:
            Failures.give_row(self.run.failures, *order)
        self._raise()
        return [self.value(node, output) for output, node in enumerate(nodes)]

    def _slot(self, edge: Any) -> int:
        return self.slots[(edge.node, edge.index)]

    def _new_slot(self, spec: Any, origin: int) -> int:
        number = len(self.plan.slots)
        stages, externals = self.plan.stages, self.plan.externals
        self.plan = Plan((*self.plan.slots, Slot(number, spec, "table")), stages, (), (*self.plan.origins, origin))
        self.plan.externals, self.plan.on_error = externals, self.run.settings.on_error
        self.batch.values.append(None)
        self.batch.layouts.append(None)
        return number

    def _perform(self, node: GraphNode) -> None:
        origins = self.plan.origins
        inherited = next((origins[self._slot(edge)] for edge in node.inputs if origins[self._slot(edge)] >= 0), -1)
        origin = len(self.batch.origins) if node.op.factory else inherited
        for index, spec in enumerate(node.specs):
            self.slots[(node.id, index)] = self._new_slot(spec, origin)
        outputs = [self.slots[(node.id, index)] for index in range(node.count)]
        step = Step(
            op=node.op.name,
            name=node.name,
            inputs=tuple(self._slot(edge) for edge in node.inputs),
            constants=tuple((name, External(name)) for name in node.constants),
            arguments=tuple((name, self._slot(edge)) for name, edge in node.arguments.items()),
            outputs=tuple(outputs),
            device=node.device,
            guard=tuple((self._slot(edge), on) for edge, on in node.guard),
            key=node_key(self.run.settings.seed or 0 if node.seed is None else node.seed, node.random_name),
            specs=node.specs,
            hint=node.hint,
            origin=node.origin,
            user_code=False,
            on_error=node.on_error,
        )
        self.plan.externals = dict(node.constants)
        if node.op.factory is not None:
            self._read(node, step)
        elif node.op.name == "_constant":
            value = node.constants["value"]
            self.batch.values[outputs[0]] = np.broadcast_to(value, (self._size(), *value.shape))
            self.batch.layouts[outputs[0]] = node.specs[0].layout or ""
        elif node.op.traits_of(node.constants).granularity == "batch":
            self._run(Stage("batch", (step,)))
        else:
            self._run(Stage("sample", (step,)))

    def _run(self, stage: Stage) -> None:
        """Runs a step for the whole batch, as a stage of its own."""
        self.plan.stages = (*self.plan.stages, stage)
        runner = runner_of(self.plan, len(self.runners), self.surroundings)
        self.runners.append(runner)
        self.run.failures.follow(self.plan, self.runners, stage.steps[0])
        size = self._size()
        runner.enter(self.batch)
        runner.run(self.batch, 0, size, Arena())
        if self.batch.error is None:
            runner.finish(self.batch)
        self._settle(len(self.runners) - 1)

    def _settle(self, stage: int) -> None:
        """Applies the rules for rows that failed, and raises what is left."""
        if self.batch.failures and self.run.failures.active:
            self.run.failures.settle(self.batch, stage)
        self._raise()

    def _size(self) -> int:
        """The batch size: what the sources gave, or the largest there may be where there is no source."""
        if not len(self.batch.positions):
            self.run.course.place(self.batch, self.run.course.batch_size)
        return self.batch.size

    def _read(self, node: GraphNode, step: Step) -> None:
        source = self.run.source_step(node.name, lambda: SourceStep(self.plan, step, len(self.batch.origins)))
        self.unread.pop(node.name, None)
        source.step = step
        if node.op.fetches:
            source.step = replace(
                step, outputs=(self._new_slot(Spec((), np.dtype(np.int64), ""), self.plan.origins[-1]),)
            )
        self.plan.stages = (Stage("source", (*self.plan.stages[0].steps, source.step)), *self.plan.stages[1:])
        self.run.failures.follow(self.plan, self.runners, source.step)
        size = source.run(self.batch, self._request(source), self.run.pool)
        if self.batch.size and size != self.batch.size:
            raise RuntimeError(
                f"the sources of a batch gave different numbers of samples ({size} and {self.batch.size})"
            )
        self.run.course.place(self.batch, size)
        for sample, donor in self.run.failures.donors.items():  # rows that were replaced before this source was reached
            self.run.failures.take_from(source.step, self.batch, sample, donor)
        self._settle(0)
        if node.op.fetches:
            self.surroundings.fetches[step.name] = source.source.fetch
            self._run(Stage("sample", (replace(step, fetch=True, inputs=source.step.outputs),)))

    def _request(self, item: SourceStep) -> Request:
        # A reader that ends its epoch gives fewer samples; the other sources are then asked for as many.
        course = self.run.course
        return course.request(item, self.batch.size if len(self.batch.positions) else course.batch_size)

    def skip_unread(self) -> None:
        """Lets the readers that a failed definition did not come to pass over this batch, so that all keep step."""
        for item in self.unread.values():
            if item.op.fetches:
                feed = item.source.next(self._request(item))
                self.batch.ends += [item.step.name] * feed.ends_epoch

    def _raise(self) -> None:
        error = self.batch.failure()
        if error is not None:
            raise error


class DebugFailures(Failures):
    """The rules of a definition whose steps become known one by one."""

    def __init__(self, limit: Any) -> None:
        super().__init__(Plan((), (), (), ()), [], limit)
        self.begin()

    def begin(self) -> None:
        """A new batch."""
        self.rules.clear()
        self.waiting: list[Any] = []  # rows that get values in place of all outputs, which are known at the end
        self.donors: dict[int, int] = {}

    def follow(self, plan: Plan, runners: list[StageRunner], step: Step) -> None:
        """Takes up a step that is about to run."""
        self.plan, self.stages = plan, runners
        self.rules[step.name] = self.rule_of(step)
        self.active = any(rule.action != "raise" for rule in self.rules.values())
        if len(runners) > 1:
            self.contain()

    def give_row(self, *order: Any) -> bool:
        """Keeps the order until the outputs are known."""
        self.waiting.append(order)
        return True

    def take_source(self, batch: BatchRun, sample: int, donor: int) -> None:
        """Gives a row what the sources gave another one, those included that are still to come."""
        self.donors[sample] = donor
        super().take_source(batch, sample, donor)

    def take_from(self, step: Step, batch: BatchRun, sample: int, donor: int) -> None:
        """The same for one source."""
        for slot in step.outputs:
            put(batch, slot, sample, value_at(batch.values[slot], donor))
        batch.failures.pop(sample, None)


class DebugRun:
    """Runs a pipeline definition batch by batch; to a loop over epochs it looks like an executor.

    Which sources there are shows only when the definition has run: who asks earlier has the first batch made, which is kept
    for its turn.
    """

    device = None  # a debug run computes on the CPU
    in_flight = 0  # and never ahead

    def __init__(self, define: Callable[[], Any], settings: Settings) -> None:
        assert settings.batch_size is not None
        self.define = define
        self.settings = settings
        self.pool = HeapPool()
        self.failures = DebugFailures(settings.max_failures)
        self.course = Course(settings.batch_size)
        self.course.ending = "partial"  # as loops over epochs mostly want it; run() asks for "fill"
        self.course.failures = self.failures.state
        self._waiting: dict[str, list[tuple[Any, str | None]]] = {}
        self._held: Delivered | StopIteration | None = None
        self._made = BatchRun(0, 0)
        self._ran = False
        self._outputs = 0

    def source_step(self, name: str, make: Callable[[], SourceStep]) -> SourceStep:
        """The source of a name; it lives from batch to batch."""
        found = next((item for item in self.course.sources if item.step.name == name), None)
        if found is None:
            found = make()
            self.course.add(found)
        for data, layout in self._waiting.pop(name, []):
            found.source.feed(data, layout)
        return found

    def feed(self, name: str, data: Any, layout: str | None) -> None:
        """Keeps a batch for an external source until the definition reaches it."""
        self._waiting.setdefault(name, []).append((data, layout))

    # What a loop asks.

    @property
    def sources(self) -> list[SourceStep]:
        """The sources that the definition has."""
        self._look()
        return self.course.sources

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset."""
        self._look()
        return self.course.readers

    @property
    def num_outputs(self) -> int:
        """The number of outputs that the definition returns."""
        self._look()
        return self._outputs

    def fill(self, ahead: int, needed: int = 1) -> None:
        """Nothing runs ahead."""

    def measure(self, on: bool) -> None:
        """Operators are not timed."""

    def slowest(self) -> str:
        """Not known."""
        return ""

    def go_to(self, state: dict[str, Any], ending: Ending) -> None:
        """Goes back to a state; ``ending`` says how readers end their epochs from now on."""
        self.course.ending = ending
        if self._held is not None and not self.readers:
            return  # the batch that is kept would be the same
        self._held = None
        self.course.go_to(state, ending)

    def next_epoch(self) -> None:
        """Leaves an epoch that has begun for the next one."""
        self._look()
        self._held = None
        self.course.next_epoch()

    def reset(self, rewind: bool = False) -> None:
        """Starts the next epoch; ``rewind`` restarts sources that were not told to cycle."""
        self._held = None
        self.course.reset(rewind)

    def take(self) -> Delivered:
        """The next batch, or StopIteration at the end of the epoch."""
        delivered, self._held = self._held, None
        if delivered is None:
            if self.course.ended:
                raise StopIteration
            try:
                delivered = self._run()
            finally:
                self.course.mark()
        else:
            self.course.mark()
        if isinstance(delivered, StopIteration):
            raise delivered
        error = self.failures.account(self._made)
        if error is not None:
            raise error
        return delivered

    def _look(self) -> None:
        """Makes the first batch, where none has been made, to learn which sources and outputs there are."""
        if self._ran:
            return
        try:
            self._held = self._run()
        except StopIteration as end:
            self._held = end
        except Exception:
            self.course.mark()
            raise

    def _count(self, batch: BatchRun) -> None:
        self.course.passed(batch)
        self.course.ends = frozenset(batch.ends)

    def _run(self) -> Delivered:
        recorder = DebugRecorder(self)
        batch = recorder.batch
        try:
            with recording(recorder):
                recorder.session.enabled = self.settings.enable_conditionals
                returned = recorder.session.call(self.define)()
                edges = collect_outputs(recorder, returned)
            nodes = [DataNode(recorder, recorder.graph.nodes[edge.node], edge.index) for edge in edges]
            outputs = recorder.end(nodes)
        except StopIteration:
            self._ran = self.course.ended = True
            raise
        except Exception:  # a batch that fails is consumed whole, as elsewhere
            recorder.skip_unread()
            self._count(batch)
            raise
        self._count(batch)
        self._ran, self._outputs = True, len(edges)
        self._made = batch
        copies = [
            TensorListCPU([_copied(sample) for sample in values.samples()], values.layout()) for values in outputs
        ]
        return Delivered.of(batch, tuple(copies))


def _copied(sample: np.ndarray) -> np.ndarray:
    return sample if traced(sample) else np.array(sample)
