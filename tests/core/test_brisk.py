"""Quick batches are made by a caller that does nothing else: with the same values, and with code of the user only if it cannot
notice that.
"""

import threading
from statistics import mean

import numpy as np
import pytest
from test_interrupts import INSIDE, Interrupts, by_epochs, by_run, values

from pipeflow import fn, pipeline_def
from pipeflow.executor.brisk import ENOUGH, MOST_SECONDS, OWN_SECONDS, TRIAL, Brisk
from pipeflow.executor.runners.sample import SampleStage

SETTINGS = [
    {"num_threads": 1, "prefetch_queue_depth": 1},
    {"num_threads": 2},
    {"num_threads": 1, "prefetch_queue_depth": 3},
]
SAMPLES = 6


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Six small files."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(SAMPLES):
        folder.joinpath(f"{number}.bin").write_bytes(bytes([number] * 4))
    return [str(folder / f"{number}.bin") for number in range(SAMPLES)]


def angles(**settings):
    """Random matrices, without a source."""

    @pipeline_def(batch_size=3, seed=5, **settings)
    def define():
        angle = fn.random.uniform(range=(0.0, 90.0))
        return angle, fn.transforms.rotation(angle=angle)

    return define()


def read(files, **settings):
    """Files in a random order, with a random number for each."""

    @pipeline_def(batch_size=2, seed=5, **settings)
    def define():
        data, label = fn.readers.file(files=files, random_shuffle=True, name="files")
        return data, label, fn.random.uniform(range=(0.0, 1.0))

    return define()


@pytest.fixture
def threads_of(monkeypatch):
    """The names of the threads that make batches."""
    seen = []
    run = SampleStage.run

    def noted(self, *args):
        seen.append(threading.current_thread().name)
        return run(self, *args)

    monkeypatch.setattr(SampleStage, "run", noted)
    return seen


def hand_over(pipe, by_caller=True):
    """When no batch is in flight, the caller makes the batches from then on, or threads; whatever their times are."""
    pipe._executor.brisk.by_caller = by_caller
    pipe._executor.brisk.delivered = lambda *_: None


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_caller_makes_the_batches_and_values_are_the_same(settings, threads_of):
    """Threads, then the caller, then threads again: the batches are those of threads alone."""
    pipe, other = angles(**settings), angles(**settings)
    pipe.build()
    found = values(pipe.run() for _ in range(4))
    assert set(threads_of) == {name for name in threads_of if name.startswith("pipeflow")}
    threads_of.clear()
    hand_over(pipe)
    ahead = settings.get("prefetch_queue_depth", 2)
    found += values(pipe.run() for _ in range(ahead + 4))
    assert threads_of[-4:] == [threading.current_thread().name] * 4
    hand_over(pipe, False)
    threads_of.clear()
    found += values(pipe.run() for _ in range(4))
    assert threads_of[-1].startswith("pipeflow")
    assert found == values(other.run() for _ in range(len(found)))


def test_a_measurement_changes_nothing_and_knows_the_pace_before_it():
    """Its clocks make batches slower. So they do not count for the choice; predictions begin with the pace before."""
    pipe = angles(num_threads=2)
    for _ in range(40):
        pipe.run()
    counted = []
    pipe._executor.brisk.delivered = lambda *times: counted.append(times)
    with pipe.measure():
        for _ in range(40):
            pipe.run()
    found = pipe.statistics()
    assert not counted
    assert found.unmeasured > 0
    pipe.run()
    assert len(counted) == 1


def test_few_batches_say_nothing_about_the_pace():
    pipe = angles(num_threads=2)
    for _ in range(5):
        pipe.run()
    with pipe.measure():
        pipe.run()
    assert pipe.statistics().unmeasured is None


@pytest.mark.parametrize("settings", SETTINGS)
def test_epochs_and_a_change_at_every_batch(files, settings):
    """Two epochs with a reader have the same batches, although the thread that makes them changes, also across their ends."""
    pipe, other = read(files, **settings), read(files, **settings)
    pipe.build()
    found = []
    for number, batch in enumerate(by_epochs(pipe)):
        found += values([batch])
        hand_over(pipe, number % 3 > 0)
    assert found == values(by_epochs(other))


