"""Debug runs: the same declarations, run at once in the user's stack, so that print, pdb and tracebacks work.

The definition is called again for every batch. Each operator call is recorded, for its name and its randomness, and run
immediately over the whole batch, so a debug run equals the compiled run bit for bit.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.compile import history
from pipeflow.compile.computed import step_of
from pipeflow.declare import Call, Ending, Feed, Request, Spec
from pipeflow.errors import user_origin
from pipeflow.executor import Delivered, Settings
from pipeflow.executor.batch import BatchRun, Handing, put, value_at
from pipeflow.executor.course import Course
from pipeflow.executor.failures import Failure, Failures, Rule
from pipeflow.executor.runners.base import StageRunner, traits_of
from pipeflow.executor.runners.source import SourceStep
from pipeflow.executor.runners.table import runner_of
from pipeflow.executor.surroundings import Surroundings
from pipeflow.operators import structure
from pipeflow.plan import MOVED, External, Plan, Slot, Stage, Step, origin_of
from pipeflow.record.graph import GraphNode
from pipeflow.record.recorder import DataNode, Recorder, collect_outputs, recording
from pipeflow.seeds import key_of
from pipeflow.tensors import TensorCPU, TensorListCPU, traced


class DebugNode(DataNode):
    """A DataNode whose values have been computed."""

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


class _RunAgain(BaseException):
    """The definition must run again for this batch: an operator has used positions that a source then changed."""


class DebugRecorder(Recorder):
    """Records a call and runs it.

    Random numbers depend on the samples that the readers give, also those of operators that are called before the readers.
    So the readers that are known from the batch before are read first. A new one may make it necessary to run again.
    """

    def __init__(self, run: "DebugRun", feeds: dict[str, Feed]) -> None:
        super().__init__()
        self.run = run
        self.batch = BatchRun(run._made, 0)
        self.sized = False  # this batch has a size, which may be 0
        self.supposed = False  # no source has given the size
        run.course.begin(self.batch)
        self.slots: dict[Any, int] = {}
        self.plan = Plan((), (Stage("source", ()),), (), ())
        self.runners: list[StageRunner] = [StageRunner()]  # of the stages: the sources, then every other step
        self.surroundings = Surroundings(run.settings, run.pool, run.course)
        self.feeds = feeds  # what the sources have given for this batch, also when the definition ran before
        self.placed: set[str] = set()  # the sources whose positions the batch has
        self.unread = {item.step.name: item for item in run.course.sources}  # the definition has not reached these yet
        run.failures.begin()

    def _record(self, call: Call, inputs: Any, member: int = 0, scope: Any = None, group: Any = None) -> Any:
        before = len(self.graph.nodes)
        result = super()._record(call, inputs, member, scope, group)
        history.check(self.graph, self.run.settings.on_error)
        for node in self.graph.nodes[before:]:
            if (node.id, 0) not in self.slots or not node.count:
                self._perform(node)
        return result

    def data_node(self, recorded: GraphNode, index: int) -> DebugNode:
        """An output in a debug run, with its values."""
        return DebugNode(self, recorded, index)

    def as_node(self, value: Any, what: str = "value") -> DataNode:
        """As in a recording; a list of arrays, or a batch that the user has read from a node, becomes a node again."""
        arrays = isinstance(value, list) and value and all(isinstance(x, (np.ndarray, TensorCPU)) for x in value)
        if not arrays and not isinstance(value, TensorListCPU):
            return super().as_node(value, what)
        call = Call(structure.given, (), {"batch_of": TensorListCPU(value)}, {}, origin=user_origin())
        return self._record(call, ())

    def value(self, node: DataNode, output: int | None = None) -> TensorListCPU:
        """The values of a node as a batch, without rows that were left out; with ``output``, these are replaced."""
        slot = self.slots[(node.source.id, node.index)]
        values, info = self.batch.values[slot], self.batch.origins.get(self.plan.origins[slot])
        rows = self.batch.seen() if output is None else self.batch.rows()
        if rows is not None:
            values = self.batch.delivered(values, rows, output or 0, None)
            info = None if info is None else [info[row] for row in rows]
        return TensorListCPU.from_parts(values, node.spec.dtype, node.spec.ndim, self.batch.layouts[slot] or "", info)

    def end(self, nodes: list[DataNode]) -> list[TensorListCPU]:
        """The outputs of the definition; rows for which a rule gives values for all outputs get these values now."""
        self.plan.outputs = tuple(self.slots[(node.source.id, node.index)] for node in nodes)
        waiting, self.run.failures.waiting = self.run.failures.waiting, []
        for order in waiting:
            Failures.give_row(self.run.failures, *order)
        self._raise()
        self.run.failures.hide(self.batch)
        return [self.value(node, output) for output, node in enumerate(nodes)]

    def _slot(self, edge: Any) -> int:
        return self.slots[(edge.node, edge.index)]

    def _new_slot(self, spec: Any, origin: int) -> int:
        number = len(self.plan.slots)
        stages, externals = self.plan.stages, self.plan.externals
        self.plan = Plan((*self.plan.slots, Slot(number, spec, "table")), stages, (), (*self.plan.origins, origin))
        self.plan.externals, self.plan.on_error = externals, self.run.settings.on_error
        self.batch.slot_origins = self.plan.origins
        self.batch.values.append(None)
        self.batch.layouts.append(None)
        return number

    def _perform(self, node: GraphNode) -> None:
        origins = self.plan.origins
        inherited = origin_of([origins[self._slot(edge)] for edge in node.inputs])
        origin = len(self.batch.origins) if node.op.factory else MOVED if node.traits.moves else inherited
        for index, spec in enumerate(node.specs):
            self.slots[(node.id, index)] = self._new_slot(spec, origin)
        outputs = [self.slots[(node.id, index)] for index in range(node.count)]
        key = key_of(node.seed, self.run.settings.seed or 0, node.random_name)
        constants = [(name, External(name)) for name in node.constants]
        step = step_of(node, self._slot, constants, key, node.on_error, user_code=False)
        self.plan.externals = dict(node.constants)
        if node.op.factory is not None:
            self._read(node, step)
        elif node.op.role == "constant":
            value = node.constants["value"]
            self.batch.values[outputs[0]] = np.broadcast_to(value, (self._size(), *value.shape))
            self.batch.layouts[outputs[0]] = node.specs[0].layout or ""
        elif node.traits.granularity == "batch":
            self._run(Stage("batch", (step,)))
        else:
            self._run(Stage("sample", (step,)))

    def _run(self, stage: Stage) -> None:
        """Runs a step for the whole batch, as a stage of its own."""
        size = self._size()
        self.plan.stages = (*self.plan.stages, stage)
        if traits_of(self.plan, stage.steps[0]).moves:
            self.run.failures.take_back(self.batch, self.plan, len(self.runners) - 1)
        runner = runner_of(self.plan, len(self.runners), self.surroundings)
        self.runners.append(runner)
        self.run.failures.follow(self.plan, self.runners, stage.steps[0])
        runner.enter(self.batch)
        if size or stage.kind != "sample":
            runner.run(self.batch, 0, size, Arena())
        if self.batch.error is None:
            runner.finish(self.batch)
        self._settle(len(self.runners) - 1)

    def _settle(self, stage: int) -> None:
        """Applies the rules for failed rows, and raises the remaining errors."""
        if self.batch.failures and self.run.failures.active:
            self.run.failures.settle(self.batch, stage)
        self._raise()

    def _size(self) -> int:
        """The batch size: the number of samples from the sources, or the largest batch size if there is no source."""
        if not self.sized:
            self._open(self.unread)
        if not self.sized:
            self.run.course.count_samples(self.batch, self.run.course.batch_size)
            self.sized = self.supposed = True
        return self.batch.size

    def _open(self, names: Iterable[str]) -> None:
        for name in names:
            self._feed(self.run.source_step(name))

    def _feed(self, item: SourceStep) -> Feed:
        """What a source gives for this batch: it is read once."""
        name = item.step.name
        feed = self.feeds.get(name)
        if feed is None:
            feed = self.feeds[name] = item.source.next(self._request(item))
        if name in self.placed:
            return feed
        self.placed.add(name)
        before = self.batch.positions, self.batch.epochs
        item.place(self.batch, feed)
        if not self.sized:
            self.run.course.count_samples(self.batch, feed.size)
            self.sized = True
        elif feed.size != self.batch.size and not self.supposed:
            raise RuntimeError(
                f"the sources of a batch gave different numbers of samples ({feed.size} and {self.batch.size})"
            )
        elif feed.size != self.batch.size or (len(self.runners) > 1 and not _equal(before, self.batch)):
            raise _RunAgain
        return feed

    def _read(self, node: GraphNode, step: Step) -> None:
        source = self.run.source_step(node.name, lambda: SourceStep(self.plan, step, len(self.batch.origins)))
        self._open([name for name, item in self.unread.items() if item.op.fetches])
        self.unread.pop(node.name, None)
        source.step = step
        if node.op.fetches:
            source.step = replace(
                step, outputs=(self._new_slot(Spec((), np.dtype(np.int64), ""), self.plan.origins[-1]),)
            )
        self.plan.stages = (Stage("source", (*self.plan.stages[0].steps, source.step)), *self.plan.stages[1:])
        self.run.failures.follow(self.plan, self.runners, source.step)
        source.fill(self.batch, self._feed(source), self.run.pool)
        for sample, donor in self.batch.donors.items():  # rows that were replaced before this source was read
            self.run.failures.take_from(source.step, self.batch, sample, donor)
        self._settle(len(self.runners) - 1)
        if node.op.fetches:
            self.surroundings.readers[step.name] = source.source
            self._run(Stage("sample", (replace(step, fetch=True, inputs=source.step.outputs),)))

    def _request(self, item: SourceStep) -> Request:
        # A reader that ends its epoch gives fewer samples; the other sources then give the same number.
        course = self.run.course
        return course.request(item, self.batch.size if self.sized else course.batch_size)

    def skip_unread(self) -> None:
        """Skips this batch in readers that a failed definition did not reach: all readers stay at the same batch."""
        for item in self.unread.values():
            if item.op.fetches:
                feed = self.feeds.get(item.step.name) or item.source.next(self._request(item))
                self.batch.ends += [item.step.name] * feed.ends_epoch

    def _raise(self) -> None:
        error = self.batch.failure()
        if error is not None:
            raise error


class DebugFailures(Failures):
    """The rules for failed rows, in a run whose steps become known one by one."""

    def __init__(self, limit: Any) -> None:
        super().__init__(Plan((), (), (), ()), [], limit)
        self.begin()

    def begin(self) -> None:
        """Begins a new batch."""
        self.rules.clear()
        self.movers.clear()
        self.left_out: dict[int, tuple[BaseException, Step]] = {}
        self.waiting: list[Any] = []  # rows that get values for all outputs; the outputs are known at the end

    def follow(self, plan: Plan, runners: list[StageRunner], step: Step) -> None:
        """Adds the rule of a step that will run next."""
        self.plan, self.stages = plan, runners
        self.rules[step.name] = self.rule_of(step)
        self.find_movers(step)
        self.active = any(rule.action != "raise" for rule in self.rules.values())
        if len(runners) > 1:
            self.contain()

    def _leave_out(self, batch: BatchRun, step: Step, sample: int, rule: Rule, error: BaseException) -> None:
        self.left_out[sample] = error, step
        super()._leave_out(batch, step, sample, rule, error)

    def take_back(self, batch: BatchRun, plan: Plan, stage: int) -> None:
        """Replaces the rows that were left out before it was known that a step will move samples to other rows."""
        if not self.left_out:
            return
        self.plan = plan
        self.find_movers(plan.stages[-1].steps[0])
        lost, self.left_out = self.left_out, {}
        batch.absent.clear()
        batch.incidents[:] = [failure for failure in batch.incidents if failure.sample not in lost]
        self.waiting.clear()
        batch.failures.update(lost)
        self.settle(batch, stage)

    def give_row(self, *order: Any) -> bool:
        """Keeps the request to replace a row until the outputs are known."""
        self.waiting.append(order)
        return True

    def take_from(self, step: Step, batch: BatchRun, sample: int, donor: int) -> None:
        """Replaces a row in the outputs of one source."""
        for slot in step.outputs:
            put(batch, slot, sample, value_at(batch.values[slot], donor))
        batch.failures.pop(sample, None)


class DebugRun:
    """Runs a pipeline definition batch by batch, with the interface of an executor for loops over epochs.

    The sources are known only after the definition has run. If they are needed earlier, the first batch is made and kept
    until it is taken.
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
        self.course.ending = "partial"  # most loops over epochs need this; run() sets "fill"
        self.course.failures = self.failures.state
        self.failures.epoch_size = self.course.epoch_size
        self.course.mark()
        self._waiting: dict[str, list[tuple[Any, str | None]]] = {}
        self._ready: _Ready | None = None  # a batch that was made and that no caller has yet
        self._broken = False  # the making of a batch was interrupted
        self._made = 0
        self._outputs = 0

    def source_step(self, name: str, make: Callable[[], SourceStep] | None = None) -> SourceStep:
        """The source with a name; all batches use the same one."""
        found = next((item for item in self.course.sources if item.step.name == name), None)
        if found is None:
            assert make is not None
            found = make()
            self.course.add(found)
        for data, layout in self._waiting.pop(name, []):
            found.source.feed(data, layout, self.course.batch_size)
        return found

    def feed(self, name: str, data: Any, layout: str | None) -> None:
        """Keeps a batch for an external source until the definition reaches it."""
        self._waiting.setdefault(name, []).append((data, layout))

    # Methods that loops call.

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

    def fill(self, ahead: int) -> None:
        """Does nothing: a debug run does not work ahead."""

    def measure(self, on: bool) -> None:
        """Does nothing: a debug run does not time operators."""

    def slowest(self) -> str:
        """No name: the slowest operator is not known."""
        return ""

    def state(self) -> dict[str, Any]:
        """The position after the last batch that was taken."""
        self._settle()
        return self.course.state()

    def log(self) -> list[Failure]:
        """The failures of the batches that were taken."""
        self._settle()
        return list(self.failures.log)

    def _settle(self) -> None:
        """Counts the batch that the caller has; if the making of a batch was interrupted, takes the sources back."""
        ready = self._ready
        if ready is not None and ready.handing is not None and ready.handing.done:
            self.failures.account(ready.batch)
            self.course.taken(ready.batch)
            self._ready = None
        if self._broken:
            self.course.go_to(self.course.state())
            self._broken = False

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Restores a state; ``ending`` determines how readers end their epochs from now on."""
        self._ready, self._broken = None, False
        self.course.go_to(state, ending)

    def end_epochs(self, ending: Ending) -> None:
        """Sets how readers end their epochs from now on; a batch that was made but not taken is made again."""
        self._settle()
        if self.course.ending == ending:
            return
        self.course.ending = ending
        if self._ready is None or self.readers:  # else the batch would be the same
            self.go_to(self.state(), ending)

    def next_epoch(self, state: dict[str, Any]) -> None:
        """Leaves the epoch of a state for the next one."""
        self._look()
        self._ready, self._broken = None, False
        self.course.next_epoch(state)

    def reset(self, rewind: bool = False, state: dict[str, Any] | None = None) -> None:
        """Starts the epoch after ``state``; ``rewind`` also restarts sources without a ``cycle``."""
        state = state or self.state()
        self._ready, self._broken = None, False
        self.course.reset(state, rewind)

    def take(self, handing: Handing, ahead: int = 0, first: int = 0) -> Delivered:
        """The next batch, or StopIteration at the end of the epoch."""
        del ahead, first
        self._settle()
        if self._ready is None:
            if self.course.ended:
                raise StopIteration
            self._make()
        assert self._ready is not None
        if self._ready.delivered is None:
            self._ready = None
            raise StopIteration
        self._ready.handing = handing
        return self._ready.delivered

    def _look(self) -> None:
        """Makes the first batch, if none has been made, to find the sources and outputs."""
        if not self._made:
            self._settle()
            self._make()

    def _make(self) -> None:
        """Runs the definition for one batch. After an interrupt ``_settle`` takes the sources back."""
        self._broken = True
        feeds: dict[str, Feed] = {}
        while True:
            recorder = DebugRecorder(self, feeds)
            with contextlib.suppress(_RunAgain):
                self._ready = self._run(recorder)
                break
        self._made, self._broken = self._made + 1, False

    def _run(self, recorder: DebugRecorder) -> "_Ready":
        batch = recorder.batch
        outputs: list[TensorListCPU] = []
        error: Exception | None = None
        try:
            with recording(recorder):
                recorder.session.enabled = self.settings.enable_conditionals
                returned = recorder.session.call(self.define)()
                edges = collect_outputs(recorder, returned)
            nodes = [DataNode(recorder, recorder.graph.nodes[edge.node], edge.index) for edge in edges]
            outputs = recorder.end(nodes)
            self._outputs = len(edges)
        except StopIteration:
            self.course.ended = True
            self.course.mark()
            return _Ready(batch, None)
        except Exception as failure:  # a batch that fails is consumed as a whole, as in the compiled run
            recorder.skip_unread()
            error = batch.error = failure
        error = self.failures.judge(batch) or error
        copies = [
            TensorListCPU(
                [_copied(sample) for sample in values.samples()], values.layout(), source_info=values.source_info()
            )
            for values in outputs
        ]
        delivered = Delivered.of(batch, tuple(copies), batch.rows(), error)
        batch.states = {item.step.name: item.state(False) for item in self.course.sources}
        self.course.passed(batch)
        return _Ready(batch, delivered)


class _Ready:
    """A batch, its delivery to the caller (None: the end of the epoch), and its handing."""

    def __init__(self, batch: BatchRun, delivered: Delivered | None) -> None:
        self.batch = batch
        self.delivered = delivered
        self.handing: Handing | None = None


def _equal(before: tuple[Any, Any], batch: BatchRun) -> bool:
    """True if a batch still has these positions and epochs."""
    return np.array_equal(before[0], batch.positions) and bool(np.all(before[1] == batch.epochs))


def _copied(sample: np.ndarray) -> np.ndarray:
    return sample if traced(sample) else np.array(sample)
