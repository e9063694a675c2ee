"""How well does one measured run predict the speed with other settings, and how near to the best are the chosen ones?

    python benchmarks/advice.py [words of the name of a pipeline] [--raw FOLDER [--minutes M]] [--replay FOLDER]

In each of three rounds, each of forty pipelines runs once with the settings of its base and is measured. From these figures
alone its speed with other settings is predicted: threads, batches ahead, `parallel` of its functions, worker processes, a cache.
In the same round other pipelines with these settings run in turn, so that a disturbance of the machine affects all of them alike.
The error is the median over the rounds of predicted / measured. `auto` is a pipeline whose settings are all "auto".

Of many settings that are equally fast one always seems the best, by accident. So the rounds only choose: the recommended
setting, the best of all, and the best of the fixed ones that "auto" may choose. Then new pipelines with these settings, and the
one that chooses its own, run again in short turns, in random order. Every part of the best speed is the Hodges-Lehmann median
of the ratios of turns of one round. `again` is another pipeline with the best settings that "auto" may choose, in the same
turns: its distance from 1 is the noise of these figures. Where it is above NOISE, the machine was too unsteady for a verdict: the
least parts are those of the other pipelines, and the tables show all. In the same way the errors for the settings that were
measured themselves, in another pipeline, are the noise of the predictions. `choice` is another pipeline with the settings that
"auto" had chosen after its first 200 batches, and `first` the speed in these 200 batches. The turns end when each part is by
three standard errors above or below its aim, or has a standard error below ENOUGH, at the latest after LAST_SECONDS; the rule is
the same for all pipelines.

A turn begins when the batches that were made before it, and some more, have been taken. It begins with a batch for which the
loop waited, and ends with the first such one after a number of batches that was set before: batches often come in groups of two
or four, because a thread that computes keeps the interpreter for 5 ms, and a turn has whole groups. If the loop does not wait,
or batches come in bursts, it ends with that number, which is one of whole bursts.

If other programs or other guests of the host take a part of the processors in a turn, only the undisturbed rounds count, unless
there are few; the last table says how many turns were disturbed. Other guests also make a processor slow and take no time from
it: for 0.1 to 2 seconds a loop of additions takes 2.1 times as long on one of two processors, also by the clock of its thread.
So a short loop of additions runs on each processor before and after a turn, as soon as no pipeline works, and the turn counts as
disturbed if one of them has another speed than most of the time.

`--raw` keeps the figures of each pipeline in a folder, and does not measure those that it has; with `--minutes` none begins
later. So the benchmark can be run in pieces; the last one, which finds all figures there, reports them. `--replay` predicts from
kept figures. `advice_held_out.py` does the same with 32 other pipelines.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("PIPEFLOW_START", "wait")  # before pipeflow is imported: no kernel is loaded during a measurement

import _forty
import numpy as np
from _harness import Target, header, save, settle, table, verdicts
from _turns import PERIOD, Runner, Turn, additions, checked

from pipeflow.executor.figures import Statistics
from pipeflow.executor.model import Model
from pipeflow.reporting.advice import predicted

MEASURED = 1.0  # seconds of a run that predicts; a probe and turns of one and of all threads take the first 0.7
TURN = 0.08  # seconds of a turn
ROUNDS = 3  # the median of two would be their mean, which one disturbed round spoils
LAST_ROUNDS, LAST_TURN = 8, 0.1  # at least, of the settings that were chosen, and seconds of a turn
LAST_SECONDS, ENOUGH = 12.0, 0.011  # the longest time of these rounds; the standard error of a part of the best speed
AIMS = {"recommended": 0.9, "automatic": 0.95, "again": 0.95, "choice": 0.95}  # the least part of the best speed
CLEAR = 3.0  # standard errors
FEWEST = 4  # undisturbed rounds; with fewer of them all rounds count: one ratio alone would have no error at all
NOISE = 0.05  # the farthest that equal settings may be from each other for a verdict
REST = 0.01  # seconds between two turns, in which a pipeline finishes the batches that it makes ahead
TUNING = 200, 8.0  # batches and seconds that automatic settings have at most
PREDICTED = "num_threads", "prefetch_queue_depth", "py_num_workers", "batch_size", "parallel"
CHOICE = 0.08  # of settings whose predictions differ by less, one that uses fewer threads is recommended


@dataclass
class Measured:
    """The figures of one pipeline."""

    kind: str
    name: str
    settings: list[dict[str, Any]]
    figures: list[Statistics] = field(default_factory=list)  # of each round
    runs: list[Turn] = field(default_factory=list)  # the runs that these are of
    turns: list[list[Turn]] = field(default_factory=list)  # for each setting the turn of each round
    spared: list[str] = field(default_factory=list)  # the steps that a cache spares,
    kept: str = ""  # and the one whose samples it keeps
    chosen: str = ""
    on_threads: bool = False  # "auto" may call the functions on threads
    batches: int = 0  # until the automatic settings were settled
    recommended: list[Turn] = field(default_factory=list)  # the last turns: of the recommended setting,
    best: list[Turn] = field(default_factory=list)  # of the best one,
    best_free: list[Turn] = field(default_factory=list)  # of the best one that "auto" may choose,
    again: list[Turn] = field(default_factory=list)  # of another pipeline with these,
    automatic: list[Turn] = field(default_factory=list)  # of the automatic settings,
    choice: list[Turn] = field(
        default_factory=list
    )  # and of another pipeline with what these had chosen after 200 batches
    first: float = 0.0  # samples a second of the automatic settings in the first 200 batches
    seconds: float = 0.0  # that this pipeline took


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
    auto.step()
    begun = time.perf_counter()
    for number in range(1, TUNING[0]):
        auto.step()
        if not found.batches and auto.pipe.settings().settled:
            found.batches = number + 1
        if time.perf_counter() - begun > TUNING[1]:
            break
    found.first = number * auto.batch_size / (time.perf_counter() - begun)
    chosen_first = choices_of(auto)
    for runner in (base, *runners):
        runner.warm_up()
    found.turns = [[] for _ in runners]
    for _ in range(ROUNDS):
        settle(0.2, 0.5)
        base.batches(TURN, PERIOD)  # without the clocks of a measurement, as in a program
        additions.changed()
        with base.pipe.measure():
            run = base.batches(MEASURED, PERIOD)
        found.runs.append(checked(run))
        found.figures.append(base.pipe.statistics())
        for runner, results in random.sample([*zip([*runners, auto], [*found.turns, []])], len(runners) + 1):
            time.sleep(REST)
            results.append(runner.turn(TURN))
    ways = [choice for choice in auto.pipe.settings() if choice.name.startswith("parallel of")]
    found.on_threads = bool(ways) and all(choice.reason.startswith("its code shows no state") for choice in ways)
    rates = [rate(turns) for turns in found.turns]
    chosen = {
        "best_free": max(free(found), key=rates.__getitem__),
        "best": max(range(len(rates)), key=rates.__getitem__),
        "recommended": recommended(found, medians(found, predictions_of(found))),
    }
    del base, runners
    new = {place: Runner(case, settings[place]) for place in {*chosen.values()}}
    same = {**settings[0], **chosen_first}
    last = {
        "automatic": auto,
        "choice": new[chosen["best_free"]] if same == settings[chosen["best_free"]] else Runner(case, same),
    }
    last |= {name: new[place] for name, place in chosen.items()}
    last["again"] = Runner(case, settings[chosen["best_free"]])
    compare(found, last)
    texts = [", ".join(f"{key}={value}" for key, value in each.items()) for each in (chosen_first, choices_of(auto))]
    found.chosen = " then ".join(dict.fromkeys(texts))
    found.seconds = time.perf_counter() - started
    return found


def choices_of(auto: Runner) -> dict[str, Any]:
    """The settings that automatic ones have chosen."""
    by_name = {choice.name: choice.value for choice in auto.pipe.settings() if choice.by == "auto"}
    ways = {value for name, value in by_name.items() if name.startswith("parallel of")}
    taken = {name: value for name, value in by_name.items() if name in ("num_threads", "prefetch_queue_depth")}
    return taken | ({"parallel": "threads"} if ways == {"threads"} else {})


def compare(found: Measured, runners: dict[str, Runner]) -> None:
    """The last turns, until the parts of the best speed are known well enough."""
    alike = list(dict.fromkeys(runners.values()))  # one turn counts for all that chose this setting
    for runner in alike:
        runner.warm_up()
    additions.changed()
    begun, rounds = time.perf_counter(), 0
    while rounds < LAST_ROUNDS or (time.perf_counter() - begun < LAST_SECONDS and not decided(found)):
        turns = {}
        for runner in random.sample(alike, len(alike)):
            time.sleep(REST)
            turns[runner] = runner.turn(LAST_TURN)
        for name, runner in runners.items():
            getattr(found, name).append(turns[runner])
        rounds += 1


@dataclass
class Judged:
    """The predictions of one pipeline, compared with what was measured."""

    errors: list[float]
    beyond: float  # the largest share of the processors that a prediction would need
    recommended: float  # speed of the recommended setting, as a part of the best
    automatic: float
    again: float  # the same for another pipeline with the best settings,
    choice: float  # and for one with the settings that "auto" had chosen after 200 batches
    error: float  # the standard error of `automatic`,
    error_recommended: float  # and that of `recommended`
    first: float  # the speed in the first 200 batches, as a part of the best
    disturbed: float  # share of the turns
    rows: list[tuple[object, ...]]

    @property
    def steady(self) -> bool:
        """True if two pipelines with the best settings were equally fast."""
        return abs(math.log(self.again)) <= NOISE


def cost(settings: dict[str, Any]) -> int:
    workers = settings["py_num_workers"] if settings["parallel"] == "processes" else 0
    return settings["num_threads"] + 2 * workers


def rate(turns: list[Turn]) -> float:
    """The median rate of the turns that were not disturbed, if there are any."""
    return statistics.median([turn.rate for turn in turns if turn.quiet] or [turn.rate for turn in turns])


def ratio(predictions: list[float], runs: list[Turn], turns: list[Turn]) -> float:
    """The median of predicted / measured over the rounds that were not disturbed, if there are any."""
    rounds = [(ours / turn.rate, turn.quiet and run.quiet) for ours, run, turn in zip(predictions, runs, turns)]
    return statistics.median([found for found, quiet in rounds if quiet] or [found for found, _ in rounds])


def processors_of(predictions: list[float], runs: list[Turn], turns: list[Turn]) -> float:
    """The processors that a predicted speed needs at least: the median over the rounds.

    Work takes more time where other guests of the host use the memory. Of the work of a sample in the measured run and in the
    turn, the lesser counts.
    """
    return statistics.median([ours * min(run.work, turn.work) for ours, run, turn in zip(predictions, runs, turns)])


def logarithms(turns: list[Turn], best: list[Turn]) -> list[float]:
    """Of the ratios to the best setting, over the rounds that were not disturbed, if there are enough for a standard error."""
    pairs = [(math.log(turn.rate / other.rate), turn.quiet and other.quiet) for turn, other in zip(turns, best)]
    undisturbed = [found for found, quiet in pairs if quiet]
    return undisturbed if len(undisturbed) >= FEWEST else [found for found, _ in pairs]


def part(turns: list[Turn], best: list[Turn]) -> float:
    """The part of the speed of the best setting: the Hodges-Lehmann median, which is nearly as exact as a mean."""
    found = np.array(logarithms(turns, best))
    first, second = np.triu_indices(len(found))
    return math.exp(float(np.median((found[first] + found[second]) / 2)))


def pairs_of(found: Measured) -> dict[str, tuple[list[Turn], list[Turn]]]:
    """The recommended, the automatic, the repeated and the chosen settings, each with those that they are compared with."""
    return {
        "recommended": (found.recommended, found.best),
        "automatic": (found.automatic, found.best_free),
        "again": (found.again, found.best_free),
        "choice": (found.choice, found.best_free),
    }


def error_of(turns: list[Turn], best: list[Turn]) -> float:
    """The standard error of a part of the best speed."""
    values = np.array(logarithms(turns, best))
    spread = 1.4826 * np.median(np.abs(values - np.median(values)))
    return float(1.05 * spread / math.sqrt(len(values)))


def decided(found: Measured) -> bool:
    """True if all parts of the best speed are known well enough."""
    if (
        min(sum(turn.quiet and best.quiet for turn, best in zip(*pair)) for pair in pairs_of(found).values())
        < LAST_ROUNDS
    ):
        return False
    pairs = {name: (part(*pair), error_of(*pair)) for name, pair in pairs_of(found).items()}
    return all(
        error <= ENOUGH or abs(math.log(share / AIMS[name])) > CLEAR * error for name, (share, error) in pairs.items()
    )


def predictions_of(found: Measured) -> list[list[float]]:
    """For each setting the predicted speed by the figures of each round."""
    models = [Model(figures) for figures in found.figures]
    results = []
    for each in found.settings:
        given = {name: value for name, value in each.items() if name in PREDICTED}
        cache = {"spared": found.spared, "kept": found.kept} if each["cached"] else {}
        results.append([predicted(model, **given, **cache).samples_per_second for model in models])
    return results


def medians(found: Measured, predictions: list[list[float]]) -> list[float]:
    """For each setting the median of its predictions, by the runs that were not disturbed, if there are any."""
    quiet = [run.quiet for run in found.runs]
    chosen = quiet if any(quiet) else [True] * len(quiet)
    return [statistics.median([one for one, good in zip(ours, chosen) if good]) for ours in predictions]


def recommended(found: Measured, predictions: list[float]) -> int:
    """The place of the setting to recommend.

    Of those that are predicted to be nearly the fastest it is the one with the fewest threads and workers, and of these the one
    that is predicted to be the fastest.
    """
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
    middles = medians(found, predictions)
    rates = [rate(turns) for turns in found.turns]
    ratios = [ratio(ours, found.runs, turns) for ours, turns in zip(predictions, found.turns)]
    base = found.settings[0]
    rows = []
    for settings, ours, measured, each in zip(found.settings, middles, rates, ratios):
        changed = [f"{name}={value}" for name, value in settings.items() if value != base[name]]
        title = ", ".join(changed) or "as measured"
        rows.append((found.kind, found.name, title, ours, measured, f"{100 * (each - 1):+.1f} %"))
    last = (found.recommended, found.best, found.best_free, found.again, found.automatic, found.choice)
    turns = [turn for setting in (*found.turns, *last) for turn in setting]
    return Judged(
        errors=[abs(each - 1) for each in ratios],
        beyond=max(processors_of(ours, found.runs, turns) for ours, turns in zip(predictions, found.turns))
        / found.figures[0].processors,
        **{name: part(turns, best) for name, (turns, best) in pairs_of(found).items()},
        error=error_of(found.automatic, found.best_free),
        error_recommended=error_of(found.recommended, found.best),
        first=found.first / rate(found.best_free),
        disturbed=sum(not turn.quiet for turn in turns) / len(turns),
        rows=rows,
    )


def main(
    cases_in: Callable[[Path], list[_forty.Case]] = _forty.cases, name: str = "advice", text: str | None = __doc__
) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    given = parser.parse_args()
    reading = header(text or "")
    measured: list[Measured] = []
    if given.replay is not None:
        measured = [pickle.loads(path.read_bytes()) for path in sorted(given.replay.glob("*.pickle"))]
        measured = [found for found in measured if all(word in f"{found.kind}: {found.name}" for word in given.words)]
    else:
        with tempfile.TemporaryDirectory() as folder:
            _forty.prepare(Path(folder))
            cases = [case for case in cases_in(Path(folder)) if all(word in case.title for word in given.words)]
            measured = measure_all(cases, given.raw, given.minutes)
    if not measured:
        parser.error(f"no pipeline has all these words in its name: {' '.join(given.words)}")
    return report(reading, measured, "" if given.replay is not None else name)


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
        "chosen in 200 batches, least part of the best speed": min(each.choice for each in judged),
        "first 200 batches, least part of the best speed": min(each.first for each in judged),
        "best settings once more, part of the best speed that is farthest from 1": max(
            (each.again for each in judged), key=lambda part: abs(part - 1)
        ),
    }


def report(reading: dict[str, Any], measured: list[Measured], name: str) -> int:
    begun = time.perf_counter()
    judged = [judge(found) for found in measured]
    predicting, made = time.perf_counter() - begun, sum(len(found.settings) * len(found.figures) for found in measured)
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
                each.error,
                each.again,
                each.choice,
                each.first,
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
            "error of it",
            "again",
            "choice",
            "first 200",
            "disturbed, %",
            "batches",
            "chosen",
        ],
        lines,
    )
    errors = sorted(error for each in judged for error in each.errors)
    noise = sorted(each.errors[0] for each in judged)  # of the settings that were measured
    steady = [each for each in judged if each.steady]
    print(f"\nNo verdict: {', '.join(one.name for one, each in zip(measured, judged) if not each.steady) or 'none'}")
    targets = [
        Target("median error of a prediction, %", 100 * statistics.median(errors), 10.0),
        Target("90th percentile of the errors, %", 100 * errors[int(0.9 * (len(errors) - 1))], 25.0),
        Target(
            "the same for the settings that were measured: the noise", 100 * noise[int(0.9 * (len(noise) - 1))], 25.0
        ),
        Target("pipelines with a verdict, %", 100 * len(steady) / len(judged), 75, at_most=False),
        Target("largest share of the processors that is promised", max(each.beyond for each in judged), 1.05),
        Target(
            "recommended setting, least part of the best speed",
            min((each.recommended for each in steady), default=0.0),
            0.9,
            at_most=False,
        ),
        Target(
            "automatic settings, least part of the best speed",
            min((each.automatic for each in steady), default=0.0),
            0.95,
            at_most=False,
        ),
        Target(
            "pipelines with automatic settings that are below 0.95 by more than two standard errors",
            sum(bool(math.log(each.automatic / 0.95) < -2 * each.error) for each in steady),
            0,
        ),
        Target(
            "pipelines with the recommended setting that are below 0.9 by more than two standard errors",
            sum(bool(math.log(each.recommended / 0.9) < -2 * each.error_recommended) for each in steady),
            0,
        ),
        Target(
            "settings that automatic ones chose in 200 batches, in another pipeline, least part of the best speed",
            min((each.choice for each in steady), default=0.0),
            0.95,
            at_most=False,
        ),
        Target(
            "the best settings in another pipeline, least part of the best speed, of all pipelines",
            min(each.again for each in judged),
            0.95,
            at_most=False,
        ),
        Target("milliseconds of a prediction", 1e3 * predicting / max(1, made), 50.0),
        Target("minutes of this benchmark", sum(found.seconds for found in measured) / 60, 15.0),
    ]
    verdicts(targets)
    by_kind: dict[str, list[Judged]] = {}
    for found, each in zip(measured, judged):
        by_kind.setdefault(found.kind, []).append(each)
    results = {kind: {"": [figures_of(group)]} for kind, group in by_kind.items()}
    results |= {f"{found.kind}: {found.name}": {"": [figures_of([each])]} for found, each in zip(measured, judged)}
    if name:
        save(name, reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
