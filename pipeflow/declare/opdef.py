"""The declaration of one operator as data: its parameters, its body, and the hooks next to it."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from pipeflow import types
from pipeflow.declare.calls import ColumnsHook, Traits, WorkerCall
from pipeflow.declare.kernel_calls import KernelCalls
from pipeflow.declare.layouts import check_layouts
from pipeflow.declare.many import Many
from pipeflow.declare.parameters import REQUIRED, SEED, UNIVERSAL, Args, Param, Role
from pipeflow.declare.sources import Source
from pipeflow.declare.specs import NamedOutputs, Spec, UnknownValue, answer
from pipeflow.declare.tables import Loads
from pipeflow.errors import UnsupportedType, widened

_SPELLED = {
    word.lower(): word
    for word in ("BBox", "COCO", "DL", "MFCC", "MXNet", "RMS", "ROI", "SSD", "TFRecord")  # as DALI writes them
}


def class_name(name: str) -> str:
    """The class of ``ops`` for an operator: ``image_decoder`` is ``ImageDecoder``, ``mfcc`` is ``MFCC``."""
    return "".join(_SPELLED.get(part, part[:1].upper() + part[1:]) for part in name.rpartition(".")[2].split("_"))


# The role of an operator for the compiler and the executor; most operators have the role "work".
Part = Literal[
    "work", "constant", "transfer", "copy", "merge", "late merge", "function", "differentiable", "gradients", "kept"
]


MOST_INPUTS = 256
# An argument, and a function: the least extents of the result for a frame, and the extents that it has alone.
FramesShare = tuple[str, Callable[[Spec, Args], tuple[Sequence[int], Sequence[int]]]]
Signature = tuple[tuple[Param, ...], int, frozenset[str] | None]  # parameters, number of outputs, and ``OpDef.own``


class _LazySignature:
    """``__signature__``, made when it is first read: all of them take a tenth of the time of ``import pipeflow``."""

    def __get__(self, op: "OpDef | None", owner: type) -> inspect.Signature:
        if op is None:  # read from the class, which has its own signature
            raise AttributeError("__signature__")
        made = op.__dict__["__signature__"] = _signature(op)
        return made


@dataclass(frozen=True)
class Link:
    """An operator of a chain, with the names of its arguments: in the chain, and its own."""

    op: "OpDef"
    names: tuple[tuple[str, str], ...]

    def part(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the chain that belong to this link, under its own names."""
        return {own: values[name] for name, own in self.names if name in values}


