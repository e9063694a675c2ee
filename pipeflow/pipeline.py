"""Pipeline and @pipeline_def: defining, building, running and saving a graph."""

import functools
import inspect
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, Literal, NoReturn, overload

import numpy as np

from pipeflow import timing, types
from pipeflow.autograph_guard import do_not_convert, is_marked
from pipeflow.data_node import DataNode
from pipeflow.epochs import ONE_AT_A_TIME, Epoch, LastBatchPolicy, Loop, Meter
from pipeflow.errors import InvalidState, function_name, nearest
from pipeflow.executor import Delivered, Settings
from pipeflow.executor import checkpoint as saved_state
from pipeflow.executor.batch import Handing
from pipeflow.handle.built import DEVICE_VARIABLE
from pipeflow.handle.definition import NO_EFFECT, DebugDefinition
from pipeflow.handle.looking import Looking
from pipeflow.handle.states import States
from pipeflow.record import outside  # noqa: F401  (handles calls outside of any pipeline)
from pipeflow.record import saved as saving
from pipeflow.record.recorder import recording
from pipeflow.resume import RunJournal
from pipeflow.saving.values import Allowed

__all__ = ["DataNode", "Pipeline", "do_not_convert", "pipeline_def"]

_DEPRECATED = ("max_streams", "default_cuda_stream_priority", "experimental_exec_dynamic")


