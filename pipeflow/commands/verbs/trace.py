"""Records a timeline of all threads, for ui.perfetto.dev."""

import argparse
from pathlib import Path

from pipeflow.commands import target
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.executor.trace import Trace
from pipeflow.progress import Progress
from pipeflow.reporting.run import next_batch, refuse_fed
from pipeflow.reporting.units import seconds, size
from pipeflow.watching.perfetto import write


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    parser.add_argument("-n", type=target.positive, default=20, metavar="BATCHES", help="number of batches recorded")
    parser.add_argument("--skip", type=int, default=3, metavar="BATCHES", help="number of batches before the recording")
    parser.add_argument("-o", "--output", default="trace.json", metavar="FILE", help="file for the trace")


def run(given: argparse.Namespace) -> Result:
    path = Path(given.output)
    if not path.parent.is_dir():
        raise Refused(f"there is no folder {path.parent} for the trace")
    found = target.target_of(given)
    pipe = found.make()
    refuse_fed(pipe)
    trace = Trace()
    with Progress("batch", given.n + given.skip) as progress:
        for number in range(given.n + given.skip):
            if number == given.skip:
                trace.over(pipe._compiled())
            next_batch(pipe)
            progress.step()
    count = write(trace, str(path))
    events = trace.spans()
    waited = sum(event.ended - event.begun for event in events if event.kind == "wait")
    spent: dict[str, float] = {}
    for event in events:
        if event.kind == "stage":
            title = trace.stages[event.pipeline][event.stage]
            spent[title] = spent.get(title, 0.0) + event.ended - event.begun
    whole = max(event.ended for event in events) - min(event.begun for event in events)
    lines = [
        Line(f"{path}: {given.n} batches in {seconds(whole)}, {count} events, {size(path.stat().st_size)}", "good"),
        Line(f"the loop waited {seconds(waited)} of them; it did nothing else", "faint"),
    ]
    for title, took in sorted(spent.items(), key=lambda item: item[1], reverse=True)[:8]:
        lines.append(Line(f"{seconds(took / given.n):>10} a batch  {title}"))
    lines.append(
        Line("Next: open it at ui.perfetto.dev (the file stays on your machine); arrows follow a batch", "faint")
    )
    facts = {"path": str(path.resolve()), "events": count, "seconds": whole, "waited_seconds": waited, "stages": spent}
    return Result(lines, facts)
