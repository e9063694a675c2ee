"""One operator, one declaration.

``@operator`` turns a function into an OpDef: its signature is the schema and its body the CPU kernel for one sample.
From the OpDef come ``fn.name``, ``ops.Name``, the eager call, argument checking, stubs, docs and the registry tests.

Words: a *sample* is one array; a *batch* a list of them. *Data* is positional, *arguments* are keywords: ``Arg[T]``
is a constant or one value per sample, plain ``T`` is static, ``Drawn[T]`` is filled by the operator's ``draw``.
Calling an OpDef binds the call and hands it to the current ``interpreter``: recording inside a pipeline definition,
running at once (``eager``) everywhere else.
"""

import dataclasses
import enum
import importlib
import inspect
import operator as _operator
import sys
import types as _python_types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np

from pipeflow import seeds, types
from pipeflow.errors import Origin, UnknownArgument, UnsupportedType, add_notes, count_of, nearest, user_origin
from pipeflow.tensors import Collector, Take, TensorListCPU, as_sample

# ----------------------------------------------------------------------------------------------------
# The vocabulary of annotations

T = TypeVar("T")


class Role(enum.Enum):
    """What a parameter of a declaration is for."""

    INPUT = "input"
    ARG = "arg"
    STATIC = "static"
    DRAWN = "drawn"
    HIDDEN = "hidden"


Sample = Annotated[np.ndarray, Role.INPUT]
Arg = Annotated[T, Role.ARG]
Drawn = Annotated[T, Role.DRAWN]
Out = Annotated[Any, Role.HIDDEN]
Ints = Annotated[tuple[int, ...], "ints"]
Floats = Annotated[tuple[float, ...], "floats"]
DType = Annotated[np.dtype, "dtype"]
Layout = Annotated[str, "layout"]

HIDDEN = frozenset({"out", "layouts", "key", "source"})
REQUIRED = inspect.Parameter.empty


class UnknownValue(Exception):
    """A decision was asked of a value that is known only when the pipeline runs."""


class _Unknown:
    """A dimension or argument that is not known yet: arithmetic on it is unknown, decisions on it are impossible."""

    def _same(self, *_: Any) -> "_Unknown":
        return self

    def _refuse(self, *_: Any) -> Any:
        raise UnknownValue

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _same
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __neg__ = __abs__ = __round__ = __pow__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __float__ = __bool__ = __iter__ = __len__ = (
        __getitem__
    ) = _refuse

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


@dataclass(frozen=True)
class Spec:
    """What is known of one output: shape (None: not even the number of axes), dtype and layout (None: not known)."""

    shape: Any = None
    dtype: Any = None
    layout: Any = None  # a string where it is known

    def __post_init__(self) -> None:
        if self.shape is not None and self.shape is not UNKNOWN:
            dims = tuple(None if dim is None or dim is UNKNOWN else int(dim) for dim in self.shape)
            object.__setattr__(self, "shape", dims)
        elif self.shape is UNKNOWN:
            object.__setattr__(self, "shape", None)
        if self.dtype is UNKNOWN:
            object.__setattr__(self, "dtype", None)
        elif self.dtype is not None and not isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", types.as_dtype(self.dtype))

    @classmethod
    def exact(cls, array: np.ndarray, layout: str) -> "Spec":
        """The Spec of an array; made for every sample of some operators, so nothing is checked again."""
        spec = object.__new__(cls)
        spec.__dict__.update(shape=array.shape, dtype=array.dtype, layout=layout)
        return spec

    @property
    def ndim(self) -> int | None:
        """The number of axes where it is known."""
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """Whether shape and dtype are fully known."""
        return self.shape is not None and None not in self.shape and self.dtype is not None

    def open(self) -> "Spec":
        """This Spec with UNKNOWN in place of None, the form that ``infer`` functions see."""
        spec = object.__new__(Spec)
        shape = UNKNOWN if self.shape is None else tuple(UNKNOWN if dim is None else dim for dim in self.shape)
        object.__setattr__(spec, "shape", shape)
        object.__setattr__(spec, "dtype", UNKNOWN if self.dtype is None else self.dtype)
        object.__setattr__(spec, "layout", self.layout)
        return spec

    def __str__(self) -> str:
        shape = (
            "?" if self.shape is None else "x".join("?" if dim is None else str(dim) for dim in self.shape) or "scalar"
        )
        parts = [str(self.dtype or "?"), shape] + ([self.layout] if self.layout else [])
        return " ".join(parts)


class OutputSpec(Spec):
    """What a Python function promises of one output: ``Spec(np.uint8, (None, None, 3), "HWC")``; None is anything."""

    def __init__(self, dtype: Any = None, shape: Any = None, layout: str | None = None) -> None:
        super().__init__(shape, dtype, types.check_layout(layout) if layout is not None else None)
        if self.layout and self.shape is not None and len(self.layout) != len(self.shape):
            raise ValueError(f"layout {self.layout!r} has {len(self.layout)} axes and shape {self.shape} has {self.ndim}")


@dataclass(frozen=True)
class Outputs:
    """The promised outputs of a Python function, with names where it returns a dict, dataclass or named tuple."""

    specs: tuple[Spec, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any) -> "Outputs":
        """The promise that a user wrote as a Spec or type, a list or dict of them, or a dataclass or NamedTuple."""
        if isinstance(value, Outputs):
            return value
        if isinstance(value, Mapping):
            return cls(tuple(_promised(item) for item in value.values()), tuple(map(_identifier, value)))
        if isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
            hints = typing.get_type_hints(value, include_extras=True)
            marks = [[x for x in typing.get_args(hint) if isinstance(x, Spec)] for hint in hints.values()]
            return cls(tuple(_promised(found[0] if found else None) for found in marks), tuple(hints))
        if isinstance(value, (list, tuple)):
            return cls(tuple(map(_promised, value)))
        return cls((_promised(value),))

    def check_count(self, num_outputs: int) -> None:
        """Refuses another number of outputs than the one that is given beside it."""
        if num_outputs not in (1, len(self.specs)):
            raise ValueError(f"outputs has {count_of(len(self.specs), 'entry', 'entries')} and num_outputs is {num_outputs}")


def _promised(value: Any) -> Spec:
    if isinstance(value, Spec):
        return Spec(value.shape, value.dtype, value.layout)
    return Spec(None, None if value is None else types.as_dtype(value))


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"the name of an output must be an identifier, got {name!r}")
    return name


class NamedOutputs(tuple):
    """Outputs by position, by attribute and by name: ``images, labels = out``, ``out.images``, ``out["images"]``."""

    names: tuple[str, ...]

    def __new__(cls, values: Iterable[Any], names: tuple[str, ...]) -> "NamedOutputs":
        outputs = super().__new__(cls, values)
        outputs.names = names
        return outputs

    def __getattr__(self, name: str) -> Any:
        if name == "names" or name.startswith("__") or name not in self.names:
            raise AttributeError(f"there is no output {name!r}; there are {', '.join(self.names)}")
        return tuple.__getitem__(self, self.names.index(name))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"there is no output {key!r}; there are {', '.join(self.names)}")
        return super().__getitem__(self.names.index(key))

    def __reduce__(self) -> Any:
        return NamedOutputs, (tuple(self), self.names)


class Args(_python_types.SimpleNamespace):
    """Argument values by name, as ``infer``, ``draw`` and ``check`` see them."""


