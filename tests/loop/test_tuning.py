"""Settings that are chosen while a pipeline runs: the decisions on given times."""

import itertools
import logging
import math

import numpy as np
import pytest

from pipeflow.executor.measuring import Effort
from pipeflow.executor.tuning import LONGEST, MOST_AHEAD, MOST_THREADS, REST, REVIEW_COST, REVIEW_CREDIT, Chosen, Tuner

MEGABYTE = 1_000_000


class Run:
    """A loop over a pipeline whose speed is a formula of the settings."""

    def __init__(self, pace, loop=0.0, threads=2, memory=None, bytes_per_batch=0, **options):
        self.pace, self.loop, self.size = pace, loop, bytes_per_batch
        options = {"tunes_threads": True, "tunes_depth": True, **options}
        self.tunes_alone = "tunes_alone" in options
        self.tuner = Tuner(threads, 2, memory=memory, **options)
        self.now = 100.0

    def batch(self):
        made = self.pace(*self.tuner.chosen[: 3 if self.tunes_alone else 2])
        asked = self.now + self.loop
        self.now = max(asked, self.now + made)
        return self.tuner.delivered(self.now, asked, self.size * (self.tuner.depth + 2))

    def until_settled(self):
        """The number of batches until the settings are settled."""
        for count in itertools.count(1):
            self.batch()
            if self.tuner.settled:
                return count

    @property
    def chosen(self):
        return self.tuner.threads, self.tuner.depth


def test_a_loop_that_does_not_wait_keeps_the_settings():
    """The pipeline could be faster, and the loop would not notice."""
    run = Run(lambda threads, depth: 0.01 / threads, loop=0.02)
    run.until_settled()
    assert run.chosen == (2, 2)
    assert run.tuner.changes == 0
    assert run.tuner.reason == "the input is not your bottleneck: the loop waits 0.0% of a step of 20 ms"


def test_a_loop_that_does_not_wait_is_not_disturbed_by_functions():
    """They are on one thread at a time, as by parallel="serial", and nothing else is tried."""
    run, tried = Run(lambda threads, depth, alone: 0.001, loop=0.02, tunes_alone=True), []
    batch = run.batch
    run.batch = lambda: (tried.append(run.tuner.chosen), batch())
    run.until_settled()
    assert {*tried} == {(2, 2, True)}
    assert run.tuner.reason.startswith("the input is not your bottleneck")


def test_functions_that_wait_get_more_threads():
    """Each doubling halves the time of a batch, up to the most threads."""
    run = Run(lambda threads, depth: 0.064 / threads)
    assert run.until_settled() <= LONGEST
    assert run.chosen == (MOST_THREADS, 2)
    assert run.tuner.most == MOST_THREADS
    assert "a batch every 2 ms" in run.tuner.reason


def test_it_stops_where_the_loop_no_longer_waits():
    """Eight threads feed a loop of 10 ms; more would only use memory and processors."""
    run = Run(lambda threads, depth: 0.064 / threads, loop=0.010)
    run.until_settled()
    assert run.chosen == (8, 2)
    assert run.tuner.reason.startswith("the input is not your bottleneck with these")


def test_processors_that_are_busy_get_no_more_threads():
    """Two processors, and a tenth more time with every thread beyond them: what it began with is the best."""
    run = Run(lambda threads, depth: 0.02 / min(threads, 2) * (1 + 0.1 * max(0, threads - 2)))
    assert run.until_settled() <= LONGEST
    assert run.chosen == (2, 2)


def test_threads_that_only_wait_for_each_other_are_given_up():
    """Functions that keep the interpreter are fastest on one thread."""
    run = Run(lambda threads, depth: 0.01 * (1 + 0.2 * threads), threads=8)
    run.until_settled()
    assert run.chosen == (1, 2)


def test_functions_that_disturb_each_other_are_called_by_one_thread():
    """The other steps go on on all threads, which is why fewer threads would be slower."""
    run = Run(lambda threads, depth, alone: 0.01 * (0.9 if alone else 1) / min(threads, 2), tunes_alone=True)
    run.until_settled()
    assert run.tuner.chosen == (2, 2, True)
    run = Run(lambda threads, depth, alone: 0.01 / (1 if alone else 2), tunes_alone=True)
    run.until_settled()
    assert run.tuner.chosen == (2, 2, False)


