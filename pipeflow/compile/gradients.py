"""The pass behind fn.gradients: finds the functions between x and y and lets them keep tapes.

Graph in, Graph out. A node ``gradients`` becomes ``_back_propagation``, which reads the tapes of all functions on a way from
an x to a y; these become ``_taped_function``, with the tape as one more output. Nothing else changes.

``check_history`` is about the other way, ``differentiable=True``: results keep their history up to the training loop, so
whatever reads them in the pipeline must keep it too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.declare import Spec
from pipeflow.errors import add_notes, function_name
from pipeflow.operators import gradients as tapes
from pipeflow.record.graph import Edge, Graph, GraphNode


def check_history(graph: Graph, on_error: Any = "raise") -> None:
    """Refuses whatever would lose the gradients of a differentiable function."""
    for node in graph.nodes:
        for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)):
            function = graph.nodes[edge.node]
            if function.constants.get("differentiable") and not node.constants.get("differentiable"):
                raise _lost(node, function)
        rule = on_error if node.on_error is None else node.on_error
        if node.constants.get("differentiable"):
            if not (isinstance(rule, str) and rule == "raise"):
                text = f'{_called(node)} is differentiable=True, which goes with on_error="raise" only, not {rule!r}'
                raise _with_origins(ValueError(text), node)
            if node.device != "cpu":
                raise _with_origins(
                    ValueError(f'{_called(node)} is differentiable=True, which is for device="cpu"'), node
                )


def _lost(reader: GraphNode, function: GraphNode) -> ValueError:
    what = {"merge": "the end of a branch", "late merge": "the end of a branch", "transfer": "the copy to the GPU"}
    if reader.op.role == "gradients":
        text = (
            f"fn.gradients ({reader.name}) takes derivatives within the pipeline, and differentiable=True of "
            f"{_called(function)} hands them to the training loop: use one of both"
        )
    else:
        name = what.get(reader.op.role, f"{reader.op.title} ({reader.name})")
        text = (
            f"{name} would lose the gradients of {_called(function)}: what "
            "a function with differentiable=True returns goes to another one or is an output of the pipeline. Do the rest before "
            "it, inside of it, or in the training loop"
        )
    return _with_origins(ValueError(text), reader, function)


def _called(node: GraphNode) -> str:
    function = node.constants.get("func", node.constants.get("function"))
    return f"{node.op.title} ({node.name}) of {function_name(function)}"


def _with_origins(error: ValueError, *nodes: GraphNode) -> ValueError:
    add_notes(error, [node.origin.describe() for node in nodes if node.origin is not None])
    return error


def expand(graph: Graph) -> Graph:
    """The graph with tapes in place of ``gradients``; the same graph where there is none."""
    wanted = [node for node in graph.nodes if node.op.role == "gradients"]
    if not wanted:
        return graph
    nodes = list(graph.nodes)
    ways = {node.id: _way(graph, node) for node in wanted}
    needs: dict[int, set[int]] = {}  # per function the inputs that some derivative flows through
    for gradient in wanted:
        reached = set(_xs(gradient))
        for number in ways[gradient.id]:
            function = graph.nodes[number]
            needs.setdefault(number, set()).update(i for i, edge in enumerate(function.inputs) if edge in reached)
            reached.update(Edge(number, output) for output in range(function.count))
    for number, positions in needs.items():
        function = nodes[number]
        constants = {**function.constants, "wanted": tuple(sorted(positions))}
        constants.setdefault("framework", "torch")
        for name in ("parallel", "differentiable"):
            constants.pop(name, None)
        nodes[number] = replace(
            function,
            op=tapes.taped_function,
            constants=constants,
            count=function.count + 1,
            specs=(*function.specs, Spec((), np.dtype(object), "")),
        )
    for gradient in wanted:
        way = ways[gradient.id]
        steps = tuple(
            (
                tuple((number, output) for output in range(graph.nodes[number].count)),
                tuple((e.node, e.index) for e in (graph.nodes[number].inputs[i] for i in sorted(needs[number]))),
            )
            for number in way
        )
        ys, xs = _ys(gradient), _xs(gradient)
        route = (tuple((e.node, e.index) for e in ys), steps, tuple((e.node, e.index) for e in xs))
        nodes[gradient.id] = replace(
            gradient,
            op=tapes.back_propagation,
            inputs=tuple(Edge(n, graph.nodes[n].count) for n in way),
            constants={"route": route, "sizes": gradient.constants["sizes"]},
        )
    return Graph(nodes, graph.outputs)


def _ys(gradient: GraphNode) -> Sequence[Edge]:
    return gradient.inputs[: gradient.constants["sizes"][0]]


def _xs(gradient: GraphNode) -> Sequence[Edge]:
    return gradient.inputs[gradient.constants["sizes"][0] :]


def _way(graph: Graph, gradient: GraphNode) -> list[int]:
    """The functions on a way from an x to a y, in recording order; an error where there is another operator on one."""
    xs, ys = set(_xs(gradient)), set(_ys(gradient))
    depends: set[Edge] = set(xs)
    after: list[int] = []  # nodes that depend on an x
    for node in graph.nodes[: gradient.id]:
        if any(edge in depends for edge in (*node.inputs, *node.arguments.values())):
            after.append(node.id)
            depends.update(Edge(node.id, index) for index in range(node.count))
    leads: set[Edge] = set(ys)
    way: list[int] = []
    for number in reversed(after):
        node = graph.nodes[number]
        if any(Edge(number, index) in leads for index in range(node.count)):
            way.append(number)
            leads.update(node.inputs)
    way.reverse()
    _check(graph, gradient, way)
    return way


def _check(graph: Graph, gradient: GraphNode, way: list[int]) -> None:
    read = {edge for number in way for edge in graph.nodes[number].inputs}
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
            raise _error(gradient, "a second derivative: functions are once differentiable", node)
        if node.op.role != "differentiable":
            raise _error(gradient, f"{node.op.title} ({node.name}) has no derivative; fn.py_function has", node)
        if node.constants.get("parallel") == "processes":
            raise _error(gradient, f"{node.name} runs in worker processes, and derivatives cannot leave them", node)
        kind = node.constants.get("framework", "torch")
        kinds.setdefault(kind, node)
        if kind == "numpy":
            text = f"{_called(node)} works on NumPy arrays, which keep no derivatives: use torch or JAX"
            raise _error(gradient, text, node)
    if len(kinds) > 1:
        named = ", ".join(f"{kind} in {_called(node)}" for kind, node in sorted(kinds.items()))
        raise _error(gradient, f"a chain mixes frameworks ({named}): write its functions for one of them")
    guards = {graph.nodes[number].guard for number in way} | {gradient.guard}
    if len(guards) > 1:
        raise _error(gradient, "the functions and the derivative are in different branches; put them into one")


def _error(gradient: GraphNode, text: str, node: GraphNode | None = None) -> ValueError:
    return _with_origins(ValueError(f"fn.gradients: {text}"), *([] if node is None else [node]), gradient)
