"""The compiler pass for fn.gradients: it adds the nodes that compute derivatives.

It makes a new Graph from a Graph. A node ``gradients`` becomes a series of nodes from the ys back to the xs. For each
node between an x and a y there is one new node: it gets the derivatives with respect to the outputs and computes those
with respect to the inputs. Python functions become ``_taped_function``, which has a tape as one more output. Operators
have a declared derivative. New nodes have the guard of the node that they differentiate, so each sample goes back
through the branch that it took.

It is loaded by the first pipeline that has fn.gradients.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.compile.history import called, with_origins
from pipeflow.declare import OpDef, Spec
from pipeflow.operators import derivatives, structure
from pipeflow.operators import gradients as tapes
from pipeflow.record.graph import Edge, Graph, GraphNode, Guard


def expand(graph: Graph) -> Graph:
    """The graph with derivatives in place of ``gradients``; the same graph if there is none."""
    wanted = [node for node in graph.nodes if node.op.role == "gradients"]
    if not wanted:
        return graph
    ways = {node.id: _way(graph, node) for node in wanted}
    needs: dict[int, set[int]] = {}  # for each node between an x and a y, the inputs that a derivative passes through
    for gradient in wanted:
        reached = set(_xs(gradient))
        for number in ways[gradient.id]:
            node = graph.nodes[number]
            needs.setdefault(number, set()).update(i for i in _flows(node) if node.inputs[i] in reached)
            reached.update(Edge(number, output) for output in range(node.count))
    return _Expansion(graph, ways, needs).graph()


class _Expansion:
    """Makes the new graph node by node. Nodes get new numbers, because derivatives are added between them."""

    def __init__(self, graph: Graph, ways: dict[int, list[int]], needs: dict[int, set[int]]) -> None:
        self.old, self.ways, self.needs = graph, ways, needs
        self.nodes: list[GraphNode] = []
        self.moved: dict[Edge, Edge] = {}  # edges of the old graph -> those of the new one

    def graph(self) -> Graph:
        """The new graph."""
        for node in self.old.nodes:
            if node.op.role == "gradients":
                for output, edge in enumerate(self._derivatives(node)):
                    self.moved[Edge(node.id, output)] = edge
                continue
            copy = replace(
                node,
                id=len(self.nodes),
                inputs=tuple([self.moved[edge] for edge in node.inputs]),
                arguments={name: self.moved[edge] for name, edge in node.arguments.items()},
                guard=tuple([(self.moved[edge], polarity) for edge, polarity in node.guard]),
            )
            if node.id in self.needs and node.op.role == "differentiable":
                copy = _taped(copy, tuple(sorted(self.needs[node.id])))
            self.nodes.append(copy)
            for output in range(copy.count):
                self.moved[Edge(node.id, output)] = Edge(copy.id, output)
        return Graph(self.nodes, [self.moved[edge] for edge in self.old.outputs])

    def _derivatives(self, gradient: GraphNode) -> list[Edge]:
        """Adds the nodes from the ys back to the xs; returns the edges of the derivatives with respect to the xs."""
        back = _Back(self, gradient)
        for edge in _ys(gradient):
            y = self.moved[edge]
            back.add(y, back.node(derivatives.start, [y], self.nodes[y.node].guard, [y]))
        for number in reversed(self.ways[gradient.id]):
            positions = sorted(self.needs[number])
            back.through(self.nodes[self.moved[Edge(number, 0)].node], positions)
        return [back.found[self.moved[edge]] for edge in _xs(gradient)]


class _Back:
    """The new nodes for one call of fn.gradients, and for each edge of the graph the edge of its derivative."""

    def __init__(self, expansion: _Expansion, gradient: GraphNode) -> None:
        self.nodes, self.gradient = expansion.nodes, gradient
        self.found: dict[Edge, Edge] = {}

    def node(self, op: OpDef, inputs: Sequence[Edge], guard: Guard, like: Sequence[Edge], **constants: Any) -> Edge:
        """Adds a node whose outputs have the shapes and types of these edges; returns its first edge."""
        specs = tuple([self.nodes[edge.node].specs[edge.index] for edge in like])
        number = len(self.nodes)
        called = f"{self.gradient.name}_{number}"
        origin, on_error = self.gradient.origin, self.gradient.on_error
        self.nodes.append(GraphNode.added(number, op, inputs, called, guard, specs, origin, constants, on_error))
        return Edge(number, 0)

    def add(self, edge: Edge, derivative: Edge) -> None:
        """Adds to the derivative with respect to an edge. If it is known in one branch only, it is 0 for other samples."""
        outer = self.nodes[edge.node].guard
        guard = self.nodes[derivative.node].guard
        while len(guard) > len(outer):
            (predicate, polarity), guard = guard[-1], guard[:-1]
            derivative = self.chosen(derivative, edge, predicate, polarity, guard)
        if edge in self.found:
            derivative = self.node(derivatives.added, [self.found[edge], derivative], outer, [edge])
        self.found[edge] = derivative

    def chosen(self, derivative: Edge, like: Edge, predicate: Edge, polarity: bool, guard: Guard) -> Edge:
        """A derivative for the samples of a branch, and 0 for the others."""
        inside = self.node(structure.copy, [derivative], (*guard, (predicate, polarity)), [like])
        other = self.node(derivatives.none, [like], (*guard, (predicate, not polarity)), [like])
        sides = [inside, other] if polarity else [other, inside]
        return self.node(structure.merge, [*sides, predicate], guard, [like], variable="derivative", sides=("", ""))

    def through(self, node: GraphNode, positions: Sequence[int]) -> None:
        """Computes the derivatives with respect to a node's inputs from those with respect to its outputs."""
        weights = {output: self.found.get(Edge(node.id, output)) for output in range(node.count)}
        given = {output: edge for output, edge in weights.items() if edge is not None}
        if not given or not positions:
            return
        inputs = [node.inputs[position] for position in positions]
        if node.op.role in ("merge", "late merge"):
            for position, edge in zip(positions, inputs):
                inner = self.nodes[edge.node].guard
                if len(inner) > len(node.guard):  # computed in the branch, so only for the samples of the branch
                    self.add(edge, given[0])
                else:
                    self.add(edge, self.chosen(given[0], edge, node.inputs[2], position == 0, node.guard))
            return
        if node.op is tapes.taped_function:
            first = self.node(
                derivatives.tape_back,
                [Edge(node.id, node.count - 1), *given.values()],
                node.guard,
                inputs,
                outputs=tuple(given),
                count=len(inputs),
                number=node.count - 1,
            )
        else:
            own = Edge(node.id, 0)
            first = self.node(
                derivatives.passed_on,
                [given[0], own, *node.inputs],
                node.guard,
                inputs,
                of=node.op.name,
                given=dict(node.constants),
                wanted=tuple(positions),
            )
        for index, edge in enumerate(inputs):
            self.add(edge, Edge(first.node, index))