def test_only_the_way_of_calls_is_tuned():
    """Threads and batches ahead were given."""
    fixed = {"tunes_threads": False, "tunes_depth": False, "tunes_alone": True}
    run = Run(lambda threads, depth, alone: (0.01 if alone else 0.02) / (threads * depth), **fixed)
    run.until_settled()
    assert run.tuner.chosen == (2, 2, True)


def test_functions_that_meet_keep_their_threads():
    """A stage whose functions wait for each other needs a thread for each."""
    run = Run(lambda threads, depth: 0.01 * threads, threads=1, least_threads=3)
    run.until_settled()
    assert run.chosen == (3, 2)


def test_bursts_get_more_batches_ahead():
    """Until the loop is fed, or the most batches are made ahead."""
    run = Run(lambda threads, depth: 0.08 / depth)
    run.until_settled()
    assert run.chosen == (2, MOST_AHEAD)


def test_a_budget_of_memory_limits_the_batches_ahead():
    """With 1 MB a batch and 8 MB there is room for four ahead, the batch of the loop and the one before it."""
    run = Run(lambda threads, depth: 0.08 / depth, memory=8 * MEGABYTE, bytes_per_batch=MEGABYTE)
    run.until_settled()
    assert run.chosen == (2, 4)


def test_batches_that_become_larger_are_fewer():
    """The budget is kept also after the settings are settled."""
    run = Run(lambda threads, depth: 0.08 / depth, memory=8 * MEGABYTE, bytes_per_batch=MEGABYTE)
    run.until_settled()
    run.size = 2 * MEGABYTE
    assert run.batch()
    assert run.chosen == (2, 2)
    assert run.tuner.reason == "more batches ahead would need more than memory=8000000"
    run.size = 100 * MEGABYTE
    run.batch()
    assert run.chosen == (2, 1)


@pytest.mark.parametrize("fixed", ["threads", "depth"])
def test_a_setting_that_is_given_is_not_changed(fixed):
    """Only the automatic ones are."""
    run = Run(lambda threads, depth: 1 / (threads * depth), **{f"tunes_{fixed}": False})
    run.until_settled()
    assert run.chosen == ((2, MOST_AHEAD) if fixed == "threads" else (MOST_THREADS, 2))


@pytest.mark.parametrize("seed", range(60))
def test_it_comes_near_the_best_fixed_setting(seed):
    """For speeds that grow up to some number of threads and of batches: at least 0.95 of the best speed of all settings."""
    rng = np.random.default_rng(seed)
    work, serial, cost, bursts = (
        rng.uniform(0.001, 0.1),
        rng.uniform(0, 0.02),
        rng.uniform(0, 0.05),
        rng.uniform(0, 0.05),
    )

    def pace(threads, depth):
        return serial + work / threads + cost * work * threads / 8 + bursts / depth

    run = Run(pace)
    assert run.until_settled() <= LONGEST
    grid = itertools.product([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16])
    assert min(itertools.starmap(pace, grid)) >= 0.95 * pace(*run.chosen)


@pytest.mark.parametrize("seed", range(20))
def test_accidents_change_little(seed):
    """Times of batches that differ by a tenth at random: where two threads are best, no other choice costs more than 5 %."""
    rng = np.random.default_rng(seed)

    def pace(threads, depth):
        return 0.02 * 2 / min(threads, 2) * (1 + 0.02 * max(0, threads - 2))

    run = Run(lambda threads, depth: pace(threads, depth) * (1 + 0.1 * rng.standard_normal()))
    assert run.until_settled() <= LONGEST
    assert pace(2, 2) >= 0.95 * pace(*run.chosen)


def test_steady_batches_are_settled_soon():
    """Windows of four batches are enough for them: seven changes are tried in less than 140 batches."""
    run = Run(lambda threads, depth: 0.02)
    assert run.until_settled() < 140


def test_rare_bursts_are_not_missed():
    """One batch in eight takes long, and batches ahead hide it: windows of four would be exact without it."""
    numbers = itertools.count()
    run = Run(lambda threads, depth: 0.3 / depth if next(numbers) % 8 == 7 else 0.001, loop=0.01)
    assert run.until_settled() <= LONGEST
    assert run.chosen[1] >= 8


