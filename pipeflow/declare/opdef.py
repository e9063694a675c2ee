"""The declaration itself: ``@operator`` and ``@source`` make OpDefs and keep them in the registry."""

import importlib
import inspect
import types as _python_types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from pipeflow import types
from pipeflow.declare.binding import Call, bind, counted, spread, universal
from pipeflow.declare.eager import eager
from pipeflow.declare.layouts import check_layouts
from pipeflow.declare.sources import Source
from pipeflow.declare.vocabulary import (
    HIDDEN,
    REQUIRED,
    UNIVERSAL,
    Args,
    NamedOutputs,
    Param,
    Role,
    Spec,
    Traits,
    UnknownValue,
    WorkerCall,
)
from pipeflow.errors import UnknownArgument, UnsupportedType, nearest


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


interpreter: ContextVar[Callable[[Call], Any]] = ContextVar("pipeflow_interpreter", default=eager)
