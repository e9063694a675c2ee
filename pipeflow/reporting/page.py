"""A report as one page of HTML that needs no other file: for a browser, light or dark, wide or narrow."""

import base64
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import metadata
from typing import Any

from pipeflow.errors import count_of
from pipeflow.pictures import drawing
from pipeflow.pictures.graphs import to_svg
from pipeflow.reporting.advice import Advice
from pipeflow.reporting.charts import Curve, chart
from pipeflow.reporting.report import EMBEDDED, Report
from pipeflow.reporting.run import Run
from pipeflow.reporting.timeline import BATCHES, timeline, traced
from pipeflow.reporting.units import seconds, size
from pipeflow.version import VERSION

ROOM = 120_000  # bytes of JPEG, so that the page stays below 300 kB
SAMPLES = 12
STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #59636e; --paper: #ffffff; --line: #d1d9e0; --bar: #0072b2;
  --wait: #e69f00; --lock: #a0527f }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9198a1; --paper: #0d1117; --line: #3d444d; --bar: #56b4e9 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 980px; padding: 20px 16px 60px; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 22px; line-height: 1.3; margin: 8px 0 } h2 { font-size: 16px; margin: 30px 0 8px }
p, li { max-width: 75ch } .faint { color: var(--faint) } svg, img { max-width: 100%; height: auto; border-radius: 6px }
table { border-collapse: collapse; width: 100%; font-size: 14px } td, th { text-align: left; padding: 4px 10px 4px 0;
  border-top: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere }
td.n, th.n { text-align: right; white-space: nowrap }
.scroll { overflow-x: auto } .bar { display: flex; height: 12px; min-width: 90px } .bar i { background: var(--bar) }
.bar b { background: var(--wait) } .bar u { background: var(--lock) }
.key u, .key i, .key b { display: inline-block; width: 12px; height: 12px; margin-left: 10px }
.key u { background: var(--lock) } .key i { background: var(--bar) } .key b { background: var(--wait) }
.figures { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 12px 0 }
.figures div { min-width: 110px }
.figures strong { display: block; font-size: 20px }
.chart text { font: 12px system-ui, sans-serif; fill: var(--ink) } .chart .faint { fill: var(--faint) }
.chart .lane { fill: var(--line); opacity: .35 } .chart .axis { stroke: var(--line) }
.chart .curve { fill: none; stroke: var(--bar); stroke-width: 2.5 } .chart circle { fill: var(--bar) }
.chart .ideal { fill: none; stroke: var(--faint); stroke-width: 1.5; stroke-dasharray: 5 4 }
.charts { display: flex; flex-wrap: wrap; gap: 8px 28px } .charts figure { margin: 0; flex: 1 1 320px }
td.bars { width: 40% }
@media (max-width: 560px) { td, th { padding-right: 6px } td.bars { width: 20% } .bar { min-width: 40px } }
"""


def page(report: Report) -> str:
    """The page: the speed and the limiting step, advice, times, timeline, samples, graph, and machine."""
    run, pipe = report.run, report.pipe
    parts = [
        f"<h1>{escape(report.words)}</h1>",
        f'<p class="faint">{escape(report.name)}, batch {pipe.batch_size}, {count_of(run.statistics.threads, "thread")}, '
        f"{count_of(len(run.laps), 'batch', 'batches')}</p>",
        f'<div class="figures">{"".join(f"<div><strong>{a}</strong>{b}</div>" for a, b in figures(report))}</div>',
        _section("What to try", _advice(report.advice)),
        _section("Compared with an earlier run", _beside(report)),
        _section("Steps", _steps(run)),
        _section("Threads and memory", _charts(report)),
        _section(f"Timeline of {BATCHES} batches", timeline(traced(pipe))),
        _section("Samples", _samples(pipe)),
        _section("Failed samples", _failed(pipe)),
        _section("Graph", f'<div class="scroll">{to_svg(pipe.graph)}</div>'),
        _section("Where", _table(_environment(pipe))),
    ]
    facts = json.dumps(report.facts()).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.name)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + f"\n{EMBEDDED.format(facts)}\n</body></html>\n"
    )


def figures(report: Report) -> list[tuple[str, str]]:
    """The numbers of a report in their order, each with its description."""
    run = report.run
    found = [
        (f"{run.rate:.4g}", "samples a second"),
        (seconds(run.quantile(0.5)), "from batch to batch"),
        (seconds(run.quantile(0.99)), "for the slowest 1 %"),
        (seconds(run.first), "until the first batch"),
        (f"{run.cpu:.1f} of {run.statistics.processors}", "processors busy"),
        (size(run.memory), "memory"),
    ]
    if report.exposed is not None:
        found.insert(0, (f"{report.exposed:.0%}", "of your loop: waiting for data"))
    return found


def _section(head: str, text: str) -> str:
    return f"<h2>{escape(head)}</h2>\n{text}" if text else ""


def _advice(advice: Sequence[Advice]) -> str:
    if not advice:
        return "<p>There is no advice. Try more threads: <code>--compare threads=1,2,4</code></p>"
    ranked = sorted(advice, key=lambda item: -(item.gain or 0))
    gains = [f" <b>up to {item.gain:.1f} times</b>" if item.gain else "" for item in ranked]
    return "<ol>" + "".join(f"<li>{escape(str(item))}{gain}</li>" for item, gain in zip(ranked, gains)) + "</ol>"


def _steps(run: Run) -> str:
    """Each step with its share of the work: purple with the interpreter's lock, blue on a processor, orange waiting."""
    total = run.statistics.work or 1e-9
    rows = []
    for step in run.statistics.slowest_first:
        worked = min(step.busy, step.seconds)
        kept = min(step.kept or 0.0, worked)
        parts = (("u", kept), ("i", worked - kept), ("b", step.waited))
        spans = "".join(f'<{tag} style="width: {100 * part / total:.1f}%"></{tag}>' for tag, part in parts if part)
        bar = f'<div class="bar">{spans}</div>'
        each = seconds(step.seconds / max(1, run.statistics.samples))
        rows.append(
            f"<tr><td>{escape(step.title.removeprefix('fn.'))}</td><td class='n'>{each}</td>"
            f"<td class='n'>{step.seconds / total:.0%}</td><td class='bars'>{bar}</td></tr>"
        )
    head = "<tr><th>step</th><th class='n'>a sample</th><th class='n'>share</th><th>time</th></tr>"
    lock = "on a processor with the interpreter's lock (GIL)"
    key = f'<p class="faint key"><u></u> {lock} <i></i> on a processor <b></b> waiting</p>'
    queued = run.statistics.queued
    note = f'<p class="faint">Threads that had work waited {seconds(queued)} for a processor.</p>' if queued else ""
    return f"<table>{head}{''.join(rows)}</table>{key}{note}"


