"""Graphs as JSON, and graphs in Graphviz's language.

User objects go by import path (``module:qualname``), which is checked when saving; by value, pickled, only when the caller
says ``allow_pickle`` when saving and again when loading. Nothing is ever unpickled otherwise.
"""

import base64
import json
from collections.abc import Mapping
from enum import Enum
from pkgutil import resolve_name
from typing import Any

import numpy as np

from pipeflow.declare import Call, Outputs, Spec, convert, find
from pipeflow.errors import function_name
from pipeflow.executor.workers.functions import find_culprit
from pipeflow.graph import DataNode, Edge, Graph, GraphNode, Recorder
from pipeflow.plan import plain
from pipeflow.version import VERSION

FORMAT = 1


# Values


def encode(value: Any, what: str, allow_pickle: bool) -> Any:
    """A constant of a graph as JSON data."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"objects": value.tolist(), "shape": list(value.shape)}
        return {
            "array": base64.b64encode(value.tobytes()).decode(),
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }
    if isinstance(value, np.dtype):
        return {"dtype": value.str if not value.hasobject else "object"}
    if isinstance(value, Enum):
        return {"value": value.value}
    if isinstance(value, np.generic):
        return {"array": base64.b64encode(value.tobytes()).decode(), "dtype": value.dtype.str, "shape": []}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, what, allow_pickle) for item in value]}
    if isinstance(value, Outputs):
        specs = [[encode(part, what, False) for part in (spec.shape, spec.dtype, spec.layout)] for spec in value.specs]
        return {"outputs": specs, "names": list(value.names)}
    if isinstance(value, list):
        return [encode(item, what, allow_pickle) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, what, allow_pickle) for key, item in value.items()}}
    if plain(value):
        return value
    path = import_path(value)
    if path is not None:
        return {"import": path}
    if allow_pickle:
        return {"pickle": base64.b64encode(_pickled(value, what)).decode()}
    raise TypeError(
        f"{what} is {function_name(value) if callable(value) else repr(value)}, which cannot be imported by name: "
        "put it at the top level of a module, or save it by value with allow_pickle=True here and when loading"
    )


def decode(data: Any, what: str, allow_pickle: bool) -> Any:
    """The constant that ``encode`` saved."""
    if isinstance(data, list):
        return [decode(item, what, allow_pickle) for item in data]
    if not isinstance(data, dict):
        return data
    if "array" in data:
        array = np.frombuffer(base64.b64decode(data["array"]), np.dtype(data["dtype"])).reshape(data["shape"])
        return array.copy()
    if "objects" in data:
        array = np.empty(data["shape"], object)
        array[...] = data["objects"]
        return array
    if "dtype" in data:
        return np.dtype(data["dtype"])
    if "value" in data:
        return data["value"]
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "tuple" in data:
        return tuple(decode(item, what, allow_pickle) for item in data["tuple"])
    if "dict" in data:
        return {key: decode(item, what, allow_pickle) for key, item in data["dict"].items()}
    if "outputs" in data:
        specs = [Spec(*[decode(part, what, False) for part in spec]) for spec in data["outputs"]]
        return Outputs(tuple(specs), tuple(data["names"]))
    if "import" in data:
        try:
            return resolve_name(data["import"])
        except (ImportError, AttributeError, ValueError) as error:
            raise type(error)(
                f"{what} was saved as {data['import']}, which cannot be imported here: {error}"
            ) from error
    if not allow_pickle:
        raise ValueError(
            f"{what} was saved by value; loading it runs code from the file: if you trust it, say allow_pickle=True"
        )
    return _pickler().loads(base64.b64decode(data["pickle"]))


def import_path(value: Any) -> str | None:
    """``module:qualname`` if that leads back to this very object in another process."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    try:
        return f"{module}:{name}" if resolve_name(f"{module}:{name}") is value else None
    except (ImportError, AttributeError, ValueError):
        return None


def _pickler() -> Any:
    try:
        return resolve_name("cloudpickle")
    except ImportError as error:
        raise ModuleNotFoundError(
            'cloudpickle is needed to save functions by value: pip install "pipeflow[processes]"', name="cloudpickle"
        ) from error


def _pickled(value: Any, what: str) -> bytes:
    try:
        return _pickler().dumps(value)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        culprit = find_culprit(value)
        reason = f" because of {culprit}" if culprit else ""
        raise TypeError(
            f"{what} is {function_name(value) if callable(value) else repr(value)} and cannot be pickled{reason}: {error}. "
            "Create it inside the function, or pass it in as data"
        ) from error


# Graphs


