"""DataNodes, and the Recorder that makes a Graph.

While a pipeline is defined, the Recorder is the interpreter of operator calls: each call becomes one GraphNode.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow import declare, types
from pipeflow.declare import Call, OpDef, OpFunction, Spec, registry
from pipeflow.errors import BadValue, InvalidState, NestedStructure, Origin, add_notes, user_origin
from pipeflow.operators import math as arithmetic
from pipeflow.operators import structure
from pipeflow.record import autograph, constants
from pipeflow.record.calls import class_name, lineage, outcome
from pipeflow.record.conditional.scopes import Scope, resolve
from pipeflow.record.conditional.session import Session, branch_of, truth_error
from pipeflow.record.graph import DetachedNode, Edge, Graph, GraphNode, Guard
from pipeflow.record.not_iterable import OneValue

Arithmetic = Callable[..., "DataNode"]


class DataNode(OneValue, declare.Node):
    """A batch that will exist when the pipeline runs: an output of an operator. It is used like an array."""

    __slots__ = ("_node", "_recorder", "index")

    __array_priority__ = 1000  # ndarray + DataNode calls the method of DataNode
    __array_ufunc__ = None

    _recorder: Any  # None outside a pipeline

    # The operators of Python; _install_operators adds them.
    __add__: Arithmetic
    __radd__: Arithmetic
    __sub__: Arithmetic
    __rsub__: Arithmetic
    __mul__: Arithmetic
    __rmul__: Arithmetic
    __truediv__: Arithmetic
    __rtruediv__: Arithmetic
    __floordiv__: Arithmetic
    __rfloordiv__: Arithmetic
    __mod__: Arithmetic
    __rmod__: Arithmetic
    __pow__: Arithmetic
    __rpow__: Arithmetic
    __and__: Arithmetic
    __rand__: Arithmetic
    __or__: Arithmetic
    __ror__: Arithmetic
    __xor__: Arithmetic
    __rxor__: Arithmetic
    __lshift__: Arithmetic
    __rlshift__: Arithmetic
    __rshift__: Arithmetic
    __rrshift__: Arithmetic
    __lt__: Arithmetic
    __le__: Arithmetic
    __gt__: Arithmetic
    __ge__: Arithmetic
    __eq__: Arithmetic  # type: ignore[assignment]
    __ne__: Arithmetic  # type: ignore[assignment]
    __neg__: Arithmetic
    __pos__: Arithmetic
    __invert__: Arithmetic
    __abs__: Arithmetic

    def __init__(self, recorder: "Recorder | None", node: GraphNode, index: int) -> None:
        self._recorder = recorder
        self._node = node
        self.index = index

    @property
    def edge(self) -> Edge:
        """The edge of the graph for this output."""
        return Edge(self._node.id, self.index)

    @property
    def spec(self) -> Spec:
        """The Spec of this batch, as far as it is known in the definition."""
        return self._node.specs[self.index]

    @property
    def name(self) -> str:
        """A name that is unique in the pipeline: from the user, or the one that DALI gives."""
        return self._node.known_as if self._node.count == 1 else f"{self._node.known_as}[{self.index}]"

    @property
    def device(self) -> str:
        """The device of the batch: "cpu" or "gpu"."""
        return "gpu" if self._node.device in ("gpu", "mixed") else "cpu"

    @property
    def source(self) -> GraphNode:
        """The recorded call that produces it."""
        return self._node

    @property
    def guard(self) -> Guard:
        """The conditions under which a sample has this value."""
        return self._node.guard

    @property
    def scope(self) -> Scope | None:
        """The samples that have this value. None outside a pipeline: then every scope can read it."""
        return None if self.detached else self._recorder.scopes[self._node.id]

    @property
    def detached(self) -> bool:
        """True if the node was made outside a pipeline."""
        return isinstance(self._node, DetachedNode)

    @property
    def origin(self) -> Origin | None:
        """The user's line that made the node."""
        return self._node.origin

    @property
    def dtype(self) -> types.DALIDataType | None:
        """The element type, or None if it is not known yet."""
        return None if self.spec.dtype is None else types.to_dali_type(self.spec.dtype)

    @property
    def ndim(self) -> int | None:
        """The number of axes, or None if it is not known yet."""
        return self.spec.ndim

    @property
    def layout(self) -> str | None:
        """The layout, "" if there is none, or None if it is not known yet."""
        return self.spec.layout

    def gpu(self) -> "DataNode":
        """The same batch on the GPU."""
        return self if self.device == "gpu" else structure.transfer(self, device="gpu")

    def cpu(self) -> "DataNode":
        """The same batch on the CPU."""
        return self if self.device == "cpu" else structure.transfer(self, device="cpu")

    def shape(self, *, dtype: Any = types.INT64, device: str = "cpu") -> "DataNode":
        """The extents of each sample."""
        return structure.shapes(self, dtype=dtype, device=device)

    def property(self, key: str, *, device: str = "cpu") -> "DataNode":
        """The property "layout" or "source_info" of each sample as bytes."""
        return structure.get_property(self, key=key, device=device)

    def source_info(self) -> "DataNode":
        """The source of each sample, as the bytes of its text."""
        return structure.get_property(self, key="source_info")

    def __getitem__(self, index: Any) -> "DataNode":
        entries, nodes = _subscript_plan(index if isinstance(index, tuple) else (index,), self.spec.ndim)
        named = next((entry[1] for entry in entries if entry[0] == "new" and entry[1]), None)
        if named and self.spec.layout == "" and self.spec.ndim != 0:
            raise ValueError(f"newaxis({named!r}) names an axis, and the input has no layout")
        return structure.subscript(self, *nodes, plan=entries)

    def __bool__(self) -> bool:
        raise truth_error()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            "a DataNode is not an array: its values are known only when the pipeline runs. Use an operator of pipeflow.fn or "
            "pipeflow.math, or fn.python_function to call NumPy code"
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"DataNode(name={self.name!r}, device={self.device!r}, {self.spec})"


