"""How well does one measured run predict the speed with other settings, and how near to the best are the chosen ones?

    python benchmarks/advice.py [words of the name of a pipeline] [--raw FOLDER [--minutes M]] [--replay FOLDER]

In each of three rounds, each of forty pipelines runs once with the settings of its base and is measured. From these figures
alone its speed with other settings is predicted: threads, batches ahead, `parallel` of its functions, worker processes, a cache.
In the same round other pipelines with these settings run in turn, so that a disturbance of the machine affects all of them alike.
The error is the median over the rounds of predicted / measured. `auto` is a pipeline whose settings are all "auto".

Of many settings that are equally fast one always seems the best, by accident. So the rounds only choose: the recommended
setting, the best of all, and the best of the fixed ones that "auto" may choose. Then follow rounds of other pipelines: in each
round a new one with each of these settings, and a new one that has chosen its own in 200 batches, run three short turns, in
random order; the median of the three counts. New ones, because two pipelines with equal settings differ by up to a tenth for as
long as they live: by the processor and the memory that they happen to get. Every part of the best speed is the Hodges-Lehmann
median of the ratios of turns of one round. `again` is one more pipeline with the best settings that "auto" may choose, in the
same rounds: its distance from 1 is the noise of these figures. Where it is above NOISE, the machine was too unsteady for a
verdict: the least parts are those of the other pipelines, and the tables show all. In the same way the errors for the settings
that were measured themselves, in another pipeline, are the noise of the predictions. `first` is the speed in the 200 batches in
which settings are chosen. The rounds end when each part is by three standard errors above or below its aim, or has a standard
error below ENOUGH, at the latest after LAST_SECONDS; the rule is the same for all pipelines.

A turn begins when the batches that were made before it, and some more, have been taken. It begins with a batch for which the
loop waited, and ends with the first such one after a number of batches that was set before: batches often come in groups of two
or four, because a thread that computes keeps the interpreter for 5 ms, and a turn has whole groups. If the loop does not wait,
or batches come in bursts, it ends with that number, which is one of whole bursts.

If other programs or other guests of the host take a part of the processors in a turn, only the undisturbed rounds count, unless
there are few; the last table says how many turns were disturbed. Other guests also make a processor slow and take no time from
it: for 0.1 to 2 seconds a loop of additions takes 2.1 times as long on one of two processors, also by the clock of its thread.
So a short loop of additions runs on each processor before and after a turn, as soon as no pipeline works, and the turn counts as
disturbed if one of them has another speed than most of the time. A pipeline of which more than three of four turns were disturbed
is measured once more at the end, whatever its figures are, and the less disturbed of the two measurements counts.

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
from collections import Counter
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
LAST_ROUNDS = 6  # at least, of the settings that were chosen
LAST_TURNS, LAST_TURN = 3, 0.1  # in a round, and seconds of a turn
LAST_SECONDS, ENOUGH = 30.0, 0.011  # the longest time of these rounds; the standard error of a part of the best speed
AIMS = {"recommended": 0.9, "automatic": 0.95, "again": 0.95}  # the least part of the best speed
CLEAR = 3.0  # standard errors
FEWEST = 4  # undisturbed rounds; with fewer of them all rounds count: one ratio alone would have no error at all
MOSTLY = 0.75  # a pipeline is measured once more if a larger share of its turns was disturbed
NOISE = 0.05  # the farthest that equal settings may be from each other for a verdict
REST = 0.01  # seconds between two turns, in which a pipeline finishes the batches that it makes ahead
TUNING = 200, 8.0  # batches and seconds that automatic settings have at most
REVIEWED = 0.5  # seconds after that, in which they use up what the review of others may cost at once (REVIEW_CREDIT)
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
    chosen: list[str] = field(default_factory=list)  # by each of the automatic ones
    on_threads: bool = False  # "auto" may call the functions on threads
    batches: list[int] = field(default_factory=list)  # until the automatic settings were settled, of each pipeline
    recommended: list[Turn] = field(default_factory=list)  # the last turns: of the recommended setting,
    best: list[Turn] = field(default_factory=list)  # of the best one,
    best_free: list[Turn] = field(default_factory=list)  # of the best one that "auto" may choose,
    again: list[Turn] = field(default_factory=list)  # of other pipelines with these,
    automatic: list[Turn] = field(default_factory=list)  # and of the automatic settings
    first: list[float] = field(default_factory=list)  # samples a second of these in the first 200 batches
    seconds: float = 0.0  # that this pipeline took
    repeated: bool = False  # True if it was measured twice, because most turns were disturbed


def measure(case: _forty.Case) -> Measured:
    started = time.perf_counter()
    settings = case.all_settings()
    found = Measured(case.kind, case.name, settings)
    base, *runners = [Runner(case, each) for each in [settings[0], *settings]]
    if any(each["cached"] for each in settings):
        found.kept = base.pipe.plan.steps()[-1].name
        found.spared = base.pipe.plan.needed_only_by(found.kept)
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
        for runner, results in random.sample([*zip(runners, found.turns)], len(runners)):
            time.sleep(REST)
            results.append(runner.turn(TURN))
    del base, runners
    compare(case, found)
    found.seconds = time.perf_counter() - started
    return found


def compare(case: _forty.Case, found: Measured) -> None:
    """The last rounds, until the parts of the best speed are known well enough."""
    auto = tuned(case, found)
    ways = [choice for choice in auto.pipe.settings() if choice.name.startswith("parallel of")]
    found.on_threads = bool(ways) and all(choice.reason.startswith("its code shows no state") for choice in ways)
    rates = [rate(turns) for turns in found.turns]
    chosen = {
        "best_free": max(free(found), key=rates.__getitem__),
        "best": max(range(len(rates)), key=rates.__getitem__),
        "recommended": recommended(found, medians(found, predictions_of(found))),
    }
    begun, rounds = time.perf_counter(), 0
    while rounds < LAST_ROUNDS or (time.perf_counter() - begun < LAST_SECONDS and not decided(found)):
        new = {place: Runner(case, found.settings[place]) for place in {*chosen.values()}}
        # One turn counts for all that chose this setting.
        runners = {name: new[place] for name, place in chosen.items()}
        runners["again"] = Runner(case, found.settings[chosen["best_free"]])
        for runner in {*runners.values()}:
            runner.warm_up()
        runners["automatic"] = auto if not rounds else tuned(case, found)
        additions.changed()
        turns: dict[Runner, list[Turn]] = {runner: [] for runner in runners.values()}
        for _ in range(LAST_TURNS):
            for runner in random.sample([*turns], len(turns)):
                time.sleep(REST)
                turns[runner].append(runner.turn(LAST_TURN))
        for name, runner in runners.items():
            getattr(found, name).append(middle(turns[runner]))
        rounds += 1


def tuned(case: _forty.Case, found: Measured) -> Runner:
    """A pipeline with automatic settings, after the batches in which it chooses them."""
    settings = case.all_settings()[0]
    automatic = {"num_threads": "auto", "prefetch_queue_depth": "auto"}
    if settings["parallel"] == "serial":
        automatic["parallel"] = "auto"
    auto = Runner(case, {**settings, **automatic})
    auto.step()
    begun, settled = time.perf_counter(), 0
    for number in range(1, TUNING[0]):
        auto.step()
        if not settled and auto.pipe.settings().settled:
            settled = number + 1
        if time.perf_counter() - begun > TUNING[1]:
            break
    found.first.append(number * auto.batch_size / (time.perf_counter() - begun))
    found.batches.append(settled or TUNING[0])
    found.chosen.append(choices_of(auto))
    begun = time.perf_counter()
    while time.perf_counter() - begun < REVIEWED:
        auto.step()
    return auto


def choices_of(auto: Runner) -> str:
    """The settings that automatic ones have chosen: threads, batches ahead, and if functions are called on threads."""
    by_name = {choice.name: choice.value for choice in auto.pipe.settings() if choice.by == "auto"}
    ways = {value for name, value in by_name.items() if name.startswith("parallel of")}
    numbers = [str(by_name[name]) for name in ("num_threads", "prefetch_queue_depth") if name in by_name]
    return "/".join([*numbers, *(["threads"] if ways == {"threads"} else [])])


@dataclass
class Judged:
    """The predictions of one pipeline, compared with what was measured."""

    errors: list[float]
    beyond: float  # the largest share of the processors that a prediction would need
    recommended: float  # speed of the recommended setting, as a part of the best
    automatic: float
    again: float  # the same for other pipelines with the best settings
    lowest: float  # of a single pipeline with automatic settings, in the rounds that were not disturbed
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


def counting(turns: list[Turn]) -> list[Turn]:
    """The turns that were not disturbed, if there are any."""
    return [turn for turn in turns if turn.quiet] or turns


def middle(turns: list[Turn]) -> Turn:
    """The turn with the median rate."""
    return statistics.median_high(counting(turns))


def rate(turns: list[Turn]) -> float:
    """The median rate."""
    return statistics.median([turn.rate for turn in counting(turns)])


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
    """The recommended, the automatic and the repeated settings, each with those that they are compared with."""
    return {
        "recommended": (found.recommended, found.best),
        "automatic": (found.automatic, found.best_free),
        "again": (found.again, found.best_free),
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


def disturbed(found: Measured) -> float:
    """The share of its turns that were disturbed."""
    last = (found.recommended, found.best, found.best_free, found.again, found.automatic)
    turns = [turn for setting in (*found.turns, *last) for turn in setting]
    return sum(not turn.quiet for turn in turns) / len(turns)


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
    return Judged(
        errors=[abs(each - 1) for each in ratios],
        beyond=max(processors_of(ours, found.runs, turns) for ours, turns in zip(predictions, found.turns))
        / found.figures[0].processors,
        **{name: part(turns, best) for name, (turns, best) in pairs_of(found).items()},
        error=error_of(found.automatic, found.best_free),
        error_recommended=error_of(found.recommended, found.best),
        lowest=math.exp(min(logarithms(found.automatic, found.best_free))),
        first=statistics.median(found.first) / rate(found.best_free),
        disturbed=disturbed(found),
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
    if raw is not None:
        raw.mkdir(exist_ok=True)
    measured: dict[str, Measured] = {}

    def take(case: _forty.Case) -> None:
        if time.perf_counter() - begun > 60 * minutes:
            print(f"not measured yet: {case.title}", file=sys.stderr)
            return
        found, before = measure(case), measured.get(case.title)
        if before is not None:
            seconds = found.seconds + before.seconds
            found = min(found, before, key=disturbed)
            found.repeated, found.seconds = True, seconds
        measured[case.title] = found
        if raw is not None:
            path_of(case, raw).write_bytes(pickle.dumps(found))
        print(f"{time.perf_counter() - begun:5.0f} s  {case.title}", file=sys.stderr)

    for case in cases:
        if raw is not None and path_of(case, raw).exists():
            measured[case.title] = pickle.loads(path_of(case, raw).read_bytes())
        else:
            take(case)
    for case in cases:
        known = measured.get(case.title)
        if known is not None and disturbed(known) > MOSTLY and not known.repeated:
            take(case)
    return [measured[case.title] for case in cases if case.title in measured]


def path_of(case: _forty.Case, raw: Path) -> Path:
    """The file with the figures of a pipeline."""
    return raw / f"{case.title.replace(': ', '-').replace(' ', '-')}.pickle"


def figures_of(judged: list[Judged]) -> dict[str, float]:
    """The figures of some pipelines, for the page of benchmarks."""
    errors = [error for each in judged for error in each.errors]
    return {
        "median error, %": 100 * statistics.median(errors),
        "largest error, %": 100 * max(errors),
        "recommended, least part of the best speed": min(each.recommended for each in judged),
        "automatic, least part of the best speed": min(each.automatic for each in judged),
        "automatic, lowest part of a single pipeline": min(each.lowest for each in judged),
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
                each.lowest,
                each.again,
                each.first,
                100 * each.disturbed,
                statistics.median(found.batches),
                ", ".join(f"{count} times {chosen}" for chosen, count in Counter(found.chosen).most_common()),
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
            "lowest",
            "again",
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
            "the best settings in another pipeline, least part of the best speed, of all pipelines",
            min(each.again for each in judged),
            0.95,
            at_most=False,
        ),
        Target("milliseconds of a prediction", 1e3 * predicting / max(1, made), 50.0),
        Target("minutes of this benchmark", sum(found.seconds for found in measured) / 60, 30.0),
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
