"""``build()``: compiles a definition to a plan and starts its executor, or makes a debug run."""

import os
import threading
import warnings
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeflow import backends as devices
from pipeflow import compile as compiling
from pipeflow import executor as executors
from pipeflow import handle, system
from pipeflow.declare import outside_package
from pipeflow.errors import BadValue, InvalidState, NoGpu, add_notes, count_of, user_origin
from pipeflow.executor import Settings
from pipeflow.executor import checkpoint as saved_state
from pipeflow.executor.batch import Held
from pipeflow.handle.definition import DebugDefinition, Definition
from pipeflow.plan import Plan
from pipeflow.record.graph import Graph
from pipeflow.record.recorder import DataNode
from pipeflow.watching import watch

if TYPE_CHECKING:
    from pipeflow.executor import Executor
    from pipeflow.handle.debug import DebugRun

DEVICE_VARIABLE = (
    "PIPEFLOW_DEVICE"  # "cpu": no pipeline uses a GPU; "strict": without device_id, work for a GPU is an error
)
NOT_COMPILED = (
    "a debug pipeline runs its definition line by line: it has no plan and no checkpoints; leave debug=True out"
)


class Built(Definition):
    """A definition with its plan, its executor, and the position of the iteration over it."""

    def __init__(self, settings: Settings, seed_given: bool) -> None:
        super().__init__(settings)
        self._seed_given = seed_given
        self._executor: Executor | None = None
        self._debug: DebugRun | None = None
        self._turn = threading.RLock()  # one caller at a time: a batch and the data fed for it are for one caller
        # Size and padding of the last batch. Its outputs are not kept here, so their memory is free when the user drops them.
        self._last: Held[tuple[int, np.ndarray | None] | None] = Held(None)
        self._loop: Any = None
        self._place: Held[dict[str, Any]] = Held({})  # the position of the iteration by epochs
        self._consumed = False  # True if batches were delivered since the epoch began or a state was loaded

    def __getstate__(self) -> dict[str, Any]:
        """The attributes that pickle: a function for worker processes may refer to a pipeline that is not built."""
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turn = threading.RLock()

    def build(self) -> None:
        """Records the graph, compiles it and prepares everything to run. The first run() calls it if you do not."""
        if self._executor is not None or self._debug is not None:
            return
        with self._turn:
            if self._executor is None and self._debug is None:
                try:
                    self._build()
                except OSError as error:
                    add_notes(error, system.limits_reached(error))
                    raise

    def _build(self) -> None:
        settings = self._settings
        if settings.batch_size is None:
            raise ValueError("batch_size is not set: pass it to the pipeline's constructor or call")
        if isinstance(self._define, DebugDefinition):
            if settings.checkpoint is not None:
                raise InvalidState(f"the checkpoint cannot be loaded: {NOT_COMPILED}")
            self._debug = handle.debug.DebugRun(self._define.function, settings)
            return
        graph, codec = self._recorded(), False
        if not graph.needs_no_gpu:
            graph = self._without_gpu(graph)
            read = compiling.read_back.announced(graph)
            if read:
                warnings.warn(
                    f"this is on the GPU and needed on the CPU before a launch: {', '.join(read)}. In each batch the pipeline "
                    "copies it to the CPU and waits for that copy. Compute it on the CPU, or write .cpu() after it if the copy "
                    "is meant",
                    stacklevel=outside_package(),
                )
            codec = any(node.device == "mixed" for node in graph.nodes) and devices.gpu.has_codec()
        if settings.bytes_per_sample:
            for node in graph.nodes:
                node.hint = node.hint or (settings.bytes_per_sample,) * node.count
        if not self._seed_given:
            share_order_of_shards(graph)
        self._plan = compiling.compiler.compile(graph, settings.seed or 0, settings.fuse, settings.on_error, codec)
        if self._recorder is not None:
            self._recorder.closed = True
        self._check_declared(graph)
        self._one_at_a_time()
        compiling.warmup.prepare(self._plan)
        executor = executors.Executor(self._plan, self._settings, self._runtime())
        self._finalizer = weakref.finalize(self, executor.crew.let_go)
        if settings.enable_checkpointing:
            saved_state.check_saveable(self._plan, executor)
            for left_out in saved_state.sources_left_out(executor):
                warnings.warn(
                    f"a checkpoint of this pipeline does not hold the place of the source {left_out}. After loading a "
                    "checkpoint the source itself must continue where it was",
                    stacklevel=outside_package(),
                )
        if settings.checkpoint is not None:
            self._go_to(saved_state.from_json(settings.checkpoint), executor)
        watch(executor)
        self._executor = executor

    def _without_gpu(self, graph: Graph) -> Graph:
        """The graph, moved to the CPU with a warning if it has work for a GPU and the pipeline has no device_id."""
        work = compiling.on_cpu.work_for_a_gpu(graph)
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
        return compiling.on_cpu.on_cpu(graph)

    def _one_at_a_time(self) -> None:
        """Sets that each batch is made by the call that takes it, in the caller's thread, if there are
        differentiable functions.
        """
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
        """The GPU, or None if there is no work for it."""
        assert self._plan is not None
        device = self._settings.device_id
        if device is None or not self._plan.needs_device():
            return None
        try:
            return devices.gpu.open_device(device)
        except NoGpu as error:
            add_notes(error, [f"to run this pipeline on the CPU, set the environment variable {DEVICE_VARIABLE}=cpu"])
            raise

    def _check_declared(self, graph: Graph) -> None:
        """Raises an error for lists of output types, dimensions or layouts that do not have one entry for each output."""
        for name in ("dtype", "ndim", "layout"):
            expected = self._expected(name)
            if isinstance(expected, (list, tuple)) and len(expected) != len(graph.outputs):
                raise BadValue(
                    f"output_{name} has {len(expected)} entries for {count_of(len(graph.outputs), 'output')}"
                )

    def _built(self) -> "Executor | DebugRun":
        """The executor or the debug run; builds the pipeline first if necessary."""
        self.build()
        executor = self._executor or self._debug
        assert executor is not None
        return executor

    def _depth(self) -> int:
        """The number of batches that are made ahead now."""
        tuner = None if self._executor is None else self._executor.tuner
        return self._settings.depth if tuner is None else tuner.depth

    def _compiled(self) -> "Executor":
        """The executor; an error for a debug pipeline, which has none."""
        self.build()
        if self._executor is None:
            raise InvalidState(NOT_COMPILED)
        return self._executor

    def _go_to(self, state: dict[str, Any], executor: "Executor") -> None:
        assert self._plan is not None
        saved_state.load(state, self._plan, executor)
        self._begin_at(dict(state.get("loop", {})))

    def _begin_at(self, place: dict[str, Any]) -> None:
        """The next loop continues at ``place``; no batch counts as delivered."""
        self._loop, self._consumed = None, False
        self._place.set(place)
        self._last.set(None)

    def _known_as(self, name: str) -> str:
        """The name of a step that users see: the name they gave it, or the one that DALI gives."""
        node = None if self._debug is not None else self._recorded().find(name)
        return name if node is None else node.known_as

    def _name_of(self, node: "DataNode | str") -> str:
        """The name of the step of a node; the node may be given by the name that DALI gives it."""
        if isinstance(node, DataNode):
            node = node.source.known_as
        known = self._recorded().find(node) if self._debug is None else None
        return node if known is None else known.name

    @property
    def plan(self) -> Plan:
        """The compiled plan; print it to read it."""
        self._compiled()
        assert self._plan is not None
        return self._plan

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        if isinstance(self._define, DebugDefinition):
            self.build()
            assert self._debug is not None
            return self._debug.num_outputs
        return len(self._recorded().outputs)

    def output_stream(self) -> "int | None":
        """The handle of the CUDA stream on which outputs are made; None on the CPU."""
        device = self._built().device
        return None if device is None else device.runtime.computing.ptr

    def start_py_workers(self) -> None:
        """Starts the worker processes now instead of at the first run. With "fork", call it before any thread is started."""
        self._compiled().crew.start_workers()

    def __str__(self) -> str:
        if self._plan is None:
            return f"Pipeline(batch_size={self.batch_size}, not built)"
        return str(self._plan)


def share_order_of_shards(graph: Graph) -> None:
    """Gives sharded readers the same seed in every process: each process draws another seed for its pipeline."""
    for node in graph.nodes:
        if node.op.fetches and node.seed is None and node.constants.get("num_shards", 1) > 1:
            node.seed = 0