def graph_to_json(graph: Graph, settings: Mapping[str, Any], allow_pickle: bool) -> str:
    """A graph and the settings of its pipeline."""
    nodes = []
    for node in graph.nodes:
        entry: dict[str, Any] = {
            "op": node.op.name,
            "name": node.name,
            "random_name": node.random_name,
            "device": node.device,
        }
        if node.inputs:
            entry["inputs"] = [[edge.node, edge.index] for edge in node.inputs]
        if node.constants:
            entry["constants"] = {
                name: encode(value, f"argument {name!r} of {node.op.title} ({node.name})", allow_pickle)
                for name, value in node.constants.items()
            }  # fmt: skip
        if node.nodes:
            entry["nodes"] = {name: [edge.node, edge.index] for name, edge in node.nodes.items()}
        if node.guard:
            entry["guard"] = [[edge.node, edge.index, on] for edge, on in node.guard]
        for name in ("seed", "preserve", "weak"):
            if getattr(node, name) not in (None, False):
                entry[name] = getattr(node, name)
        if node.hint:
            entry["hint"] = list(node.hint)
        if node.on_error is not None:
            entry["on_error"] = encode(node.on_error, f"on_error of {node.op.title} ({node.name})", allow_pickle)
        nodes.append(entry)
    outputs = [[edge.node, edge.index] for edge in graph.outputs]
    return json.dumps(
        {"format": FORMAT, "pipeflow": VERSION, "settings": dict(settings), "nodes": nodes, "outputs": outputs},
        indent=1,
    )


def _document(serialized: "str | bytes", what: str) -> dict[str, Any]:
    try:
        document = json.loads(serialized)
    except ValueError as error:
        raise ValueError(f"this is not {what}: {error}") from error
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError(f"this is not {what}: the field 'format' is missing")
    if document["format"] != FORMAT:
        raise ValueError(f"{what} has format {document['format']!r}; this version reads format {FORMAT}")
    return document


def settings_from_json(serialized: "str | bytes") -> dict[str, Any]:
    """The settings that ``graph_to_json`` saved."""
    return dict(_document(serialized, "a serialized pipeline")["settings"])


def graph_from_json(serialized: "str | bytes", recorder: Recorder, allow_pickle: bool) -> Graph:
    """The graph that ``graph_to_json`` saved, recorded anew."""
    document = _document(serialized, "a serialized pipeline")

    def node_of(pair: Any) -> DataNode:
        return DataNode(recorder, recorder.graph.nodes[pair[0]], pair[1])

    for entry in document["nodes"]:
        op = find(entry["op"])
        what = f"of {op.title} ({entry['name']})"
        constants = {
            name: convert(op.arguments[name].kind, decode(value, f"argument {name!r} {what}", allow_pickle))
            for name, value in entry.get("constants", {}).items()
        }  # fmt: skip
        for value in constants.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        call = Call(
            op, tuple(node_of(pair) for pair in entry.get("inputs", ())), constants,
            {name: node_of(pair) for name, pair in entry.get("nodes", {}).items()}, entry["name"], entry["device"],
            entry.get("seed"), bool(entry.get("preserve")), tuple(entry.get("hint", ())),
            on_error=decode(entry.get("on_error"), f"on_error {what}", allow_pickle),
        )  # fmt: skip
        recorder.guard = tuple((Edge(number, index), on) for number, index, on in entry.get("guard", ()))
        recorder(call)
        node = recorder.graph.nodes[-1]
        node.random_name = entry["random_name"]
        node.weak = bool(entry.get("weak"))
    recorder.guard = ()
    recorder.graph.outputs = [Edge(number, index) for number, index in document["outputs"]]
    return recorder.graph


# Drawing


def graph_to_dot(graph: Graph, show_tensors: bool = False, use_colors: bool = False) -> str:
    """The graph for Graphviz."""
    colors = {"cpu": "lightblue", "gpu": "palegreen", "mixed": "khaki"}
    lines = ["digraph pipeline {"]

    def label(node: GraphNode) -> str:
        return f"{node.op.name}\\n{node.name}"

    for node in graph.nodes:
        style = f', style=filled, fillcolor="{colors[node.device]}"' if use_colors else ""
        lines.append(f'  n{node.id} [shape=box, label="{label(node)}"{style}];')
        for edge in (*node.inputs, *node.nodes.values(), *(e for e, _ in node.guard)):
            if show_tensors:
                lines.append(f'  t{edge.node}_{edge.index} [label="{graph.spec(edge)}"];')
                lines.append(f"  n{edge.node} -> t{edge.node}_{edge.index} -> n{node.id};")
            else:
                lines.append(f"  n{edge.node} -> n{node.id};")
    for number, edge in enumerate(graph.outputs):
        lines.append(f'  out{number} [shape=ellipse, label="output {number}"];')
        lines.append(f"  n{edge.node} -> out{number};")
    return "\n".join([*dict.fromkeys(lines), "}"]) + "\n"
