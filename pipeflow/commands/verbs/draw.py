"""Draws the graph of a pipeline: text, SVG, or Mermaid's language."""

import argparse
from pathlib import Path

from pipeflow.commands import target
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.commands.screen import columns
from pipeflow.pictures import graphs


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="a file to write: .svg, .mmd (Mermaid) or .txt")
    parser.add_argument(
        "--mermaid", action="store_true", help="print Mermaid's language, which GitHub shows as a drawing"
    )
    parser.add_argument("--svg", action="store_true", help="print SVG")


FORMS = {".svg": graphs.to_svg, ".mmd": graphs.to_mermaid, ".txt": graphs.to_text}


def run(given: argparse.Namespace) -> Result:
    suffix = Path(given.output).suffix if given.output else ".mmd" if given.mermaid else ".svg" if given.svg else ".txt"
    if suffix not in FORMS:
        raise Refused(f"a drawing is written as .svg, .mmd or .txt, not as {given.output}")
    graph = target.target_of(given).pipeline.graph
    text = graphs.to_text(graph, columns()) if suffix == ".txt" else FORMS[suffix](graph)
    nodes = [
        {"name": node.known_as, "operator": node.op.title, "device": node.device} for node in graphs.needed_nodes(graph)
    ]
    facts = {"nodes": nodes, "outputs": len(graph.outputs), "drawing": text}
    if given.output:
        Path(given.output).write_text(text + "\n", encoding="utf-8")
        return Result([Line(f"{given.output}: {len(nodes)} operators", "good")], facts)
    return Result([Line(line) for line in text.splitlines()], facts)