def test_batches_that_come_together_are_not_faster():
    """With more batches ahead the loop gets four at once and then waits for as long as before: nothing is gained."""
    numbers = itertools.count()

    def pace(threads, depth):
        number = next(numbers)
        if depth <= 2:
            return (0.001, 0.015)[number % 2]
        return (0.001, 0.001, 0.001, 0.03)[number % 4]

    run = Run(pace, tunes_threads=False)
    assert run.until_settled() <= LONGEST
    assert run.chosen == (2, 2)


@pytest.mark.parametrize("before", [0.02, 1.6])
def test_a_pipeline_that_becomes_slower_or_faster_is_tuned_again(before):
    """Two windows with 256 batches between them are looked at; half as long again is enough, or two thirds."""
    run = Run(lambda threads, depth: before)
    run.until_settled()
    assert run.chosen == (2, 2)
    run.pace = lambda threads, depth: 0.16 / threads
    for _ in range(2 * REST + 2 * LONGEST):
        run.batch()
    assert run.chosen == (MOST_THREADS, 2)
    assert run.tuner.settled


@pytest.mark.parametrize("batches", [1, 20, 60, 3 * LONGEST, 20 * REST])
def test_it_begins_again_when_other_code_takes_over(batches):
    """At any time, also between two windows far apart. The new code is as fast as before, so no time shows the change."""
    code = [0]

    def pace(threads, depth):
        return 0.02 * (threads if not code[0] else 1 / threads)

    run = Run(pace, takeovers=lambda: code[0])
    for _ in range(batches):
        run.tuner.rests() or run.batch()
    code[0] += 1
    assert not run.tuner.rests()
    run.batch()
    assert run.chosen == (2, 2)
    assert not run.tuner.settled
    assert run.tuner.reason == "not measured yet: other code does the work now"
    assert run.until_settled() <= (LONGEST - batches if batches < LONGEST // 2 else LONGEST)
    assert run.chosen == (MOST_THREADS, 2)


def test_other_code_may_take_over_again_and_again():
    """At every tenth batch, until the hundredth: it is settled after LONGEST batches all the same, and with the best settings."""
    code = [0]
    run = Run(lambda threads, depth: 0.02 / threads, takeovers=lambda: code[0])
    for number in range(100):
        code[0] = number // 10
        run.batch()
    assert run.until_settled() <= LONGEST - 100
    assert run.chosen == (MOST_THREADS, 2)


def test_batches_of_the_code_before_are_not_counted():
    """Two are made ahead when other code takes over: they say nothing about it."""
    code, old = [0], itertools.chain([1.0] * 3, itertools.repeat(0.02))
    run = Run(lambda threads, depth: next(old) if code[0] else 0.02, takeovers=lambda: code[0])
    for _ in range(8):
        run.batch()
    code[0], before = 1, run.now
    run.until_settled()
    assert run.now - before < 3.0 + 0.02 * LONGEST
    assert run.tuner.reason.startswith("a batch every 20 ms")


def test_a_takeover_is_no_reason_to_look_less_often():
    """A pipeline that becomes slower again and again is looked at less often; one whose code changed once is not."""
    code = [0]
    run = Run(lambda threads, depth: 0.02, takeovers=lambda: code[0])
    run.until_settled()
    code[0] += 1
    run.batch()
    run.until_settled()
    while run.tuner.reviewing:
        run.batch()
    batches = 0
    while run.tuner.rests():
        batches += 1
    assert batches == REST


def test_a_pipeline_that_changes_for_ever_begins_again_less_and_less_often():
    """As soon as it is settled it becomes slow, or fast again: tuning takes an ever smaller share of its batches."""
    paces, begins = itertools.cycle((0.02, 0.05)), []
    run = Run(lambda threads, depth: 0.05)
    for number in range(60_000):
        before = run.tuner.settled
        run.batch()
        if run.tuner.settled and not before:
            pace = next(paces)
            run.pace = lambda threads, depth, pace=pace: pace
        elif before and not run.tuner.settled:
            begins.append(number)
    assert 4 < len(begins) < 14
    assert begins[-1] - begins[-2] > 8 * (begins[1] - begins[0])


def test_one_slow_window_is_an_accident():
    """A processor that is slow for some batches is no reason to begin again."""
    run = Run(lambda threads, depth: 0.02)
    run.until_settled()
    while run.tuner.reviewing:
        run.batch()
    for pace in (0.05, 0.02, 0.05, 0.02):
        run.pace = lambda threads, depth, pace=pace: pace
        while run.tuner.rests():
            pass
        for _ in range(9):
            run.batch()
        assert run.tuner.settled


def test_settled_settings_are_watched_less_and_less_often():
    """One window after 256 batches, the next after 512, and so on; between them nothing is counted but batches."""
    run, busy = Run(lambda threads, depth: 0.02), []
    run.until_settled()
    while run.tuner.reviewing:
        run.batch()
    for number in range(20_000):
        if not run.tuner.rests():
            busy.append(number)
            run.batch()
    begins = [number for before, number in zip([-9, *busy], busy) if number > before + 1]
    assert [after - before for before, after in itertools.pairwise(begins)][:4] == [
        512 + 9,
        1024 + 9,
        2048 + 9,
        4096 + 9,
    ]
    assert len(busy) == 9 * len(begins)


class Threads:
    """What the threads of a simulated pipeline did: so many processors were at work since the last batch."""

    def __init__(self, used, ordered=lambda chosen: 0.0, queued=lambda chosen: 0.0):
        self.used, self.ordered, self.queued = used, ordered, queued
        self.sums = [0.0] * 6
        self.tuner, self.now = None, 100.0

    def __call__(self):
        return Effort(*self.sums)

    def passed(self, now, before):
        seconds, chosen = now - self.now, before
        self.now = now
        used, one = self.used(chosen), self.ordered(chosen)
        sums = max(used, one) * 0.95, used * 0.95, 0.0, used, one, self.queued(chosen)
        for place, value in enumerate(sums):
            self.sums[place] += value * seconds


def tuned(
    pace,
    used,
    seed=0,
    noise=0.1,
    batches=4000,
    ordered=lambda chosen: 0.0,
    queued=lambda chosen: 0.0,
    loop=0.0,
    **options,
):
    """A run with times that differ by ``noise`` at random, its tuner after so many batches, and the batches until it settled."""
    rng, threads = np.random.default_rng(seed), Threads(used, ordered, queued)
    options = {"tunes_alone": True, **options}
    run = Run(
        lambda *chosen: pace(*chosen) * math.exp(noise * rng.standard_normal()),
        loop,
        look=threads,
        processors=2,
        **options,
    )
    settled = 0
    for number in range(1, batches + 1):
        before = run.tuner.chosen
        run.batch()
        threads.passed(run.now, before)
        if run.tuner.settled and not settled:
            settled = number
    return run, settled


@pytest.mark.parametrize("base", [0.0002, 0.002, 0.008])
@pytest.mark.parametrize("seed", range(5))
def test_threads_that_take_the_interpreter_from_each_other_become_one(base, seed):
    """Two threads use no more processors than one and are slower by a fifth; it is settled in time for all lengths of batches."""
    run, settled = tuned(
        lambda threads, depth, alone: base * (1.2 if threads > 1 else 1.0),
        lambda chosen: 1.05 if chosen.threads > 1 else 1.0,
        seed,
    )
    assert settled <= LONGEST
    assert run.tuner.kept.threads == 1


@pytest.mark.parametrize(("gain", "expected"), [(1.04, 4), (0.8, 2)])
@pytest.mark.parametrize("seed", range(5))
def test_one_thread_that_keeps_the_interpreter_makes_more_batches_ahead(gain, expected, seed):
    """The loop takes several batches at once, and interrupts the thread less often; not if that is slower."""
    run, _ = tuned(
        lambda threads, depth, alone: 0.005 * (1.1 if threads > 1 else 1.0) / (gain if depth > 2 else 1.0),
        lambda chosen: 1.0,
        seed,
        0.02,
    )
    assert run.tuner.kept[:2] == (1, expected)


@pytest.mark.parametrize(("gain", "noise"), [(1.08, 0.1), (1.03, 0.02)])
@pytest.mark.parametrize("seed", range(5))
def test_a_thread_that_reads_for_one_that_always_calls_is_kept(gain, noise, seed):
    """Functions in the interpreter, called by one thread at a time: another one reads the source if there is room for batches."""
    run, settled = tuned(
        lambda threads, depth, alone: 0.005 / (gain if threads > 1 and depth > 2 else 1.0),
        lambda chosen: 1.01,
        seed,
        noise,
        ordered=lambda chosen: 0.95 if chosen.alone else 0.0,
    )
    assert settled <= LONGEST
    assert run.tuner.kept == Chosen(2, 4, True)


@pytest.mark.parametrize("moment", range(30, LONGEST, 10))
def test_batches_that_become_larger_while_settings_are_compared(moment):
    """Fewer are made ahead at once, and the settings are settled in time."""
    run, _ = tuned(
        lambda threads, depth, alone: 0.005 / (1.08 if threads > 1 and depth > 2 else 1.0),
        lambda chosen: 1.01,
        ordered=lambda chosen: 0.95 if chosen.alone else 0.0,
        batches=moment,
        memory=100,
    )
    run.size = 40
    for _ in range(LONGEST):
        run.batch()
    assert run.tuner.settled
    assert run.tuner.kept.depth == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_thread_that_reads_is_given_no_room_if_that_is_far_slower(seed):
    """The memory of more batches does not fit the caches, for example."""
    run, _ = tuned(
        lambda threads, depth, alone: 0.005 * (1.2 if depth > 2 else 1.0),
        lambda chosen: 1.01,
        seed,
        0.02,
        ordered=lambda chosen: 0.95 if chosen.alone else 0.0,
    )
    assert run.tuner.kept.depth == 2


@pytest.mark.parametrize("seed", range(8))
def test_threads_that_wait_a_little_for_batches_get_more_of_them(seed):
    """As with decoders: two batches ahead leave the threads a sixteenth of their time, four leave them none."""
    used = {1: 1.5, 2: 1.85}
    run, settled = tuned(
        lambda threads, depth, alone: 0.0044 / min(threads, used.get(depth, 1.98)) * (1.02 if depth < 4 else 1.0),
        lambda chosen: min(chosen.threads, used.get(chosen.depth, 1.98)),
        seed,
        0.05,
        batches=LONGEST,
        tunes_alone=False,
    )
    assert settled <= LONGEST
    assert run.tuner.kept.threads == 2
    assert run.tuner.kept.depth >= 4


@pytest.mark.parametrize("seed", range(5))
def test_threads_that_always_have_work_get_no_more_batches(seed):
    """It is settled after the first window."""
    work = 1.97 / 0.95  # processors at work; the threads are in their steps for 0.95 of it
    run, settled = tuned(
        lambda threads, depth, alone: 0.004, lambda chosen: work, seed, 0.05, batches=LONGEST, tunes_alone=False
    )
    assert settled < LONGEST / 4
    assert run.tuner.kept == Chosen(2, 2, False)


@pytest.mark.parametrize(("base", "expected"), [(0.0016, 1), (0.01, 2)])
@pytest.mark.parametrize("seed", range(5))
def test_brief_batches_are_tried_on_one_thread_although_two_are_at_work(base, expected, seed):
    """Two threads use two processors, and need twice the processor time for a batch. With long batches that is not likely, and
    one thread is not tried.
    """
    run, settled = tuned(
        lambda threads, depth, alone: base * (1.6 if threads > 1 else 1.0),
        lambda chosen: 1.95 if chosen.threads > 1 else 1.0,
        seed,
        tunes_alone=False,
    )
    assert settled <= LONGEST
    assert run.tuner.kept.threads == expected


@pytest.mark.parametrize("queued", [0.0, 1.5])
def test_threads_without_a_processor_do_not_wait_for_data(queued):
    """Two threads have a fifth of one. If they wait for data, more threads are tried; if others have the processors, not."""
    tried = []

    def pace(threads, depth, alone):
        tried.append(threads)
        return 0.02 / threads

    tuned(
        pace, lambda chosen: 0.2, queued=lambda chosen: queued, ordered=lambda chosen: 2.0, noise=0.05, batches=LONGEST
    )
    assert (max(tried) > 2) == (not queued)


@pytest.mark.parametrize("base", [0.0002, 0.002])
@pytest.mark.parametrize(("queued", "expected"), [(0.4, 1), (1.4, 2)])
def test_threads_that_wait_for_processors_of_other_programs(base, queued, expected):
    """They get 0.6 of a processor. If they would use one, they take the interpreter from each other; if two, they do not."""

    def pace(threads, depth, alone):
        return base * ((1.3 if expected == 1 else 0.7) if threads > 1 else 1.0)

    def waits(chosen):
        return queued if chosen.threads > 1 else 0.4

    run, _ = tuned(pace, lambda chosen: 0.6, queued=waits, noise=0.05)
    assert run.tuner.kept.threads == expected


@pytest.mark.parametrize("base", [0.0002, 0.008])
@pytest.mark.parametrize("seed", range(5))
def test_functions_that_are_called_by_one_thread_at_a_time_are_tried_on_all(base, seed):
    """One processor works because only one thread calls them; with calls at the same time it is two, and twice as fast."""
    run, settled = tuned(
        lambda threads, depth, alone: base * (1.0 if alone or threads == 1 else 0.5),
        lambda chosen: 1.0 if chosen.alone or chosen.threads == 1 else 1.95,
        seed,
        ordered=lambda chosen: 0.95 if chosen.alone else 0.0,
    )
    assert settled <= LONGEST
    assert (run.tuner.kept.threads, run.tuner.kept.alone) == (2, False)


def of_waits(seconds):
    """A function that waits for so many seconds a batch: the times, and what the threads do."""

    def calls(chosen):
        return 1 if chosen.alone else min(chosen.threads, 16 * chosen.depth)

    def pace(threads, depth, alone):
        return max(seconds / calls(Chosen(threads, depth, alone)), 0.0015)

    return pace, lambda chosen: 0.0004 / pace(*chosen), lambda chosen: min(calls(chosen), seconds / pace(*chosen))


@pytest.mark.parametrize("seconds", [0.012, 0.024, 0.04])
@pytest.mark.parametrize("seed", range(5))
def test_functions_that_wait_are_called_on_many_threads_at_once(seconds, seed):
    """Not on two threads first; and no way that was far slower is tried again, neither one call at a time nor fewer threads."""
    pace, used, inside = of_waits(seconds)
    tried = []

    def noted(*chosen):
        if Chosen(*chosen) not in tried[-1:]:
            tried.append(Chosen(*chosen))
        return pace(*chosen)

    run, _ = tuned(noted, used, seed, noise=0.05, batches=1500, ordered=inside)
    assert tried[:2] == [(2, 2, True), (8, 2, False)]
    assert not any(each.alone or each.threads < 8 for each in tried[1:])
    assert pace(*run.tuner.kept) <= 1.05 * 0.0015


@pytest.mark.parametrize(("seconds", "batches"), [(0.002, 21), (0.024, 13)])
def test_slow_batches_are_measured_for_a_shorter_time_at_first(seconds, batches):
    """8 batches of 24 ms are enough to see that the function waits, 16 of 2 ms; before them come five that are not counted."""
    pace, used, inside = of_waits(seconds)
    run, _ = tuned(pace, used, noise=0.05, batches=batches - 1, ordered=inside)
    assert run.tuner.chosen.alone
    run, _ = tuned(pace, used, noise=0.05, batches=batches, ordered=inside)
    assert not run.tuner.chosen.alone


def test_a_window_ends_early_if_every_batch_takes_far_longer():
    """With one thread at a time a batch takes twice as long: four batches are not counted then, and four are, not eight."""
    counts = {True: 0, False: 0}

    def pace(threads, depth, alone):
        counts[threads == 1] += 1
        return 0.004 * (2 if threads == 1 else 1)

    tuned(pace, lambda chosen: 1.0, noise=0.1, batches=LONGEST, tunes_alone=False, tunes_depth=False)
    assert counts[True] == 4 + 4


def test_other_settings_cost_little_while_they_are_compared():
    """All others take half as long again, and the times are too uneven to see it at once: at most 1 % is lost after settling."""
    used = []

    def pace(threads, depth, alone):
        used.append((threads, depth))
        return 0.001 if (threads, depth) == (2, 2) else 0.0015

    run, settled = tuned(pace, lambda chosen: 1.4, noise=0.6, batches=40_000, tunes_alone=False)
    assert settled <= LONGEST
    others = [each for each in used[settled:] if each != (2, 2)]
    assert len(others) > 40
    assert run.chosen == (2, 2)
    assert 0.0005 * len(others) <= REVIEW_COST * 0.001 * len(used) + 4 * REVIEW_CREDIT


def test_a_loop_of_uneven_steps_gets_more_batches_ahead():
    """Every fourth step is long, in which a deeper queue fills: the long steps count with few batches ahead too.

    At first batches take so long that the long steps are not seen as bursts.
    """

    class Uneven(Run):
        count = 0

        def batch(self):
            self.count += 1
            own = 0.002 if self.count % 4 else 0.04
            _, depth, alone = self.tuner.chosen
            made = (0.0135 if alone else 0.0075) if depth < 4 else (0.006 if alone else own)
            asked = self.now + own
            self.now += max(own, made)
            return self.tuner.delivered(self.now, asked, 0)

    run = Uneven(None, tunes_alone=True)
    run.until_settled()
    for _ in range(2000):  # with a review
        run.batch()
    assert run.tuner.depth >= 4


def test_a_pause_of_the_loop_gives_no_credit_for_the_comparison():
    """A program that validates for an hour does not use worse settings for longer after it."""
    worse = []
    for pause in (0.0, 3600.0):
        rng = np.random.default_rng(0)

        def pace(threads, depth, rng=rng):
            return (0.002 if threads == 2 else 0.0026) * math.exp(rng.standard_normal())

        run = Run(pace, tunes_depth=False)
        run.until_settled()
        assert run.tuner.reviewing
        run.now += pause
        worse.append(0)
        for _ in range(1000):
            run.tuner.rests() or run.batch()
            worse[-1] += run.tuner.threads != 2
    assert worse[0] == worse[1] > 0


@pytest.mark.parametrize("depth", [2, 8])
@pytest.mark.parametrize("seed", range(5))
def test_pauses_of_the_loop_do_not_count(depth, seed):
    """After each epoch of 50 batches the loop validates for 100 s. All batches ahead are made meanwhile, and come at once."""
    rng = np.random.default_rng(seed)
    run = Run(lambda threads, _: 0.02 * math.exp(0.05 * rng.standard_normal()), tunes_depth=False)
    run.tuner.depth, run.tuner._kept = depth, run.tuner.chosen._replace(depth=depth)
    free = 0
    for number in range(1, 4 * LONGEST):
        pace = run.pace
        if number % 50 == 0:
            free = depth
            run.loop = 100.0
        if free:
            run.pace, free = lambda *_: 0.0, free - 1
        run.tuner.rests() or run.batch()
        run.pace, run.loop = pace, 0.0
    assert run.tuner.settled
    assert run.tuner.threads == 2
    assert 0.018 < run.tuner._best < 0.022


def test_a_loop_that_no_longer_waits_ends_the_comparison():
    """Nothing else is tried once a faster pipeline would not help."""
    run, _ = tuned(lambda threads, depth, alone: 0.002, lambda chosen: 1.05, noise=0.3, batches=LONGEST)
    assert run.tuner.reviewing
    run.loop = 0.1
    for _ in range(1000):
        run.batch()
    assert run.tuner.settled
    assert not run.tuner.reviewing
    assert run.tuner.reason.startswith("the input is not your bottleneck")


def test_a_budget_of_memory_is_watched_all_the_time():
    """Batches may become larger with any batch."""
    run = Run(lambda threads, depth: 0.02, memory=MEGABYTE)
    run.until_settled()
    assert not run.tuner.rests()


def test_it_says_once_what_it_chose(caplog):
    """One line of the log, with the reason."""
    run = Run(lambda threads, depth: 0.064 / threads)
    with caplog.at_level(logging.INFO, "pipeflow"):
        for _ in range(3 * LONGEST):
            run.batch()
    (record,) = caplog.records
    assert record.getMessage().startswith("num_threads=32, prefetch_queue_depth=2: a batch every 2 ms")