def _install_operators() -> None:
    def binary(op: OpFunction, sign: str, reflected: bool) -> Callable[[DataNode, Any], DataNode]:
        def method(self: DataNode, other: Any) -> DataNode:
            value = constants.operand(other, sign)
            return op(value, self) if reflected else op(self, value)

        return method

    def unary(op: OpFunction) -> Callable[[DataNode], DataNode]:
        return lambda self: op(self)

    for one in arithmetic.BINARY + arithmetic.COMPARISONS:
        setattr(DataNode, f"__{one.method}__", binary(registry[one.operator], one.sign, False))
    for one in arithmetic.BINARY:
        setattr(DataNode, f"__r{one.method}__", binary(registry[one.operator], one.sign, True))
    for one in arithmetic.UNARY:
        setattr(DataNode, f"__{one.method}__", unary(registry[one.operator]))


_install_operators()


class NewAxis:
    """``pipeflow.newaxis`` in an index adds an axis; ``newaxis("F")`` also names it in the layout."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def __call__(self, name: str | None = None) -> "NewAxis":
        if name is not None and (not isinstance(name, str) or len(name) != 1):
            raise ValueError(f"the name of an axis is one letter, got {name!r}")
        return NewAxis(name)

    def __repr__(self) -> str:
        return "newaxis" if self.name is None else f"newaxis({self.name!r})"


newaxis = NewAxis()


def _subscript_plan(index: tuple[Any, ...], ndim: int | None) -> tuple[tuple[Any, ...], list[DataNode]]:
    """The text between the brackets as plain data, and its DataNodes."""
    nodes: list[DataNode] = []

    def bound(value: Any) -> Any:
        if value is None:
            return value
        if isinstance(value, (int, np.integer, np.bool_)):
            return int(value)  # as in DALI, True is 1: there are no masks
        if isinstance(value, DataNode):
            nodes.append(value)
            return ("node", len(nodes) - 1)
        if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "bui":
            return int(value)
        if isinstance(value, types.ScalarConstant) and isinstance(value.value, int):
            return int(value.value)
        raise TypeError(
            f"an index must be an integer, a slice, newaxis, Ellipsis or a DataNode, got {type(value).__name__} {value!r}"
        )

    if sum(item is Ellipsis for item in index) > 1:
        raise IndexError("an index can have only one Ellipsis")
    entries: list[tuple[Any, ...]] = []
    for position, item in enumerate(index):
        if item is Ellipsis:
            following = sum(not (other is None or isinstance(other, NewAxis)) for other in index[position + 1 :])
            if following or any(other is None or isinstance(other, NewAxis) for other in index[position + 1 :]):
                if ndim is None:
                    raise NotImplementedError(
                        "Ellipsis before other indices needs to know the number of axes; give the source an ndim or layout"
                    )
                done = sum(entry[0] != "new" for entry in entries)
                entries += [("all",)] * (ndim - done - following)
        elif item is None or isinstance(item, NewAxis):
            entries.append(("new", getattr(item, "name", None)))
        elif isinstance(item, slice):
            if item.start is None and item.stop is None and item.step is None:
                entries.append(("all",))
            else:
                if not isinstance(item.step, DataNode) and item.step == 0:
                    raise BadValue("the step of a slice must not be 0")
                entries.append(("range", bound(item.start), bound(item.stop), bound(item.step)))
        else:
            entries.append(("at", bound(item)))
    return tuple(entries), nodes


def members(call: Call) -> list[tuple[Call, tuple[Any, ...]]]:
    """The calls that a call with input sets (lists of nodes) consists of, each with its inputs. Without sets: []."""
    sets = [len(value) for value in call.inputs if _is_input_set(value)]
    if not sets:
        return []
    if len(set(sets)) != 1:
        raise ValueError(f"{call.op.title}: the input sets have different lengths: {sets}")
    found = []
    for position in range(sets[0]):
        inputs = tuple(value[position] if _is_input_set(value) else value for value in call.inputs)
        own = {name: values[position] for name, values in call.members.items()}
        found.append((replace(call, constants={**call.constants, **own}) if own else call, inputs))
    return found


class Recorder:
    """Makes a Graph from operator calls; it is the interpreter while a pipeline is defined."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.closed = False  # the pipeline is built: no node can be added
        self._names: dict[str, GraphNode] = {}
        self._made: dict[str, int] = {}
        self._called = 0
        self._groups: dict[int, tuple[Any, int]] = {}
        self._taken: dict[int, tuple[DetachedNode, GraphNode]] = {}
        self.root = self.scope = Scope()
        self.scopes: list[Scope] = []  # the scope of each node
        self.guard: Guard = ()  # the guard of the next node, while a saved graph is recorded again
        self.session = Session(self, enabled=False)

    def __call__(self, call: Call) -> Any:
        sets = members(call)
        if not sets:
            return self._record(call, call.inputs)
        group = object()
        made = [self._record(one, inputs, number, group=group) for number, (one, inputs) in enumerate(sets)]
        return made if len(made) > 1 else made[0]

    def _record(
        self, call: Call, inputs: Sequence[Any], member: int = 0, scope: Scope | None = None, group: Any = None
    ) -> Any:
        """Records a call. With ``scope`` the node belongs to it, and the scopes of its inputs are not checked."""
        op = call.op
        if self.closed:
            raise InvalidState(f"{op.title}: the pipeline is built already, and its graph cannot be changed")
        try:
            found = [self.as_node(value, f"input `{index}`") for index, value in enumerate(inputs)]
            named = {name: self.as_node(value, f"argument {name!r}") for name, value in call.arguments.items()}
            if scope is None:
                for node in (*found, *named.values()):
                    resolve(node, self.scope)
                # A call without inputs runs for the whole batch, so that its random numbers or data do not depend on branches.
                whole = not found and not named and not op.traits_of(call.constants).by_batch_size
                scope = self.root if whole else self.scope
            made = outcome(call, found, named)
            ordinal = self._ordinal(op, group)
            name = call.name if call.name is not None else self._free_name(op, ordinal)
            if call.name is not None and member:
                name = f"{call.name}_{member}"
            if name in self._names:
                other = self._names[name].origin
                raise RuntimeError(
                    f"the name {name!r} is used for two operators"
                    + (f"; the other one was {other.describe()}" if other else "")
                )
            recorded = GraphNode(
                id=len(self.graph.nodes),
                op=op,
                inputs=tuple(node.edge for node in found),
                constants=dict(call.constants),
                arguments={name: node.edge for name, node in named.items()},
                count=made.outputs,
                name=name,
                known_as=name if call.name is not None else f"__{class_name(op)}_{self._called}",
                random_name=call.name or f"{op.name}#{ordinal}",
                device=made.device,
                seed=call.seed,
                preserve=call.preserve,
                hint=made.hint,
                guard=self._guard_of(scope),
                specs=made.specs,
                origin=call.origin,
                on_error=call.on_error,
            )
        except Exception as error:
            add_notes(error, [f"in {op.title}", *([call.origin.describe()] if call.origin else [])])
            raise
        self._called += op is not structure.constant
        self.graph.nodes.append(recorded)
        self.scopes.append(scope)
        self._names[name] = recorded
        return op.pack([self.data_node(recorded, index) for index in range(made.outputs)], call.constants)

    def data_node(self, recorded: GraphNode, index: int) -> DataNode:
        """The DataNode of an output."""
        return DataNode(self, recorded, index)

    def _ordinal(self, op: OpDef, group: Any) -> int:
        """The number of earlier calls of this operator; the members of an input set count as one."""
        if group is not None and id(group) in self._groups:
            return self._groups[id(group)][1]
        ordinal = self._made[op.name] = self._made.get(op.name, -1) + 1
        if group is not None:
            self._groups[id(group)] = group, ordinal
        return ordinal

    def own(self, node: DataNode, what: str = "the node") -> DataNode:
        """The node as one of this recording; a node from outside a pipeline is recorded now."""
        if node._recorder is self:
            return node
        taken = node.source
        if not isinstance(taken, DetachedNode):
            raise InvalidState(
                f"{what} ({node.name}) belongs to another pipeline; a DataNode can be used only where it was made"
            )
        for detached in lineage(taken):  # nodes come before those that read them
            if id(detached) not in self._taken:
                self._record(detached.call, detached.given, detached.member, self.root, detached.group)
                self._taken[id(detached)] = detached, self.graph.nodes[-1]
                self.graph.nodes[-1].known_as = detached.known_as
        return self.data_node(self._taken[id(taken)][1], node.index)

    def _guard_of(self, scope: Scope) -> Guard:
        return self.guard or tuple((predicate.edge, polarity) for predicate, polarity in scope.guard())

    # The methods that record/conditional calls.

    def merge(
        self,
        first: DataNode,
        second: DataNode,
        predicate: DataNode,
        scope: Scope,
        *,
        weak: tuple[bool, bool],
        name: str,
    ) -> DataNode:
        """The node that reads one of two others. If one is a Python number and the type of the other is unknown, the type of the
        batch decides.
        """
        late = any(weak) and (first.spec.dtype is None or second.spec.dtype is None)
        sides = (branch_of(first, "if"), branch_of(second, "else"))
        constants = {"variable": name, "sides": sides, **({"weak": weak} if late else {})}
        op = structure.merge_late if late else structure.merge
        return self._record(Call(op, (), constants, {}, origin=user_origin()), (first, second, predicate), scope=scope)

    def logical_not(self, node: DataNode, where: str) -> DataNode:
        """The opposite of a scalar."""
        if node.ndim != 0:
            node = self.check_predicate(node, f"the operand of `not` at {where}")
        return structure.logical_not(node)

    def check_predicate(self, node: DataNode, what: str) -> DataNode:
        """A scalar as bool, checked for each sample unless it is known to be one."""
        return (
            structure.truth(node)
            if node.spec.ndim == 0
            else structure.predicate(node, what=what, whole=_is_given(node))
        )

    def check_bool(self, node: DataNode, operator: str, side: str, where: str) -> DataNode:
        """A scalar bool, checked for each sample."""
        return structure.operand(node, operator=operator, side=side, where=where, whole=_is_given(node))

    def abandon(self, error: BaseException) -> None:
        """Ends a failed recording, and adds a note to the error if the user's lines do not show the reason."""
        if self.scope is not self.root:
            why = "both branches of a condition on a DataNode are recorded while the graph is built, whatever the data will be"
            add_notes(error, [f"raised while {self.scope} was recorded: {why}"])
        self.scope = self.root

    def _free_name(self, op: OpDef, ordinal: int) -> str:
        name = f"{op.name}_{ordinal}"
        while name in self._names:
            name += "_"
        return name

    def as_node(self, value: Any, what: str = "value") -> DataNode:
        """The value as a DataNode of this recording; constants become constant nodes."""
        if isinstance(value, DataNode):
            return self.own(value, what)
        if constants.contains_node(value):
            raise NestedStructure(
                f"{what} is a {type(value).__name__} that contains a DataNode; "
                "missing list/tuple expansion (*) is the likely cause"
            )
        if not constants.is_constant(value):
            raise TypeError(
                f"{what} must be a DataNode or convertible to a constant (a number or an array), "
                f"got {type(value).__name__} {value!r:.60}"
            )
        return self.constant(value)

    def constant(self, value: Any) -> DataNode:
        """A node with the same value for every sample: a constant, or a Python number in arithmetic."""
        array, layout = constants.array_of(value)
        array.flags.writeable = False
        call = Call(structure.constant, (), {"value": array, "layout": layout}, {}, origin=user_origin())
        call.name = value.name if isinstance(value, types.ArrayConstant) else None
        node = self._record(call, ())
        node.source.weak = type(value) in (bool, int, float)
        return node.gpu() if getattr(value, "device", "cpu") == "gpu" else node