def _beside(report: Report) -> str:
    """A comparison of this run and an earlier one: the speed, the time of a batch, memory, and each step that both have."""
    if report.earlier is None:
        return ""
    new, old = report.run.facts(), report.earlier
    rows = [
        _pair("samples a second", old["samples_per_second"], new["samples_per_second"], lambda value: f"{value:.4g}"),
        _pair("a batch", old["batch_seconds"]["p50"], new["batch_seconds"]["p50"], seconds),
        _pair("first batch", old["batch_seconds"]["first"], new["batch_seconds"]["first"], seconds),
        _pair("memory", old["memory_bytes"], new["memory_bytes"], size),
    ]
    before, after = _each(old), _each(new)
    rows += [
        _pair(f"{title.removeprefix('fn.')}, a sample", before[title, number], each, seconds)
        for (title, number), each in after.items()
        if (title, number) in before
    ]
    head = f"<tr><th></th><th class='n'>{escape(old['file'])}</th><th class='n'>now</th><th class='n'>now / before</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _each(facts: Mapping[str, Any]) -> dict[tuple[str, int], float]:
    """Seconds per sample for each step; steps with the same title are distinguished by their order."""
    seen: Counter[str] = Counter()
    found = {}
    for step in facts["steps"]:
        seen[step["operator"]] += 1
        found[step["operator"], seen[step["operator"]]] = step["seconds"] / max(1, facts["samples"])
    return found


def _pair(name: str, old: float, new: float, words: Callable[[float], str]) -> str:
    share = f"{new / old:.2f}" if old else ""
    cells = "".join(f"<td class='n'>{cell}</td>" for cell in (words(old), words(new), share))
    return f"<tr><td>{escape(name)}</td>{cells}</tr>"


def _charts(report: Report) -> str:
    """The speed by number of threads, with a line for threads that all add as much as the first one; and the memory."""
    drawn = []
    if len(report.scaling) > 1:
        points = sorted(report.scaling.items())
        threads, rate = points[0]
        ideal = [(0.0, 0.0), *((float(count), rate * count / threads) for count, _ in points)]
        drawn.append(
            chart(
                "samples a second against threads; dashed: every thread brings as much as the first",
                [Curve([(float(count), rate) for count, rate in points], dots=True), Curve(ideal, ideal=True)],
                across=[count for count, _ in points],
                words=lambda value: f"{value:.3g}",
            )
        )
    if report.run.memory:
        sizes = [(float(batch), float(value)) for batch, value in enumerate(report.run.sizes)]
        drawn.append(chart("bytes of memory after each batch", [Curve(sizes)], across=[0, len(sizes) - 1], words=size))
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""


def _samples(pipe: Any) -> str:
    """The first samples as JPEG; fewer and smaller ones if the page would become too large."""
    try:
        draw, as_jpeg = drawing("grid:draw"), drawing("canvas:as_jpeg")
    except ModuleNotFoundError as error:
        return f"<p>{escape(str(error))}</p>"
    batches = pipe.first_batches(SAMPLES)
    for count, width in ((SAMPLES, 900), (SAMPLES, 600), (4, 300), (2, 200)):
        data = as_jpeg(draw(batches, count, width=width).png)
        if len(data) <= ROOM:
            return f'<img alt="samples" src="data:image/jpeg;base64,{base64.b64encode(data).decode()}"/>'
    return "<p>The samples are too large for this page: pipeflow show draws them.</p>"


def _failed(pipe: Any) -> str:
    failures = pipe.failures()
    return "<ul>" + "".join(f"<li>{escape(str(item))}</li>" for item in failures[:12]) + "</ul>" if failures else ""


def _environment(pipe: Any) -> Iterable[tuple[str, str]]:
    """The machine, the versions, and the settings of the pipeline."""
    yield "pipeflow", VERSION
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield "libraries", ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "numba"))
    for name, meta in pipe.reader_meta().items():
        shards = f", shard {meta['shard_id']} of {meta['number_of_shards']}" if meta["number_of_shards"] > 1 else ""
        yield name, f"{count_of(meta['epoch_size'], 'sample')}{shards}"
    for name in ("batch_size", "num_threads", "prefetch_queue_depth", "py_num_workers", "device_id", "seed"):
        yield name, str(getattr(pipe, name))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows) + "</table>"
