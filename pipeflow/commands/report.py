"""What ``bench --report`` writes: one page of HTML that needs nothing else, for a browser, light or dark, wide or narrow."""

import base64
import platform
from collections.abc import Iterable, Sequence
from html import escape
from importlib import metadata
from typing import Any

from pipeflow.advice import Advice
from pipeflow.commands.measuring import Run, next_batch
from pipeflow.commands.screen import seconds, size
from pipeflow.errors import count_of
from pipeflow.pictures import drawing
from pipeflow.pictures.colors import PALETTE
from pipeflow.pictures.graphs import to_svg
from pipeflow.version import VERSION
from pipeflow.watching.trace import LOOP, Event, Trace

BATCHES = 10  # of the timeline
ROW, LEFT, WIDTH = 22, 90, 900  # of the timeline
ROOM = 200_000  # bytes of PNG, so that the page stays below 300 kB
STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #59636e; --paper: #ffffff; --line: #d1d9e0; --bar: #0072b2;
  --wait: #e69f00 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9198a1; --paper: #0d1117; --line: #3d444d; --bar: #56b4e9 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 980px; padding: 20px 16px 60px; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 22px; line-height: 1.3; margin: 8px 0 } h2 { font-size: 16px; margin: 30px 0 8px }
p, li { max-width: 75ch } .faint { color: var(--faint) } svg, img { max-width: 100%; height: auto; border-radius: 6px }
table { border-collapse: collapse; width: 100%; font-size: 14px } td, th { text-align: left; padding: 4px 10px 4px 0;
  border-top: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere }
td.n { text-align: right; white-space: nowrap }
.scroll { overflow-x: auto } .bar { display: flex; height: 12px; min-width: 90px } .bar i { background: var(--bar) }
.bar b { background: var(--wait) } .figures { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 12px 0 }
.figures div { min-width: 110px }
.figures strong { display: block; font-size: 20px }
text { font: 12px system-ui, sans-serif; fill: var(--ink) } .lane { fill: var(--line); opacity: .35 }
"""


def page(name: str, pipe: Any, run: Run, advice: Sequence[Advice], words: str) -> str:
    """The page: the verdict, what takes the time, when, what comes out, what it is, and what to try."""
    figures = [
        (f"{run.rate:.4g}", "samples a second"),
        (seconds(run.quantile(0.5)), "from batch to batch"),
        (seconds(run.quantile(0.99)), "for the slowest 1 %"),
        (seconds(run.first), "until the first batch"),
        (f"{run.cpu:.1f} of {run.statistics.processors}", "processors busy"),
        (size(run.memory), "memory"),
    ]
    parts = [
        f"<h1>{escape(words)}</h1>",
        f'<p class="faint">{escape(name)}, batch {pipe.batch_size}, {count_of(run.statistics.threads, "thread")}, '
        f"{len(run.laps)} batches</p>",
        f'<div class="figures">{"".join(f"<div><strong>{escape(a)}</strong>{escape(b)}</div>" for a, b in figures)}</div>',
        _section("What to try", _advice(advice)),
        _section("Steps", _steps(run)),
        _section(f"Timeline of {BATCHES} batches", timeline(_traced(pipe))),
        _section("Samples", _samples(pipe)),
        _section("Failed samples", _failed(pipe)),
        _section("Graph", f'<div class="scroll">{to_svg(pipe.graph)}</div>'),
        _section("Where", _table(_environment(pipe))),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(head: str, text: str) -> str:
    return f"<h2>{escape(head)}</h2>\n{text}" if text else ""


def _advice(advice: Sequence[Advice]) -> str:
    if not advice:
        return "<p>Nothing stands out. More threads: <code>--compare threads=1,2,4</code></p>"
    ranked = sorted(advice, key=lambda item: -(item.gain or 0))
    gains = [f" <b>up to {item.gain:.1f} times</b>" if item.gain else "" for item in ranked]
    return "<ol>" + "".join(f"<li>{escape(str(item))}{gain}</li>" for item, gain in zip(ranked, gains)) + "</ol>"


def _steps(run: Run) -> str:
    """Each step with its share of the work: blue on a processor, orange waiting."""
    steps = sorted(run.statistics.steps, key=lambda step: -step.seconds)
    total = sum(step.seconds for step in steps) or 1e-9
    rows = []
    for step in steps:
        busy, waits = 100 * min(step.busy, step.seconds) / total, 100 * step.waited / total
        bar = f'<div class="bar"><i style="width: {busy:.1f}%"></i><b style="width: {waits:.1f}%"></b></div>'
        each = seconds(step.seconds / max(1, run.statistics.samples))
        rows.append(
            f"<tr><td>{escape(step.title.removeprefix('fn.'))}</td><td class='n'>{each}</td>"
            f"<td class='n'>{step.seconds / total:.0%}</td><td style='width: 40%'>{bar}</td></tr>"
        )
    head = "<tr><th>step</th><th>a sample</th><th>share</th><th>on a processor, and waiting</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _traced(pipe: Any) -> Trace:
    """Some more batches, traced."""
    trace = Trace()
    trace.over(pipe._compiled())
    for _ in range(BATCHES):
        next_batch(pipe)
    return trace


def timeline(trace: Trace) -> str:
    """A row for the loop and each thread, a colour for each stage."""
    events = trace.spans()
    if not events:
        return ""
    begun, ended = min(event.begun for event in events), max(event.ended for event in events)
    scale = (WIDTH - LEFT) / max(ended - begun, 1e-9)
    threads = sorted({event.thread for event in events}, key=lambda thread: (trace.names.get(thread) != LOOP, thread))
    lines, shapes = [], []
    for row, thread in enumerate(threads):
        top = row * ROW
        lines.append(f'<rect class="lane" x="{LEFT}" y="{top}" width="{WIDTH - LEFT}" height="{ROW - 4}"/>')
        lines.append(f'<text x="0" y="{top + 14}">{escape(trace.names.get(thread, "workers"))}</text>')
        shapes += [_span(event, top, begun, scale, trace) for event in events if event.thread == thread]
    stages = trace.stages[0]
    below = len(threads) * ROW
    for number, title in enumerate(stages):
        y = below + 8 + 16 * number
        lines.append(f'<rect x="{LEFT}" y="{y}" width="12" height="12" fill="{_color(number)}"/>')
        lines.append(f'<text x="{LEFT + 18}" y="{y + 11}">{escape(title)}</text>')
    height = below + 12 + 16 * len(stages)
    lasted = f"{seconds(ended - begun)} in all; in the first row grey is the loop waiting"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">{"".join([*lines, *shapes])}</svg>'
        f'<p class="faint">{lasted}</p>'
    )


def _span(event: Event, top: int, begun: float, scale: float, trace: Trace) -> str:
    color = "#8a929c" if event.kind == "wait" else _color(event.stage)
    title = "the loop waits" if event.kind == "wait" else trace.stages[event.pipeline][event.stage]
    hint = f"{title}, batch {event.batch}, samples {event.first} to {event.end}: {seconds(event.ended - event.begun)}"
    x, width = LEFT + (event.begun - begun) * scale, max((event.ended - event.begun) * scale, 0.5)
    place = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 4}"'
    return f'<rect {place} fill="{color}"><title>{escape(hint)}</title></rect>'


def _color(stage: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*PALETTE[stage % len(PALETTE)])


def _samples(pipe: Any) -> str:
    """The first samples; fewer and smaller ones where the page would become too large."""
    try:
        draw = drawing("grid:draw")
    except ModuleNotFoundError as error:
        return f"<p>{escape(str(error))}</p>"
    batches = pipe.first_batches(12)
    for count, width in ((12, 900), (6, 600), (4, 400), (2, 200)):
        picture = draw(batches, count, width=width)
        if len(picture.png) <= ROOM:
            data = base64.b64encode(picture.png).decode()
            return f'<img alt="samples" src="data:image/png;base64,{data}"/>'
    return "<p>The samples are too large for this page: pipeflow show draws them.</p>"


def _failed(pipe: Any) -> str:
    failures = pipe.failures()
    return "<ul>" + "".join(f"<li>{escape(str(item))}</li>" for item in failures[:12]) + "</ul>" if failures else ""


def _environment(pipe: Any) -> Iterable[tuple[str, str]]:
    """The machine, the versions, and the settings of the pipeline."""
    yield "pipeflow", VERSION
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield "libraries", ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "numba"))
    for name in ("batch_size", "num_threads", "prefetch_queue_depth", "py_num_workers", "device_id", "seed"):
        yield name, str(getattr(pipe, name))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows) + "</table>"