def test_states_are_those_of_the_last_delivered_batch(files):
    """A checkpoint continues with the next batch after the last one that was taken."""
    pipe, other = (read(files, num_threads=1, enable_checkpointing=True) for _ in range(2))
    pipe.build()
    hand_over(pipe)
    values([pipe.run(), pipe.run()])
    saved = pipe.checkpoint()
    assert saved == (other.run(), other.run(), other.checkpoint())[2]
    again = read(files, num_threads=1, enable_checkpointing=True, checkpoint=saved)
    assert values([again.run(), again.run()]) == values([pipe.run(), pipe.run()])


def test_scheduled_batches_are_made_too():
    """schedule_run and outputs, with two batches scheduled at a time."""
    pipe, other = angles(num_threads=1), angles(num_threads=1)
    pipe.build()
    hand_over(pipe)
    found = []
    for _ in range(3):
        pipe.schedule_run(), pipe.schedule_run()
        found += values([pipe.outputs(), pipe.outputs()])
    assert found == values(other.run() for _ in range(6))


def test_several_callers_share_the_batches():
    """Each batch goes to one of the callers, and none is made twice."""
    pipe, other = angles(num_threads=1), angles(num_threads=1)
    pipe.build()
    hand_over(pipe)
    found = []

    def take():
        for _ in range(20):
            found.extend(values([pipe.run()]))
            hand_over(pipe, not pipe._executor.brisk.by_caller)

    callers = [threading.Thread(target=take) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(map(str, found)) == sorted(map(str, values(other.run() for _ in range(60))))


def test_settings_of_the_caller_do_not_reach_the_operators(monkeypatch):
    """np.errstate of the caller is not that of the operators: with threads it never was."""
    run, seen = SampleStage.run, []

    def noted(self, *args):
        seen.append(np.geterr()["over"])
        return run(self, *args)

    monkeypatch.setattr(SampleStage, "run", noted)
    pipe = angles(num_threads=1, prefetch_queue_depth=1)
    pipe.build()
    hand_over(pipe)
    with np.errstate(over="raise"):
        pipe.run()
    assert seen == ["warn"]


@pytest.mark.parametrize("walk", [by_run, by_epochs])
def test_an_interrupt_before_a_line(files, walk):
    """Ctrl-C anywhere, while the caller makes the batches and when threads make them again: none is lost or comes twice."""
    once = {"num_threads": 1, "prefetch_queue_depth": 2}

    def batches(pipe):
        found = []
        for batch in walk(pipe):
            found += values([batch])
            if len(found) == SAMPLES:
                break
        return found

    def attempt(line):
        pipe = read(files, **once)
        pipe.build()
        pipe._executor.brisk.by_caller = True  # it ends by itself after some batches, because tracing makes them slow
        with Interrupts(line, INSIDE) as interrupts:
            found = batches(pipe)
        pipe._executor.close()
        return found, interrupts.places

    expected, places = attempt(0)
    assert expected == batches(read(files, **once))
    assert any(file.endswith("ring.py") for file, _ in places)
    for (file, number), counts in list(places.items())[::3]:
        found, _ = attempt(counts[len(counts) // 2])
        assert found == expected, f"{file}:{number}"


class Database:
    """An object that belongs to a thread."""

    def row(self):
        """A batch of one sample."""
        return [np.zeros(2)]


DATABASE, ROWS = Database(), [np.arange(3), np.ones(3, np.int64)]
COUNTED: list[int] = []


def counted():
    """Keeps state."""
    COUNTED.append(1)
    return [np.zeros(2)]


def generated():
    """An interrupt ends it."""
    while True:
        yield [np.zeros(2)]


STAYS = {
    "method": lambda: fn.external_source(DATABASE.row),
    "object of the user": lambda: fn.external_source(lambda: DATABASE.row()),
    "state": lambda: fn.external_source(counted),
    "generator function": lambda: fn.external_source(generated),
    "generator": lambda: fn.external_source(generated()),
    "list with an object of the user": lambda: fn.external_source([[ROWS[0]], DATABASE]),
    "random numbers": lambda: fn.external_source(lambda: [np.random.rand(2)]),
    "fed": lambda: fn.external_source(name="fed"),
    "function with an object": lambda: fn.python_function(
        fn.random.uniform(), function=lambda x: DATABASE.row()[0] + x
    ),
    "function that writes": lambda: fn.python_function(fn.random.uniform(), function=lambda x: np.add(x, 1, x)),
    "time limit": lambda: fn.python_function(fn.random.uniform(), function=lambda x: x + 1, timeout=100.0),
    "chosen threads": lambda: fn.python_function(fn.random.uniform(), function=lambda x: x + 1, parallel="threads"),
    "compiled function": lambda: fn.python_function(fn.random.uniform(), function=lambda x: x + 1, jit=True),
}
MOVES = {
    "source": lambda: fn.external_source(lambda: [ROWS[0]]),
    "source by numbers": lambda: fn.external_source(lambda iteration: [ROWS[iteration % 2]]),
    "source of samples": lambda: fn.external_source(lambda info: ROWS[info.iteration % 2], batch=False),
    "list": lambda: fn.external_source([[row] for row in ROWS], cycle=True),
    "tuple": lambda: fn.external_source(tuple([row] for row in ROWS), cycle=True),
    "function": lambda: fn.python_function(fn.random.uniform(), function=lambda x: x + 1),
    "function with random numbers": lambda: fn.python_function(
        fn.random.uniform(), function=lambda x, rng: x + rng.integers(10)
    ),
    "threads, if they are faster": lambda: fn.python_function(
        fn.random.uniform(), function=lambda x: x + 1, parallel="auto"
    ),
    "function of a batch": lambda: fn.python_function(
        fn.random.uniform(), function=lambda batch: [x + 1 for x in batch], batch_processing=True
    ),
}


def of_one(define, **settings):
    """A pipeline with batches of one sample."""
    return pipeline_def(batch_size=1, num_threads=1, seed=3, **settings)(define)()


@pytest.mark.parametrize("define", STAYS.values(), ids=STAYS)
def test_code_of_the_user_stays_in_the_threads(define):
    """It may keep objects that belong to a thread, and notice a second call after an interrupt."""
    pipe = of_one(define)
    pipe.build()
    assert pipe._executor.brisk is None


@pytest.mark.parametrize("define", MOVES.values(), ids=MOVES)
def test_code_that_notices_nothing_moves(define):
    """The caller makes its batches, and their values are those of threads."""
    pipe, other = of_one(define), of_one(define)
    pipe.build()
    hand_over(pipe)
    found = values(pipe.run() for _ in range(8))
    assert pipe._executor._by_caller
    assert found == values(other.run() for _ in range(8))


def test_an_error_of_a_function_is_raised_and_the_next_batch_follows():
    """With the sample and the file of the user, as from a thread."""

    def looked_up(x):
        return ROWS[int(x[0])]

    def run(by_caller):
        batches = [[np.array([number == 1]) * 5] for number in range(4)]
        pipe = of_one(lambda: fn.python_function(fn.external_source(batches), function=looked_up))
        pipe.build()
        hand_over(pipe, by_caller)
        found = []
        for _ in range(4):
            try:
                found += values([pipe.run()])
            except IndexError as error:
                found.append([str(error), error.__notes__])
        return found

    assert run(True) == run(False)


def test_an_interrupt_before_a_line_of_the_user():
    """Ctrl-C in a source, a list or a function that the caller calls: the batch is made again, with the same values."""

    def define():
        listed = fn.external_source([[row] for row in ROWS], cycle=True)
        called = fn.external_source(lambda iteration: [ROWS[iteration % 2]])
        return fn.python_function(listed, called, function=lambda x, y: x + 2 * y)

    def attempt(line):
        pipe = of_one(define)
        pipe.build()
        hand_over(pipe)
        found = []
        with Interrupts(line, INSIDE) as interrupts:
            for batch in by_run(pipe):
                found += values([batch])
                if len(found) == SAMPLES:
                    break
        pipe._executor.close()
        return found, interrupts.places

    expected, places = attempt(0)
    for (file, number), counts in list(places.items())[::3]:
        found, _ = attempt(counts[len(counts) // 2])
        assert found == expected, f"{file}:{number}"


def test_callers_make_the_batches_anyway():
    """Without threads there is nothing to choose."""
    pipe = angles(exec_async=False)
    pipe.build()
    assert pipe._executor.brisk is None


@pytest.mark.parametrize("settled", [False, True])
def test_automatic_settings_are_chosen_first(settled):
    """The tuner compares numbers of threads. It rests while the caller makes the batches, and then begins a new window."""
    pipe, other = angles(num_threads="auto"), angles(num_threads=1)
    pipe.build()
    executor, counted, tuned = pipe._executor, [], []
    executor.tuner.settled = settled
    executor.tuner.rests = lambda: not tuned.append(executor._by_caller)
    executor.brisk.delivered = lambda *_: counted.append(0)
    found = values(pipe.run() for _ in range(3))
    assert len(counted) == 3 * settled
    executor.tuner._count = 5
    executor.brisk.by_caller = True
    found += values(pipe.run() for _ in range(12))
    assert executor._by_caller
    assert executor.tuner._count == 0
    executor.brisk.by_caller = False
    found += values(pipe.run() for _ in range(3))
    assert not any(tuned)
    assert found == values(other.run() for _ in range(len(found)))


class TestTheChoice:
    """When it is the caller, and when threads."""

    def test_after_enough_quick_batches(self):
        brisk = Brisk()
        for _ in range(ENOUGH - 1):
            brisk.delivered(0.0, 1e-4)
        assert not brisk.by_caller
        brisk.delivered(0.0, 1e-4)
        assert brisk.by_caller

    @pytest.mark.parametrize("slow", [(2 * OWN_SECONDS, 3 * OWN_SECONDS), (0.0, 2 * MOST_SECONDS)])
    def test_not_if_every_other_batch_is_slow(self, slow):
        """As in a loop that takes two batches for each of its steps."""
        brisk = Brisk()
        for _ in range(4 * ENOUGH):
            brisk.delivered(0.0, 1e-4)
            brisk.delivered(*slow)
            assert not brisk.by_caller

    def test_a_rare_slow_batch_changes_nothing(self):
        brisk = Brisk()
        for _ in range(8 * ENOUGH):
            for _ in range(ENOUGH):
                brisk.delivered(0.0, 1e-4)
            brisk.delivered(2 * OWN_SECONDS, 3 * OWN_SECONDS)
        assert brisk.by_caller

    def test_it_ends_when_the_loop_begins_to_work(self):
        brisk = Brisk()
        for _ in range(ENOUGH):
            brisk.delivered(0.0, 1e-4)
        for _ in range(3):
            brisk.delivered(2 * OWN_SECONDS, 3 * OWN_SECONDS)
        assert not brisk.by_caller

    def test_it_ends_if_threads_are_faster_and_is_tried_less_often(self):
        brisk = Brisk()
        tries = []
        for number in range(40 * ENOUGH):
            before = brisk.by_caller
            brisk.delivered(0.0, 2e-4 if before else 1e-4)
            if brisk.by_caller and not before:
                tries.append(number)
        apart = np.diff(tries)
        assert len(tries) > 2
        assert (apart[1:] > apart[:-1]).all()

    def test_trials_that_fail_take_a_small_part_of_the_batches(self):
        """The caller is slower: a trial has a few batches, and there are twice as many by threads before each next one."""
        brisk, by_caller = Brisk(), 0
        for _ in range(100 * ENOUGH):
            brisk.delivered(0.0, 2e-4 if brisk.by_caller else 1e-4)
            by_caller += brisk.by_caller
        assert TRIAL < by_caller < 4 * ENOUGH

    @pytest.mark.parametrize("proved", [False, True])
    def test_a_measurement_ends_a_trial_and_not_what_was_proved(self, proved):
        brisk = Brisk()
        for _ in range(ENOUGH + 1 + (TRIAL + 1 if proved else 0)):
            brisk.delivered(0.0, 5e-5 if brisk.by_caller else 1e-4)
        assert brisk.by_caller
        brisk.end_trial()
        assert brisk.by_caller is proved

    @pytest.mark.parametrize("alone", [1.5e-4, 3e-4])
    def test_batches_that_come_at_once_count_with_the_wait_for_them(self, alone):
        """Threads that make eight batches ahead: seven come at once, the eighth takes as long as eight of 0.2 ms."""
        brisk = Brisk(8)
        chosen = []
        for number in range(4000):
            threads = 8 * 2e-4 - 7e-5 if number % 8 == 0 else 1e-5
            brisk.delivered(0.0, alone if brisk.by_caller else threads)
            chosen.append(brisk.by_caller)
        assert (mean(chosen[2000:]) > 0.5) == (alone < 2e-4)

    def test_batches_that_were_made_before_a_change_do_not_count(self):
        """Eight batches made by threads are left when the caller begins; it is slower."""
        brisk, left = Brisk(8), 0
        for _ in range(2 * ENOUGH):
            before = brisk.by_caller
            brisk.delivered(0.0, 1e-5 if left else 3e-4 if before else 1e-4)
            left = 8 if brisk.by_caller and not before else max(0, left - 1)
        for _ in range(ENOUGH + 1):
            brisk.delivered(0.0, 3e-4)
        assert not brisk.by_caller
