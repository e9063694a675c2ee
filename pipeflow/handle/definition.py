"""The definition of a pipeline: its settings, and the graph that is recorded from a function or a ``with`` block."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Self

from pipeflow.errors import InvalidState
from pipeflow.executor import Settings
from pipeflow.plan import Plan
from pipeflow.record import saved as saving
from pipeflow.record.graph import Graph
from pipeflow.record.recorder import DataNode, Recorder, collect_outputs, recording

# Arguments of the constructor that are accepted and have no effect, and the reason.
NO_EFFECT = {
    "default_cuda_stream_priority": "deprecated: the GPU backend makes its own two streams",
    "max_streams": "deprecated: the GPU backend makes its own two streams",
    "exec_dynamic": "there is one executor; it works like DALI's dynamic one",
    "experimental_exec_dynamic": "deprecated name of exec_dynamic",
    "stream_policy": "the GPU backend makes its own two streams",
    "concurrency": "stages of all batches run at the same time anyway",
    "py_callback_pickler": "cloudpickle sends functions to worker processes",
}


def _setting(name: str, text: str) -> Any:
    """A read-only attribute that shows a setting."""
    return property(lambda self: getattr(self._settings, name), doc=text)


class Definition:
    """The settings and the graph of a pipeline that may not be built yet."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._recorder: Recorder | None = None
        self._graph: Graph | None = None
        self._plan: Plan | None = None
        self._define: Callable[[], Any] | None = None

    def define_graph(self) -> Any:
        """Returns the outputs; subclasses override it."""
        raise NotImplementedError("define_graph() is not overridden and set_outputs() was not called")

    def __enter__(self) -> Self:
        Definition.push_current(self)
        return self

    def __exit__(self, *_: Any) -> None:
        Definition.pop_current()

    @staticmethod
    def push_current(pipeline: "Definition") -> None:
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

    @classmethod
    def current(cls) -> "Self | None":
        """The pipeline that is being defined, or None."""
        opened = _open.get()
        return opened[-1][0] if opened else None

    def _open_recorder(self) -> Recorder:
        if self._plan is not None:
            raise InvalidState("the pipeline is built already: its graph cannot be changed")
        if self._recorder is None:
            self._recorder = Recorder()
        return self._recorder

    def set_outputs(self, *outputs: Any) -> None:
        """Sets the outputs of a pipeline that is defined with ``with pipe:``."""
        recorder = self._open_recorder()
        recorder.graph.outputs = collect_outputs(recorder, outputs)
        self._graph = recorder.graph

    def add_sink(self, edge: DataNode) -> None:
        """Keeps a node that no output depends on: it runs with every batch."""
        self._open_recorder().own(edge).source.preserve = True

    def _recorded(self) -> Graph:
        """The graph; the first call records it."""
        if self._graph is None:
            recorder = self._open_recorder()
            Definition.push_current(self)
            try:
                recorder.session.enabled = self._settings.enable_conditionals
                returned = recorder.session.call(self._define or self.define_graph)()
                recorder.graph.outputs = collect_outputs(recorder, returned)
            except BaseException as error:
                recorder.abandon(error)
                raise
            finally:
                Definition.pop_current()
            self._graph = recorder.graph
        return self._graph

    def _expected(self, name: str) -> Any:
        """The value of output_dtype, output_ndim or output_layout: one for all outputs, or one for each."""
        return getattr(self._settings, f"output_{name}")

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self._recorded()

    def save_graph_to_dot_file(self, filename: str, *, show_tensors: bool = False, use_colors: bool = False) -> None:
        """Writes the graph in Graphviz's language."""
        with open(filename, "w") as file:
            file.write(saving.graph_to_dot(self._recorded(), show_tensors, use_colors))

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """True if the pipeline was made with a checkpoint."""
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
    num_threads = _setting("num_threads", "The number of threads that make batches.")
    device_id = _setting("device_id", "The number of the GPU, None without one.")
    seed = _setting("seed", "The seed: the given one, or one drawn at random.")
    prefetch_queue_depth = _setting("prefetch_queue_depth", "How many batches are prepared ahead.")
    exec_separated = _setting("separated", "True if the CPU queue and the GPU queue have different depths.")
    exec_pipelined = _setting("exec_pipelined", "True if batches are prepared ahead.")
    exec_async = _setting("exec_async", "True if other threads prepare the batches.")
    exec_dynamic = _setting("exec_dynamic", NO_EFFECT["exec_dynamic"])
    set_affinity = _setting("set_affinity", "True if each thread stays on one processor.")
    max_streams = _setting("max_streams", NO_EFFECT["max_streams"])
    default_cuda_stream_priority = _setting("default_cuda_stream_priority", NO_EFFECT["default_cuda_stream_priority"])
    enable_memory_stats = _setting("enable_memory_stats", "True if executor_statistics() reports sizes.")
    py_num_workers = _setting("py_num_workers", "The number of worker processes.")
    py_start_method = _setting("py_start_method", "How worker processes are started.")
    stream_policy = _setting("stream_policy", NO_EFFECT["stream_policy"])
    concurrency = _setting("concurrency", NO_EFFECT["concurrency"])


# The open recordings of this thread or task, the innermost last. Several threads may define pipelines at the same time.
_open: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("pipeflow_open_recordings", default=())


class DebugDefinition:
    """A definition that a debug pipeline runs again for every batch."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __call__(self) -> Any:
        return self.function()
