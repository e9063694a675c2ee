"""Pipeline and @pipeline_def: defining, building and running a graph, and what it reports."""

import functools
import inspect
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal, overload

import numpy as np

from pipeflow import backends as devices
from pipeflow import system, timing, types
from pipeflow.advice import Advice, advise
from pipeflow.autograph_guard import do_not_convert, is_marked
from pipeflow.compile import compiler as planning
from pipeflow.compile import warmup
from pipeflow.compile.on_cpu import on_cpu, work_for_a_gpu
from pipeflow.debug import DebugRun
from pipeflow.declare import outside_package
from pipeflow.epochs import ONE_AT_A_TIME, Epoch, LastBatchPolicy, Loop, Meter
from pipeflow.errors import (
    BadValue,
    CheckpointingOff,
    InvalidState,
    NoGpu,
    UnknownInput,
    add_notes,
    count_of,
    function_name,
    nearest,
    user_origin,
)
from pipeflow.executor import Delivered, Executor, Settings
from pipeflow.executor import checkpoint as saved_state
from pipeflow.executor.batch import Handing, Held
from pipeflow.executor.failures import Failure
from pipeflow.executor.figures import Statistics
from pipeflow.operators.readers.files import open_regular
from pipeflow.record import outside  # noqa: F401  (takes the calls outside of any pipeline)
from pipeflow.record import saved as saving
from pipeflow.record.graph import Graph
from pipeflow.record.recorder import DataNode, Recorder, collect_outputs, recording
from pipeflow.resume import RunJournal
from pipeflow.saving.values import Allowed
from pipeflow.tensors import TensorListCPU

__all__ = ["Pipeline", "do_not_convert", "pipeline_def"]

# Arguments of the constructor that are accepted and do nothing here, and why.
NO_EFFECT = {
    "default_cuda_stream_priority": "deprecated: the GPU backend makes its own two streams",
    "max_streams": "deprecated: the GPU backend makes its own two streams",
    "exec_dynamic": "there is one executor; it works like DALI's dynamic one",
    "experimental_exec_dynamic": "deprecated name of exec_dynamic",
    "stream_policy": "the GPU backend makes its own two streams",
    "concurrency": "all stages of all batches in flight run side by side",
    "py_callback_pickler": "functions travel to worker processes by cloudpickle",
}
DEVICE_VARIABLE = "PIPEFLOW_DEVICE"  # "cpu": no pipeline uses a GPU; "strict": one without a GPU refuses work for one
FURTHEST = 2**40  # where seek() can go: positions of samples are counted in 64 bits
NOT_COMPILED = (
    "a debug pipeline runs its definition line by line: it has no plan and no checkpoints; leave debug=True out"
)
ENOUGH_BATCHES = 3  # for advice
_DEPRECATED = ("max_streams", "default_cuda_stream_priority", "experimental_exec_dynamic")


def _setting(name: str, text: str) -> Any:
    return property(lambda self: getattr(self._settings, name), doc=text)


