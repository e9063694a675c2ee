"""How well does one measured run predict the speed with other settings, and how near to the best are the chosen ones?

    python benchmarks/advice.py [words of the name of a pipeline] [--raw FOLDER [--minutes M]] [--replay FOLDER]

In each of three rounds, each of forty pipelines runs once with the settings of its base and is measured. From these figures
alone its speed with other settings is predicted: threads, batches ahead, `parallel` of its functions, worker processes, a cache.
In the same round other pipelines with these settings run in turn, so that a disturbance of the machine affects all of them alike.
The error is the median over the rounds of predicted / measured. `auto` is a pipeline whose settings are all "auto".

Of many settings that are equally fast one always seems the best, by accident. So the rounds only choose: the recommended setting,
the best of all, and the best of the fixed ones that "auto" may choose. Then these and `auto` run again in turn, and the parts of
the best speed are medians over these last turns. `again` is another pipeline with the best settings, compared with it in the same
turns: its distance from 1 is the noise of these figures.

If other programs or other guests of the host take a part of the processors in a turn, only the undisturbed rounds count, unless
there are none; the last table says how many turns were disturbed.

`--raw` keeps the figures of each pipeline in a folder, and does not measure those that it has; with `--minutes` none begins
later. So the benchmark can be run in pieces. `--replay` predicts from kept figures.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("PIPEFLOW_START", "wait")  # before pipeflow is imported: no kernel is loaded during a measurement

import _forty
from _harness import Target, header, save, settle, table, verdicts

from pipeflow import system
from pipeflow.executor.figures import Statistics
from pipeflow.executor.model import Model
from pipeflow.reporting.advice import predicted

MEASURED = 0.9  # seconds of a run that predicts; a probe of the interpreter takes the first 0.4
TURN = 0.22  # seconds of a turn
ROUNDS = 3
LAST_ROUNDS, LAST_TURN = 11, 0.15  # of the settings that were chosen, and seconds of a turn
REST = 0.03  # seconds between two turns, in which a pipeline finishes the batches that it makes ahead
TUNING = 200, 8.0  # batches and seconds that automatic settings have at most
PERIOD = 8  # of bursts: turns have whole periods
DISTURBED = 0.2  # processors that others may have in a turn
GAIN = 0.1  # by which another setting must be predicted to be faster than the measured one to be recommended
CHOICE = 0.08  # of settings whose predictions differ by less, one that uses fewer threads is recommended


class Turn(NamedTuple):
    """What was measured in a turn."""

    rate: float  # samples a second
    work: float  # processor seconds of this process for a sample
    others: float  # processors that others had

    @property
    def quiet(self) -> bool:
        """True if nothing else was at work."""
        return self.others <= DISTURBED


@dataclass
class Measured:
    """The figures of one pipeline."""

    kind: str
    name: str
    settings: list[dict[str, Any]]
    figures: list[Statistics] = field(default_factory=list)  # of each round
    turns: list[list[Turn]] = field(default_factory=list)  # for each setting the turn of each round
    spared: list[str] = field(default_factory=list)  # the steps that a cache spares,
    kept: str = ""  # and the one whose samples it keeps
    chosen: str = ""
    on_threads: bool = False  # "auto" may call the functions on threads
    batches: int = 0  # until the automatic settings were settled
    recommended: list[Turn] = field(default_factory=list)  # the last turns: of the recommended setting,
    best: list[Turn] = field(default_factory=list)  # of the best one,
    best_free: list[Turn] = field(default_factory=list)  # of the best one that "auto" may choose,
    again: list[Turn] = field(default_factory=list)  # of another pipeline with the best settings,
    automatic: list[Turn] = field(default_factory=list)  # and of the automatic settings
    seconds: float = 0.0  # that this pipeline took


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

    def turn(self, seconds: float, least: int = 4) -> Turn:
        """One turn of at least so many seconds and batches."""
        for _ in range(self.depth + 3):  # those that were made before this turn
            self.step()
        busy, own = self._busy()
        begun, count = time.perf_counter(), 0
        while count < least or count % self.period or time.perf_counter() - begun < seconds:
            self.step()
            count += 1
        taken, samples = time.perf_counter() - begun, count * self.batch_size
        busy_after, own_after = self._busy()
        others = max(0.0, (busy_after - busy) - (own_after - own)) / taken
        return Turn(samples / taken, (own_after - own) / samples, others)

    def _busy(self) -> tuple[float, float]:
        """Seconds that the processors have been busy, and of these for this pipeline."""
        workers = self.pipe._compiled().crew.workers
        processes = [] if workers is None else workers.worker_pids()
        own = time.process_time() + sum(map(system.processor_seconds, processes))
        return system.busy_seconds() or own, own


def measure(case: _forty.Case) -> Measured:
    started = time.perf_counter()
    settings = case.all_settings()
    found = Measured(case.kind, case.name, settings)
    automatic = {"num_threads": "auto", "prefetch_queue_depth": "auto"}
    if settings[0]["parallel"] == "serial":
        automatic["parallel"] = "auto"
    auto = Runner(case, {**settings[0], **automatic})
    base, *runners = [Runner(case, each) for each in [settings[0], *settings]]
    if any(each["cached"] for each in settings):
        found.kept = base.pipe.plan.steps()[-1].name
        found.spared = base.pipe.plan.needed_only_by(found.kept)
    begun = time.perf_counter()
    while not auto.pipe.settings().settled and found.batches < TUNING[0] and time.perf_counter() - begun < TUNING[1]:
        auto.step()
        found.batches += 1
    for runner in (base, *runners):
        runner.turn(0.05, 1)
    found.turns = [[] for _ in runners]
    for _ in range(ROUNDS):
        settle(0.2, 0.5)
        with base.pipe.measure():
            base.turn(MEASURED, PERIOD)
        found.figures.append(base.pipe.statistics())
        for runner, results in zip(runners, found.turns):
            time.sleep(REST)
            results.append(runner.turn(TURN))
    ways = [choice.value for choice in auto.pipe.settings() if choice.name.startswith("parallel of")]
    found.on_threads = bool(ways) and set(ways) == {"threads"}
    choices = [choice for choice in auto.pipe.settings() if choice.by == "auto" and " of " not in choice.name]
    found.chosen = ", ".join(f"{choice.name}={choice.value}" for choice in choices)
    rates = [rate(turns) for turns in found.turns]
    last = {
        "recommended": runners[recommended(found, medians(found))],
        "best": runners[max(range(len(rates)), key=rates.__getitem__)],
        "best_free": runners[max(free(found), key=rates.__getitem__)],
        "automatic": auto,
    }
    last["again"] = Runner(case, settings[runners.index(last["best"])])
    last["again"].turn(0.05, 1)
    for _ in range(LAST_ROUNDS):
        known: dict[Runner, Turn] = {}  # one turn counts for all that chose this setting
        for name, runner in last.items():
            if runner not in known:
                time.sleep(REST)
                known[runner] = runner.turn(LAST_TURN)
            getattr(found, name).append(known[runner])
    found.seconds = time.perf_counter() - started
    return found


@dataclass
class Judged:
    """The predictions of one pipeline, compared with what was measured."""

    errors: list[float]
    beyond: float  # the largest share of the processors that a prediction would need
    recommended: float  # speed of the recommended setting, as a part of the best
    automatic: float
    again: float  # the same for another pipeline with the best settings
    disturbed: float  # share of the turns
    rows: list[tuple[object, ...]]


def cost(settings: dict[str, Any]) -> int:
    workers = settings["py_num_workers"] if settings["parallel"] == "processes" else 0
    return settings["num_threads"] + 2 * workers


def rate(turns: list[Turn]) -> float:
    """The median rate of the turns that were not disturbed, if there are any."""
    return statistics.median([turn.rate for turn in turns if turn.quiet] or [turn.rate for turn in turns])


def ratio(predictions: list[float], figures: list[Statistics], turns: list[Turn]) -> float:
    """The median of predicted / measured over the rounds that were not disturbed, if there are any."""
    rounds = [
        (ours / turn.rate, turn.quiet and run.others <= DISTURBED)
        for ours, run, turn in zip(predictions, figures, turns)
    ]
    return statistics.median([found for found, quiet in rounds if quiet] or [found for found, _ in rounds])


def part(turns: list[Turn], best: list[Turn]) -> float:
    """The median part of the speed of the best setting, over the rounds that were not disturbed, if there are any."""
    pairs = [(turn.rate / other.rate, turn.quiet and other.quiet) for turn, other in zip(turns, best)]
    return statistics.median([found for found, quiet in pairs if quiet] or [found for found, _ in pairs])


def predictions_of(found: Measured) -> list[list[float]]:
    """For each setting the predicted speed by the figures of each round."""
    models = [Model(figures) for figures in found.figures]
    results = []
    for each in found.settings:
        given = {name: value for name, value in each.items() if name != "cached"}
        cache = {"spared": found.spared, "kept": found.kept} if each["cached"] else {}
        results.append([predicted(model, **given, **cache).samples_per_second for model in models])
    return results


def medians(found: Measured) -> list[float]:
    """For each setting the median of its predictions."""
    return [statistics.median(ours) for ours in predictions_of(found)]


def recommended(found: Measured, predictions: list[float]) -> int:
    """The place of the setting to recommend: the measured one, unless another one is predicted to be faster by GAIN.

    Of those that are predicted to be nearly the fastest it is the one with the fewest threads and workers, and of these the one
    that is predicted to be the fastest.
    """
    if max(predictions) < (1 + GAIN) * predictions[0]:
        return 0
    worth = [place for place, ours in enumerate(predictions) if ours >= (1 - CHOICE) * max(predictions)]
    return min(worth, key=lambda place: (cost(found.settings[place]), -predictions[place]))


def free(found: Measured) -> list[int]:
    """The places of the settings that "auto" may choose."""
    base = found.settings[0]
    ways = {base["parallel"]} | ({"threads"} if found.on_threads else set())
    return [
        place
        for place, settings in enumerate(found.settings)
        if settings["parallel"] in ways
        and settings["py_num_workers"] == base["py_num_workers"]
        and not settings["cached"]
    ]


def judge(found: Measured) -> Judged:
    predictions = predictions_of(found)
    middles = [statistics.median(ours) for ours in predictions]
    rates = [rate(turns) for turns in found.turns]
    ratios = [ratio(ours, found.figures, turns) for ours, turns in zip(predictions, found.turns)]
    work = [min(turn.work for turn in turns) for turns in found.turns]
    base = found.settings[0]
    rows = []
    for settings, ours, measured, each in zip(found.settings, middles, rates, ratios):
        changed = [f"{name}={value}" for name, value in settings.items() if value != base[name]]
        title = ", ".join(changed) or "as measured"
        rows.append((found.kind, found.name, title, ours, measured, f"{100 * (each - 1):+.1f} %"))
    last = (found.recommended, found.best, found.best_free, found.again, found.automatic)
    turns = [turn for setting in (*found.turns, *last) for turn in setting]
    return Judged(
        [abs(each - 1) for each in ratios],
        max(ours * each for ours, each in zip(middles, work)) / found.figures[0].processors,
        part(found.recommended, found.best),
        part(found.automatic, found.best_free),
        part(found.again, found.best),
        sum(not turn.quiet for turn in turns) / len(turns),
        rows,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    given = parser.parse_args()
    reading = header(__doc__)
    measured: list[Measured] = []
    if given.replay is not None:
        measured = [pickle.loads(path.read_bytes()) for path in sorted(given.replay.glob("*.pickle"))]
        measured = [found for found in measured if all(word in f"{found.kind}: {found.name}" for word in given.words)]
    else:
        with tempfile.TemporaryDirectory() as folder:
            _forty.prepare(Path(folder))
            cases = [case for case in _forty.cases(Path(folder)) if all(word in case.title for word in given.words)]
            measured = measure_all(cases, given.raw, given.minutes)
    if not measured:
        parser.error(f"no pipeline has all these words in its name: {' '.join(given.words)}")
    return report(reading, measured, given.replay is not None)


def measure_all(cases: list[_forty.Case], raw: Path | None, minutes: float) -> list[Measured]:
    """The figures of these pipelines; with a folder of kept figures those of all pipelines that it has, and these."""
    begun = time.perf_counter()
    kept: dict[str, Path] = {}
    if raw is not None:
        raw.mkdir(exist_ok=True)
        kept = {case.title: raw / f"{case.title.replace(': ', '-').replace(' ', '-')}.pickle" for case in cases}
    measured = []
    for case in cases:
        path = kept.get(case.title)
        if path is not None and path.exists():
            measured.append(pickle.loads(path.read_bytes()))
        elif time.perf_counter() - begun < 60 * minutes:
            measured.append(measure(case))
            if path is not None:
                path.write_bytes(pickle.dumps(measured[-1]))
            print(f"{time.perf_counter() - begun:5.0f} s  {case.title}", file=sys.stderr)
        else:
            print(f"not measured yet: {case.title}", file=sys.stderr)
    return measured


def figures_of(judged: list[Judged]) -> dict[str, float]:
    """The figures of some pipelines, for the page of benchmarks."""
    errors = [error for each in judged for error in each.errors]
    return {
        "median error, %": 100 * statistics.median(errors),
        "largest error, %": 100 * max(errors),
        "recommended, least part of the best speed": min(each.recommended for each in judged),
        "automatic, least part of the best speed": min(each.automatic for each in judged),
        "best settings once more, part of the best speed that is farthest from 1": max(
            (each.again for each in judged), key=lambda part: abs(part - 1)
        ),
    }


def report(reading: dict[str, Any], measured: list[Measured], replayed: bool) -> int:
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
                each.again,
                100 * each.disturbed,
                found.batches,
                found.chosen,
            )
        )
    table(
        "Pipelines",
        [
            "kind",
            "pipeline",
            "median error, %",
            "largest, %",
            "recommended",
            "auto",
            "again",
            "disturbed, %",
            "batches",
            "chosen",
        ],
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
        Target("minutes of this benchmark", sum(found.seconds for found in measured) / 60, 15.0),
    ]
    verdicts(targets)
    by_kind: dict[str, list[Judged]] = {}
    for found, each in zip(measured, judged):
        by_kind.setdefault(found.kind, []).append(each)
    results = {kind: {"": [figures_of(group)]} for kind, group in by_kind.items()}
    results |= {f"{found.kind}: {found.name}": {"": [figures_of([each])]} for found, each in zip(measured, judged)}
    if replayed:
        return 0
    save("advice", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
