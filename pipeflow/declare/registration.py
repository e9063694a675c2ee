"""``@operator`` and ``@source`` make operators and keep them in the registry; a call goes to the current interpreter."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from functools import cache, cached_property
from importlib import import_module
from marshal import dumps
from typing import Any, Literal

import numpy as np

from pipeflow import system, types
from pipeflow.declare.binding import Call, bind, input_set_size, spread
from pipeflow.declare.calls import Traits
from pipeflow.declare.drawn import computed, reads_drawn, redrawn
from pipeflow.declare.eager import NAMES, again, eager
from pipeflow.declare.opdef import FramesShare, OpDef, Part, Signature
from pipeflow.declare.parameters import Args, Node, Param, Role, read_signature, take_declared, with_shared
from pipeflow.declare.sources import Source
from pipeflow.declare.specs import Spec
from pipeflow.errors import UnknownArgument, add_notes, nearest


class OpFunction(OpDef):
    """A declared operator that can be called: in a pipeline definition or on arrays."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        return self.function(*inputs, **keywords)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The operator as ``fn`` has it: Python calls a function .2 us faster than an object. ``inspect`` finds its signature."""
        now = interpreter.get

        def call(*inputs: Any, **keywords: Any) -> Any:
            last = self.last_call
            if last is not None and now() is eager:
                # `again` for the very objects of an earlier call, such as constants in a loop: nothing is written and hashed
                result = last(inputs, keywords)
                if result is not None:
                    return result
            return self.call(inputs, keywords)

        call.__name__, call.__qualname__, call.__module__ = self.__name__, self.__qualname__, self.__module__
        call.__doc__ = self.__doc__
        vars(call).update(op=self, __wrapped__=self)
        return call

    def call(self, inputs: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """A call that does not repeat the last one."""
        if self.last_call is not None and interpreter.get() is eager:
            data = inputs[0] if inputs else None
            for other in self.last_calls.get(data.shape if type(data) is np.ndarray else None, ()):
                if other is not self.last_call and (result := other(inputs, keywords)) is not None:
                    self.last_call = other
                    return result
        if not self.order and interpreter.get() is eager:
            # `again` with fewer calls of Python, for one array and arguments that are plain values
            known = self.known_calls
            plain = len(inputs) == 1 and not self.random and NAMES not in known
            if plain and type(data := inputs[0]) is np.ndarray:
                try:
                    run = known.get((dumps(keywords, 2) if keywords else b"", data.shape, data.dtype))
                    if run is not None:
                        return run(inputs, None)
                except Exception:  # arguments of other types, or an error that the complete call reports
                    pass
            result = again(self, inputs, keywords)
            if result is not None:
                return result
        if self.order:
            inputs, keywords = spread(self, inputs, keywords)
        return self.apply(inputs, keywords)

    def apply(self, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The call with data and arguments separate, for every ``order`` of the operator."""
        if self.instead_hook:
            given = {**dict(zip(self.positional, inputs)), **keywords}
            if any(_holds_node(given.get(name)) for name in self.instead_names):
                return self.instead_hook(given)
        interpret = interpreter.get()
        nodes = any(isinstance(value, Node) for value in (*inputs, *keywords.values())) or input_set_size(inputs)
        if nodes or interpret is not eager:
            inputs, keywords = redrawn(inputs, keywords)
        call = bind(self, inputs, keywords)
        result = interpret(call)
        if self.result_hook is not None:
            result = self.result_hook(self.known(call.constants), result)
        if interpret is eager and reads_drawn(inputs, keywords):
            return computed(self.apply, inputs, keywords, result)
        return result

    def __reduce__(self) -> Any:
        return find, (self.name,)


def _holds_node(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, Node) or (isinstance(value, (list, tuple)) and any(map(_holds_node, value)))


class Registry(MutableMapping[str, OpFunction]):
    """All operators by name. The file that declares an operator is imported when the operator is first read.

    The index of names and files may lack an operator, such as one of a new file. If a name is missing, and before all
    operators are listed, every file is imported.
    """

    def __init__(self) -> None:
        self._declared: dict[str, OpFunction] = {}
        self._ready: dict[str, OpFunction] = {}  # those whose files are imported completely, with all hooks
        self._modules: dict[str, str] = {}
        self._package = ""
        self._import_all: Callable[[], None] = lambda: None

    def imports(self, package: str, modules: Mapping[str, str], import_all: Callable[[], None]) -> None:
        """Sets the package of the operators, the module in it for each name, and a function that imports all modules."""
        self._package, self._modules, self._import_all = package, dict(modules), import_all

    def known(self) -> list[str]:
        """The names in the index, and those declared so far; nothing is imported."""
        return [*self._modules, *(name for name in self._declared if name not in self._modules)]

    def __getitem__(self, name: str) -> OpFunction:
        found = self._ready.get(name)
        if found is not None:
            return found
        if name in self._modules:
            try:
                import_module(f"{self._package}.{self._modules[name]}")
            except OSError as error:  # no file can be opened
                add_notes(error, system.limits_reached(error))
                raise
        if name not in self._declared:
            self._import_all()
        found = self._ready[name] = self._declared[name]
        return found

    def __setitem__(self, name: str, op: OpFunction) -> None:
        before = self._declared.get(name)
        if before is None and name in self._modules and not op.body.__module__.startswith(f"{self._package}."):
            before = self[name]
        if before is not None and before.body.__module__ != op.body.__module__:
            raise ValueError(f"operator {name!r} is declared twice")
        self._declared[name] = op
        self._ready.pop(name, None)

    def __delitem__(self, name: str) -> None:
        del self._declared[name]
        self._ready.pop(name, None)

    def __contains__(self, name: object) -> bool:
        if name not in self._modules and name not in self._declared:
            self._import_all()
        return name in self._modules or name in self._declared

    def __iter__(self) -> Iterator[str]:
        self._import_all()
        return iter(sorted(self._declared))

    def __len__(self) -> int:
        self._import_all()
        return len(self._declared)


registry = Registry()
_chain_of: Callable[[tuple[str, ...]], OpFunction]


def makes_chains(function: Callable[[tuple[str, ...]], OpFunction]) -> None:
    """Sets the function that makes the operator of a chain, such as "resize+flip", out of the names of its links."""
    global _chain_of
    _chain_of = function


def find(name: str) -> OpFunction:
    """The operator of a registry key, or of several keys joined by "+"."""
    try:
        return _chain_of(tuple(name.split("+"))) if "+" in name else registry[name]
    except KeyError:
        raise UnknownArgument(f"there is no operator {name!r}{nearest(name, registry)}") from None


def operator(
    name: str,
    *,
    takes: Mapping[str, Param] | None = None,
    layouts: str = "",
    sequences: bool = False,
    whole: Callable[[str, Mapping[str, Any]], bool] | None = None,
    generic: bool = False,
    by_frame: bool = False,
    marks_frames: bool = False,
    elementwise: bool = False,
    granularity: Literal["sample", "batch"] = "sample",
    devices: Sequence[str] = ("cpu",),
    dtypes: str = "number",
    no_effect: Mapping[str, str] | None = None,
    former: Mapping[str, str] | None = None,
    examples: Sequence[str] = (),
    hidden: bool = False,
    nodes_only: bool = False,
    takes_seed: bool = False,
    unsized: bool = False,
    staged: bool = False,
    paired: str = "",
    pure: bool = True,
    order: str = "",
    gpu: bool = False,
    host_inputs: bool = False,
    infer: str = "",
    role: Part = "work",
    compiled: bool = False,
    begins_in_numpy: bool = False,
    frames_share: FramesShare | None = None,
    once: Sequence[int] = (),
    written_as: str = "",
    dali_class: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Declares an operator from its kernel for one sample. The docstring of declare/ explains the words.

    - ``takes``: the arguments that it shares with other operators, made by ``parameters`` and joined by ``|``. They come before
      those of the body's own signature. A body with a parameter ``args: Args`` gets all arguments in it.
    - ``dtypes``: the types that the first input may have: names ("uint8 float32") or groups ("number" is everything, "integer",
      "float", "bool").
    - ``no_effect``: arguments of DALI that are accepted and do nothing here, with the reason.
    - ``former``: former names of arguments, with the present ones. A call that uses one gives a warning.
    - ``examples``: calls as in a pipeline, on the arrays of ``tools/example_data.py``: ``"fn.flip(image, vertical=True)"``. The
      page, the support table and the tests of every operator run them. If no argument is required, an example is made
      automatically.
    - ``infer="like image"``: the result has the shape and the layout of that input, and its type unless there is a ``dtype``.
      Every other rule is a function next to the body, ``@name.infer``.
    - ``sequences``: the body gets the frames of a sequence one by one, except with arguments for which ``whole`` (called with the
      layout and the arguments) is True.
    - ``generic``: if the data has no layout, the result has none. Without it, the result has the layout that the operator
      assumes.
    - ``frames_share``: an argument for the extents of the result, and ``(Spec of a frame, args) -> the least extents of its
      result, the extents that it has alone``: the results of frames with arguments of their own get the same extents.
    - ``once``: the numbers of outputs that a sequence has once, because they are the same for all its frames.
    - ``by_frame``: for operators without ``layouts``: arguments with a value for each frame (``fn.per_frame``), and matrices for
      each frame, make one result for each frame.
    - ``marks_frames``: the result has a value for each frame.
    - ``gpu``: the file of the same name in operators/on_gpu/ has the GPU form.
    - ``host_inputs``: the inputs after the first are numbers that decide the shape of the result. The GPU form reads them on the
      CPU too, because it needs them before its launch.
    - ``compiled``: kernels compiled by Numba do its work. Those of a plan are compiled when the pipeline is built, and large
      results are copied past the caches.
    - ``begins_in_numpy``: the kernels have a form in NumPy (``kernels/cpu/everyday.py``), or a library does the work until they
      are ready: ``build()`` does not wait for them.
    - ``order``: for operators that are called like ordinary functions, the names of their parameters by position. A name that
      is no argument is a list of data; the lengths of these lists go to an argument named ``sizes``.
    - ``nodes_only``: the operator works on the graph. It cannot be called on arrays, and it exists only in ``fn``.
    - ``unsized``: the shapes of the inputs never determine that of the output (decoders). Unless the plan knows the shape, the
      body gets an allocator at once, and nothing is inferred for each sample.
    - ``staged``: the body writes in several places at once, or piece by piece. If a batch is larger than the caches, samples are
      made in memory of the thread and copied from there.
    - ``paired``: optional inputs that have their own output. Without the input there is no such output.
    - ``role``: for the few operators that the compiler treats in a special way.
    - ``written_as``: for operators that the compiler puts in place of another one: the name of that one in messages.
    - ``dali_class``: the class in the names that DALI gives to unnamed calls, if it is not that of ``ops``.
    """

    def declare(body: Callable[..., Any]) -> OpFunction:
        take_declared(body)

        def signature() -> Signature:
            params, num_outputs = read_signature(body)
            own = {param.name for param in params if param.role is not Role.INPUT}
            return with_shared(params, takes or {}), num_outputs, frozenset(own) if takes or "args" in own else None

        op = OpFunction(
            name,
            body,
            signature,
            tuple(layouts.split()),
            sequences,
            whole,
            generic,
            elementwise,
            (*devices, *(["gpu"] if gpu and "mixed" not in devices else [])),
            types.dtypes_of(dtypes),
            no_effect or {},
            examples,
            hidden,
            nodes_only,
            takes_seed,
            unsized,
            staged,
            Traits(granularity=granularity, pure=pure),
            order=tuple(order.split()),
            former=former or {},
            gpu_module=body.__module__.rpartition(".")[2] if gpu else "",
            paired=tuple(paired.split()),
            role=role,
            compiled=compiled,
            begins_in_numpy=begins_in_numpy,
            frames_share=frames_share,
            once=tuple(once),
            by_frame=by_frame,
            marks_frames=marks_frames,
            host_inputs=host_inputs,
            written_as=written_as,
            dali_class=dali_class,
        )
        if infer:
            op.infer(_like(op, infer))
        return _register(op)

    return declare


def _like(op: OpDef, rule: str) -> Callable[[Sequence[Spec], Args], Spec]:
    """The ``infer`` function of a rule ``"like data"``: shape, layout and type of that input, or the given dtype."""
    word, _, name = rule.partition(" ")
    assert word == "like", f"{op.title}: infer={rule!r} is not of the form 'like <input>'"

    @cache
    def place() -> int:
        return [param.name for param in op.inputs].index(name)

    def infer(specs: Sequence[Spec], args: Args) -> Spec:
        like = specs[place()]
        return Spec(like.shape, getattr(args, "dtype", None) or like.dtype, like.layout)

    return infer


def source(
    name: str,
    *,
    outputs: int = 1,
    fetches: bool = False,
    takes: Mapping[str, Param] | None = None,
    build: Callable[..., Source] | None = None,
    examples: Sequence[str] = (),
    no_effect: Mapping[str, str] | None = None,
    former: Mapping[str, str] | None = None,
) -> Callable[[type], OpFunction]:
    """Declares a source operator from a class: the keywords of its constructor are the operator's static arguments.

    ``takes`` adds arguments, made by ``parameters``, for ``build(cls, **arguments)`` and not for the constructor.
    """

    def declare(cls: type) -> OpFunction:
        constructor = cls.__init__  # type: ignore[misc]
        take_declared(constructor)

        def signature() -> Signature:
            params, _ = read_signature(constructor, method=True)
            return (*params, *(takes or {}).values()), outputs, None

        factory = (lambda **arguments: build(cls, **arguments)) if build is not None else cls
        op = OpFunction(
            name,
            cls,
            signature,
            examples=examples,
            no_effect=no_effect or {},
            former=former or {},
            takes_seed=True,
            base_traits=Traits("batch", ordered=True, pure=True),
            factory=factory,
            fetches=fetches,
        )
        return _register(op)

    return declare


def alias(op: OpFunction, name: str) -> OpFunction:
    """The same operator under another name; both names have the same rights."""
    examples = [text.replace(f"fn.{op.name}(", f"fn.{name}(") for text in op.examples]
    return _register(dataclasses.replace(op, name=name, examples=examples))


def _register(op: OpFunction) -> OpFunction:
    registry[op.name] = op
    return op


interpreter: ContextVar[Callable[[Call], Any]] = ContextVar("pipeflow_interpreter", default=eager)