class Pipeline:
    """A graph of operators that gives batches: made by ``@pipeline_def``, by subclassing, or with ``with pipe:``."""

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: "int | Mapping[str, int]" = 2,
        exec_async: bool = True,
        bytes_per_sample: int = 0,
        set_affinity: bool = False,
        max_streams: int | None = None,
        default_cuda_stream_priority: int | None = None,
        *,
        enable_conditionals: bool = False,
        enable_memory_stats: bool = False,
        enable_checkpointing: bool = False,
        checkpoint: "str | bytes | None" = None,
        py_num_workers: int = 1,
        py_start_method: str = "forkserver",
        py_callback_pickler: Any = None,
        output_dtype: Any = None,
        output_ndim: Any = None,
        output_layout: Any = None,
        exec_dynamic: bool | None = None,
        experimental_exec_dynamic: bool | None = None,
        stream_policy: Any = None,
        concurrency: Any = None,
        fuse: bool = True,
        on_error: Any = "raise",
        max_failures: "int | float | None" = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        for name in _DEPRECATED:
            if given[name] is not None:
                warnings.warn(
                    f"the argument {name} has no effect ({NO_EFFECT[name]})", DeprecationWarning, stacklevel=2
                )
        if seed is not None and seed < 0:
            warnings.warn("a negative seed means no seed; leave it out, or give None", stacklevel=2)
            seed = None
        if os.environ.get(DEVICE_VARIABLE) == "cpu":
            given["device_id"] = None
        self._seed_given = seed is not None
        if seed is None and checkpoint is not None:
            seed = saved_state.from_json(checkpoint)["seed"]
        self._settings = Settings(**{**given, "seed": seed})
        self._recorder: Recorder | None = None
        self._entered: list[Any] = []
        self._graph: Graph | None = None
        self._plan: planning.Plan | None = None
        self._executor: Executor | None = None
        self._debug: DebugRun | None = None
        self._define: Callable[[], Any] | None = None
        self._api = types.PipelineAPIType.BASIC
        self._check_api = True
        self._turn = threading.RLock()  # of the callers, so that a batch and what was fed for it go to one of them
        self._shared: list[Any] = []
        self._last: Held[Delivered | None] = Held(None)
        self._loop: Any = None
        self._place: Held[dict[str, Any]] = Held({})  # where its iteration by epochs stands
        self._consumed = False  # whether batches were delivered since the epoch began or a state was loaded
        self._waited = 0.0  # seconds that loops have waited for batches
        self._iterated_by: weakref.ref[Any] | None = None
        self._fed: dict[str, int] = {}
        self._measuring = False
        self._measured: Statistics | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A function for worker processes may refer to a pipeline that is not built."""
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turn = threading.RLock()

    # Defining the graph.

    def define_graph(self) -> Any:
        """Returns the outputs; subclasses override it."""
        raise NotImplementedError("define_graph() is not overridden and set_outputs() was not called")

    def __enter__(self) -> "Pipeline":
        Pipeline.push_current(self)
        return self

    def __exit__(self, *_: Any) -> None:
        Pipeline.pop_current()

    @staticmethod
    def push_current(pipeline: "Pipeline") -> None:
        """Makes operator calls record into ``pipeline`` until ``pop_current``."""
        context = recording(pipeline._open_recorder())
        context.__enter__()
        _open.set((*_open.get(), (pipeline, context)))

    @staticmethod
    def pop_current() -> None:
        """Ends the recording begun by the last ``push_current``."""
        opened = _open.get()
        if not opened:
            raise InvalidState("pop_current() without push_current()")
        _open.set(opened[:-1])
        _, context = opened[-1]
        context.__exit__(None, None, None)

    @staticmethod
    def current() -> "Pipeline | None":
        """The pipeline that is being defined, if any."""
        opened = _open.get()
        return opened[-1][0] if opened else None

    def _open_recorder(self) -> Recorder:
        if self._plan is not None:
            raise InvalidState("the pipeline is built already: its graph cannot be changed")
        if self._recorder is None:
            self._recorder = Recorder()
        return self._recorder

    def set_outputs(self, *outputs: Any) -> None:
        """Says what the pipeline gives; for pipelines defined with ``with pipe:``."""
        recorder = self._open_recorder()
        recorder.graph.outputs = collect_outputs(recorder, outputs)
        self._graph = recorder.graph

    def add_sink(self, edge: DataNode) -> None:
        """Keeps a node alive that leads to no output."""
        self._open_recorder().own(edge).source.preserve = True

    def _known_as(self, name: str) -> str:
        """What users call a step: the name they gave it, or the one that DALI gives."""
        node = None if self._debug is not None else self._recorded().find(name)
        return name if node is None else node.known_as

    def _name_of(self, node: "DataNode | str") -> str:
        """The name of the step of a node, which may be given by the name that DALI would give it."""
        if isinstance(node, DataNode):
            node = node.source.known_as
        known = self._recorded().find(node) if self._debug is None else None
        return node if known is None else known.name

    def build(self) -> None:
        """Records the graph, compiles it and gets everything ready to run. Done by the first run() if left out."""
        if self._executor is not None or self._debug is not None:
            return
        with self._turn:
            if self._executor is None and self._debug is None:
                self._build()

    def _build(self) -> None:
        settings = self._settings
        if settings.batch_size is None:
            raise ValueError("batch_size is not set: give it to the pipeline's constructor or call")
        if isinstance(self._define, _DebugDefinition):
            if settings.checkpoint is not None:
                raise InvalidState(f"the checkpoint cannot be taken up: {NOT_COMPILED}")
            self._debug = DebugRun(self._define.function, settings)
            return
        graph = self._without_gpu(self._recorded())
        if settings.bytes_per_sample:
            for node in graph.nodes:
                node.hint = node.hint or (settings.bytes_per_sample,) * node.count
        codec = any(node.device == "mixed" for node in graph.nodes) and devices.gpu.has_codec()
        if not self._seed_given:
            share_order_of_shards(graph)
        self._plan = planning.compile(graph, settings.seed or 0, settings.fuse, settings.on_error, codec)
        if self._recorder is not None:
            self._recorder.closed = True
        self._check_declared(graph)
        self._one_at_a_time()
        warmup.prepare(self._plan)
        try:
            executor = Executor(self._plan, self._settings, self._runtime())
        except OSError as error:
            add_notes(error, system.limits_reached(error))
            raise
        self._finalizer = weakref.finalize(self, executor.crew.let_go)
        if settings.enable_checkpointing:
            saved_state.check_saveable(self._plan, executor)
        if settings.checkpoint is not None:
            self._go_to(saved_state.from_json(settings.checkpoint), executor)
        self._executor = executor

    def _without_gpu(self, graph: Graph) -> Graph:
        """The graph on the CPU, where there is work for a GPU and the pipeline has none; a warning says so."""
        work = work_for_a_gpu(graph)
        if not work or self._settings.device_id is not None:
            return graph
        what = f"{', '.join(work[:5])}{' and more' if len(work) > 5 else ''}"
        if os.environ.get(DEVICE_VARIABLE) == "strict":
            raise NoGpu(
                f"this pipeline has work for a GPU and no device_id: {what}. Give it device_id=0, or unset {DEVICE_VARIABLE} to "
                "run that work on the CPU"
            )
        warnings.warn(
            f"this pipeline has no GPU, so this runs on the CPU: {what}. Give it device_id=0 to use a GPU, or set "
            f"{DEVICE_VARIABLE}=strict to make this an error",
            stacklevel=outside_package(),
        )
        return on_cpu(graph)

    def _one_at_a_time(self) -> None:
        """What differentiable functions ask for: each batch is made when it is asked for, by the thread that asks."""
        assert self._plan is not None
        functions = self._plan.differentiable()
        if not functions:
            return
        settings = self._settings
        if settings.queue_sizes[0] > 1 or not settings.synchronous:
            names = ", ".join(f"{step.title} ({step.name})" for step in functions)
            text = (
                f"this pipeline runs synchronously with prefetch_queue_depth=1, because {names} is differentiable: a batch made "
                "ahead would have been made with parameters that the next optimizer step changes. Give the pipeline "
                "exec_async=False and prefetch_queue_depth=1 to silence this warning"
            )
            where = user_origin()
            warnings.warn_explicit(text, UserWarning, *((where.file, where.line) if where else ("pipeflow", 1)))
        self._settings = replace(settings, prefetch_queue_depth=1, exec_async=False)

    def _runtime(self) -> Any:
        """The GPU, where there is work for it."""
        assert self._plan is not None
        device = self._settings.device_id
        if device is None or not self._plan.needs_device():
            return None
        try:
            return devices.gpu.open_device(device)
        except NoGpu as error:
            add_notes(error, [f"to run this pipeline on the CPU, set the environment variable {DEVICE_VARIABLE}=cpu"])
            raise

    def _recorded(self) -> Graph:
        if self._graph is None:
            recorder = self._open_recorder()
            Pipeline.push_current(self)
            try:
                recorder.session.enabled = self._settings.enable_conditionals
                returned = recorder.session.call(self._define or self.define_graph)()
                recorder.graph.outputs = collect_outputs(recorder, returned)
            except BaseException as error:
                recorder.abandon(error)
                raise
            finally:
                Pipeline.pop_current()
            self._graph = recorder.graph
        return self._graph

    def _check_declared(self, graph: Graph) -> None:
        for name in ("dtype", "ndim", "layout"):
            expected = self._expected(name)
            if isinstance(expected, (list, tuple)) and len(expected) != len(graph.outputs):
                raise BadValue(
                    f"output_{name} has {len(expected)} entries for {count_of(len(graph.outputs), 'output')}"
                )

    def _expected(self, name: str) -> Any:
        """What output_dtype, output_ndim or output_layout promise: one value for all outputs, or one for each."""
        return getattr(self._settings, f"output_{name}")

    # Running.

    def run(self, cuda_stream: Any = None, /, **pipeline_inputs: Any) -> tuple[TensorListCPU, ...]:
        """The next batch, as a tuple of batches: one an output. Keywords feed external sources by their names."""
        del cuda_stream  # the GPU backend hands over by event
        handing = Handing()
        self._check_caller()
        with self._turn:
            delivered = self._run(handing, pipeline_inputs)
        return delivered.to(handing)

    def _check_caller(self) -> None:
        """Refuses a function of this pipeline, which would wait for its own batch."""
        if self._executor is not None:
            self._executor.check_caller()

    def _run(self, handing: Handing, inputs: Mapping[str, Any]) -> Delivered:
        self._use(types.PipelineAPIType.BASIC)
        if inputs:
            if self._executor is not None and self._executor.in_flight:
                raise InvalidState(
                    "named inputs belong to the batch that this run() returns, and earlier inputs are still in flight"
                )
            for name, data in inputs.items():
                self.feed_input(name, data)
        executor = self._built()
        self.iter_setup()
        executor.fill(1 if inputs else self._settings.depth)
        return self._take(executor, handing)

    def _take(self, executor: Executor | DebugRun, handing: Handing) -> Delivered:
        ahead = self._settings.depth - 1 if self._api is types.PipelineAPIType.BASIC else 0
        delivered = self._checked(executor.take(handing, ahead))
        self._last.change(handing, delivered)
        return delivered

    def schedule_run(self) -> None:
        """Starts one more batch without waiting for it."""
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            self.build()
            self.iter_setup()
            self._compiled().schedule()

    def share_outputs(self) -> tuple[TensorListCPU, ...]:
        """The oldest scheduled batch; call release_outputs() when done with it."""
        handing = Handing()
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            delivered = self._take(self._built(), handing)
            if delivered.error is None:
                self._shared.append((handing, delivered))
        return delivered.to(handing)

    def release_outputs(self) -> None:
        """Gives back what share_outputs() returned. The batch stays valid as long as anything refers to it."""
        self._use(types.PipelineAPIType.SCHEDULED)
        self._shared = [(handing, outputs) for handing, outputs in self._shared if handing.done][1:]

    def outputs(self) -> tuple[TensorListCPU, ...]:
        """The oldest scheduled batch; what share_outputs() gave before is released."""
        handing = Handing()
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            self._shared.clear()
            delivered = self._take(self._built(), handing)
        return delivered.to(handing)

    def enable_api_check(self, enable: bool) -> None:
        """Whether mixing run() with schedule_run()/outputs() is refused."""
        self._check_api = enable

    def _use(self, api: types.PipelineAPIType) -> None:
        executor = self._executor or self._debug
        used = executor is not None and (executor.in_flight or self._last.get() is not None)
        if self._check_api and used and api is not self._api:
            raise RuntimeError(
                "Mixing pipeline API type. Currently used: "
                f"{self._api.name}, but trying to use: {api.name}; call reset() in between"
            )
        self._api = api
        if executor is not None and api is not types.PipelineAPIType.ITERATOR:
            executor.end_epochs("fill")  # run() never ends: readers run on

    def reset(self) -> None:
        """Starts the next epoch: drops batches that were not delivered and rewinds the sources that can be."""
        if self._executor is not None:
            self._executor.reset()
        if self._debug is not None:
            self._debug.reset()
        self._begin_at({})
        self._shared.clear()

    # Epoch by epoch.

    def epoch(
        self,
        last_batch_policy: "LastBatchPolicy | Literal['partial', 'drop', 'fill']" = LastBatchPolicy.PARTIAL,
        *,
        reader_name: str | None = None,
        progress: bool = False,
        journal: "RunJournal | str | os.PathLike[str] | None" = None,
    ) -> Epoch:
        """The batches of one epoch: ``for batch in pipe.epoch()``, again for the next one.

        A loop that is left early is followed by a new epoch; after a checkpoint was loaded the first one gives the rest of
        its epoch. ``progress`` shows a bar with the throughput, the time the loop waited, and the slowest operator.

        ``journal`` names a small file in which the loop records which batches are done. A program that was killed and is
        started again goes on after them: passes over epochs that were finished give nothing, the next one gives the rest.
        """
        policy = last_batch_policy
        if isinstance(policy, str) and policy.upper() in LastBatchPolicy.__members__:
            policy = LastBatchPolicy[policy.upper()]
        if not isinstance(policy, LastBatchPolicy):
            raise ValueError(f"last_batch_policy must be 'partial', 'drop' or 'fill', got {last_batch_policy!r}")
        kept = (
            None if journal is None else os.path.abspath(journal.path if isinstance(journal, RunJournal) else journal)
        )
        key = policy, reader_name, kept
        if self._loop is None or self._loop[0] != key:
            self._loop = None  # a journal is closed before another one is opened
            loop = Loop(self, reader_name=reader_name, policy=policy, any_reader=True, journal=journal)
            self._loop = key, loop
        loop = self._loop[1]
        return Epoch(loop, Meter(loop) if progress else None)

    def __len__(self) -> int:
        """The number of batches in an epoch, as ``epoch()`` gives them; a TypeError where it cannot be known."""
        return len(self.epoch())

    def __bool__(self) -> bool:
        return True  # not a question for __len__, which may be unknown

    @property
    def valid(self) -> np.ndarray:
        """Which samples of the last batch are not there only to fill it: a mask of bools."""
        last = self._last.get()
        if last is None:
            raise InvalidState("no batch has been delivered yet")
        return np.ones(last.size, bool) if last.padding is None else ~last.padding

    def _begin(self, loop: Loop, ending: Any) -> None:
        """Lets one loop iterate over this pipeline, alone; ``ending`` says how its readers end their epochs."""
        other = self._iterated_by and self._iterated_by()
        if other is not None and other is not loop:
            raise InvalidState(ONE_AT_A_TIME)
        executor = self._built()
        if self._api is not types.PipelineAPIType.ITERATOR and not executor.in_flight:
            self._last.set(None)
        self._use(types.PipelineAPIType.ITERATOR)
        self._iterated_by = weakref.ref(loop)
        executor.end_epochs(ending)

    def _release(self, loop: Loop) -> None:
        if self._iterated_by is not None and self._iterated_by() is loop:
            self._iterated_by = None

    def _prefetch(self) -> None:
        self.iter_setup()
        self._built().fill(self._settings.depth)

    def _deliver(self, handing: Handing) -> Delivered:
        executor = self._built()
        self._consumed = True
        begun = timing.wall()
        delivered = self._checked(executor.take(handing, self._settings.depth))
        self._waited += timing.wall() - begun
        self._last.change(handing, delivered)
        return delivered

    def iter_setup(self) -> None:
        """Called before each run; subclasses override it to feed inputs."""

    def empty(self) -> bool:
        """Whether no batch is scheduled."""
        return self._executor is None or not self._executor.in_flight

    def feed_input(
        self,
        data_node: "DataNode | str",
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queues a batch for an external_source without a source: an array, a list of arrays, or a batch."""
        del cuda_stream, use_copy_kernel  # see declare.NO_EFFECT
        self.build()
        if not isinstance(data_node, (str, DataNode)):
            raise TypeError(f"feed_input takes the name of an input or its DataNode, got {data_node!r}")
        name = self._name_of(data_node)
        if self._debug is not None:
            self._debug.feed(name, data, layout)
            return
        assert self._executor is not None
        source = self._executor.course.source(name)
        if source is None:
            names = [self._known_as(item.step.name) for item in self._executor.sources]
            raise UnknownInput(
                f'Could not find an input operator with name "{name}"{nearest(name, names)}: this pipeline has {names}'
            )
        if not source.takes_data:
            raise RuntimeError(f"{name!r} is not an external_source and cannot be fed")
        source.feed(data, layout, self._executor.course.batch_size)

    def fed_inputs(self) -> list[str]:
        """The names of the inputs that have no source of their own and wait for ``feed_input`` or ``run(name=...)``."""
        return [self._known_as(item.step.name) for item in self._compiled().sources if item.source.fed is not None]

    def input_feed_count(self, input_name: str) -> int:
        """How many batches to feed before run() so that nothing waits: the prefetch depth at first, then one."""
        executor = self._built()
        if isinstance(executor, DebugRun):
            return 1
        if executor.course.source(self._name_of(input_name)) is None:
            raise UnknownInput(f'Could not find an input operator with name "{input_name}" in this pipeline')
        return 1 if self._last.get() is not None or executor.in_flight else self._settings.depth

    def _checked(self, delivered: Delivered) -> Delivered:
        """The batch, compared with what output_dtype, output_ndim and output_layout promise."""
        if not self._settings.promises:
            return delivered
        for index, batch in enumerate(delivered.outputs):
            for name, actual in (("dtype", batch.dtype), ("ndim", batch.ndim), ("layout", batch.layout())):
                expected = self._expected(name)
                expected = expected[index] if isinstance(expected, (list, tuple)) else expected
                if expected is None or (name == "ndim" and expected == -1) or not len(batch):
                    continue
                wanted = types.to_dali_type(expected) if name == "dtype" else expected
                if wanted != actual:
                    error = RuntimeError(f"Output {index} was declared with {name} {wanted!r} and has {actual!r}")
                    return replace(delivered, error=error)
        return delivered

    # Questions.

    def _built(self) -> Executor | DebugRun:
        self.build()
        executor = self._executor or self._debug
        assert executor is not None
        return executor

    def _compiled(self) -> Executor:
        self.build()
        if self._executor is None:
            raise InvalidState(NOT_COMPILED)
        return self._executor

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Sizes and sharding of one reader, or of all by name."""
        told = {self._known_as(item.step.name): item.source.reader_meta() for item in self._built().sources}
        metas = {reader: meta for reader, meta in told.items() if meta is not None}
        if name is None:
            return metas
        if self._known_as(name) not in metas:
            raise RuntimeError(
                f"there is no reader {name!r} in this pipeline{nearest(name, metas)}; there are {list(metas)}"
            )
        return metas[self._known_as(name)]

    def epoch_size(self, name: str | None = None) -> Any:
        """The number of samples in an epoch of one reader, or of all by name."""
        if name is not None:
            return self.reader_meta(name)["epoch_size_padded"]
        return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measures the batches of a ``with`` block, for ``statistics()`` and ``advice()``: each step apart.

        It also lets another thread want the interpreter for half a second of every Python function, which tells how much
        of its time a function keeps the interpreter (the GIL) from others.
        """
        executor = self._compiled()
        if self._measuring:
            raise InvalidState(
                "this pipeline is being measured already: end the first `with pipe.measure():` before another"
            )
        self._measuring = True
        executor.measure(True, race=True)
        try:
            yield
        finally:
            self._measured = executor.figures()
            executor.measure(False)
            self._measuring = False

    def statistics(self) -> Statistics:
        """What the loop and every step took, in the last ``with pipe.measure():``, else since the first batch; print it."""
        return self._measured or self._compiled().figures()

    def advice(self) -> list[Advice]:
        """What bounds this pipeline and what would help by how much, from what was measured; nothing where it is balanced.

        Run it for a while first, best inside ``with pipe.measure():``.
        """
        figures = self.statistics()
        if figures.batches < ENOUGH_BATCHES:
            raise InvalidState(
                f"advice needs at least {ENOUGH_BATCHES} measured batches and there are {figures.batches} (the first one is not "
                "counted): run more, then ask"
            )
        return advise(figures)

    def executor_statistics(self) -> dict[str, Any]:
        """Per operator: its seconds and, with ``enable_memory_stats``, bytes of the outputs; and the state of the memory pool.

        ``statistics()`` has the same times as an object, and what the loop itself took.
        """
        return self._compiled().statistics()

    def failures(self) -> list[Failure]:
        """The samples that failed and were skipped, replaced or given a value, in the order of delivery (the last 10000)."""
        runs = self._executor or self._debug
        return [] if runs is None else runs.log()

    def external_source_shm_statistics(self) -> dict[str, Any]:
        """The sizes of the shared memory that worker processes put results in, in bytes: whole, and per sample of a chunk."""
        executor = self._compiled()
        capacities = executor.shared_memory()
        samples = max(1, -(-self.batch_size // self._settings.py_num_workers))
        return {"capacities": capacities, "per_sample_capacities": [size // samples for size in capacities]}

    def start_py_workers(self) -> None:
        """Starts the worker processes now instead of at the first run: "fork" needs it before anything starts threads."""
        self._compiled().start_workers()

    def output_dtype(self) -> list[Any]:
        """The declared types of the outputs."""
        return self._declared("dtype")

    def output_ndim(self) -> list[Any]:
        """The declared numbers of axes of the outputs."""
        return self._declared("ndim")

    def output_layout(self) -> list[Any]:
        """The declared layouts of the outputs."""
        return self._declared("layout")

    def _declared(self, name: str) -> list[Any]:
        expected = self._expected(name)
        return list(expected) if isinstance(expected, (list, tuple)) else [expected] * self.num_outputs

    def output_stream(self) -> "int | None":
        """The handle of the CUDA stream on which outputs are made; None on the CPU."""
        device = self._built().device
        return None if device is None else device.runtime.computing.ptr

    def checkpoint(self, filename: str | None = None) -> str:
        """The state after the last delivered batch, as JSON; also written to ``filename``."""
        if not self._settings.enable_checkpointing:
            raise CheckpointingOff(
                "Cannot access checkpoints with checkpointing disabled: give the pipeline enable_checkpointing=True"
            )
        executor = self._compiled()
        text = saved_state.to_json(self.plan, executor, self._place.get())
        if filename is not None:
            saved_state.write(filename, text)
        return text

    def state_dict(self) -> dict[str, Any]:
        """The same as plain data, also without ``enable_checkpointing`` where no object of the user keeps a state."""
        return saved_state.take(self.plan, self._compiled(), self._place.get())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on after the batch at which ``state_dict()`` or ``checkpoint()`` was taken, whatever was run since."""
        if isinstance(self._define, _DebugDefinition):
            raise InvalidState(NOT_COMPILED)
        state = saved_state.checked(state)
        if not self._seed_given and state["seed"] != self._settings.seed:
            self._take_seed(state["seed"])
        self._go_to(state, self._compiled())

    def _take_seed(self, seed: int) -> None:
        """Takes over the seed of a state; what was compiled with a drawn one is compiled again."""
        self._settings = replace(self._settings, seed=seed)
        if self._executor is not None:
            self._executor.close()
        self._executor = self._plan = None

    def _go_to(self, state: dict[str, Any], executor: Executor) -> None:
        assert self._plan is not None
        saved_state.load(state, self._plan, executor)
        self._begin_at(dict(state.get("loop", {})))

    def _begin_at(self, place: dict[str, Any]) -> None:
        """The next loop goes on there; no batch has been delivered yet."""
        self._loop, self._consumed = None, False
        self._place.set(place)
        self._last.set(None)

    def seek(self, step: int, epoch: int = 0) -> None:
        """Goes to batch ``step`` of ``epoch`` without making the batches before it.

        It takes the same time whatever the number; sources and functions that keep a state cannot follow and raise.
        """
        for name, value in (("step", step), ("epoch", epoch)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < FURTHEST:
                raise ValueError(f"{name} must be an integer of at least 0 and below 2**40, got {value!r}")
        executor = self._compiled()
        saved_state.check_seekable(self.plan)
        executor.seek(int(step), int(epoch))
        place = {"epoch": int(epoch), "step": int(step), "ended": False, "over": False, "carry": 0}
        self._begin_at(place)

    def serialize(
        self, define_graph: Callable[[], Any] | None = None, filename: str | None = None, *, allow_pickle: bool = False
    ) -> str:
        """The graph and the settings as JSON. Python functions go by import path, by value only with ``allow_pickle``."""
        if define_graph is not None:
            self._define = define_graph
        graph = self._recorded()
        text = saving.graph_to_json(graph, self._settings.saved(), allow_pickle)
        if filename is not None:
            with open(filename, "w") as file:
                file.write(text)
        return text

    @classmethod
    def deserialize(
        cls,
        serialized_pipeline: "str | bytes | None" = None,
        filename: str | None = None,
        *,
        functions: Iterable[Any] = (),
        allow_pickle: bool = False,
        **overrides: Any,
    ) -> "Pipeline":
        """The pipeline that ``serialize`` saved; keywords override its settings.

        A saved pipeline may name functions. It gets only those that ``functions`` allows: a list of functions, or of names of
        modules. ``allow_pickle=True`` allows everything, functions saved by value too: only for files that you trust.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ValueError("give either the serialized pipeline or a file name")
        if filename is not None:
            with open_regular(os.fspath(filename)) as file:
                serialized_pipeline = file.readall()
        assert serialized_pipeline is not None
        settings = saving.settings_from_json(serialized_pipeline)
        pipeline = cls(**{**settings, **overrides})
        recorder = pipeline._open_recorder()
        with recording(recorder):
            pipeline._graph = saving.graph_from_json(
                serialized_pipeline, recorder, Allowed(functions, everything=allow_pickle)
            )
        return pipeline

    def deserialize_and_build(self, serialized_pipeline: "str | bytes", *, functions: Iterable[Any] = ()) -> None:
        """Takes the graph of a serialized pipeline and builds it; ``functions`` as for ``deserialize``."""
        recorder = self._open_recorder()
        with recording(recorder):
            self._graph = saving.graph_from_json(serialized_pipeline, recorder, Allowed(functions))
        self.build()

    def save_graph_to_dot_file(self, filename: str, *, show_tensors: bool = False, use_colors: bool = False) -> None:
        """Writes the graph in Graphviz's language."""
        with open(filename, "w") as file:
            file.write(saving.graph_to_dot(self._recorded(), show_tensors, use_colors))

    def __str__(self) -> str:
        if self._plan is None:
            return f"Pipeline(batch_size={self.batch_size}, not built)"
        return str(self._plan)

    # Attributes.

    @property
    def plan(self) -> planning.Plan:
        """What the pipeline was compiled to; print it."""
        self._compiled()
        assert self._plan is not None
        return self._plan

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self._recorded()

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        if isinstance(self._define, _DebugDefinition):
            return self._built().num_outputs  # type: ignore[union-attr]
        return len(self._recorded().outputs)

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether a checkpoint was given."""
        return self._settings.checkpoint is not None

    @property
    def cpu_queue_size(self) -> int:
        """The depth of the CPU queue."""
        return self._settings.queue_sizes[0]

    @property
    def gpu_queue_size(self) -> int:
        """The depth of the GPU queue."""
        return self._settings.queue_sizes[1]

    batch_size = _setting("batch_size", "The largest number of samples in a batch.")
    max_batch_size = _setting("batch_size", "The largest number of samples in a batch.")
    num_threads = _setting("num_threads", "The number of threads that work on batches.")
    device_id = _setting("device_id", "The GPU, None for none.")
    seed = _setting("seed", "The seed, given or drawn.")
    prefetch_queue_depth = _setting("prefetch_queue_depth", "How many batches are prepared ahead.")
    exec_separated = _setting("separated", "Whether the CPU and GPU queues have depths of their own.")
    exec_pipelined = _setting("exec_pipelined", "Whether batches are prepared ahead.")
    exec_async = _setting("exec_async", "Whether batches are prepared by other threads.")
    exec_dynamic = _setting("exec_dynamic", NO_EFFECT["exec_dynamic"])
    set_affinity = _setting("set_affinity", "Whether each thread keeps to one processor.")
    max_streams = _setting("max_streams", NO_EFFECT["max_streams"])
    default_cuda_stream_priority = _setting("default_cuda_stream_priority", NO_EFFECT["default_cuda_stream_priority"])
    enable_memory_stats = _setting("enable_memory_stats", "Whether executor_statistics() tells sizes.")
    py_num_workers = _setting("py_num_workers", "The number of worker processes.")
    py_start_method = _setting("py_start_method", "How worker processes are started.")
    stream_policy = _setting("stream_policy", NO_EFFECT["stream_policy"])
    concurrency = _setting("concurrency", NO_EFFECT["concurrency"])


# The recordings that are open in this thread or task, the innermost last: threads may define pipelines at the same time.
_open: ContextVar[tuple[tuple[Pipeline, Any], ...]] = ContextVar("pipeflow_open_recordings", default=())


def share_order_of_shards(graph: Graph) -> None:
    """Gives readers with several shards one seed: their ranks must agree, and each draws another seed for its pipeline."""
    for node in graph.nodes:
        if node.op.fetches and node.seed is None and node.constants.get("num_shards", 1) > 1:
            node.seed = 0


class _DebugDefinition:
    """A graph function that is run anew for every batch."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __call__(self) -> Any:
        return self.function()


@overload
def pipeline_def(fn: Callable[..., Any], *, debug: bool = False, **pipeline_kwargs: Any) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(
    fn: None = None, *, debug: bool = False, **pipeline_kwargs: Any
) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(fn: Callable[..., Any] | None = None, *, debug: bool = False, **pipeline_kwargs: Any) -> Any:
    """Turns a function that returns DataNodes into one that returns a Pipeline.

    Arguments of Pipeline may be given here and overridden at the call. ``debug=True`` runs the operators at once, in the
    caller's stack, so that print and a debugger work. ``enable_conditionals=True`` lets ``if``, ``and``, ``or`` and ``not``
    on DataNodes act per sample.
    """
    _check_pipeline_arguments(pipeline_kwargs)

    def decorate(function: Callable[..., Any]) -> Callable[..., Pipeline]:
        named, takes_all = _parameters(function)
        if is_marked(function):
            raise ValueError("Pipeline definition cannot be marked with @do_not_convert.")

        @functools.wraps(function)
        def create(*args: Any, **kwargs: Any) -> Pipeline:
            own, settings = {}, dict(pipeline_kwargs)
            debugging = settings.pop("debug", debug)
            for name, value in kwargs.items():
                if name in named:
                    own[name] = value
                    if name in _ARGUMENTS:
                        warnings.warn(
                            f"the argument {name!r} is one of the pipeline and of {function_name(function)}: "
                            "it goes to the function",
                            stacklevel=2,
                        )
                elif takes_all and name not in _ARGUMENTS and name != "debug":
                    own[name] = value
                elif name == "debug":
                    debugging = value
                else:
                    settings[name] = value
            _check_pipeline_arguments(settings, function)
            pipeline = Pipeline(**settings)
            bound = functools.partial(function, *args, **own)
            pipeline._define = _DebugDefinition(bound) if debugging else bound
            if not debugging:
                pipeline._recorded()
            return pipeline

        create._is_pipeline_def = True  # type: ignore[attr-defined]
        return create

    if fn is None:
        return decorate
    return decorate(fn)


def _parameters(function: Callable[..., Any]) -> tuple[set[str], bool]:
    """The names that a definition takes by keyword, and whether it takes all others too (``**kwargs``)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin may have none that can be read
        return set(), True
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}, any(p.kind is p.VAR_KEYWORD for p in parameters)


_ARGUMENTS = frozenset(inspect.signature(Pipeline.__init__).parameters) - {"self"}


def _check_pipeline_arguments(arguments: Mapping[str, Any], function: Callable[..., Any] | None = None) -> None:
    for name in arguments:
        if name not in _ARGUMENTS:
            where = f"neither an argument of {function_name(function)} nor" if function else "not"
            raise TypeError(f"{name!r} is {where} one of a pipeline{nearest(name, _ARGUMENTS)}")


# DALI's debug mode lives under this name; here debug=True works with the plain decorator as well.
experimental = ModuleType(f"{__name__}.experimental", "pipeline_def under the name of DALI's debug mode.")
experimental.pipeline_def = pipeline_def  # type: ignore[attr-defined]
sys.modules[experimental.__name__] = experimental
