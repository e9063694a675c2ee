"""Says which step limits a pipeline, and what would help how much."""

import argparse

from pipeflow.commands import measuring, target
from pipeflow.commands.result import Line, Result
from pipeflow.reporting.advice import advise


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    measuring.arguments(parser)


def run(given: argparse.Namespace) -> Result:
    found = target.target_of(given)
    figures = measuring.measured(found.make(), given.n, given.seconds)
    advice = advise(figures.statistics)
    facts = {
        "target": found.name,
        "samples_per_second": figures.rate,
        "advice": [{"kind": a.kind, "step": a.step, "text": a.text, "gain": a.gain} for a in advice],
    }
    best = max((a.gain or 1.0 for a in advice), default=1.0)
    if not advice:
        return Result([Line(f"no advice: {found.name} makes {figures.rate:.4g} samples/s", "good")], facts)
    first = (
        f"up to {best:.1f} times as fast, by the figures"
        if best > 1
        else "the limiting step is known, and no setting helps"
    )
    lines = [Line(f"{found.name}: {figures.rate:.4g} samples/s; {first}", "good")]
    for number, item in enumerate(advice, 1):
        lines += [Line(""), Line(f"{number}. {item}", "warn" if (item.gain or 0) > 1.5 else "", wrap=True)]
    return Result(lines, facts)
