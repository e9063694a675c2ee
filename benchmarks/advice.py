"""How well does one measured run predict the speed with other settings, and how near to the best are recommended and automatic ones?

    python benchmarks/advice.py [words of the names of some pipelines] [--raw FOLDER] [--replay FOLDER]

In each of three rounds, each of forty pipelines runs once with the settings of its base and is measured. From these figures alone
its speed with other settings is predicted: threads, batches ahead, `parallel` of its functions, worker processes. In the same round
other pipelines with these settings run in turn, so that a disturbance of the machine affects all in the same way. The error is the
median over the rounds of predicted / measured. `auto` is a pipeline whose settings are all "auto". It takes its turn in the rounds,
and is compared with the best of the fixed settings that "auto" may choose. If other programs, or other guests of the host, take a
part of the processors in a turn, the rounds without such turns count; the table says how many turns were disturbed.
`--raw` keeps the figures, and `--replay` predicts from kept ones.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("PIPEFLOW_START", "wait")  # before pipeflow is imported: no kernel is loaded during a measurement

import _forty
from _harness import Target, header, save, settle, table, verdicts

from pipeflow.advice import predicted
from pipeflow.executor.figures import Statistics
from pipeflow.executor.model import Model

MEASURED = 0.5  # seconds of a run that predicts
TURN = 0.22  # seconds of a turn
ROUNDS = 3
TUNING = 2.0  # seconds that automatic settings have at most, and 200 batches
PERIOD = 8  # of bursts: turns have whole periods
CHOICE = 0.03  # of settings whose predictions differ by less, the one that uses least is recommended


@dataclass
class Measured:
    """The figures of one pipeline."""

    kind: str
    name: str
    settings: list[dict[str, Any]]
    figures: list[Statistics] = field(default_factory=list)  # of each round
    rates: list[list[float]] = field(default_factory=list)  # for each setting the samples/s of each round
    work: list[float] = field(default_factory=list)  # for each setting, processor seconds of this process for a sample
    automatic: list[tuple[float, float]] = field(default_factory=list)
    chosen: str = ""
    on_threads: bool = False  # "auto" may call the functions on threads
    batches: int = 0  # until the automatic settings were settled


class Runner:
    """A pipeline and its loop."""

    def __init__(self, case: _forty.Case, settings: dict[str, Any]) -> None:
        self.case, self.pipe = case, case.make(**settings)
        self.period = PERIOD if case.kind == "bursts" else 1
        self.batch_size = settings["batch_size"]
        self.depth = 2 if settings["prefetch_queue_depth"] == "auto" else settings["prefetch_queue_depth"]

    def step(self) -> None:
        try:
            self.pipe.run()
        except StopIteration:
            self.pipe.reset()
            self.pipe.run()
        if self.case.loop is not None:
            self.case.loop()

    def turn(self, seconds: float, least: int = 4) -> tuple[float, float]:
        """Samples a second, and processor seconds for a sample."""
        for _ in range(self.depth + 3):  # those that were made before this turn
            self.step()
        begun, used, count = time.perf_counter(), time.process_time(), 0
        while count < least or count % self.period or time.perf_counter() - begun < seconds:
            self.step()
            count += 1
        samples = count * self.batch_size
        return samples / (time.perf_counter() - begun), (time.process_time() - used) / samples


def measure(case: _forty.Case) -> Measured:
    settings = case.all_settings()
    found = Measured(case.kind, case.name, settings)
    automatic = {"num_threads": "auto", "prefetch_queue_depth": "auto", "parallel": "auto"}
    if settings[0]["parallel"] != "serial":
        automatic["parallel"] = settings[0]["parallel"]
    auto = Runner(case, {**settings[0], **automatic})
    base, *runners = [Runner(case, each) for each in [settings[0], *settings]]
    begun = time.perf_counter()
    while not auto.pipe.settings().settled and time.perf_counter() - begun < TUNING:
        auto.step()
        found.batches += 1
    for runner in (base, *runners):
        runner.turn(0.05, 1)
    turns: list[list[tuple[float, float]]] = [[] for _ in runners]
    for _ in range(ROUNDS):
        settle(0.2, 0.5)
        with base.pipe.measure():
            base.turn(MEASURED, PERIOD)
        found.figures.append(base.pipe.statistics())
        for runner, results in zip((*runners, auto), (*turns, found.automatic)):
            settle(0.05, 0.5)
            results.append(runner.turn(TURN))
    found.rates = [[rate for rate, _ in results] for results in turns]
    found.work = [statistics.median(work for _, work in results) for results in turns]
    ways = [choice.value for choice in auto.pipe.settings() if choice.name.startswith("parallel of")]
    found.on_threads = bool(ways) and set(ways) == {"threads"}
    found.chosen = ", ".join(
        f"{choice.name}={choice.value}"
        for choice in auto.pipe.settings()
        if choice.by == "auto" and " of " not in choice.name
    )
    return found


@dataclass
class Judged:
    """The predictions of one pipeline, compared with what was measured."""

    errors: list[float]
    beyond: float  # the largest share of the processors that a prediction would need
    recommended: float  # speed of the recommended setting, as a part of the best
    automatic: float
    rows: list[tuple[object, ...]]


def cost(settings: dict[str, Any]) -> tuple[int, int]:
    workers = settings["py_num_workers"] if settings["parallel"] == "processes" else 0
    return settings["num_threads"] + 2 * workers, settings["prefetch_queue_depth"]


def judge(found: Measured) -> Judged:
    models = [Model(figures) for figures in found.figures]
    predictions = [[predicted(model, **settings).samples_per_second for model in models] for settings in found.settings]
    medians = [statistics.median(ours) for ours in predictions]
    rates = [statistics.median(rates) for rates in found.rates]
    ratios = [
        statistics.median(one / other for one, other in zip(ours, measured))
        for ours, measured in zip(predictions, found.rates)
    ]
    errors = [abs(ratio - 1) for ratio in ratios]
    beyond = max(ours * work / models[0].run.processors for ours, work in zip(medians, found.work))
    worth = [place for place, ours in enumerate(medians) if ours >= (1 - CHOICE) * max(medians)]
    recommended = min(worth, key=lambda place: cost(found.settings[place]))
    base = found.settings[0]
    ways = {base["parallel"]} | ({"threads"} if found.on_threads else set())
    free = [
        rate
        for rate, settings in zip(rates, found.settings)
        if settings["parallel"] in ways and settings["py_num_workers"] == base["py_num_workers"]
    ]
    rows = []
    for settings, ours, measured, ratio in zip(found.settings, medians, rates, ratios):
        changed = (
            ", ".join(f"{name}={value}" for name, value in settings.items() if value != base[name]) or "as measured"
        )
        rows.append((found.kind, found.name, changed, ours, measured, f"{100 * (ratio - 1):+.1f} %"))
    return Judged(
        errors,
        beyond,
        rates[recommended] / max(rates),
        statistics.median(rate for rate, _ in found.automatic) / max(free),
        rows,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--replay", type=Path)
    given = parser.parse_args()
    reading = header(__doc__)
    begun = time.perf_counter()
    measured: list[Measured] = []
    if given.replay is not None:
        measured = [pickle.loads(path.read_bytes()) for path in sorted(given.replay.glob("*.pickle"))]
    else:
        with tempfile.TemporaryDirectory() as folder:
            _forty.prepare(Path(folder))
            for number, case in enumerate(_forty.cases(Path(folder))):
                title = f"{case.kind}: {case.name}"
                if all(word in title for word in given.words):
                    measured.append(measure(case))
                    if given.raw is not None:
                        given.raw.mkdir(exist_ok=True)
                        (given.raw / f"{number:02}.pickle").write_bytes(pickle.dumps(measured[-1]))
                    print(f"{time.perf_counter() - begun:5.0f} s  {title}", file=sys.stderr)
    return report(reading, measured, time.perf_counter() - begun)


def report(reading: dict[str, Any], measured: list[Measured], seconds: float) -> int:
    begun = time.perf_counter()
    judged = [judge(found) for found in measured]
    predicting = time.perf_counter() - begun
    predictions = [row for each in judged for row in each.rows]
    table("Samples a second", ["kind", "pipeline", "settings", "predicted", "measured", "error"], predictions)
    lines = []
    for found, each in zip(measured, judged):
        middle = statistics.median(each.errors)
        lines.append(
            (
                found.kind,
                found.name,
                100 * middle,
                100 * max(each.errors),
                each.recommended,
                each.automatic,
                found.batches,
                found.chosen,
            )
        )
    table(
        "Pipelines",
        ["kind", "pipeline", "median error, %", "largest, %", "recommended", "auto", "batches", "chosen"],
        lines,
    )
    errors = sorted(error for each in judged for error in each.errors)
    targets = [
        Target("median error of a prediction, %", 100 * statistics.median(errors), 10.0),
        Target("90th percentile of the errors, %", 100 * errors[int(0.9 * (len(errors) - 1))], 25.0),
        Target("largest share of the processors that is promised", max(each.beyond for each in judged), 1.05),
        Target(
            "recommended setting, least part of the best speed",
            min(each.recommended for each in judged),
            0.9,
            at_most=False,
        ),
        Target(
            "automatic settings, least part of the best speed",
            min(each.automatic for each in judged),
            0.95,
            at_most=False,
        ),
        Target("milliseconds of a prediction", 1e3 * predicting / max(1, len(errors)), 50.0),
        Target("minutes of this benchmark", seconds / 60, 10.0),
    ]
    verdicts(targets)
    kinds: dict[str, list[float]] = {}
    for found, each in zip(measured, judged):
        kinds.setdefault(found.kind, []).extend(each.errors)
    results = {
        "errors": {kind: {"median": statistics.median(found), "largest": max(found)} for kind, found in kinds.items()},
        "pipelines": {
            f"{found.kind}: {found.name}": {
                "median error": statistics.median(each.errors),
                "recommended": each.recommended,
                "automatic": each.automatic,
            }
            for found, each in zip(measured, judged)
        },
    }
    save("advice", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
