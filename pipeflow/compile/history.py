"""Refuses steps that would lose the gradients of a function with ``differentiable=True``.

There, results keep their history until they reach the training loop, so every step that reads them must keep it too.
"""

from typing import Any

from pipeflow.errors import add_notes, function_name
from pipeflow.record.graph import Graph, GraphNode


def check(graph: Graph, on_error: Any = "raise") -> None:
    """Refuses a step that would lose the gradients of a differentiable function."""
    for node in graph.nodes:
        for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)):
            function = graph.nodes[edge.node]
            if function.constants.get("differentiable") and not node.constants.get("differentiable"):
                raise _lost(node, function)
        rule = on_error if node.on_error is None else node.on_error
        if node.constants.get("differentiable"):
            if not (isinstance(rule, str) and rule == "raise"):
                text = f'{called(node)} has differentiable=True, which needs on_error="raise", not {rule!r}'
                raise with_origins(ValueError(text), node)
            if node.device != "cpu":
                raise with_origins(
                    ValueError(f'{called(node)} is differentiable=True, which is for device="cpu"'), node
                )


def _lost(reader: GraphNode, function: GraphNode) -> ValueError:
    what = {"merge": "the end of a branch", "late merge": "the end of a branch", "transfer": "the copy to the GPU"}
    if reader.op.role == "gradients":
        text = (
            f"fn.gradients ({reader.name}) takes derivatives within the pipeline, and differentiable=True of "
            f"{called(function)} leaves them to the training loop: use one of the two"
        )
    else:
        name = what.get(reader.op.role, f"{reader.op.title} ({reader.name})")
        text = (
            f"{name} would lose the gradients of {called(function)}: what "
            "a function with differentiable=True returns must go to another one, or be an output of the pipeline. Do the rest "
            "before it, inside it, or in the training loop"
        )
    return with_origins(ValueError(text), reader, function)


def called(node: GraphNode) -> str:
    """A function step, for an error."""
    function = node.constants.get("func", node.constants.get("function"))
    return f"{node.op.title} ({node.name}) of {function_name(function)}"


def with_origins(error: ValueError, *nodes: GraphNode) -> ValueError:
    """The error with the places in the user's code where these nodes were made."""
    add_notes(error, [node.origin.describe() for node in nodes if node.origin is not None])
    return error
