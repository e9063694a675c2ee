"""Batches, samples, pipelines and plans as HTML, for the last line of a cell in a notebook."""

import base64
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from pipeflow import pictures
from pipeflow.errors import count_of
from pipeflow.pictures.graphs import needed_nodes, to_svg
from pipeflow.pictures.looks import extremes, span
from pipeflow.tensors import Metadata

THUMBNAILS = 8
RANGED = 64  # the most samples whose values are read to find their range
STYLE = (
    "border-collapse: collapse; font: 13px system-ui, sans-serif; margin: 6px 0",
    "text-align: left; padding: 2px 14px 2px 0; vertical-align: top",
)


def describe(thing: Any, *details: Any) -> str:
    """The HTML of a batch, a sample, a pipeline or a plan."""
    if isinstance(thing, Metadata):
        return batch(thing) if hasattr(thing, "at") else sample(thing)
    return plan(thing) if hasattr(thing, "stages") else pipeline(thing, *details)


def batch(value: Any) -> str:
    """The HTML of a batch: thumbnails, then type, layout, shapes and values."""
    on_cpu = value.as_cpu()
    samples = on_cpu.samples()
    head = f"{type(value).__name__}, {count_of(len(samples), 'sample')}"
    return _section(head, _thumbnails(on_cpu) + _table(_facts(samples, value)))


def sample(value: Any) -> str:
    """The HTML of one sample, with the same parts."""
    on_cpu = value.as_cpu()
    return _section(type(value).__name__, _thumbnails(on_cpu) + _table(_facts([on_cpu.array], value)))


def _facts(samples: list[Any], value: Any) -> list[tuple[str, str]]:
    shapes = sorted({sample.shape for sample in samples})
    shown = ", ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes[:3])
    more = f" and {len(shapes) - 3} more" if len(shapes) > 3 else ""
    facts = [("type", str(value.dtype).rpartition(".")[2])]
    if value.layout():
        facts.append(("layout", value.layout()))
    facts.append(("shapes" if len(shapes) > 1 else "shape", shown + more))
    if samples and samples[0].dtype.kind in "biuf":
        low, high, wrong = extremes(samples[:RANGED])
        words = span(low, high, samples[0].dtype) + (f", {wrong} not finite" if wrong else "")
        facts.append(("values", words + (f" (of the first {RANGED})" if len(samples) > RANGED else "")))
    facts.append(("memory", f"{sum(sample.nbytes for sample in samples) / 1e6:.3g} MB"))
    sources = value.source_info()
    sources = [sources] if isinstance(sources, str) else list(sources)
    if any(sources):
        facts.append(("first source", sources[0]))
    return facts


def _thumbnails(value: Any) -> str:
    try:
        picture = pictures.drawing("grid:draw")(value, THUMBNAILS, width=720)
    except ModuleNotFoundError as error:
        if error.name != "PIL":
            raise
        return "<p>There are no thumbnails without Pillow: <code>pip install pillow</code></p>"
    width, _ = picture.size
    data = base64.b64encode(picture.png).decode()
    return f'<img alt="samples" width="{width}" style="max-width: 100%" src="data:image/png;base64,{data}"/>'


def pipeline(graph: Any, settings: "Mapping[str, Any] | None" = None, statistics: Any = None) -> str:
    """The HTML of a pipeline: the graph as a drawing, the settings, and the measured times."""
    if graph is None:
        return _section("Pipeline with debug=True", "<p>It runs its definition line by line, so it has no graph.</p>")
    text = to_svg(graph) + _table((name, str(value)) for name, value in (settings or {}).items())
    if statistics is not None:
        text += f"<pre style='font-size: 12px'>{escape(str(statistics))}</pre>"
    return _section(f"Pipeline, {count_of(len(needed_nodes(graph)), 'operator')}", text)


def plan(value: Any) -> str:
    """The HTML of a plan: a table of its stages, with the steps that run together, and the outputs."""
    rows = []
    for number, stage in enumerate(value.stages):
        order = ", in order" if stage.ordered else ""
        for position, step in enumerate(stage.all_steps()):
            results = ", ".join(f"{value.slots[slot].spec} {value.slots[slot].storage}" for slot in step.outputs)
            first = f"{number} {stage.kind}{order}" if position == 0 else ""
            rows.append((first, step.title, step.name, results))
    head = f"Plan, {count_of(len(value.stages), 'stage')}, {count_of(len(rows), 'step')}"
    return _section(head, _table(rows, ("stage", "operator", "name", "results")))


def _section(head: str, text: str) -> str:
    return f"<div><b style='font: 600 14px system-ui, sans-serif'>{escape(head)}</b><div>{text}</div></div>"


def _table(rows: Iterable[tuple[str, ...]], heads: tuple[str, ...] = ()) -> str:
    cell = f'<td style="{STYLE[1]}">'
    head = "".join(f'<th style="{STYLE[1]}">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(f'{cell}{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f'<table style="{STYLE[0]}">{f"<tr>{head}</tr>" if heads else ""}{body}</table>'
