"""A few batches drawn over time: a row for the loop and each thread, a colour for each stage."""

from html import escape
from typing import Any

from pipeflow.executor.trace import LOOP, Span, Trace
from pipeflow.pictures.colors import PALETTE
from pipeflow.reporting.run import next_batch
from pipeflow.reporting.units import seconds

BATCHES = 10
ROW, LEFT, WIDTH = 22, 90, 900


def traced(pipe: Any) -> Trace:
    """Runs some more batches and returns their trace."""
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
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">{"".join([*lines, *shapes])}</svg>'
        f'<p class="faint">{lasted}</p>'
    )


def _span(event: Span, top: int, begun: float, scale: float, trace: Trace) -> str:
    color = "#8a929c" if event.kind == "wait" else _color(event.stage)
    title = "the loop waits" if event.kind == "wait" else trace.stages[event.pipeline][event.stage]
    hint = f"{title}, batch {event.batch}, samples {event.first} to {event.end}: {seconds(event.ended - event.begun)}"
    x, width = LEFT + (event.begun - begun) * scale, max((event.ended - event.begun) * scale, 0.5)
    place = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 4}"'
    return f'<rect {place} fill="{color}"><title>{escape(hint)}</title></rect>'


def _color(stage: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*PALETTE[stage % len(PALETTE)])