@dataclass(frozen=True)
class Param:
    """One parameter of a declaration."""

    name: str
    role: Role
    kind: Any
    default: Any = REQUIRED
    variadic: bool = False
    positional: bool = False  # an argument, not data, that may also be given by position

    @property
    def required(self) -> bool:
        """Whether the caller must give it."""
        return self.default is REQUIRED and not self.variadic


@dataclass(frozen=True)
class Traits:
    """How a step of this operator wants to be run; may depend on its static arguments.

    ``ordered`` steps see the batches one after another; ``user_code`` may keep or change what it is given; ``pure`` ones
    may be merged when equal and dropped when unused. One that is ``by_batch_size`` counts the samples of its branch;
    ``processes`` ones run in worker processes. A batch call of one with ``rows`` is the same as a call for each row.
    """

    granularity: Literal["sample", "batch"] = "sample"
    ordered: bool = False
    pure: bool = True
    user_code: bool = False
    by_batch_size: bool = False
    processes: bool = False
    rows: bool = False


@dataclass(frozen=True)
class WorkerCall:
    """What of a step runs in a worker process; ``function`` travels by pickle.

    It is called with ``key, *inputs`` of one sample and returns a tuple of arrays; with ``whole`` with a list of such
    rows, and returns for every output a list of arrays.
    """

    function: Callable[..., Any]
    name: str
    whole: bool = False


class Node:
    """Marks values that stand for a batch in a graph; graph.DataNode is the only subclass."""

    __slots__ = ()


# ----------------------------------------------------------------------------------------------------
# Sources: operators that bring data into a pipeline


Ending = Literal["fill", "partial", "drop"]


@dataclass(frozen=True)
class Request:
    """What the executor tells a source about the batch it wants."""

    batch_size: int
    epoch: int
    iteration: int
    position: int
    key: int = 0  # the source's own randomness, for shuffling
    ending: Ending = "fill"  # how a reader ends its epochs


@dataclass
class Feed:
    """One batch from a source: per output a dense array or a list of samples.

    ``owned`` says that the arrays are fresh and nobody else's, so they may be handed on as they are. ``positions`` are the
    samples' places in the epoch's global order; None counts on from the request's position. ``padding`` marks samples that
    are there only to fill the batch; ``ends_epoch`` says that it is the last one of an epoch that others follow.
    """

    size: int
    outputs: "list[np.ndarray | list[np.ndarray]]"
    owned: bool = False
    positions: np.ndarray | None = None
    epochs: "int | np.ndarray | None" = None
    source_info: Sequence[str] | None = None
    layouts: Sequence[str | None] | None = None
    padding: np.ndarray | None = None
    ends_epoch: bool = False
    failures: dict[int, Exception] = field(default_factory=dict)  # samples the source could not give; None stands for them


class Source(Protocol):
    """What an operator declared with ``@source`` builds from its static arguments: asked for batches in order.

    ``next`` raises StopIteration at the end of an epoch. One that may have nothing to give yet also has ``available() ->
    number of batches``; a pipeline does not run ahead of it. A source that also has ``fetch(index) -> tuple of arrays`` gives
    one output, the indices, and its samples are fetched by the threads of the pipeline. ``seek(step, epoch, batch_size,
    key)`` and ``batches_left(state, batch_size, ending)``, where a source has them, go to a batch and foretell an epoch;
    ``unsaveable()``, where it has it, says why the state cannot be saved ("" where it can).
    """

    def next(self, request: Request) -> Feed:
        """The next batch."""
        ...

    def reset(self) -> None:
        """Starts a new epoch."""
        ...

    def state(self) -> Any:
        """What ``restore`` needs, as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Goes to a saved state."""
        ...


class BatchCall:
    """What an operator that works on whole batches is told beside its inputs and arguments.

    ``draw_keys`` makes the keys of the samples, when they are asked for. ``take(nbytes)`` gives memory that belongs to the
    batch. ``current`` is the sample that is being worked on, so that an exception can be blamed on it (-1: on none).
    """

    __slots__ = ("current", "draw_keys", "hints", "layouts", "size", "sources", "take")

    def __init__(
        self,
        size: int,
        draw_keys: Callable[[], Any],
        layouts: Sequence[str],
        take: Take,
        hints: Sequence[int] = (),
        sources: Any = None,
    ) -> None:
        self.size = size
        self.draw_keys = draw_keys
        self.layouts = layouts
        self.take = take
        self.hints = hints
        self.sources = sources
        self.current = -1

    @property
    def keys(self) -> Any:
        """The keys of the samples."""
        return self.draw_keys()

    def collector(self, output: int) -> Collector:
        """Gathers the samples of one output into memory of the batch."""
        return Collector(self.size, self.take, self.hints[output] if output < len(self.hints) else 0)


# ----------------------------------------------------------------------------------------------------
# Operators


