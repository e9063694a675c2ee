"""The nodes of a graph that are computed: those that are needed, equal ones once, and a slot for each output."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import Spec
from pipeflow.plan import External, Step
from pipeflow.record.graph import Edge, Graph, GraphNode
from pipeflow.saving.values import plain


class ComputedNodes:
    """The nodes that are computed, in recording order, with their slots and the slots that they read."""

    def __init__(self, graph: Graph) -> None:
        alive = alive_nodes(graph)
        self.same = equal_nodes(graph, alive)
        self.nodes = [node for node in graph.nodes if node.id in alive and self.same[node.id] == node.id]
        self.by_id = {node.id: node for node in self.nodes}
        self.specs: list[Spec] = []
        self.on_device: list[bool] = []  # for every slot
        self.indices: dict[int, int] = {}  # node of a reader -> the slot of the indices of its samples
        self._slots: dict[Edge, int] = {}
        for node in self.nodes:
            for index in range(node.count):
                self._slots[Edge(node.id, index)] = self._new_slot(node.specs[index], node.device in ("gpu", "mixed"))
            if node.op.fetches:
                self.indices[node.id] = self._new_slot(Spec((), np.dtype(np.int64), ""), False)
        self.outputs = tuple(self.slot(edge) for edge in graph.outputs)

    def _new_slot(self, spec: Spec, on_device: bool) -> int:
        self.specs.append(spec)
        self.on_device.append(on_device)
        return len(self.specs) - 1

    def slot(self, edge: Edge) -> int:
        """The slot of an edge; equal nodes share theirs."""
        return self._slots[Edge(self.same[edge.node], edge.index)]

    def needs(self, node: GraphNode) -> list[int]:
        """The nodes that a node reads."""
        return [self.same[edge.node] for edge in edges_of(node)]

    def steps(self, seed: int, externals: dict[str, Any]) -> dict[int, Step]:
        """The step of every node; user objects go to ``externals``."""
        return {node.id: self._step(node, seed, externals) for node in self.nodes}

    def _step(self, node: GraphNode, seed: int, externals: dict[str, Any]) -> Step:
        def kept(name: str, value: Any) -> Any:
            if plain(value):
                return value
            externals[f"{node.name}.{name}"] = value
            return External(f"{node.name}.{name}")

        constants = [(name, kept(name, value)) for name, value in node.constants.items()]
        key = None
        if node.op.random:  # sources too: they shuffle with it
            key = seeds.key_of(node.seed, seed, node.random_name)
        calls_user = node.traits.user_code or (node.device == "gpu" and node.op.role == "function")
        return step_of(node, self.slot, constants, key, kept("on_error", node.on_error), calls_user)


def step_of(
    node: GraphNode,
    slot: Callable[[Edge], int],
    constants: Iterable[tuple[str, Any]],
    key: int | None,
    on_error: Any,
    user_code: bool,
) -> Step:
    """A node as a step; ``slot`` gives the slot of an edge."""
    if node.op.fetches and node.seed is not None:
        # All shards of a reader have one order, so it depends on the reader's seed and not on the pipeline's.
        constants = (*constants, ("seed", node.seed))
    return Step(
        op=node.op.name,
        name=node.name,
        inputs=tuple(slot(edge) for edge in node.inputs),
        constants=tuple(constants),
        arguments=tuple((name, slot(edge)) for name, edge in node.arguments.items()),
        outputs=tuple(slot(Edge(node.id, index)) for index in range(node.count)),
        device=node.device,
        guard=tuple((slot(edge), on) for edge, on in node.guard),
        key=key,
        specs=node.specs,
        hint=node.hint,
        origin=node.origin,
        user_code=user_code,
        on_error=on_error,
        role=node.op.role,
    )


def edges_of(node: GraphNode) -> list[Edge]:
    """All edges that a node reads: inputs, arguments and predicates."""
    return [*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)]


def alive_nodes(graph: Graph) -> set[int]:
    """The nodes that outputs, preserved nodes and impure operators need."""
    todo = [edge.node for edge in graph.outputs]
    todo += [node.id for node in graph.nodes if node.preserve or not node.traits.pure]
    alive: set[int] = set()
    while todo:
        number = todo.pop()
        if number not in alive:
            alive.add(number)
            todo += [edge.node for edge in edges_of(graph.nodes[number])]
    return alive


def equal_nodes(graph: Graph, alive: set[int]) -> dict[int, int]:
    """For every node the first node that computes the same result."""
    same: dict[int, int] = {}
    seen: dict[Any, int] = {}
    for node in graph.nodes:
        same[node.id] = node.id
        if node.id not in alive or node.preserve or not _mergeable(node):
            continue
        content = tuple(_hashable(name, value) for name, value in sorted(node.constants.items()))
        key = (
            node.op.name,
            tuple(Edge(same[e.node], e.index) for e in node.inputs),
            content,
            node.device,
            node.seed,
            node.hint,
            tuple((name, Edge(same[e.node], e.index)) for name, e in sorted(node.arguments.items())),
            tuple((Edge(same[e.node], e.index), on) for e, on in node.guard),
            node.weak,
            _hashable("on_error", node.on_error),
        )
        same[node.id] = seen.setdefault(key, node.id)
    return same


def _mergeable(node: GraphNode) -> bool:
    if node.op.factory is not None or not node.traits.pure:
        return False
    return not node.op.random or node.seed is not None


def _hashable(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return name, value.dtype.str, value.shape, value.tobytes()
    return (name, value) if plain(value) else (name, id(value))
