"""The data of a report: a measured pipeline, other measurements of it, and an earlier run."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeflow import system
from pipeflow.reporting.advice import Advice
from pipeflow.reporting.run import Run, measured

PART = 4  # a run with another number of threads takes this part of the batches and of the time
EMBEDDED = '<script type="application/json" id="facts">{}</script>'


@dataclass(frozen=True)
class Report:
    """A measured pipeline."""

    name: str
    pipe: Any
    run: Run
    advice: Sequence[Advice]
    scaling: Mapping[int, float] = field(default_factory=dict)  # samples a second by number of threads
    exposed: float | None = None  # the share of its time in which the user's own loop waited for batches
    earlier: Mapping[str, Any] | None = None  # the facts of an earlier run, and its file

    @property
    def words(self) -> str:
        """The verdict, as text."""
        return verdict(self.run, self.advice)

    def facts(self) -> dict[str, Any]:
        """The data with which a later report can be compared."""
        return {"target": self.name, **self.run.facts(), "threads_rates": dict(self.scaling)}


def verdict(run: Run, advice: Sequence[Advice]) -> str:
    """The speed, and the step that limits it or has most of the work."""
    steps = run.statistics.slowest_first
    bound = next((item for item in advice if item.kind == "bound"), None)
    if bound is not None and bound.step:
        reason = f"bound by {short(bound.step)}"
    elif steps:
        reason = f"most of the work is {short(steps[0].title)} ({steps[0].seconds / (run.statistics.work or 1e-9):.0%})"
    else:
        reason = "there are no steps"
    return f"{run.rate:.4g} samples/s; {reason}"


def short(title: str) -> str:
    """The name of a step without the file and line of its function."""
    return title.partition(" (")[0]


def rates(
    pipe: Any, threads: "Sequence[int] | None", batches: int, seconds: float, step: Callable[[], object] = lambda: None
) -> dict[int, float]:
    """Samples a second with other numbers of threads: 1, 2, 4 and so on up to the processors, or those given."""
    found: dict[int, float] = {}
    for count in doublings(len(system.processors())) if threads is None else threads:
        with pipe._aside(num_threads=count) as copy:
            found[count] = measured(copy, max(3, batches // PART), seconds / PART, step).rate
    return found


def doublings(processors: int) -> list[int]:
    """1, 2, 4, ... and the number of processors."""
    return sorted({*(2**power for power in range(processors.bit_length()) if 2**power <= processors), processors})


def facts_of(path: "str | os.PathLike[str] | None") -> dict[str, Any] | None:
    """The data of an earlier run: from a page, or from the output of ``bench --json``."""
    if path is None:
        return None
    text = Path(path).read_text(encoding="utf-8")
    page = re.search(re.escape(EMBEDDED).replace(r"\{\}", "(.*?)"), text, re.S)
    try:
        found: dict[str, Any] = json.loads(page[1] if page else text)
        _ = found["samples_per_second"], found["steps"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{str(path)!r} is neither a report nor the output of `pipeflow bench --json`") from None
    return {**found, "file": Path(path).name}
