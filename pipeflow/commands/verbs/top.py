"""Shows the speed of a program that is running, a line every second.

Start the program with PIPEFLOW_TOP=1. Ctrl-C ends this command and leaves the program alone.
"""

import argparse
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pipeflow import timing
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.commands.screen import shortened
from pipeflow.commands.target import positive
from pipeflow.errors import InvalidState
from pipeflow.reporting.units import seconds
from pipeflow.watching import attaching

ROW = re.compile(r'(pipeflow_\w+)\{pipeline="(\d+)"(.*)\} (\S+)')
LABEL = re.compile(r'operator="((?:[^"\\]|\\.)*)"')
HEAD = (
    f"{'time':>8} {'pipe':>4} {'samples/s':>9} {'batch':>8} {'loop waits':>10} {'ready':>5} {'failed':>6}  slowest step"
)
Values = dict[str, dict[str, float]]  # by pipeline and name; of a step also by operator


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("process", nargs="?", type=positive, metavar="PID", help="the number of the process")
    parser.add_argument(
        "-n", type=positive, metavar="LINES", help="end after so many readings; without it: with Ctrl-C"
    )
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="time between two readings")


def run(given: argparse.Namespace) -> Result:
    if given.every <= 0:
        raise Refused(f"--every is a time in seconds above 0, got {given.every:g}")
    if given.json and given.n is None:
        raise Refused("--json ends by itself: add -n LINES")
    process = given.process or the_only_one(attaching.running())
    rows = readings(process, given.n, given.every)
    if given.json:
        return Result([], {"process": process, "readings": list(rows)})
    return Result(lines_of(rows))


def the_only_one(processes: list[int]) -> int:
    """The process that is meant where none is named."""
    if not processes:
        raise Refused("no program can be watched: start one with PIPEFLOW_TOP=1 (PIPEFLOW_TOP=1 python train.py)")
    if len(processes) > 1:
        raise Refused(f"several programs are running, name one: {', '.join(map(str, processes))}")
    return processes[0]


def readings(process: int, most: "int | None", every: float) -> Iterator[dict[str, Any]]:
    """What changed between two readings, for each pipeline; ends when the program does."""
    before, begun, made = parsed(attaching.metrics_of(process)), timing.wall(), 0
    while most is None or made < most:
        try:
            time.sleep(every)
            now = parsed(attaching.metrics_of(process))
        except (InvalidState, KeyboardInterrupt):
            return
        ended = timing.wall()
        for pipeline, values in now.items():
            yield {"pipeline": int(pipeline), **changed(before.get(pipeline, {}), values, ended - begun)}
        before, begun, made = now, ended, made + 1


def parsed(text: str) -> Values:
    """The values of each pipeline."""
    found: Values = defaultdict(lambda: defaultdict(float))
    for name, pipeline, labels, value in ROW.findall(text):
        operator = LABEL.search(labels)
        if not name.endswith("_bucket"):
            found[pipeline][f"{name} {operator[1]}" if operator else name] += float(value)
    return found


def changed(old: dict[str, float], new: dict[str, float], lasted: float) -> dict[str, Any]:
    """Rates from two readings."""
    grown = {name: value - old.get(name, 0.0) for name, value in new.items()}
    batches = grown.get("pipeflow_batches_total", 0.0)
    steps = {
        name.partition(" ")[2]: value
        for name, value in grown.items()
        if name.startswith("pipeflow_operator_seconds_total ") and value > 0
    }
    slowest = max(steps, key=lambda step: steps[step], default="")
    return {
        "samples_per_second": grown.get("pipeflow_samples_total", 0.0) / lasted,
        "batch_seconds": lasted / batches if batches else None,
        "loop_waits": min(1.0, grown.get("pipeflow_exposed_wait_seconds_sum", 0.0) / lasted),
        "ready": int(new.get("pipeflow_queue_depth", 0)),
        "failed": int(sum(value for name, value in new.items() if name.startswith("pipeflow_failed_samples_total"))),
        "slowest_step": slowest,
        "slowest_share": steps[slowest] / sum(steps.values()) if steps else 0.0,
    }


def lines_of(rows: Iterator[dict[str, Any]]) -> Iterator[Line]:
    """The readings as a table without an end."""
    yield Line(HEAD, "head")
    for row in rows:
        batch = seconds(row["batch_seconds"]) if row["batch_seconds"] else "-"
        step = (
            f"{shortened(row['slowest_step'].removeprefix('fn.'), 17)} {row['slowest_share']:.0%}"
            if row["slowest_step"]
            else "-"
        )
        yield Line(
            f"{time.strftime('%H:%M:%S')} {row['pipeline']:>4} {row['samples_per_second']:>9.4g} {batch:>8} "
            f"{row['loop_waits']:>10.0%} {row['ready']:>5} {row['failed']:>6}  {step}"
        )
