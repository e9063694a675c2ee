"""Graphs as JSON, and graphs in Graphviz's language."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeflow.declare import Call, convert, find
from pipeflow.errors import BadValue
from pipeflow.record.graph import Edge, Graph, GraphNode
from pipeflow.record.recorder import DataNode, Recorder
from pipeflow.saving.values import Allowed, decode_constant, encode_constant, imports_of, refused
from pipeflow.version import VERSION

FORMAT = 1


def graph_to_json(graph: Graph, settings: Mapping[str, Any], allow_pickle: bool) -> str:
    """A graph and the settings of its pipeline, as JSON."""
    nodes = []
    for node in graph.nodes:
        entry: dict[str, Any] = {
            "op": node.op.name,
            "name": node.name,
            "known_as": node.known_as,
            "random_name": node.random_name,
            "device": node.device,
        }
        if node.inputs:
            entry["inputs"] = [[edge.node, edge.index] for edge in node.inputs]
        if node.constants:
            entry["constants"] = {
                name: encode_constant(value, f"argument {name!r} of {node.op.title} ({node.name})", allow_pickle)
                for name, value in node.constants.items()
            }
        if node.arguments:
            entry["nodes"] = {name: [edge.node, edge.index] for name, edge in node.arguments.items()}
        if node.guard:
            entry["guard"] = [[edge.node, edge.index, on] for edge, on in node.guard]
        for name in ("seed", "preserve", "weak"):
            if getattr(node, name) not in (None, False):
                entry[name] = getattr(node, name)
        if node.hint:
            entry["hint"] = list(node.hint)
        if node.on_error is not None:
            entry["on_error"] = encode_constant(
                node.on_error, f"on_error of {node.op.title} ({node.name})", allow_pickle
            )
        nodes.append(entry)
    outputs = [[edge.node, edge.index] for edge in graph.outputs]
    return json.dumps(
        {"format": FORMAT, "pipeflow": VERSION, "settings": dict(settings), "nodes": nodes, "outputs": outputs},
        indent=1,
    )


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _document(serialized: "str | bytes", what: str) -> dict[str, Any]:
    try:
        document = json.loads(serialized, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"this is not {what}: {error}") from error
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError(f"this is not {what}: the field 'format' is missing")
    if document["format"] != FORMAT:
        raise ValueError(f"{what} has format {document['format']!r}; this version reads format {FORMAT}")
    _check_fields(document, what)
    return document


# The fields of a saved graph and of its nodes: the type, and True if the field may be missing.
_GRAPH = {"settings": (dict, False), "nodes": (list, False), "outputs": (list, False)}
_NODE = {
    "op": (str, False), "name": (str, False), "device": (str, False), "random_name": (str, False), "known_as": (str, True),
    "inputs": (list, True), "constants": (dict, True), "nodes": (dict, True), "guard": (list, True), "seed": (int, True),
    "preserve": (bool, True), "weak": (bool, True), "hint": (list, True),
}  # fmt: skip


def _check_fields(document: Mapping[str, Any], what: str) -> None:
    """Refuses a graph with missing fields, fields of other types, or references to later nodes."""

    def check(entry: Any, fields: Mapping[str, tuple[type, bool]], where: str) -> None:
        if not isinstance(entry, dict):
            raise ValueError(f"{what} is damaged: {where} is {entry!r:.80}")
        for name, (kind, optional) in fields.items():
            value = entry.get(name)
            if not (isinstance(value, kind) or (optional and value is None)):
                raise ValueError(f"{what} is damaged: {name!r} of {where} is {value!r:.80}")

    def is_edge(pair: Any, before: int) -> bool:
        whole = isinstance(pair, list) and all(type(number) is int for number in pair[:2])
        return whole and len(pair) >= 2 and 0 <= pair[0] < before and pair[1] >= 0

    check(document, _GRAPH, "the graph")
    for number, entry in enumerate(document["nodes"]):
        check(entry, _NODE, f"node {number}")
        edges = [*(entry.get("inputs") or ()), *(entry.get("nodes") or {}).values(), *(entry.get("guard") or ())]
        wrong = [edge for edge in edges if not is_edge(edge, number)]
        if any(len(guard) != 3 for guard in entry.get("guard") or () if is_edge(guard, number)):
            wrong = [*wrong, entry["guard"]]
        if wrong:
            raise ValueError(
                f"{what} is damaged: node {number} refers to {wrong[0]!r:.80}, which is not an output of an earlier node"
            )
    if not document["outputs"]:
        raise ValueError(f"{what} is damaged: it has no outputs")
    for pair in document["outputs"]:
        if not is_edge(pair, len(document["nodes"])):
            raise ValueError(f"{what} is damaged: {pair!r:.80} is not an output of a node")


def settings_from_json(serialized: "str | bytes") -> dict[str, Any]:
    """The settings that ``graph_to_json`` saved."""
    return dict(_document(serialized, "a serialized pipeline")["settings"])


def functions_of(document: Mapping[str, Any]) -> list[str]:
    """The import paths of the functions that a saved graph calls."""
    parts = [part for entry in document["nodes"] for part in (entry.get("constants"), entry.get("on_error"))]
    return imports_of(parts)


def graph_from_json(serialized: "str | bytes", recorder: Recorder, allowed: Allowed) -> Graph:
    """The graph that ``graph_to_json`` saved. A function that is not ``allowed`` is an error."""
    document = _document(serialized, "a serialized pipeline")
    unknown = [path for path in functions_of(document) if not allowed.allows(path)]
    if unknown:
        raise refused(unknown)

    def node_of(pair: Any) -> DataNode:
        return DataNode(recorder, recorder.graph.nodes[pair[0]], pair[1])

    for entry in document["nodes"]:
        op = find(entry["op"])
        what = f"of {op.title} ({entry['name']})"
        for name in (*entry.get("constants", ()), *entry.get("nodes", ())):
            if name not in op.arguments:
                raise ValueError(
                    f"a serialized pipeline is damaged: {op.title} ({entry['name']}) has no argument {name!r}"
                )
        constants = {
            name: convert(op.arguments[name].type, decode_constant(value, f"argument {name!r} {what}", allowed))
            for name, value in entry.get("constants", {}).items()
        }
        for value in constants.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        call = Call(
            op,
            tuple(node_of(pair) for pair in entry.get("inputs", ())),
            constants,
            {name: node_of(pair) for name, pair in entry.get("nodes", {}).items()},
            entry["name"],
            entry["device"],
            entry.get("seed"),
            bool(entry.get("preserve")),
            tuple(entry.get("hint", ())),
            on_error=decode_constant(entry.get("on_error"), f"on_error {what}", allowed),
        )
        recorder.guard = tuple((Edge(number, index), on) for number, index, on in entry.get("guard", ()))
        missing = [
            name
            for name, param in op.arguments.items()
            if param.required and name not in {**constants, **call.arguments}
        ]
        if missing:
            raise ValueError(f"a serialized pipeline is damaged: {op.title} ({entry['name']}) lacks {missing[0]!r}")
        try:
            recorder(call)
        except (
            AttributeError,
            LookupError,
            OverflowError,
        ) as error:  # the values of some constants do not have the types that were saved
            raise ValueError(f"a serialized pipeline is damaged: {op.title} ({entry['name']}): {error!r}") from error
        node = recorder.graph.nodes[-1]
        node.random_name = entry["random_name"]
        node.known_as = entry.get("known_as", node.name)
        node.weak = bool(entry.get("weak"))
    recorder.guard = ()
    recorder.graph.outputs = [Edge(number, index) for number, index in document["outputs"]]
    return recorder.graph


def graph_to_dot(graph: Graph, show_tensors: bool = False, use_colors: bool = False) -> str:
    """The graph for Graphviz."""
    colors = {"cpu": "lightblue", "gpu": "palegreen", "mixed": "khaki"}
    lines = ["digraph pipeline {"]

    def label(node: GraphNode) -> str:
        return f"{node.op.name}\\n{node.name}"

    for node in graph.nodes:
        style = f', style=filled, fillcolor="{colors[node.device]}"' if use_colors else ""
        lines.append(f'  n{node.id} [shape=box, label="{label(node)}"{style}];')
        for edge in (*node.inputs, *node.arguments.values(), *(e for e, _ in node.guard)):
            if show_tensors:
                lines.append(f'  t{edge.node}_{edge.index} [label="{graph.spec(edge)}"];')
                lines.append(f"  n{edge.node} -> t{edge.node}_{edge.index} -> n{node.id};")
            else:
                lines.append(f"  n{edge.node} -> n{node.id};")
    for number, edge in enumerate(graph.outputs):
        lines.append(f'  out{number} [shape=ellipse, label="output {number}"];')
        lines.append(f"  n{edge.node} -> out{number};")
    return "\n".join([*dict.fromkeys(lines), "}"]) + "\n"
