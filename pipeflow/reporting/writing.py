"""Measures a pipeline and writes the report: a page (.html) or a picture (.png)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeflow.errors import function_name
from pipeflow.pictures import Picture, drawing
from pipeflow.reporting.advice import advise
from pipeflow.reporting.page import SAMPLES, figures, page
from pipeflow.reporting.report import Report, facts_of, rates
from pipeflow.reporting.run import measured
from pipeflow.reporting.units import seconds as in_words

INNER = 790  # width of the samples in the picture
ENOUGH = 3  # a loop with this many batches shows how long it waits


def write(
    pipe: Any,
    path: "str | os.PathLike[str]",
    *,
    batches: int,
    seconds: float,
    threads: "Sequence[int] | None",
    against: "str | os.PathLike[str] | None",
) -> Path:
    """Measures a copy of the pipeline and writes the report."""
    target = checked(path)
    earlier = facts_of(against)
    loop = pipe.statistics() if pipe._executor is not None else None
    exposed = loop.waited / max(loop.seconds, 1e-9) if loop is not None and loop.batches >= ENOUGH else None
    scaling = rates(pipe, threads, batches, seconds)
    with pipe._aside() as copy:
        run = measured(copy, batches, seconds)
        name = function_name(pipe._define).partition(" (")[0] if pipe._define else type(pipe).__name__
        save(Report(name, copy, run, advise(run.statistics), scaling, exposed, earlier), target)
    return target


def checked(path: "str | os.PathLike[str]") -> Path:
    """The path of a report's file; refuses a path that cannot be used, before anything is measured."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".png"):
        raise ValueError(f"a report is a page or a picture: its name ends with .html or .png; got {str(target)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} for the report")
    return target


def save(report: Report, target: Path) -> None:
    """Writes a report; the name of the file determines whether it is a page or a picture."""
    if target.suffix.lower() == ".png":
        summary(report).save(target)
    else:
        target.write_text(page(report), encoding="utf-8")


def summary(report: Report) -> Picture:
    """The first page as a picture."""
    run = report.run
    total = run.statistics.work or 1e-9
    bars = [
        (
            step.title.removeprefix("fn."),
            in_words(step.seconds / max(1, run.statistics.samples)),
            min(step.busy, step.seconds) / total,
            step.waited / total,
        )
        for step in run.statistics.slowest_first
    ]
    samples = drawing("grid:draw")(report.pipe.first_batches(SAMPLES), SAMPLES, width=INNER)
    found: Picture = drawing("summary:draw")(report.words, report.name, figures(report), bars, report.scaling, samples)
    return found