@dataclass(eq=False)
class OpDef:
    """A declared operator."""

    name: str
    body: Callable[..., Any]
    params: tuple[Param, ...]
    num_outputs: int
    layouts: tuple[str, ...] = ()
    sequences: bool = False
    elementwise: bool = False
    devices: tuple[str, ...] = ("cpu",)
    dtypes: frozenset[np.dtype] = types.NUMBERS
    no_effect: Mapping[str, str] = field(default_factory=dict)
    examples: Sequence[str] = ()
    ops_name: str = ""
    hidden: bool = False
    nodes_only: bool = False
    takes_seed: bool = False
    unsized: bool = False
    staged: bool = False
    base_traits: Traits = field(default_factory=Traits)
    factory: Callable[..., Source] | None = None
    fetches: bool = False
    infer_hook: Callable[..., Any] | None = None
    draw_hook: Callable[..., Any] | None = None
    check_hook: Callable[[Args], None] | None = None
    outputs_hook: Callable[[Args], int] | None = None
    traits_hook: Callable[[Args], Traits] | None = None
    result_hook: Callable[[Args, Any], Any] | None = None
    batch_hook: Callable[..., Any] | None = None
    worker_hook: Callable[[Args], WorkerCall] | None = None
    list_hook: Callable[[Args], bool] | None = None
    names_hook: Callable[[Args], tuple[str, ...]] | None = None
    order: tuple[str, ...] = ()
    gpu_module: str = ""
    _gpu_hooks: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = tuple(p for p in self.params if p.role is Role.INPUT)
        self.arguments = {p.name: p for p in self.params if p.role in (Role.ARG, Role.STATIC)}
        self.positional = tuple(p.name for p in self.arguments.values() if p.positional)
        self.drawn = tuple(p.name for p in self.params if p.role is Role.DRAWN)
        self.wants = frozenset(p.name for p in self.params if p.role is Role.HIDDEN)
        self.random = bool(self.drawn) or "key" in self.wants or self.takes_seed
        self.min_inputs = sum(p.required for p in self.inputs)
        self.max_inputs = 256 if any(p.variadic for p in self.inputs) else len(self.inputs)
        self.ops_name = self.ops_name or "".join(part[:1].upper() + part[1:] for part in self.leaf.split("_"))
        self.__name__ = self.leaf
        self.__qualname__ = self.name
        self.__doc__ = inspect.getdoc(self.body)
        self.__module__ = "pipeflow.fn"
        self.__signature__ = _signature(self)

    @property
    def leaf(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"fn.{self.name}"

    # The rest of the declaration stands right beside the body.
    def infer(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(specs, args) -> Spec or tuple of Specs`` of the outputs."""
        self.infer_hook = hook
        return hook

    def draw(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(key, specs, args) -> dict`` with the values of the Drawn parameters."""
        self.draw_hook = hook
        return hook

    def check(self, hook: Callable[[Args], None]) -> Callable[[Args], None]:
        """Declares a check of the constant arguments that is made when the graph is built."""
        self.check_hook = hook
        return hook

    def worker(self, hook: Callable[[Args], WorkerCall]) -> Callable[[Args], WorkerCall]:
        """Declares what a worker process is to call where the traits ask for processes."""
        self.worker_hook = hook
        return hook

    def outputs(self, hook: Callable[[Args], int]) -> Callable[[Args], int]:
        """Declares the number of outputs as a function of the static arguments."""
        self.outputs_hook = hook
        return hook

    def traits(self, hook: Callable[[Args], Traits]) -> Callable[[Args], Traits]:
        """Declares the traits as a function of the static arguments."""
        self.traits_hook = hook
        return hook

    def batch(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the body for whole batches: inputs as dense arrays or lists, and a BatchCall as ``batch``."""
        self.batch_hook = hook
        return hook

    def returns_list(self, hook: Callable[[Args], bool]) -> Callable[[Args], bool]:
        """Declares when a single output comes in a list."""
        self.list_hook = hook
        return hook

    def result(self, hook: Callable[[Args, Any], Any]) -> Callable[[Args, Any], Any]:
        """Declares the form in which the caller gets the outputs, where it is not one or a list: a dictionary, say."""
        self.result_hook = hook
        return hook

    def returns_names(self, hook: Callable[[Args], tuple[str, ...]]) -> Callable[[Args], tuple[str, ...]]:
        """Declares the names of the outputs, () for none."""
        self.names_hook = hook
        return hook

    def gpu(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the GPU form, a function of one device_calls.DeviceCall, in the module that the declaration names."""
        self._gpu_hooks["launch"] = hook
        return hook

    def gpu_plan(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(item) -> plan``, what the GPU form computes on the host for one item; an exception is that sample's."""
        self._gpu_hooks["plan"] = hook
        return hook

    def gpu_view(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares a GPU form without a launch: ``(item) -> View or tuple of Views`` of memory of the item's inputs."""
        self._gpu_hooks["view"] = hook
        return hook

    def gpu_specs(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(items) -> a tuple of Specs for each``, where shapes on the GPU depend on the whole batch."""
        self._gpu_hooks["specs"] = hook
        return hook

    def gpu_check(self, hook: Callable[[Args], None]) -> Callable[[Args], None]:
        """Declares a check of the constant arguments that is made when a pipeline with the GPU form is built."""
        self._gpu_hooks["check"] = hook
        return hook

    def gpu_hook(self, role: Literal["launch", "plan", "view", "specs", "check"] = "launch") -> Callable[..., Any] | None:
        """A part of the GPU form; its module is imported when the first one is asked for."""
        if not self._gpu_hooks:
            importlib.import_module(f"pipeflow.operators.on_gpu.{self.gpu_module}")
        assert self._gpu_hooks, f"on_gpu/{self.gpu_module}.py declares no GPU form of {self.title}"
        return self._gpu_hooks.get(role)

    def traits_of(self, static: Mapping[str, Any]) -> Traits:
        """The traits of a call with these static arguments."""
        return self.traits_hook(self.known(static)) if self.traits_hook else self.base_traits

    def outputs_of(self, static: Mapping[str, Any]) -> int:
        """The number of outputs of a call with these static arguments."""
        return self.outputs_hook(self.known(static)) if self.outputs_hook else self.num_outputs

    def pack(self, outputs: Sequence[Any], static: Mapping[str, Any]) -> Any:
        """The outputs as a call returns them: nothing, one, a list, or by names."""
        names = self.names_hook(self.known(static)) if self.names_hook is not None else ()
        if names:
            return NamedOutputs(outputs, names)
        if len(outputs) == 1 and not (self.list_hook is not None and self.list_hook(self.known(static))):
            return outputs[0]
        return list(outputs) or None

    def known(self, values: Mapping[str, Any]) -> Args:
        """Arguments with their defaults filled in."""
        return Args(**{name: values.get(name, param.default) for name, param in self.arguments.items()})

    def specs(self, inputs: Sequence[Spec], values: Mapping[str, Any], count: int) -> tuple[Spec, ...]:
        """The Specs of the outputs as far as they are known."""
        unknown = (Spec(),) * count
        if inputs and inputs[0].dtype is not None:
            self.check_dtype(inputs[0].dtype)
        if self.infer_hook is None:
            return unknown
        if inputs and self.layouts:
            fitting = self.fitting(inputs)
            if fitting is None:
                return unknown
            inputs = fitting
            if self.frames_of(inputs[0].layout or ""):
                frames = inputs[0].shape[0]
                inner = [Spec(x.shape[1:], x.dtype, x.layout[1:]) if (x.layout or "")[:1] == "F" else x for x in inputs]
                return tuple(
                    Spec(
                        None if spec.shape is None else (frames, *spec.shape), spec.dtype,
                        "F" + spec.layout if spec.layout else spec.layout,
                    )
                    for spec in self.specs(inner, values, count)
                )  # fmt: skip
        try:
            result = self.infer_hook(tuple(spec.open() for spec in inputs), self.known(values))
        except UnknownValue:
            return unknown
        if result is None:
            return unknown
        return (
            (Spec(result.shape, result.dtype, result.layout),)
            if isinstance(result, Spec)
            else tuple(Spec(spec.shape, spec.dtype, spec.layout) for spec in result)
        )

    def frames_of(self, layout: str) -> bool:
        """Whether this is a sequence whose frames the machinery passes to the body one by one."""
        return self.sequences and layout[:1] == "F" and layout[1:] in self.layouts

    def fitting(self, inputs: Sequence[Spec]) -> list[Spec] | None:
        """The inputs with the layouts that the body will see; None while they cannot be told."""
        if inputs[0].layout is None or inputs[0].ndim is None:
            return None
        layouts = check_layouts(self, [x.layout for x in inputs], [x.ndim or 0 for x in inputs])
        return [Spec(x.shape, x.dtype, layout) for x, layout in zip(inputs, layouts, strict=True)]

    def check_dtype(self, dtype: np.dtype) -> None:
        """Refuses a type of the first input that the operator is not declared for."""
        if dtype not in self.dtypes and dtype.kind != "O":
            names = ", ".join(str(known) for known in types.in_order(self.dtypes))
            raise UnsupportedType(f"the operator does not take {dtype}; it takes {names}")

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        if self.order:
            inputs, keywords = spread(self, inputs, keywords)  # type: ignore[assignment]
        return self.apply(inputs, keywords)

    def apply(self, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The call with the data apart from the arguments, whatever the operator's own order of them is."""
        call = bind(self, inputs, keywords)
        result = interpreter.get()(call)
        return result if self.result_hook is None else self.result_hook(self.known(call.constants), result)

    def __reduce__(self) -> Any:
        return find, (self.name,)

    def __repr__(self) -> str:
        return f"<operator {self.title}{self.__signature__}>"


registry: dict[str, OpDef] = {}


# What makes the operator of a chain, "resize+flip": operators/chains.py puts its function here.
composers: list[Callable[[tuple[str, ...]], OpDef]] = []


def find(name: str) -> OpDef:
    """The operator of a registry key, or of several joined by "+"."""
    try:
        return composers[0](tuple(name.split("+"))) if "+" in name else registry[name]
    except KeyError:
        raise UnknownArgument(f"there is no operator {name!r}{nearest(name, registry)}") from None


def operator(
    name: str,
    *,
    layouts: str = "",
    sequences: bool = False,
    elementwise: bool = False,
    granularity: Literal["sample", "batch"] = "sample",
    devices: Sequence[str] = ("cpu",),
    dtypes: str = "number",
    no_effect: Mapping[str, str] | None = None,
    examples: Sequence[str] = (),
    ops_name: str = "",
    hidden: bool = False,
    nodes_only: bool = False,
    takes_seed: bool = False,
    unsized: bool = False,
    staged: bool = False,
    pure: bool = True,
    order: str = "",
    gpu: str = "",
) -> Callable[[Callable[..., Any]], OpDef]:
    """Declares an operator from its kernel for one sample; see the module's words.

    ``dtypes`` says what the first input may be: names ("uint8 float32") or groups ("number" is everything, "integer",
    "float", "bool"). ``examples`` are calls written as in a pipeline, over the named arrays of ``tools/example_data.py``:
    ``"fn.flip(image, vertical=True)"``; the page, the support table and the tests of every operator run them. Without
    any, one is made from the declaration where no argument is required. ``order`` is for operators that are called like
    ordinary functions: their parameters by position, where a name that is no argument stands for a list of data; the
    lengths of these lists go to an argument named ``sizes``. One with ``nodes_only`` is about the graph: it has no call on
    arrays, and fn has it alone.
    ``gpu`` names the module of operators/on_gpu/ that has the operator's GPU form.
    ``unsized`` says that the inputs' shapes never tell the output's (decoders): unless the plan knew it, the body gets an
    allocator at once, and nothing is inferred for each sample. ``staged`` is for bodies that write in several places at
    once or piece by piece: where a batch is larger than the caches, their samples are made in the thread's own memory and
    copied from there.
    """

    def declare(body: Callable[..., Any]) -> OpDef:
        params, num_outputs = _read_signature(body)
        op = OpDef(
            name, body, params, num_outputs, tuple(layouts.split()), sequences, elementwise,
            (*devices, *(["gpu"] if gpu and "mixed" not in devices else [])),
            types.dtypes_of(dtypes), no_effect or {}, examples, ops_name, hidden, nodes_only, takes_seed, unsized, staged,
            Traits(granularity=granularity, pure=pure), order=tuple(order.split()),
            gpu_module=gpu,
        )  # fmt: skip
        return _register(op)

    return declare


def source(
    name: str,
    *,
    outputs: int = 1,
    fetches: bool = False,
    extra: Sequence[Param] = (),
    build: Callable[..., Source] | None = None,
    examples: Sequence[str] = (),
    no_effect: Mapping[str, str] | None = None,
    ops_name: str = "",
) -> Callable[[type], OpDef]:
    """Declares a source operator from a class: the keywords of its constructor are the operator's static arguments.

    ``extra`` adds arguments that ``build(cls, **arguments)`` takes for itself.
    """

    def declare(cls: type) -> OpDef:
        params, _ = _read_signature(cls.__init__, method=True)  # type: ignore[misc]
        factory = (lambda **arguments: build(cls, **arguments)) if build is not None else cls
        op = OpDef(
            name, cls, (*params, *extra), outputs, examples=examples, no_effect=no_effect or {}, ops_name=ops_name,
            takes_seed=True, base_traits=Traits("batch", ordered=True, pure=True), factory=factory, fetches=fetches,
        )  # fmt: skip
        return _register(op)

    return declare


def _register(op: OpDef) -> OpDef:
    if op.name in registry and registry[op.name].body.__module__ != op.body.__module__:
        raise ValueError(f"operator {op.name!r} is declared twice")
    registry[op.name] = op
    return op


def _read_signature(body: Callable[..., Any], method: bool = False) -> tuple[tuple[Param, ...], int]:
    hints = typing.get_type_hints(body, include_extras=True)
    params = []
    for position, item in enumerate(inspect.signature(body).parameters.values()):
        if method and position == 0:
            continue
        role, kind = _read_annotation(hints.get(item.name, Any))
        if item.name in HIDDEN and item.kind is item.KEYWORD_ONLY and kind is Any:  # get_property has a `key: str`
            role = Role.HIDDEN
        if (item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL)) != (role is Role.INPUT):
            raise TypeError(f"{body.__qualname__}: data (Sample) is positional-only, nothing else is: {item}")
        variadic, positional = item.kind is item.VAR_POSITIONAL, item.kind is item.POSITIONAL_OR_KEYWORD
        params.append(Param(item.name, role, kind, item.default, variadic, positional))
    returned = hints.get("return", np.ndarray)
    if returned is type(None):
        return tuple(params), 0
    return tuple(params), len(typing.get_args(returned)) if typing.get_origin(returned) is tuple else 1


def _read_annotation(hint: Any) -> tuple[Role, Any]:
    """The role and the kind of an annotation; ``X | None`` means X."""
    if typing.get_origin(hint) in (typing.Union, _python_types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        if len(members) != 1:
            return Role.STATIC, Any
        return _read_annotation(members[0])
    if typing.get_origin(hint) is Annotated:
        base, *marks = typing.get_args(hint)
        role = next((mark for mark in marks if isinstance(mark, Role)), Role.STATIC)
        kind = next((mark for mark in marks if isinstance(mark, str)), None)
        return role, kind if kind is not None else _read_annotation(base)[1]
    return Role.STATIC, hint


def counted(op: OpDef, param: Param) -> bool:
    """Whether an argument is not given but counted: the lengths of the lists of data."""
    return bool(op.order) and param.name == "sizes"


def _signature(op: OpDef) -> inspect.Signature:
    """The signature users see: without the hidden and drawn parameters, with the universal ones."""
    shown = []
    inputs = op.inputs
    if op.order:
        inputs = ()
        for name in op.order:
            default = op.arguments[name].default if name in op.arguments else None if name in UNIVERSAL else REQUIRED
            shown.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    for param in inputs:
        kind = inspect.Parameter.VAR_POSITIONAL if param.variadic else inspect.Parameter.POSITIONAL_ONLY
        default = REQUIRED if param.variadic else param.default
        shown.append(inspect.Parameter(param.name, kind, default=default))
    others = [param for param in op.arguments.values() if param.name not in op.order and not counted(op, param)]
    named = [param for param in others if param.positional]
    shown += [inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=p.default) for p in named]
    named = sorted((p for p in others if not p.positional), key=lambda param: not param.required)
    shown += [inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default) for p in named]
    for name in universal(op):
        if name not in op.order:
            shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(shown)


# ----------------------------------------------------------------------------------------------------
# Binding a call to its declaration

# Accepted everywhere; what is not in NO_EFFECT has a test of its effect.
UNIVERSAL = ("name", "device", "preserve", "bytes_per_sample_hint", "on_error")
NO_EFFECT = {
    "cuda_stream": "there is no CUDA stream on the CPU; the GPU backend makes its own",
    "use_copy_kernel": "the copy to the GPU always goes through one pinned staging block",
}
# Former names of arguments: what they are called now, and in which operators they are still understood.
FORMER = {
    "output_dtype": ("dtype", ("crop", "crop_mirror_normalize", "lookup_table", "rotate", "slice", "warp_affine")),
    "type": ("dtype", ("shapes",)),
}


def universal(op: OpDef) -> tuple[str, ...]:
    """The arguments every operator has, and ``seed`` where it means something."""
    return (*UNIVERSAL, "seed") if op.random else UNIVERSAL


@dataclass
class Call:
    """A checked call of an operator: its inputs, its constants, its per-sample arguments and the universal ones."""

    op: OpDef
    inputs: tuple[Any, ...]
    constants: dict[str, Any]
    nodes: dict[str, Any]
    name: str | None = None
    device: str | None = None
    seed: int | None = None
    preserve: bool = False
    hint: tuple[int, ...] = ()
    key: int | None = None
    origin: Origin | None = None
    on_error: Any = None
    members: dict[str, list[Any]] = field(default_factory=dict)  # constants that differ between members of an input set


def input_set_size(inputs: Sequence[Any]) -> int:
    """The number of members of the input sets (lists of nodes) among the inputs, 0 without one."""
    sets = [x for x in inputs if isinstance(x, (list, tuple)) and x and all(isinstance(item, Node) for item in x)]
    return len(sets[0]) if sets else 0


def spread(op: OpDef, positional: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The data and the keywords of a call that is written in the operator's own ``order``."""
    if len(positional) > len(op.order):
        raise TypeError(f"{op.title}: takes {count_of(len(op.order), 'positional argument')}, got {len(positional)}")
    given = dict(zip(op.order, positional))
    twice = [name for name in given if name in keywords]
    if twice:
        raise TypeError(f"{op.title}: got several values for the argument {twice[0]!r}")
    given.update(keywords)
    lists = []
    for data in op.order:
        if data in op.arguments or data in UNIVERSAL:
            continue
        if data not in given:
            bind(op, (), {"sizes": (1, 1), **given} if "sizes" in op.arguments else given)  # what else is wrong comes first
            raise TypeError(f"{op.title}: argument {data!r} is required (a list of inputs)")
        inputs = given.pop(data)
        lists.append(list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])
    if "sizes" in op.arguments:
        given["sizes"] = [len(inputs) for inputs in lists]
    return [value for inputs in lists for value in inputs], given


def bind(op: OpDef, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Call:
    """Checks a call against the declaration; all bad arguments are reported at once."""
    call = Call(op, (), {}, {}, origin=user_origin())
    problems: list[Exception] = []
    given = list(inputs)
    keywords = _by_present_names(op, keywords, problems)
    if op.positional and not op.inputs:
        keywords = {**dict(zip(op.positional, given)), **keywords}
        given = given[len(op.positional) :]
    while given and given[-1] is None and len(given) > op.min_inputs:
        given.pop()
    if not op.min_inputs <= len(given) <= op.max_inputs:
        expected = str(op.min_inputs) if op.min_inputs == op.max_inputs else f"from {op.min_inputs} to {op.max_inputs}"
        problems.append(ValueError(f"expects {expected} inputs, but received {len(given)}"))
    call.inputs = tuple(given)
    allowed = universal(op)
    members = input_set_size(given)
    for name, param in op.arguments.items():
        if name not in keywords:
            if param.required:
                problems.append(TypeError(f"argument {name!r} is required ({describe_kind(param)})"))
            continue
        value = keywords[name]
        if value is None and param.default is None:
            continue
        per_sample = isinstance(value, (Node, TensorListCPU))
        if per_sample and param.role is not Role.ARG:
            problems.append(TypeError(f"argument {name!r} must be a constant: it cannot vary from sample to sample"))
        elif per_sample:
            call.nodes[name] = value
        else:
            one_each = members and isinstance(value, (list, tuple)) and param.kind not in ("ints", "floats", Any)
            try:
                if one_each and len(value) == members:
                    call.members[name] = [convert(param.kind, item) for item in value]
                else:
                    call.constants[name] = convert(param.kind, value)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                problems.append(kind(f"argument {name!r}: {error}"))
    for name, value in keywords.items():
        if name in op.arguments:
            continue
        if name in allowed:
            try:
                _bind_universal(call, name, value)
            except (TypeError, ValueError) as error:
                problems.append(type(error)(f"argument {name!r}: {error}"))
        elif name in ("key", "rng") and op.random:
            call.key = value.value if isinstance(value, seeds.Key) else _key_from(value)
        elif name not in op.no_effect and name not in NO_EFFECT:
            near = nearest(name, [*op.arguments, *allowed])
            problems.append(UnknownArgument(f'Argument "{name}" is not defined for operator "{op.ops_name}"{near}'))
    if not problems and op.check_hook is not None:
        values = {**call.constants, **dict.fromkeys(call.nodes, UNKNOWN)}
        try:
            op.check_hook(op.known(values))
        except UnknownValue:
            pass
        except (TypeError, ValueError) as error:
            problems.append(error)
    if problems:
        raise _all_problems(call, problems)
    return call


def _by_present_names(op: OpDef, keywords: Mapping[str, Any], problems: list[Exception]) -> Mapping[str, Any]:
    """The keywords with former names replaced; each is warned of."""
    for former, (present, names) in FORMER.items():
        if former in keywords and op.name in names:
            if present in keywords:
                problems.append(TypeError(f"argument {former!r} is the former name of {present!r}: give one of them"))
            text = f"{op.title}: the argument {former!r} is called {present!r} now"
            warnings.warn(text, DeprecationWarning, stacklevel=outside_package())
            keywords = {present: keywords[former], **{name: x for name, x in keywords.items() if name != former}}
    return keywords


def outside_package() -> int:
    """The ``stacklevel`` of a warning by the caller of this function, so that it names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pipeflow"):
        frame, level = frame.f_back, level + 1
    return level


def _key_from(value: Any) -> int:
    if isinstance(value, np.random.Generator):
        return int(value.integers(0, 1 << 64, dtype=np.uint64))
    return _operator.index(value) & ((1 << 64) - 1)


def _bind_universal(call: Call, name: str, value: Any) -> None:
    if value is None:
        return
    if name == "name":
        call.name = convert(str, value)
    elif name == "device":
        if value not in ("cpu", "gpu", "mixed"):
            raise ValueError(f"must be 'cpu', 'gpu' or 'mixed', got {value!r}")
        call.device = value
    elif name == "preserve":
        call.preserve = convert(bool, value)
    elif name == "seed":
        seed = convert(int, value)
        call.seed = None if seed < 0 else seed
    elif name == "on_error":
        call.on_error = check_rule(value)
    else:
        hint = convert("ints", value)
        if any(size < 0 for size in hint):
            raise ValueError(f"must not be negative, got {value!r}")
        call.hint = hint


def check_rule(value: Any) -> Any:
    """``on_error`` as a user may write it."""
    if isinstance(value, str) and value not in ("raise", "skip", "replace"):
        raise ValueError(f"must be 'raise', 'skip', 'replace', a value or a function, got {value!r}")
    return value


def _all_problems(call: Call, problems: Sequence[Exception]) -> Exception:
    first, others = problems[0], problems[1:]
    error = type(first)(f"{call.op.title}: {first}")
    notes = [f"also: {problem}" for problem in others]
    notes.append(f"signature: {call.op.title}{call.op.__signature__}")
    if call.origin is not None:
        notes.append(call.origin.describe())
    add_notes(error, notes)
    return error


def describe_kind(param: Param) -> str:
    """What a parameter accepts, in words."""
    words = {
        "ints": "an integer or a list of integers", "floats": "a number or a list of numbers", "dtype": "a type",
        "layout": "a layout string", bool: "a bool", int: "an integer", float: "a number", str: "a string",
    }  # fmt: skip
    if typing.get_origin(param.kind) is Literal:
        text = " or ".join(repr(choice) for choice in typing.get_args(param.kind))
    else:
        text = str(words.get(param.kind) or getattr(param.kind, "__name__", param.kind))
    return text + (", or one value per sample" if param.role is Role.ARG else "")


def convert(kind: Any, value: Any) -> Any:
    """A constant argument in the form its kernel wants; TypeError or ValueError says what is accepted."""
    if kind is not Any and ((isinstance(value, np.ndarray) and value.ndim == 0) or isinstance(value, np.generic)):
        value = value.item()
    if isinstance(value, types.ScalarConstant):
        value = value.value
    if kind is bool:
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise TypeError(f"must be a bool, got {type(value).__name__} {value!r}")
    if kind is int:
        return _integer(value)
    if kind is float:
        return _number(value)
    if kind == "ints":
        return tuple(_integer(item) for item in _sequence(value, "an integer or a list of integers"))
    if kind == "floats":
        return tuple(_number(item) for item in _sequence(value, "a number or a list of numbers"))
    if kind is str:
        if isinstance(value, str):
            return value
        raise TypeError(f"must be a string, got {type(value).__name__} {value!r}")
    if kind == "dtype":
        return types.as_dtype(value)
    if kind == "layout":
        return types.check_layout(value)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            raise ValueError(f"must be {' or '.join(map(repr, choices))}, got {value!r}")
        return value
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            names = ", ".join(repr(member) for member in kind)
            raise ValueError(f"must be one of {names}, got {value!r}") from None
    if isinstance(kind, type) and hasattr(kind, "of"):
        return kind.of(value)
    if (kind is Callable or typing.get_origin(kind) is Callable) and not callable(value):
        raise TypeError(f"must be callable, got {type(value).__name__} {value!r}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"must be an integer, got {type(value).__name__} {value!r}")
    return _operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, (bool, str)) or (
        not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__")
    ):
        raise TypeError(f"float() argument must be a number, not {type(value).__name__} {value!r}")
    return float(value)


def _sequence(value: Any, accepted: str) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, (list, tuple, range)):
        return [
            inner
            for item in value
            for inner in (_sequence(item, accepted) if isinstance(item, (list, tuple)) else [item])
        ]
    if isinstance(value, Iterable):
        raise TypeError(f"must be {accepted}, got {type(value).__name__} {value!r}")
    return [value]


def from_sample(kind: Any, array: Any) -> Any:
    """A per-sample argument, a small array, in the form its kernel wants."""
    if kind == "ints":
        return tuple(int(item) for item in np.ravel(array).tolist())
    if kind == "floats":
        return tuple(float(item) for item in np.ravel(array).tolist())
    if kind in (bool, int, float) or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        if np.size(array) != 1:
            raise ValueError(f"must be one number per sample, got shape {np.shape(array)}")
        number = array.item() if isinstance(array, (np.ndarray, np.generic)) else array
        return kind(number)
    return array


# ----------------------------------------------------------------------------------------------------
# Running one sample

Allocate = Callable[[int, tuple[int, ...], np.dtype], np.ndarray]


class Inferred:
    """The Specs of a step's outputs."""

    __slots__ = ("first", "specs", "static")

    def __init__(self, specs: tuple[Spec, ...]) -> None:
        self.specs = specs
        self.static = all(spec.static for spec in specs)
        self.first = specs[0] if specs else Spec()


class Kind:
    """What a Kernel has found out about inputs of these types, numbers of axes and layouts."""

    __slots__ = ("depends", "frames", "layouts", "specs")

    def __init__(self, layouts: tuple[str, ...], frames: bool) -> None:
        self.layouts = layouts  # as the body sees them: a missing one becomes the first declared one that fits
        self.frames = frames  # a sequence, whose frames are passed to the body one by one
        self.specs: dict[Any, Inferred] = {}  # of the outputs, by the shapes of the inputs
        self.depends = False  # the outputs' shapes and types depend on arguments that change from sample to sample


KEPT_SPECS = 1024  # images of ever new sizes must not make a table grow without end
READY = frozenset({bool, int, float, tuple, str})  # what a per-sample argument is once it is converted


class Kernel:
    """One step of a plan made ready to run on samples: constants bound, shapes cached.

    ``kernel(inputs, layouts, per_sample, key, allocate)`` returns the tuple of outputs; ``allocate(output, shape,
    dtype)`` gives the memory of an output. ``per_frame`` names the arguments whose first axis counts the frames of a
    sequence (their layout starts with F).
    """

    def __init__(
        self, op: OpDef, constants: Mapping[str, Any], count: int, static: Sequence[Spec] | None = None,
        per_frame: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.op = op
        self.count = count
        self.per_frame = frozenset(per_frame)
        defaults = {name: param.default for name, param in op.arguments.items() if not param.required}
        self.constants = {**defaults, **constants}
        self.kinds = {name: param.kind for name, param in op.arguments.items()}
        self._wants_out = "out" in op.wants
        self._wants_layouts = "layouts" in op.wants
        self._wants_key = "key" in op.wants
        self._wants_source = "source" in op.wants
        # the Specs of a sequence are those of the whole; its kernel works on frames
        single = not op.sequences or all(spec.layout and spec.layout[0] != "F" for spec in static or ())
        fixed = bool(static) and single and all(spec.static for spec in static or ())
        self._fixed = Inferred(tuple(static or ())) if fixed else None
        self._allocates = op.unsized and count == 1 and not fixed
        self._known: dict[Any, Kind] = {}
        self._layouts: dict[Any, tuple[str, ...]] = {}

    def __call__(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], per_sample: Mapping[str, Any], key: int | None,
        allocate: Allocate, source: Any = "",
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        kind = self._kind(inputs, tuple(layouts))
        if kind.frames:
            return self._over_frames(inputs, kind.layouts, per_sample, key, allocate, source)
        return self._one(kind, inputs, per_sample, key, allocate, source)

    def _kind(self, inputs: Sequence[np.ndarray], layouts: tuple[str, ...]) -> Kind:
        signature = layouts, *[(x.ndim, x.dtype) for x in inputs]
        known = self._known.get(signature)
        if known is None:
            op = self.op
            if inputs:
                op.check_dtype(inputs[0].dtype)
            if op.layouts:
                layouts = self.accepted_layouts(layouts, tuple([x.ndim for x in inputs]))
            known = self._known[signature] = Kind(layouts, bool(op.layouts) and op.frames_of(layouts[0]))
        return known

    def _over_frames(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], per_sample: Mapping[str, Any], key: int | None,
        allocate: Allocate, source: Any,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        """Runs a sequence frame by frame into one block; arguments marked by ``fn.per_frame`` change from frame to frame."""
        count = len(inputs[0])
        for name in self.per_frame & per_sample.keys():
            if len(per_sample[name]) != count:
                given = count_of(len(per_sample[name]), "value")
                raise ValueError(f"argument {name!r} has {given} for a sequence of {count_of(count, 'frame')}")
        if not count:
            raise ValueError(f"{self.op.title}: the sequence has no frames")
        inner = tuple([layout[1:] if layout[:1] == "F" else layout for layout in layouts])
        blocks: list[np.ndarray] = []
        for frame in range(count):
            images = [x[frame] if layout[:1] == "F" else x for x, layout in zip(inputs, layouts, strict=True)]
            values = {name: value[frame] if name in self.per_frame else value for name, value in per_sample.items()}

            def place(
                output: int, shape: tuple[int, ...], dtype: np.dtype, frame: int = frame, blocks: list[np.ndarray] = blocks
            ) -> np.ndarray:
                if blocks and blocks[output].shape[1:] == shape and blocks[output].dtype == dtype:
                    return blocks[output][frame]
                return np.empty(shape, dtype)

            results = self._one(self._kind(images, inner), images, values, key, place, source)
            if not blocks:
                blocks += [allocate(i, (count, *x.shape), x.dtype) for i, x in enumerate(results)]
            for block, result in zip(blocks, results, strict=True):
                if block.shape[1:] != result.shape:
                    raise ValueError(f"frame {frame} has shape {result.shape}, the first one {block.shape[1:]}")
                if not np.may_share_memory(block[frame], result):
                    block[frame] = result
        return tuple(blocks)

    def _one(
        self, kind: Kind, inputs: Sequence[np.ndarray], per_sample: Mapping[str, Any], key: int | None,
        allocate: Allocate, source: Any,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        op = self.op
        arguments = dict(self.constants)
        for name, value in per_sample.items():
            arguments[name] = value if type(value) in READY else self._converted(name, value)
        if op.draw_hook is not None:
            drawn = op.draw_hook(seeds.Key(key or 0), self._specs(inputs, kind.layouts), Args(**arguments))
            arguments.update(drawn)  # type: ignore[arg-type]
        if self._wants_out:
            arguments["out"] = self._out(kind, inputs, arguments, per_sample, allocate)
        if self._wants_layouts:
            arguments["layouts"] = kind.layouts
        if self._wants_key:
            arguments["key"] = seeds.Key(key or 0)
        if self._wants_source:
            arguments["source"] = source
        result = op.body(*inputs, **arguments)
        if self.count == 1 and type(result) is np.ndarray:
            return (result,)
        return self._as_outputs(result)

    def _converted(self, name: str, value: Any) -> Any:
        try:
            return from_sample(self.kinds[name], value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"argument {name!r}: {error}") from None

    def output_layouts(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], per_sample: Mapping[str, Any]
    ) -> list[str | None]:
        """The layouts of the outputs for these inputs; None where the declaration does not say."""
        first = {
            name: value[0] if name in self.per_frame and len(value) else value for name, value in per_sample.items()
        }
        values = {name: x if type(x) in READY else from_sample(self.kinds[name], x) for name, x in first.items()}
        if self.op.layouts:
            layouts = self._kind(inputs, tuple(layouts)).layouts
        return [spec.layout for spec in self.op.specs(self._specs(inputs, layouts), {**self.constants, **values}, self.count)]

    def accepted_layouts(self, layouts: Sequence[str], ndims: tuple[int, ...]) -> tuple[str, ...]:
        """The layouts as the kernel sees them: a missing one becomes the first declared one with that number of axes."""
        signature = (tuple(layouts), ndims)
        known = self._layouts.get(signature)
        if known is None:
            known = self._layouts[signature] = check_layouts(self.op, layouts, ndims)
        return known

    def _specs(self, inputs: Sequence[np.ndarray], layouts: Sequence[str]) -> tuple[Spec, ...]:
        return tuple([Spec.exact(x, layout) for x, layout in zip(inputs, layouts, strict=True)])

    def _out(
        self, kind: Kind, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any], per_sample: Mapping[str, Any],
        allocate: Allocate,
    ) -> Any:  # fmt: skip
        if self._allocates:
            return lambda shape, dtype: allocate(0, tuple(shape), np.dtype(dtype))
        inferred = self._fixed or self._output_specs(kind, inputs, arguments, per_sample)
        if inferred.static:
            if self.count == 1:
                return allocate(0, inferred.first.shape, inferred.first.dtype)
            return tuple(allocate(index, spec.shape, spec.dtype) for index, spec in enumerate(inferred.specs))
        if self.count == 1:
            return lambda shape, dtype: allocate(0, tuple(shape), np.dtype(dtype))
        return tuple(
            lambda shape, dtype, index=index: allocate(index, tuple(shape), np.dtype(dtype))
            for index in range(self.count)
        )

    def _output_specs(
        self, kind: Kind, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any], per_sample: Mapping[str, Any]
    ) -> "Inferred":
        """What the declaration says of the outputs, kept by the inputs' shapes where no changing argument has a part in it."""
        op = self.op
        changing = per_sample or op.drawn
        if changing and kind.depends:
            return Inferred(op.specs(self._specs(inputs, kind.layouts), arguments, self.count))
        shapes = tuple([x.shape for x in inputs])
        known = kind.specs.get(shapes)
        if known is None:
            specs = self._specs(inputs, kind.layouts)
            if not changing:
                known = Inferred(op.specs(specs, arguments, self.count))
            else:
                # Where the answer is complete without the arguments that change, it is the same for every value of them.
                unknown = dict.fromkeys([*per_sample, *op.drawn], UNKNOWN)
                known = Inferred(op.specs(specs, {**arguments, **unknown}, self.count))
                if not known.static:
                    kind.depends = True
                    return Inferred(op.specs(specs, arguments, self.count))
            if len(kind.specs) >= KEPT_SPECS:
                kind.specs.clear()
            kind.specs[shapes] = known
        return known

    def _as_outputs(self, result: Any) -> tuple[np.ndarray, ...]:
        if self.count == 1:
            return (np.asarray(result),)
        if self.count == 0:
            return ()
        outputs = tuple(np.asarray(item) for item in result)
        assert len(outputs) == self.count, f"{self.op.title} returned {len(outputs)} outputs instead of {self.count}"
        return outputs


def column_values(kind: Any, values: np.ndarray) -> list[Any] | None:
    """The per-sample arguments of a whole batch in the form the kernels want; None where they have to be looked at one by one."""
    try:
        if values.dtype.kind not in "biuf":
            return None
        if kind in ("ints", "floats"):
            number = int if kind == "ints" else float
            return [tuple([number(x) for x in row]) for row in values.reshape(len(values), -1).tolist()]
        if kind in (bool, int, float) and values.size == len(values):
            return [kind(x) for x in values.reshape(-1).tolist()]
    except (ValueError, OverflowError):
        pass  # a nan that should be an integer: its own sample reports it
    return None


def check_layouts(op: OpDef, layouts: Sequence[str | None], ndims: Sequence[int]) -> tuple[str, ...]:
    """Checks the inputs' layouts against the declared ones; a missing layout becomes the first that fits."""
    fitting = []
    for position, (layout, ndim) in enumerate(zip(layouts, ndims, strict=True)):
        if position and not layout:
            fitting.append("")  # further inputs (masks, matrices) follow rules of their own
            continue
        allowed = [known for known in op.layouts if len(known) == ndim]
        if layout:
            if layout not in op.layouts and position == 0:
                raise ValueError(f"layout {layout!r} of the input is not one of {', '.join(op.layouts)}")
            fitting.append(layout)
        elif not allowed:
            raise ValueError(
                f"The number of dimensions {ndim} does not match any of the allowed layouts: {', '.join(op.layouts)}"
            )
        else:
            fitting.append(allowed[0])
    return tuple(fitting)


# ----------------------------------------------------------------------------------------------------
# The eager call


class ReportedArray(np.ndarray):
    """The result of an eager random operator; ``key`` repeats it."""

    key: int | None = None


def eager(call: Call) -> Any:
    """Runs a call at once in the caller's thread: an array is one sample, a list or TensorListCPU a batch."""
    op = call.op
    if any(isinstance(value, Node) for value in (*call.inputs, *call.nodes.values())):
        raise RuntimeError(f"{op.title}: a DataNode can be used only while its pipeline is being defined")
    if call.device not in (None, "cpu"):
        raise ValueError(f"{op.title}: the eager call runs on the CPU, got device={call.device!r}")
    if op.factory is not None:
        raise RuntimeError(f"{op.title} is a source and works only inside a pipeline definition")
    batched = [x for x in (*call.inputs, *call.nodes.values()) if isinstance(x, (TensorListCPU, list))]
    size = len(batched[0]) if batched else 1
    inputs = [
        x if isinstance(x, TensorListCPU) else TensorListCPU(x if isinstance(x, list) else [x] * size)
        for x in call.inputs
    ]
    for batch in (*inputs, *call.nodes.values()):
        if len(batch) != size:
            raise ValueError(f"{op.title}: the inputs have {count_of(len(batch), 'sample')} and {size}")
    drawn = op.random and call.key is None
    if op.random and call.key is None:
        call.key = seeds.system_seed() if call.seed is None else call.seed
    try:
        outputs, layouts = run_batch(call, inputs, size)
    except Exception as error:
        add_notes(error, [f"in {op.title}", *([call.origin.describe()] if call.origin else [])])
        raise
    results: list[Any] = []
    for values, layout in zip(outputs, layouts, strict=True):
        if batched:
            batch = TensorListCPU(values, layout or "")
            batch.key = call.key if drawn else None
            results.append(batch)
        else:
            results.append(_reported(_first(values), call.key) if drawn else _first(values))
    return op.pack(results, call.constants)


def _first(values: Any) -> np.ndarray:
    return values[0, ...] if isinstance(values, np.ndarray) else values[0]  # never a NumPy scalar


def _reported(array: np.ndarray, key: int | None) -> np.ndarray:
    result = array.view(ReportedArray)
    result.key = key
    return result


def _fresh(_output: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.empty(shape, dtype)


def _fresh_bytes(nbytes: int) -> np.ndarray:
    return np.empty(nbytes, np.uint8)


def run_batch(call: Call, inputs: Sequence[TensorListCPU], size: int) -> tuple[list[Any], list[str | None]]:
    """Infer, draw and body over the samples of a batch, one after another."""
    op = call.op
    count = op.outputs_of(call.constants)
    keys = seeds.sample_keys(call.key or 0, np.arange(size)).tolist() if op.random else [None] * size
    layouts = [batch.layout() for batch in inputs]
    if op.traits_of(call.constants).granularity == "batch":
        nodes = {name: batch.samples() for name, batch in call.nodes.items()}
        context = BatchCall(
            size, lambda: keys, layouts, _fresh_bytes, call.hint, inputs[0].source_info() if inputs else [""] * size
        )
        columns = run_whole(op, call.constants, nodes, [batch.samples() for batch in inputs], context, count)
        specs = [Spec(batch.at(0).shape, batch.at(0).dtype, batch.layout()) for batch in inputs if len(batch)]
        found = [spec.layout for spec in op.specs(specs, {**call.constants, **dict.fromkeys(nodes, UNKNOWN)}, count)]
        return columns, found
    per_frame = [name for name, batch in call.nodes.items() if batch.layout()[:1] == "F"]
    kernel = Kernel(op, call.constants, count, per_frame=per_frame)
    columns = [[] for _ in range(count)]
    found = [""] * count
    for index in range(size):
        samples = [as_sample(batch.at(index)) for batch in inputs]
        per_sample = {name: batch.at(index) for name, batch in call.nodes.items()}
        where = inputs[0].source_info(index) if inputs else ""
        outputs = kernel(samples, layouts, per_sample, keys[index], _fresh, where)
        for column, output in zip(columns, outputs, strict=True):
            column.append(output)
        if index == 0:
            found = kernel.output_layouts(samples, layouts, per_sample)
    return columns, found


def run_whole(
    op: OpDef,
    constants: Mapping[str, Any],
    nodes: Mapping[str, Sequence[Any]],
    inputs: Sequence[Any],
    batch: BatchCall,
    count: int,
) -> list[Any]:
    """One call of an operator on a whole batch; an entry an output, each a dense array or a list of samples."""
    defaults = {name: param.default for name, param in op.arguments.items() if not param.required}
    arguments = {**defaults, **constants}
    for name, samples in nodes.items():
        kind = op.arguments[name].kind
        arguments[name] = [from_sample(kind, sample) for sample in samples]
    if op.batch_hook is not None:
        return list(op.batch_hook(*inputs, **arguments, batch=batch))
    if "key" in op.wants:
        arguments["key"] = [seeds.Key(key) for key in batch.keys]
    if "layouts" in op.wants:
        arguments["layouts"] = tuple(batch.layouts)
    result = op.body(*[list(samples) for samples in inputs], **arguments)
    outputs = [result] if count == 1 else list(result or ())
    return [list(values) if not isinstance(values, np.ndarray) else values for values in outputs]


# ----------------------------------------------------------------------------------------------------
# Frameworks whose tensors user functions may work with


@dataclass(frozen=True)
class Framework:
    """How arrays become a framework's tensors and back, for functions that are called with tensors.

    ``to_tensor(array)`` shares memory only with an array that may be written; ``to_array(tensor)`` shares it where it can
    and says no with a TypeError. ``differentiate(function, tensors, wanted)`` calls a function: its result, and
    ``back(weights)``, from the derivatives by its outputs (arrays, None for zero) to those by the wanted inputs.
    On a GPU ``from_device`` makes a tensor of an array there, ``to_device`` gives something with DLPack back, and
    ``on_stream(device_id, handle)`` is a context in which the framework works on a stream.
    ``trace(tensor)`` makes an array that keeps the tensor and its history of gradients, for frameworks whose tensors have
    one; ``recording()`` tells whether they have now.
    """

    name: str
    to_tensor: Callable[[np.ndarray], Any]
    to_array: Callable[[Any], np.ndarray]
    is_tensor: Callable[[Any], bool]
    differentiate: Callable[[Callable[..., Any], Sequence[Any], Sequence[int]], tuple[Any, Any]] | None = None
    from_device: Callable[[Any], Any] | None = None
    to_device: Callable[[Any], Any] = lambda tensor: tensor
    on_stream: Callable[[int, int], Any] | None = None
    trace: Callable[[Any], Any] | None = None
    recording: Callable[[], bool] | None = None


frameworks: dict[str, Framework] = {
    "numpy": Framework("numpy", lambda array: array, as_sample, lambda value: isinstance(value, np.ndarray))
}
FRAMEWORK_MODULES = {"torch": "pipeflow.plugin.pytorch", "jax": "pipeflow.plugin.jax"}


def framework(name: str) -> Framework:
    """The framework of a name; its plugin, and with it the framework itself, is loaded by the first call."""
    if name not in frameworks:
        if name not in FRAMEWORK_MODULES:
            known = ", ".join(["numpy", *FRAMEWORK_MODULES])
            raise ValueError(f"there is no framework {name!r}{nearest(name, FRAMEWORK_MODULES)}; there are {known}")
        try:
            importlib.import_module(FRAMEWORK_MODULES[name])
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != name:
                raise
            raise ModuleNotFoundError(
                f'{name} is needed here and is not installed: pip install "pipeflow[{name}]", or name another framework',
                name=error.name,
            ) from error
    return frameworks[name]


interpreter: ContextVar[Callable[[Call], Any]] = ContextVar("pipeflow_interpreter", default=eager)
