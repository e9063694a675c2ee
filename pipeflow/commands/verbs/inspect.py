"""Shows one sample at every step: shape, type, values, picture."""

import argparse
import sys
from typing import Any

import numpy as np

from pipeflow.commands import target
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.commands.screen import shortened
from pipeflow.errors import nearest
from pipeflow.pictures import drawing, graphs
from pipeflow.pictures.looks import extremes
from pipeflow.record.graph import Edge, Graph

BINS = 10
BARS = "▁▂▃▄▅▆▇█"
PLAIN = " .:-=+*#"
NAME = 24


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    parser.add_argument("--sample", type=int, default=0, help="the number of the sample in the first epoch, from 0")
    parser.add_argument("--node", metavar="NAME", help="only this step, by its operator or its name")
    parser.add_argument("--save", metavar="FILE.png", help="file for a picture of the steps")


def run(given: argparse.Namespace) -> Result:
    if given.sample < 0:
        raise Refused(f"--sample counts from 0, got {given.sample}")
    if given.save and not given.save.endswith(".png"):
        raise Refused(f"the picture is a PNG file: --save NAME.png, not {given.save}")
    found = target.target_of(given)
    nodes, edges, hidden = visible(found.pipeline.graph)
    if given.node:
        edges = chosen(nodes, edges, given.node)
    samples, layouts, source = one_sample(found, edges, given.sample)
    rows = [row(graphs.title_of(nodes[edge.node]), edge, sample) for edge, sample in zip(edges, samples)]
    lines = [
        Line(f"sample {given.sample} of {found.name}: {len(rows)} steps{f', from {source}' if source else ''}", "good")
    ]
    lines.append(Line(f"{'step':<{NAME}} {'type':<8} {'shape':<13} {'values':<20} histogram", "head"))
    bars = BARS if "utf" in (sys.stdout.encoding or "").lower() else PLAIN
    for facts in rows:
        drawn = "".join(
            bars[min(len(bars) - 1, int(share * len(bars)))] if share else " " for share in facts["histogram"]
        )
        line = (
            f"{shortened(facts['step'], NAME):<{NAME}} {facts['dtype']:<8} {shortened(facts['shape_text'], 13):<13} "
            f"{shortened(facts['values'], 20):<20} {drawn}"
        )
        lines.append(Line(line, "warn" if facts["not_finite"] else ""))
    if hidden:
        lines.append(Line(f"{hidden} more run only for the samples of a branch, and are not shown", "faint"))
    if given.save:
        _save(given.save, rows, samples, layouts)
        lines.append(Line(f"the picture is {given.save}", "good"))
    else:
        lines.append(Line("Next: --save steps.png draws them, --node NAME shows one", "faint"))
    facts = {"target": found.name, "sample": given.sample, "source": source, "steps": rows}
    return Result(lines, facts)


def visible(graph: Graph) -> tuple[dict[int, Any], list[Edge], int]:
    """The nodes of a graph, the outputs that exist for every sample, and how many others there are."""
    nodes = {node.id: node for node in graphs.needed_nodes(graph)}
    everywhere = [node for node in nodes.values() if not node.guard]
    edges = [Edge(node.id, index) for node in everywhere for index in range(node.count)]
    return nodes, edges, len(nodes) - len(everywhere)


def chosen(nodes: dict[int, Any], edges: list[Edge], name: str) -> list[Edge]:
    """The outputs of the steps of a name."""
    known = {
        edge: (graphs.title_of(nodes[edge.node]), nodes[edge.node].known_as, nodes[edge.node].op.name) for edge in edges
    }
    found = [edge for edge, names in known.items() if name.removeprefix("fn.") in names]
    if not found:
        names = sorted({names[0] for names in known.values()})
        raise Refused(f"there is no step {name!r}{nearest(name, names)}; there are {', '.join(names)}")
    return found


def one_sample(found: target.NamedPipeline, edges: list[Edge], wanted: int) -> tuple[list[np.ndarray], list[str], str]:
    """The values of these outputs for one sample, their layouts, and the source of the sample."""
    pipe = found.make(fuse=False)
    pipe._graph = Graph(pipe.graph.nodes, list(edges))
    seen = 0
    while True:
        try:
            batches = pipe.run()
        except StopIteration:
            raise Refused(f"there is no sample {wanted}: the first epoch has {seen}") from None
        size = len(batches[0])
        if wanted < seen + size:
            source = next((text for batch in batches if (text := batch.source_info(wanted - seen))), "")
            samples = [batch.as_cpu().at(wanted - seen) for batch in batches]
            return samples, [batch.layout() for batch in batches], source
        seen += size


def row(step: str, edge: Edge, sample: np.ndarray) -> dict[str, Any]:
    """The properties of one result, as plain data."""
    facts: dict[str, Any] = {"step": step if not edge.index else f"{step} [{edge.index}]", "dtype": str(sample.dtype)}
    facts |= {"shape": list(sample.shape), "shape_text": "x".join(map(str, sample.shape)) or "number"}
    facts |= {"values": "", "histogram": [], "not_finite": 0}
    if sample.dtype.kind not in "biuf" or not sample.size:
        text = str(sample.ravel()[0]) if sample.size else ""
        return {**facts, "dtype": "text" if sample.dtype.kind in "OSU" else facts["dtype"], "values": text}
    low, high, wrong = extremes([sample])
    values = sample[np.isfinite(sample)] if wrong else sample
    mean = float(values.mean()) if values.size else 0.0
    facts |= {"low": low, "high": high, "mean": mean, "not_finite": wrong}
    if sample.size == 1:
        return {**facts, "values": f"{sample.item():.5g}"}
    counts, _ = np.histogram(values, BINS, (low, high) if high > low else (low, low + 1))
    facts["histogram"] = (counts / max(int(counts.max()), 1)).round(3).tolist()
    return {**facts, "values": f"{low:.4g}...{high:.4g} ~{mean:.3g}" + (f" {wrong} NaN/inf" if wrong else "")}


def _save(path: str, rows: list[dict[str, Any]], samples: list[np.ndarray], layouts: list[str]) -> None:
    """The results, one below the other in the order of the steps."""
    steps = [(facts["step"], sample, layout) for facts, sample, layout in zip(rows, samples, layouts)]
    drawing("steps:draw")(steps).save(path)
