"""The recorded graph of a pipeline as SVG, in Mermaid's language, or as text."""

import re
from typing import Any

from pipeflow.pictures.graph_drawing import Drawn, svg

WHOLE = re.compile(r"(?<=\d)\.0(?!\d)")  # ".0" of whole numbers, which is left out
PYTHON = ("function", "source")  # constants that hold the user's code


def drawn_nodes(graph: Any) -> list[Drawn]:
    """The nodes that lead to an output or were kept, and the outputs."""
    needed = needed_nodes(graph)
    numbers = {node.id: number for number, node in enumerate(needed)}
    found = []
    for node in needed:
        reads = [edge.node for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard))]
        kind = "python" if _user_code(node) else "source" if node.op.fetches else node.device
        hint = f"{node.op.title} {node.known_as}" + (f"\\n{node.origin.describe()}" if node.origin else "")
        found.append(
            Drawn(
                title_of(node),
                line_of(node),
                kind,
                hint,
                tuple(dict.fromkeys(numbers[x] for x in reads if x in numbers)),
            )
        )
    for index, edge in enumerate(graph.outputs):
        text = str(graph.spec(edge))
        found.append(
            Drawn(f"output {index}", "" if text.startswith("? ?") else text[:30], "output", text, (numbers[edge.node],))
        )
    return found


def needed_nodes(graph: Any) -> list[Any]:
    """The nodes of a graph that lead to an output or were kept, in the order they were recorded."""
    todo = [edge.node for edge in graph.outputs] + [node.id for node in graph.nodes if node.preserve]
    seen: set[int] = set()
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        node = graph.nodes[number]
        todo += [edge.node for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard))]
    return [node for node in graph.nodes if node.id in seen]


def title_of(node: Any) -> str:
    """The operator's name as it is written after ``fn.``; for a function of the user also the function's name."""
    title = node.op.title.removeprefix("fn.").lstrip("_")
    function = next((node.constants[name] for name in PYTHON if callable(node.constants.get(name))), None)
    name = getattr(function, "__name__", "")
    return f"{title}: {name}" if name and name != "<lambda>" else title


def line_of(node: Any) -> str:
    """The first settings of a node that are short enough to be read in a box."""
    parts = []
    for name, value in node.constants.items():
        if value is None or callable(value):
            continue
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        text = "" if hasattr(value, "shape") else f"{name}={WHOLE.sub('', repr(value))}"
        if text and len(text) <= 26 and "<" not in text:
            parts.append(text)
    shown = ", ".join(parts[:2])
    if len(shown) > 36:
        shown = parts[0]
    device = "" if node.device == "cpu" else node.device
    return ", ".join(part for part in (device, shown) if part)


def _user_code(node: Any) -> bool:
    return any(callable(node.constants.get(name)) for name in PYTHON)


def to_svg(graph: Any) -> str:
    """The graph as SVG."""
    return svg(drawn_nodes(graph))


def to_mermaid(graph: Any) -> str:
    """The graph in Mermaid's language, as pages on GitHub show it."""
    lines = ["flowchart TD"]
    nodes = drawn_nodes(graph)
    for number, node in enumerate(nodes):
        text = node.title.replace('"', "'")
        lines.append(f'    n{number}(["{text}"])' if node.kind == "output" else f'    n{number}["{text}"]')
    lines += [f"    n{other} --> n{number}" for number, node in enumerate(nodes) for other in node.reads]
    return "\n".join(lines)


def to_text(graph: Any, width: int = 80) -> str:
    """The graph as lines of text; each line has a node and the nodes that it reads."""
    nodes = drawn_nodes(graph)
    digits = len(str(len(nodes)))
    lines = []
    for number, node in enumerate(nodes):
        reads = ", ".join(f"%{other}" for other in node.reads)
        line = f"%{number:<{digits}} {node.title}" + (f" <- {reads}" if reads else "")
        if node.line:
            line += f"  [{node.line}]"
        lines.append(line if len(line) <= width else f"{line[: width - 3]}...")
    return "\n".join(lines)


def one_line(graph: Any, room: int = 80) -> str:
    """``readers.file -> decoders.image -> resize``; the middle is left out if there is no room."""
    titles = [title_of(node) for node in needed_nodes(graph)]
    text, left = " -> ".join(titles), len(titles)
    while len(text) > room and left > 2:
        left -= 1
        text = " -> ".join([*titles[: (left + 1) // 2], "...", *titles[len(titles) - left // 2 :]])
    return text