class Pipeline(Looking, States):
    """A graph of operators that makes batches: defined by ``@pipeline_def``, by subclassing, or with ``with pipe:``."""

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: "int | Literal['auto'] | None" = None,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: "int | Mapping[str, int] | Literal['auto']" = 2,
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
        py_num_workers: "int | Literal['auto']" = 1,
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
        cuda_graph: bool = False,
        on_error: Any = "raise",
        max_failures: "int | float | None" = None,
        memory: "int | str | None" = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _ARGUMENTS}
        for name in _DEPRECATED:
            if given[name] is not None:
                warnings.warn(
                    f"the argument {name} has no effect ({NO_EFFECT[name]})", DeprecationWarning, stacklevel=2
                )
        if isinstance(seed, (int, np.integer)) and seed < 0:
            warnings.warn("a negative seed means no seed; leave it out, or give None", stacklevel=2)
            seed = None
        if os.environ.get(DEVICE_VARIABLE) == "cpu":
            given["device_id"] = None
        seed_given = seed is not None
        if seed is None and checkpoint is not None:
            seed = saved_state.from_json(checkpoint)["seed"]
        super().__init__(Settings(**{**given, "seed": seed}), seed_given)
        self._unset = frozenset(name for name, value in given.items() if _is_default(name, value))
        self._waited = 0.0  # seconds in which loops have waited for batches
        self._iterated_by: weakref.ref[Any] | None = None

    def epoch(
        self,
        last_batch_policy: "LastBatchPolicy | Literal['partial', 'drop', 'fill']" = LastBatchPolicy.PARTIAL,
        *,
        reader_name: str | None = None,
        progress: bool = False,
        journal: "RunJournal | str | os.PathLike[str] | None" = None,
    ) -> Epoch:
        """The batches of one epoch: ``for batch in pipe.epoch()``. Call it again for the next epoch.

        If a loop ended early, the next call begins a new epoch. After a checkpoint was loaded, the first call returns
        the rest of its epoch. ``progress`` shows a bar with the throughput, the time the loop waited, and the slowest operator.

        ``journal`` names a small file in which the loop records the batches that are done. If the program is killed and
        started again, it continues after them: loops over finished epochs return nothing, and the next loop returns the
        rest.
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

    def __iter__(self) -> NoReturn:
        raise TypeError("a Pipeline cannot be iterated over: write `for batch in pipe.epoch():`")

    def __len__(self) -> int:
        """The number of batches of an epoch; raises TypeError if it is not known."""
        return len(self.epoch())

    def __bool__(self) -> bool:
        return True  # without this, Python would call __len__, which may be unknown

    @property
    def valid(self) -> np.ndarray:
        """A mask of the last batch: False for samples that only fill it up."""
        last = self._last.get()
        if last is None:
            raise InvalidState("no batch has been delivered yet")
        size, padding = last
        return np.ones(size, bool) if padding is None else ~padding

    def _begin(self, loop: Loop, ending: Any) -> None:
        """Gives this pipeline to one loop; ``ending`` is the way in which its readers end their epochs."""
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
        self._built().fill(self._depth())

    def _deliver(self, handing: Handing) -> Delivered:
        executor = self._built()
        self._check_caller()
        self._consumed = True
        begun = timing.wall()
        delivered = executor.take(handing, self._depth())
        if self._settings.promises:
            delivered = self._checked(delivered)
        self._waited += timing.wall() - begun
        self._note(handing, delivered)
        return delivered

    def serialize(
        self, define_graph: Callable[[], Any] | None = None, filename: str | None = None, *, allow_pickle: bool = False
    ) -> bytes:
        """The graph and the settings as JSON. Python functions are saved by import path; ``allow_pickle`` saves them by value."""
        if define_graph is not None:
            if not callable(define_graph):
                raise TypeError(
                    f"define_graph must be a function, got {define_graph!r}; the name of a file is `filename`"
                )
            self._define = define_graph
        graph = self._recorded()
        text = saving.graph_to_json(graph, self._settings.saved(), allow_pickle).encode()
        if filename is not None:
            with open(filename, "wb") as file:
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

        A saved pipeline may name functions. Only those in ``functions`` are loaded: a list of functions, or of names of
        modules. ``allow_pickle=True`` loads all functions, also those saved by value: use it only for files that you trust.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ValueError("give either the serialized pipeline or a file name")
        if filename is not None:
            open_regular = resolve_name("pipeflow.operators.readers.files:open_regular")  # or a URL
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
        """Takes the graph of a serialized pipeline and builds it; ``functions`` as for ``deserialize``.

        Settings that this pipeline was not given are those of the serialized one.
        """
        saved = saving.settings_from_json(serialized_pipeline)
        if os.environ.get(DEVICE_VARIABLE) == "cpu":
            saved["device_id"] = None
        self._settings = replace(self._settings, **{name: saved[name] for name in self._unset & saved.keys()})
        self._seed_given = self._seed_given or "seed" in saved
        recorder = self._open_recorder()
        with recording(recorder):
            self._graph = saving.graph_from_json(serialized_pipeline, recorder, Allowed(functions))
        self.build()


@overload
def pipeline_def(fn: Callable[..., Any], *, debug: bool = False, **pipeline_kwargs: Any) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(
    fn: None = None, *, debug: bool = False, **pipeline_kwargs: Any
) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(fn: Callable[..., Any] | None = None, *, debug: bool = False, **pipeline_kwargs: Any) -> Any:
    """Turns a function that returns DataNodes into one that returns a Pipeline.

    Arguments of Pipeline may be given here and overridden at the call. ``debug=True`` runs the operators at once, in the
    caller's stack, so that print and a debugger work. With ``enable_conditionals=True``, ``if``, ``and``, ``or`` and ``not``
    on DataNodes decide for each sample.
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
                            f"the pipeline and {function_name(function)} both have an argument {name!r}: it is passed to "
                            "the function",
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
            pipeline._define = DebugDefinition(bound) if debugging else bound
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
    except ValueError:  # the signature of a builtin may not be readable
        return set(), True
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}, any(p.kind is p.VAR_KEYWORD for p in parameters)


_ARGUMENTS = {
    name: at.default for name, at in inspect.signature(Pipeline.__init__).parameters.items() if name != "self"
}


def _is_default(name: str, value: Any) -> bool:
    default = _ARGUMENTS[name]
    return type(value) is type(default) and bool(value == default)


def _check_pipeline_arguments(arguments: Mapping[str, Any], function: Callable[..., Any] | None = None) -> None:
    for name in arguments:
        if name not in _ARGUMENTS:
            where = f"neither an argument of {function_name(function)} nor" if function else "not an argument"
            raise TypeError(f"{name!r} is {where} of a pipeline{nearest(name, _ARGUMENTS)}")


# DALI has its debug mode under this name. Here debug=True also works with the plain decorator.
experimental = ModuleType(f"{__name__}.experimental", "pipeline_def under the name of DALI's debug mode.")
experimental.pipeline_def = pipeline_def  # type: ignore[attr-defined]
sys.modules[experimental.__name__] = experimental