def _taped(function: GraphNode, positions: tuple[int, ...]) -> GraphNode:
    """The function with its tape as one more output."""
    constants = {**function.constants, "wanted": positions}
    constants.setdefault("framework", "torch")
    for name in ("parallel", "differentiable"):
        constants.pop(name, None)
    return replace(
        function,
        op=tapes.taped_function,
        constants=constants,
        count=function.count + 1,
        specs=(*function.specs, Spec((), np.dtype(object), "")),
    )


def _flows(node: GraphNode) -> Sequence[int]:
    """The inputs that derivatives pass to. All inputs if the operator has no derivative: then an error names it."""
    every = range(len(node.inputs))
    return every if node.op.flows is None else [position for position in node.op.flows if position in every]


def _ys(gradient: GraphNode) -> Sequence[Edge]:
    return gradient.inputs[: gradient.constants["sizes"][0]]


def _xs(gradient: GraphNode) -> Sequence[Edge]:
    return gradient.inputs[gradient.constants["sizes"][0] :]


def _way(graph: Graph, gradient: GraphNode) -> list[int]:
    """The functions between an x and a y, in recording order; an error if there is another operator between them."""
    xs, ys = set(_xs(gradient)), set(_ys(gradient))
    depends: set[Edge] = set(xs)
    after: list[int] = []  # nodes that depend on an x
    for node in graph.nodes[: gradient.id]:
        read = [node.inputs[position] for position in _flows(node)]
        if any(edge in depends for edge in (*read, *node.arguments.values())):
            after.append(node.id)
            depends.update(Edge(node.id, index) for index in range(node.count))
    leads: set[Edge] = set(ys)
    way: list[int] = []
    for number in reversed(after):
        node = graph.nodes[number]
        if any(Edge(number, index) in leads for index in range(node.count)):
            way.append(number)
            leads.update(node.inputs[position] for position in _flows(node))
    way.reverse()
    _check(graph, gradient, way)
    return way


def _check(graph: Graph, gradient: GraphNode, way: list[int]) -> None:
    ways = [graph.nodes[number] for number in way]
    read = {node.inputs[position] for node in ways for position in _flows(node)}
    for position, edge in enumerate(_xs(gradient)):
        if edge not in read:
            raise _error(gradient, f"no y depends on x {position} ({graph.nodes[edge.node].name})")
    made = {Edge(number, index) for number in way for index in range(graph.nodes[number].count)}
    for position, edge in enumerate(_ys(gradient)):
        if edge not in made:
            raise _error(gradient, f"y {position} ({graph.nodes[edge.node].name}) does not depend on any x")
    kinds: dict[str, GraphNode] = {}
    for number in way:
        node = graph.nodes[number]
        if node.op.role == "gradients":
            raise _error(gradient, "second derivatives are not supported", node)
        if node.device != "cpu":
            raise _error(
                gradient, f"{node.op.title} ({node.name}) runs on the GPU, and derivatives only on the CPU", node
            )
        if node.op.flows is not None:
            continue
        if node.op.role != "differentiable":
            text = f"{node.op.title} ({node.name}) has no derivative; fn.py_function, arithmetic, casts and indexing have one"
            raise _error(gradient, text, node)
        if node.constants.get("parallel") == "processes":
            raise _error(gradient, f"{node.name} runs in worker processes, and derivatives cannot leave them", node)
        kind = node.constants.get("framework", "torch")
        kinds.setdefault(kind, node)
        if kind == "numpy":
            text = f"{called(node)} works on NumPy arrays, which keep no derivatives: use torch or JAX"
            raise _error(gradient, text, node)
    if len(kinds) > 1:
        named = ", ".join(f"{kind} in {called(node)}" for kind, node in sorted(kinds.items()))
        raise _error(gradient, f"a chain mixes frameworks ({named}): write its functions for one of them")


def _error(gradient: GraphNode, text: str, node: GraphNode | None = None) -> ValueError:
    return with_origins(ValueError(f"fn.gradients: {text}"), *([] if node is None else [node]), gradient)