def _is_given(node: DataNode) -> bool:
    """True for the data of a source, which is there before other data is computed."""
    return node._node.op.factory is not None and not node._node.op.fetches


def _is_input_set(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, declare.Node) for item in value)


# The current recording of this thread, if any.
current: ContextVar[Recorder | None] = ContextVar("pipeflow_recorder", default=None)


class recording:
    """Makes ``recorder`` the interpreter of operator calls inside a ``with`` block.

    It is a class and not a generator, because a generator causes a warning if the block is entered and never left.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> Recorder:
        recorder = self._recorder
        hooks: tuple[tuple[ContextVar[Any], Any], ...] = (
            (current, recorder),
            (declare.interpreter, recorder),
            (autograph.hooks, recorder.session),
            (types.constant_node, recorder.constant),
        )
        self._tokens = [(variable, variable.set(value)) for variable, value in hooks]
        return recorder

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is not None:
            self._recorder.abandon(error)
        for variable, token in reversed(self._tokens):
            variable.reset(token)


def collect_outputs(recorder: Recorder, returned: Any) -> list[Edge]:
    """The edges of what a pipeline definition returned."""
    if returned is None or (isinstance(returned, (tuple, list)) and not len(returned)):
        raise NotImplementedError("the pipeline definition returned nothing: return the DataNodes that are its outputs")
    flat = declare.nodes_of(returned if isinstance(returned, (tuple, list)) else (returned,))
    edges = []
    for index, value in enumerate(flat):
        if constants.contains_node(value):
            raise NestedStructure(
                f"Illegal pipeline output type. The output {index} contains a nested `DataNode`. "
                "Missing list/tuple expansion (*) is the likely cause."
            )
        if not isinstance(value, declare.Node) and not constants.is_constant(value):
            raise TypeError(
                f"Illegal output type. The output {index} is a {type(value).__name__}. Allowed types are `DataNode` and types "
                "convertible to `types.Constant` (numbers, lists of numbers and arrays)."
            )
        edges.append(resolve(recorder.as_node(value, f"output {index}"), recorder.root).edge)
    return edges
