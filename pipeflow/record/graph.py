"""The recorded graph as plain data: nodes, the edges between them, and the outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pipeflow.declare import OpDef, Spec, Traits
from pipeflow.errors import Origin
from pipeflow.operators import math as _math  # noqa: F401  (DataNode's operators record calls of it)


@dataclass(frozen=True)
class Edge:
    """Output ``index`` of the node with number ``node``."""

    node: int
    index: int


Guard = tuple[tuple[Edge, bool], ...]


@dataclass
class GraphNode:
    """One recorded call. It runs for the samples for which every predicate of ``guard`` has the given polarity."""

    id: int
    op: OpDef
    inputs: tuple[Edge, ...]
    constants: dict[str, Any]
    arguments: dict[str, Edge]  # the named arguments that vary from sample to sample
    count: int
    name: str
    known_as: str  # the name from the user, or the one that DALI gives
    random_name: str
    device: str
    seed: int | None
    preserve: bool
    hint: tuple[int, ...]
    guard: Guard
    specs: tuple[Spec, ...]
    origin: Origin | None
    weak: bool = False
    on_error: Any = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def traits(self) -> Traits:
        """How the call is run."""
        return self.op.traits_of(self.constants)

    @classmethod
    def added(
        cls,
        number: int,
        op: OpDef,
        inputs: Sequence[Edge],
        name: str,
        guard: Guard,
        specs: tuple[Spec, ...],
        origin: Origin | None,
        constants: Mapping[str, Any] | None = None,
        on_error: Any = None,
    ) -> "GraphNode":
        """A call on the CPU that a pass of the compiler adds; ``origin`` is the user's call that needs it."""
        return cls(
            id=number,
            op=op,
            inputs=tuple(inputs),
            constants=dict(constants or {}),
            arguments={},
            count=len(specs),
            name=name,
            known_as=name,
            random_name=name,
            device="cpu",
            seed=None,
            preserve=False,
            hint=(),
            guard=guard,
            specs=specs,
            origin=origin,
            on_error=on_error,
        )

    def moved(self, number: int, edges: Mapping[Edge, Edge]) -> "GraphNode":
        """The node in another graph: it has another number, and edges of that graph in place of its own."""
        return replace(
            self,
            id=number,
            inputs=tuple(edges[edge] for edge in self.inputs),
            arguments={name: edges[edge] for name, edge in self.arguments.items()},
            guard=tuple((edges[edge], on) for edge, on in self.guard),
        )


@dataclass
class DetachedNode(GraphNode):
    """A call outside a pipeline. It is in no graph until a pipeline uses it. The pipeline then takes it with all nodes that it
    depends on.

    It has no number and no edges. Every pipeline that takes it records ``call`` with the same ``given`` inputs: nodes and
    constants.
    """

    call: Any = None
    given: tuple[Any, ...] = ()
    group: Any = None  # the same object for all members of an input set: they draw the same random numbers
    member: int = 0


@dataclass
class Graph:
    """All recorded nodes in recording order and the outputs of the pipeline."""

    nodes: list[GraphNode] = field(default_factory=list)
    outputs: list[Edge] = field(default_factory=list)

    @property
    def needs_no_gpu(self) -> bool:
        """True if all calls run on the CPU."""
        return all(node.device == "cpu" for node in self.nodes)

    def find(self, name: str) -> GraphNode | None:
        """The node with a name: its unique name, the name from the user, or the one that DALI gives."""
        return next((node for node in self.nodes if name in (node.name, node.known_as)), None)

    def spec(self, edge: Edge) -> Spec:
        """The Spec of an edge."""
        return self.nodes[edge.node].specs[edge.index]