@dataclass(eq=False)
class OpDef:
    """A declared operator."""

    name: str
    body: Callable[..., Any]
    signature: Callable[[], Signature]  # called once, when one of the attributes below it is read first
    params: tuple[Param, ...] = field(init=False)
    num_outputs: int = field(init=False)
    own: frozenset[str] | None = field(init=False)  # the parameters in the body's signature; None: all
    inputs: tuple[Param, ...] = field(init=False)
    arguments: dict[str, Param] = field(init=False)
    defaults: dict[str, Any] = field(init=False)
    positional: tuple[str, ...] = field(init=False)
    drawn: tuple[str, ...] = field(init=False)
    wants: frozenset[str] = field(init=False)
    random: bool = field(init=False)
    min_inputs: int = field(init=False)
    max_inputs: int = field(init=False)
    layouts: tuple[str, ...] = ()
    sequences: bool = False
    whole: Callable[[str, Mapping[str, Any]], bool] | None = None  # takes all frames at once
    generic: bool = False
    elementwise: bool = False
    devices: tuple[str, ...] = ("cpu",)
    dtypes: frozenset[np.dtype] = types.NUMBERS
    no_effect: Mapping[str, str] = field(default_factory=dict)
    examples: Sequence[str] = ()
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
    columns_hook: ColumnsHook | None = None
    worker_hook: Callable[[Args], WorkerCall] | None = None
    list_hook: Callable[[Args], bool] | None = None
    names_hook: Callable[[Args], tuple[str, ...]] | None = None
    instead_names: tuple[str, ...] = ()
    instead_hook: Callable[[dict[str, Any]], Any] | None = None
    derivative_hook: Callable[..., Any] | None = None
    entry_hook: Callable[[Any], Any] | None = None  # converts an entry of a list of inputs
    flows: Sequence[int] | None = None  # the inputs that derivatives pass to; None: no derivative is declared
    order: tuple[str, ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)
    gpu_module: str = ""
    links: tuple[Link, ...] = ()  # of a chain, which fusion puts in place of several operators
    paired: tuple[str, ...] = ()
    role: Part = "work"
    compiled: bool = False
    begins_in_numpy: bool = False
    by_frame: bool = False
    marks_frames: bool = False
    host_inputs: bool = False  # the inputs after the first are numbers that the host reads
    frames_share: FramesShare | None = None
    once: tuple[int, ...] = ()  # the outputs that a sequence has once, because they are the same for all frames
    written_as: str = ""  # the name in messages, if a pass of the compiler put the operator in place of another
    dali_class: str = ""  # the class in the names that DALI gives to unnamed calls, if it is not that of ``ops``
    codec_hook: Callable[[Args], bool] | None = None
    line_hook: Callable[..., Any] | None = None
    samples_hook: Callable[..., Any] | None = None
    resamples_hook: Callable[..., Any] | None = None
    ends_sampling_hook: Callable[..., Any] | None = None
    rows_hook: Callable[..., Any] | None = None
    rows_load: Loads | None = None  # compiled code that ``rows`` and ``gpu_table`` use once it is there
    many_hook: Callable[[Many], Sequence[Any]] | None = None
    batches_hook: Callable[[np.ndarray, Args], np.ndarray | None] | None = None
    many_loads: Loads | None = None
    body_loads: Loads | None = None  # compiled code that the body uses once it is there
    calls_hook: Callable[[KernelCalls], None] | None = None
    calls_for: Callable[[Args], bool] | None = None
    calls_share: bool = False
    calls_small: bool = False
    calls_varying: frozenset[str] = frozenset()
    returns_views: bool = False
    reads_calls_hook: Callable[[KernelCalls, Any, Any], Sequence[Any]] | None = None
    loads_hook: Callable[[Args, np.dtype | None], None] | None = None
    samples_calls_hook: Callable[..., Any] | None = None
    ends_sampling_calls_hook: Callable[..., None] | None = None
    ends_sampling_reads_hook: Callable[..., Sequence[Any]] | None = None
    caller_hook: Callable[[Args], Callable[..., Any]] | None = None
    ready_hook: Callable[..., Callable[..., Any] | None] | None = None
    _gpu_hooks: dict[str, Callable[..., Any]] = field(default_factory=dict)
    __signature__ = _LazySignature()

    def __post_init__(self) -> None:
        self.forget_calls()
        self.__name__, self.__qualname__ = self.leaf, self.name
        self.__doc__ = inspect.getdoc(self.body)
        self.__module__ = "pipeflow.fn"

    def __getattr__(self, name: str) -> Any:
        """Reads the signature for the first of these attributes. For all operators it takes a sixth of ``import pipeflow``."""
        if name not in _OF_SIGNATURE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.params, self.num_outputs, self.own = self.signature()
        self.inputs = tuple(p for p in self.params if p.role is Role.INPUT)
        self.arguments = {p.name: p for p in self.params if p.role in (Role.ARG, Role.STATIC)}
        self.defaults = {name: param.default for name, param in self.arguments.items() if not param.required}
        self.positional = tuple(p.name for p in self.arguments.values() if p.positional)
        self.drawn = tuple(p.name for p in self.params if p.role is Role.DRAWN)
        self.wants = frozenset(p.name for p in self.params if p.role is Role.HIDDEN)
        self.random = bool(self.drawn) or "key" in self.wants or self.takes_seed
        self.min_inputs = sum(p.required for p in self.inputs)
        self.max_inputs = MOST_INPUTS if any(p.variadic for p in self.inputs) else len(self.inputs)
        return self.__dict__[name]

    def forget_calls(self) -> None:
        """Forgets the eager calls that are kept for the next call with the same arguments."""
        self.plain_calls: dict[tuple[Any, ...], Any] = {}  # eager calls that may be made again without a check
        self.known_calls: dict[tuple[Any, ...], Any] = {}  # the same with shapes and types of inputs, ready to run
        self.last_calls: dict[Any, tuple[Callable[..., Any], ...]] = {}  # by a shape: arguments that cannot change
        self.last_call: Callable[..., Any] | None = None  # the last one of them (declare/written.py)

    def entry(self, hook: Callable[[Any], Any]) -> None:
        """Declares the conversion of one entry of a list of inputs, for operators with their own ``order``."""
        self.entry_hook = hook

    def derivative(self, hook: Callable[..., Any] | None, flows: Sequence[int] = range(MOST_INPUTS)) -> None:
        """Declares the derivative (operators/derivatives.py), and the inputs that derivatives pass to."""
        self.derivative_hook = hook
        self.flows = flows

    @property
    def makes_chains(self) -> bool:
        """True if its calls are worth a chain without other steps. NumPy's arithmetic alone needs no compiler."""
        if self.calls_hook is None or self.calls_share or self.calls_small:
            return False
        return self.compiled or not self.elementwise

    @property
    def draws(self) -> bool:
        """True if its work needs keys: not if it only accepts a seed, as sources do."""
        return bool(self.drawn) or "key" in self.wants

    @property
    def leaf(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def ops_name(self) -> str:
        """The name of its class in ``ops``."""
        return class_name(self.leaf)

    @property
    def schema_name(self) -> str:
        """Its name in DALI's registry: ``readers__File``."""
        return "__".join([*self.name.split(".")[:-1], self.ops_name])

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"fn.{self.written_as or self.name}"

    # The rest of the declaration is next to the body.
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
        """Declares the function that a worker process calls, if the traits have ``processes``."""
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
        """Declares the body for whole batches: ``(*inputs, args, batch)``, where inputs are dense arrays or lists."""
        self.batch_hook = hook
        return hook

    def columns(self, hook: ColumnsHook) -> ColumnsHook:
        """Declares the work on whole batches whose samples are columns, of one dtype, number of axes and layout. None if the body
        has to do it; else a function of the samples that returns the output as one array, or None.
        """
        self.columns_hook = hook
        return hook

    def returns_list(self, hook: Callable[[Args], bool]) -> Callable[[Args], bool]:
        """Declares when a single output is returned in a list."""
        self.list_hook = hook
        return hook

    def result(self, hook: Callable[[Args, Any], Any]) -> Callable[[Args, Any], Any]:
        """Declares the form in which a call returns the outputs, if it is not one or a list: for example a dict."""
        self.result_hook = hook
        return hook

    def instead(self, names: Sequence[str]) -> Callable[..., Any]:
        """Declares a function of the keywords that replaces the call if one of these arguments is a node."""

        def declare(hook: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
            self.instead_names, self.instead_hook = tuple(names), hook
            return hook

        return declare

    def returns_names(self, hook: Callable[[Args], tuple[str, ...]]) -> Callable[[Args], tuple[str, ...]]:
        """Declares the names of the outputs, () for none."""
        self.names_hook = hook
        return hook

    def caller(self, hook: Callable[[Args], Callable[..., Any]]) -> Callable[[Args], Callable[..., Any]]:
        """Declares ``(args) -> call``, which a step makes once: ``call(inputs, key)`` returns the outputs of one sample.

        It returns the same as the body, for operators whose calls must be fast.
        """
        self.caller_hook = hook
        return hook

    def ready(self, hook: Callable[..., Callable[..., Any] | None]) -> Callable[..., Any]:
        """Declares ``(specs, args) -> work``: a shorter form of the body for inputs of these shapes and types.

        Calls on arrays with constant arguments use it. ``work(*inputs, out)`` fills ``out`` and returns it; if the body has no
        ``out``, ``work(*inputs)`` returns the result. If the operator draws, the number of the sample's key
        (``Key.value``) is the last argument. With several outputs, ``out`` and the result are tuples. An operator on batches has
        a short form for a batch of one array.
        With no shorter form the hook returns None.
        """
        self.ready_hook = hook
        return hook

    def rows(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(specs, args, keys) -> table``: the work of a whole batch, one row a sample (declare/tables.py)."""
        self.rows_hook = hook
        return hook

    def batches(self, hook: Callable[[np.ndarray, Args], np.ndarray | None]) -> Callable[..., np.ndarray | None]:
        """Declares ``(keys, args) -> results`` of several batches, a row for each; None if each batch makes its own."""
        self.batches_hook = hook
        return hook

    def many(self, hook: Callable[[Many], Sequence[Any]]) -> Callable[[Many], Sequence[Any]]:
        """Declares the work on several samples in one call, for operators on few numbers (declare/many.py)."""
        self.many_hook = hook
        return hook

    def calls(
        self, hook: Callable[[KernelCalls], None], only: Callable[[Args], bool] | None = None, small: bool = False
    ) -> Callable[[KernelCalls], None]:
        """Declares the work on a sample as calls of compiled kernels (declare/kernel_calls.py), ``only`` for constants for which
        it is True. If they are ``small``, they are only for results of a few numbers, whose shape is known before the run.
        """
        self.calls_hook, self.calls_for, self.calls_small = hook, only, small
        return hook

    def shares(
        self, hook: Callable[[KernelCalls], None], only: Callable[[Args], bool] | None = None
    ) -> Callable[[KernelCalls], None]:
        """Declares ``calls`` of an operator whose result is the memory of its input, with ``calls.share``. A chain of such
        operators alone would compute nothing.
        """
        self.calls_share = True
        return self.calls(hook, only)

    def varying(self, *names: str) -> None:
        """Names what may differ from sample to sample in ``calls``: arguments, and "key". An argument of several numbers is read
        only by tables (``calls.row``).
        """
        self.calls_varying = frozenset(names)

    def views(self) -> None:
        """Says that the body returns a view of its input: a chain of such operators alone would only add a copy.

        The eager call copies a view, so that its result has memory of its own. `ready` must return such a copy too.
        """
        self.returns_views = True

    def reads_calls(self, hook: Callable[[KernelCalls, Any, Any], Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """Declares ``(calls, height, width) -> (top, left, height, width)``: the part of an image that ``calls`` read.

        A decoder before this operator then makes only that part.
        """
        self.reads_calls_hook = hook
        return hook

    def loads(self, hook: Callable[[Args, np.dtype | None], None]) -> Callable[[Args, np.dtype | None], None]:
        """Declares what loads or compiles the kernels of ``calls`` that the body does not use, for a type of the first input,
        which may not be known.
        """
        self.loads_hook = hook
        return hook

    def samples_calls(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``samples`` for compiled programs: ``(calls, args, height, width) -> Resize``, or NoTable."""
        self.samples_calls_hook = hook
        return hook

    def ends_sampling_calls(self, hook: Callable[..., None], reads: Callable[..., Sequence[Any]]) -> None:
        """Declares ``ends_sampling`` for compiled programs: ``(calls, samples, arguments of the resize, dtype between, args)``.

        ``reads`` is ``reads_calls`` for it: ``(calls, height, width, samples, arguments of the resize, args)``.
        """
        self.ends_sampling_calls_hook, self.ends_sampling_reads_hook = hook, reads

    # The fusion of a plan reads these declarations (operators/chains.py).
    def line(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares a factor and an offset for every value: ``(args, input type, result type) -> (factor, offset)``."""
        self.line_hook = hook
        return hook

    def samples(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the source of the pixels of an image: ``(its height and width, args) -> two sampling.Axis``."""
        self.samples_hook = hook
        return hook

    def resamples(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares how it crops or mirrors sampled axes: ``(axes, args) -> axes``; None if axes cannot describe it."""
        self.resamples_hook = hook
        return hook

    def ends_sampling(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the end of a chain of such operators: one kernel for it, for images of three interleaved channels.

        ``(image, axes, args of the first link, type between, args, out) -> result``; the result is None for a sample
        that the kernel cannot compute.
        """
        self.ends_sampling_hook = hook
        return hook

    def gpu(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the GPU form, a function of one device.calls.DeviceCall, in the module that the declaration names."""
        self._gpu_hooks["launch"] = hook
        return hook

    def gpu_plan(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(item) -> plan``, which the GPU form computes on the host; its exceptions name the sample."""
        self._gpu_hooks["plan"] = hook
        return hook

    def gpu_table(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the GPU form for batches that a table describes: a function of one device.tables.TableCall."""
        self._gpu_hooks["table"] = hook
        return hook

    def gpu_view(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares a GPU form without a launch: ``(item) -> View or tuple of Views`` of memory of the item's inputs."""
        self._gpu_hooks["view"] = hook
        return hook

    def gpu_specs(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Declares ``(items) -> a tuple of Specs for each``, if shapes on the GPU depend on the whole batch."""
        self._gpu_hooks["specs"] = hook
        return hook

    def gpu_check(self, hook: Callable[[Args], None]) -> Callable[[Args], None]:
        """Declares a check of the constant arguments that is made when a pipeline with the GPU form is built."""
        self._gpu_hooks["check"] = hook
        return hook

    def gpu_needs(self, library: Literal["cuFFT", "nvImageCodec"]) -> None:
        """Declares a library that the GPU form needs; without it, ``build()`` fails and says how to install it."""
        self._gpu_hooks["needs"] = lambda: library

    def codec(self, hook: Callable[[Args], bool]) -> Callable[[Args], bool]:
        """Declares the arguments for which nvImageCodec can decode with ``device="mixed"``."""
        self.codec_hook = hook
        return hook

    def gpu_hook(
        self, role: Literal["launch", "plan", "table", "view", "specs", "check", "needs"] = "launch"
    ) -> Callable[..., Any] | None:
        """A part of the GPU form; the first call imports its module."""
        if not self._gpu_hooks:
            module = importlib.import_module(f"pipeflow.operators.on_gpu.{self.gpu_module}")
            if self.links:
                module.declare(self)
        assert self._gpu_hooks, f"on_gpu/{self.gpu_module}.py declares no GPU form of {self.title}"
        return self._gpu_hooks.get(role)

    def traits_of(self, static: Mapping[str, Any]) -> Traits:
        """The traits of a call with these static arguments."""
        return self.traits_hook(self.known(static)) if self.traits_hook else self.base_traits

    def outputs_of(self, static: Mapping[str, Any], inputs: int | None = None) -> int:
        """The number of outputs of a call with these static arguments and so many inputs (None: all)."""
        count = self.outputs_hook(self.known(static)) if self.outputs_hook else self.num_outputs
        given = [x.name for x in self.inputs[:inputs]]
        return count - sum(name not in given for name in self.paired)

    def pack(self, outputs: Sequence[Any], static: Mapping[str, Any]) -> Any:
        """The outputs in the form that a call returns: None, one output, a list, or NamedOutputs."""
        names = self.names_hook(self.known(static)) if self.names_hook is not None else ()
        if names:
            return NamedOutputs(outputs, names)
        if len(outputs) == 1 and not (self.list_hook is not None and self.list_hook(self.known(static))):
            return outputs[0]
        return list(outputs) or None

    def keywords(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the body: the parameters of its signature, and all arguments as ``args`` if it has this
        parameter.
        """
        if self.own is None:
            return arguments
        named = {name: value for name, value in arguments.items() if name in self.own}
        if "args" in self.wants:
            named["args"] = Args(**arguments)
        return named

    def known(self, values: Mapping[str, Any]) -> Args:
        """The arguments, with defaults for those that are not given."""
        return Args(**{name: values.get(name, param.default) for name, param in self.arguments.items()})

    def specs(self, inputs: Sequence[Spec], values: Mapping[str, Any], count: int) -> tuple[Spec, ...]:
        """The Specs of the outputs as far as they are known."""
        unknown = (Spec(),) * count
        if inputs and inputs[0].dtype is not None:
            self.check_dtype(inputs[0].dtype)
        if self.infer_hook is None:
            return unknown
        unlabelled = self.generic and bool(inputs) and inputs[0].layout == ""
        if inputs and self.layouts:
            fitting = self.fitting(inputs)
            if fitting is None:
                return unknown
            inputs = fitting
            single = answer(lambda: self.frames_of([x.layout or "" for x in fitting], values))
            if single is None:
                return unknown
            if single:
                frames = next((x.shape or (None,))[0] for x in inputs if (x.layout or "")[:1] == "F")
                found = self.specs([x.frame() for x in inputs], values, count)
                return tuple([one if i in self.once else one.framed(frames) for i, one in enumerate(found)])
        try:
            result = self.infer_hook(tuple(spec.open() for spec in inputs), self.known(values))
        except UnknownValue:
            return unknown
        except (ValueError, TypeError, IndexError) as error:
            raise widened(error) from error.__cause__
        if result is None:
            return unknown
        found = (result,) if isinstance(result, Spec) else result
        return tuple(Spec(spec.shape, spec.dtype, "" if unlabelled else spec.layout) for spec in found)

    def frames_of(self, layouts: Sequence[str], values: Mapping[str, Any] | None = None) -> bool:
        """True if the body gets frames one by one: those of a sequence, or one image with each matrix of another input."""
        first, *others = layouts
        if not self.sequences or first[:1] == "F":
            whole = values is not None and self.whole and self.whole(first, values)
            return self.sequences and not whole and first[1:] in self.layouts
        return any(layout[:1] == "F" for layout in others) and "F" + first in self.layouts

    def layout_of_array(self, ndim: int) -> str:
        """The layout of an array in an eager call; arrays have none. "" for the first declared one that fits.

        If the operator is generic, a pipeline treats all axes of data without a layout as spatial. But a user who calls the
        operator on an array usually has an image with channels, and cannot give its layout.
        """
        images = (layout for layout in self.layouts if len(layout) == ndim and layout[-1] == "C")
        return next(images, "") if self.generic else ""

    def fitting(self, inputs: Sequence[Spec]) -> list[Spec] | None:
        """The inputs with the layouts that the body will get; None while they are not known."""
        naming = inputs if self.sequences else inputs[:1]  # another input may have a matrix for each frame
        if inputs[0].ndim is None or any(x.layout is None for x in naming):
            return None
        layouts = check_layouts(self.layouts, [x.layout for x in inputs], [x.ndim or 0 for x in inputs])
        return [Spec(x.shape, x.dtype, layout) for x, layout in zip(inputs, layouts, strict=True)]

    def check_dtype(self, dtype: np.dtype) -> None:
        """Raises an error if the operator is not declared for the type of the first input."""
        if dtype not in self.dtypes:
            names = ", ".join(types.shown(known) for known in types.in_order(self.dtypes))
            raise UnsupportedType(f"the operator does not take {types.shown(dtype)}; it takes {names}")

    def __repr__(self) -> str:
        return f"<operator {self.title}{self.__signature__}>"


_OF_SIGNATURE = frozenset(item.name for item in fields(OpDef) if not item.init)


def counted(op: "OpDef", param: Param) -> bool:
    """True for the argument with the lengths of the lists of data: the user does not give it, it is counted."""
    return bool(op.order) and param.name == "sizes"


def universal(op: "OpDef") -> dict[str, Param]:
    """The arguments that every operator has, and ``seed`` if it has an effect."""
    return UNIVERSAL | SEED if op.random else UNIVERSAL


def _signature(op: OpDef) -> inspect.Signature:
    """The signature for users: without the hidden and drawn parameters, with the universal ones."""
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
    for name, param in universal(op).items():
        if name not in op.order:
            shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=param.default))
    return inspect.Signature(shown)
