"""Measures the speed of a pipeline and finds its slowest step."""

import argparse
from pathlib import Path
from typing import Any

from pipeflow.commands import measuring, target
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.commands.screen import bar, shortened
from pipeflow.errors import count_of
from pipeflow.progress import Progress
from pipeflow.reporting.advice import Advice, advise
from pipeflow.reporting.report import Report, facts_of, rates, verdict
from pipeflow.reporting.run import Run, load
from pipeflow.reporting.units import seconds, size
from pipeflow.reporting.writing import checked, save

ROWS = 12  # of the table of steps
NAME = 26


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    measuring.arguments(parser)
    parser.add_argument(
        "--compare",
        metavar="SETTING=A,B,...",
        help=f"run once for each value of a setting: {', '.join(target.SETTINGS)}",
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="write a page with figures, timeline, samples and graph; FILE.png: a picture",
    )
    parser.add_argument(
        "--against", metavar="FILE", help="an earlier report, or what --json printed: the report puts both side by side"
    )


def run(given: argparse.Namespace) -> Result:
    path = report_of(given)
    earlier = facts_of(given.against)
    found = target.target_of(given)
    if given.compare:
        return _compared(found, given)
    pipe = found.make()
    figures = measuring.measured(pipe, given.n, given.seconds)
    advice = advise(figures.statistics)
    scaling: dict[int, float] = {}
    lines = [
        Line(verdict(figures, advice), "good"),
        *head(found.name, pipe, figures),
        *crowd(figures),
        *table(figures),
        Line(""),
        *after(advice),
    ]
    if path is not None:
        with Progress("batch with other numbers of threads") as progress:
            scaling = rates(pipe, None, given.n, given.seconds, progress.step)
        save(Report(found.name, pipe, figures, advice, scaling, earlier=earlier), path)
        lines.append(Line(f"the report is {given.report}", "good"))
    return Result(
        lines,
        {
            "target": found.name,
            **figures.facts(),
            "threads_rates": scaling,
            "advice": [{"kind": a.kind, "text": a.text, "gain": a.gain} for a in advice],
        },
    )


def report_of(given: argparse.Namespace) -> Path | None:
    """Where the report goes; one that cannot be written is refused before anything is measured."""
    if given.against is not None and given.report is None:
        raise Refused("--against is about the report: add --report NAME.html")
    if given.report is None:
        return None
    if given.compare:
        raise Refused("--report is about one run: leave --compare out")
    try:
        return checked(given.report)
    except (ValueError, OSError) as error:
        raise Refused(f"--report {given.report}: {error}") from error


def head(name: str, pipe: Any, figures: Run) -> list[Line]:
    """What was measured, in three lines."""
    threads = figures.statistics.threads
    return [
        Line(
            f"{name}: batch {pipe.batch_size}, {count_of(threads, 'thread')}, {count_of(len(figures.laps), 'batch', 'batches')} "
            f"in {seconds(float(figures.laps.sum()))}"
        ),
        Line(
            f"a batch every {seconds(figures.quantile(0.5))} (99 %: {seconds(figures.quantile(0.99))}; first "
            f"{seconds(figures.first)})",
            "faint",
        ),
        Line(
            f"{figures.cpu:.1f} of {figures.statistics.processors} processors, {size(figures.memory)} of memory "
            f"(+{size(figures.grown)})",
            "faint",
        ),
    ]


def crowd(figures: Run) -> list[Line]:
    """A warning where other programs use the processors: what was measured is less than what is possible."""
    processors, wanted = figures.statistics.processors, load()
    if wanted < 1.5 * processors + figures.statistics.threads or figures.cpu > 0.8 * processors:
        return []
    text = f"other programs are at work (load {wanted:.1f} on {processors} processors): measure again later"
    return [Line(text, "warn", wrap=True)]


def table(figures: Run) -> list[Line]:
    """The steps, the one that takes most time first."""
    run = figures.statistics
    total, steps = run.work or 1e-9, run.slowest_first
    lines = [Line(f"{'step':<{NAME}} {'a sample':>10} {'busy':>6} {'waits':>6}  share", "head")]
    for step in steps[:ROWS]:
        wall = max(step.seconds, 1e-9)
        lines.append(
            Line(
                f"{shortened(step.title.removeprefix('fn.'), NAME):<{NAME}} {seconds(step.seconds / max(1, run.samples)):>10} "
                f"{step.busy / wall:>6.0%} {step.waited / wall:>6.0%}  {step.seconds / total:>4.0%} "
                f"{bar(step.seconds / total, 18)}"
            )
        )
    if len(steps) > ROWS:
        rest = sum(step.seconds for step in steps[ROWS:])
        lines.append(Line(f"{len(steps) - ROWS} more steps: {rest / total:.0%}", "faint"))
    return lines


def after(advice: list[Advice]) -> list[Line]:
    """What to try."""
    others = [item for item in advice if item.kind != "bound"]
    if not others:
        return [Line("Next: there is no advice. Compare settings: --compare threads=1,2,4", "faint", wrap=True)]
    return [Line(f"Next: {item}", wrap=True) for item in others[:2]]


def _compared(found: target.NamedPipeline, given: argparse.Namespace) -> Result:
    name, values = settings_of(given.compare)
    runs: list[tuple[int, Run]] = []
    for value in values:
        pipe = found.make(**{target.SETTINGS[name]: value})
        runs.append((value, measuring.measured(pipe, given.n, given.seconds, f"{name}={value}: batch")))
    base = runs[0][1].rate
    best, fastest = max(runs, key=lambda pair: pair[1].rate)
    lines = [
        Line(
            f"{name}={best} is the fastest: {fastest.rate:.4g} samples/s, {fastest.rate / base:.2f} times {name}={runs[0][0]}",
            "good",
        ),
        Line(f"{found.name}: batch {found.pipeline.batch_size}, up to {given.n} batches each", "faint"),
        Line(f"{name:>8} {'samples/s':>10} {'batch':>9} {'99 %':>9} {'processors':>11} {'memory':>8}", "head"),
    ]
    for value, figures in runs:
        lines.append(
            Line(
                f"{value:>8} {figures.rate:>10.4g} {seconds(figures.quantile(0.5)):>9} {seconds(figures.quantile(0.99)):>9} "
                f"{figures.cpu:>11.1f} {size(figures.memory):>8}  {bar(figures.rate / fastest.rate, 18)}"
            )
        )
    facts = [{"value": value, **figures.facts()} for value, figures in runs]
    return Result(lines, {"target": found.name, "setting": name, "best": best, "runs": facts})


def settings_of(text: str) -> tuple[str, list[int]]:
    """``threads=1,2,4`` as a setting and its values."""
    name, equals, values = text.partition("=")
    if not equals or name not in target.SETTINGS:
        raise Refused(f"--compare takes {' or '.join(target.SETTINGS)} with values, threads=1,2,4; got {text!r}")
    try:
        return name, [target.positive(value) for value in values.split(",")]
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise Refused(f"--compare {text}: the values are whole numbers of at least 1") from error
