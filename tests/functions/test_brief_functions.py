"""Functions for one sample, run for many at once: the same values and errors in every way of calling them."""

import threading

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.executor.clocks import SampleLaps, _completed
from pipeflow.executor.runners.function_step import FunctionStep

SIZE = 24


def twice(x):
    return x * 2


def noisy(x, rng):
    return x + rng.random(x.shape)


def two(x):
    return x + 1, np.float32(x.sum())


def ragged(x):
    return np.arange(int(x.flat[0]) % 3)


def in_place(x):
    y = x.copy()
    y += 1
    return y


def refuses_seven(x):
    if x.flat[0] == 7:
        raise ValueError("seven is refused")
    return x + 1


def changes_and_refuses_seven(x):
    y = x.copy()
    y += 1
    if y.flat[0] == 8:
        raise ValueError("seven is refused")
    return y


def other_type_at_five(x):
    return x.astype(np.int16) if x.flat[0] == 5 else x


def made(function, source, outputs=1, threads=3, **options):
    def graph():
        data = fn.external_source(source)
        return fn.python_function(data, function=function, num_outputs=outputs, **options)

    return pipeline_def(graph, batch_size=SIZE, num_threads=threads, seed=5)()


def refuses_eight(x):
    if x == 8:
        raise ValueError("eight is refused")
    return x * 1.0


def adds_nothing(x):
    return x + 0.0


def rows(_number):
    return np.arange(SIZE * 3, dtype=np.float32).reshape(SIZE, 3)


def scalars(_number):
    return np.arange(SIZE, dtype=np.float64)


def lists(_number):
    return [np.full((1 + place % 2, 2), place, np.int32) for place in range(SIZE)]


@pytest.mark.parametrize("source", [rows, scalars, lists])
@pytest.mark.parametrize(("function", "outputs"), [(twice, 1), (noisy, 1), (two, 2), (ragged, 1), (in_place, 1)])
@pytest.mark.parametrize("way", ["threads", "auto"])
@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_those_of_calls_in_order(source, function, outputs, way, threads):
    """Types, shapes and bits of three batches."""
    pipes = [made(function, source, outputs, threads, parallel=parallel) for parallel in ("serial", way)]
    for _ in range(3):
        expected, found = (pipe.run() for pipe in pipes)
        for one, other in zip(expected, found, strict=True):
            for x, y in zip(one.samples(), other.samples(), strict=True):
                assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


@pytest.mark.parametrize("function", [refuses_seven, changes_and_refuses_seven])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", ["serial", "threads", "auto"])
def test_an_error_names_its_sample(way, threads, function):
    """The batch fails, with the sample that was refused."""
    pipe = made(function, scalars, threads=threads, parallel=way)
    with pytest.raises(ValueError, match="seven is refused") as caught:
        pipe.run()
    assert any("sample 7" in note for note in caught.value.__notes__), caught.value.__notes__


@pytest.mark.parametrize("function", [refuses_seven, changes_and_refuses_seven])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", ["threads", "auto"])
def test_only_the_sample_that_fails_is_skipped(way, threads, function):
    """The others are there, in order."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(scalars), function=function, parallel=way),
        batch_size=SIZE,
        num_threads=threads,
        on_error="skip",
    )()
    (batch,) = pipe.run()
    assert [x.item() for x in batch.samples()] == [x + 1 for x in range(SIZE) if x != 7]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", ["serial", "threads", "auto"])
def test_results_of_different_types_are_refused(way, threads):
    """In every way."""
    with pytest.raises(Exception, match="int16"):
        made(other_type_at_five, scalars, threads=threads, parallel=way).run()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_sample_is_called_twice_by_one_thread(monkeypatch, count):
    """If the code of a function does not show that a second call does no harm, the samples after a failure follow."""
    monkeypatch.setattr("pipeflow.operators.python_function.changes_nothing", lambda _: False)
    monkeypatch.setattr("pipeflow.operators.python_function.where_calls_run", lambda *_: "threads")
    called: list[list[float]] = [[] for _ in range(count)]

    def noting(place, refused):
        def function(x):
            called[place].append(x.item())
            if x == refused:
                raise ValueError("seven is refused")
            return x.copy()

        return function

    def graph():
        x = fn.external_source(scalars)
        for place in range(count):
            x = fn.python_function(x, function=noting(place, 7 if place == min(1, count - 1) else -1), parallel="auto")
        return x

    with pytest.raises(ValueError, match="seven is refused") as caught:
        pipeline_def(graph, batch_size=SIZE, num_threads=1, prefetch_queue_depth=1)().run()
    assert any("sample 7" in note for note in caught.value.__notes__), caught.value.__notes__
    for numbers in called:
        assert len(set(numbers)) == len(numbers)
    assert called[-1][-1] == SIZE - 1 > 7
    if count == 3:
        assert called[2] == [*range(8, SIZE)]


def test_functions_in_turn_are_called_for_the_whole_batch_by_one_thread(monkeypatch):
    """One after another, as serial ones; but sample by sample if what they hand on is too large for the cache."""
    whole, taken = FunctionStep.run_whole, []

    def watched(step, batch, pool):
        taken.append(step.step.name)
        return whole(step, batch, pool)

    monkeypatch.setattr(FunctionStep, "run_whole", watched)
    for width, times in ((4, 5), (1 << 14, 1)):
        taken.clear()

        def graph(width=width):
            x = fn.external_source(lambda index: np.full((SIZE, width), index, np.float32))
            for _ in range(2):
                x = fn.python_function(x, function=twice, parallel="auto")
            return x

        pipe = pipeline_def(graph, batch_size=SIZE, num_threads=1, prefetch_queue_depth=1, device_id=None)()
        for number in range(5):
            (found,) = pipe.run()
            assert (found.as_array() == 4 * number).all()
        del pipe
        assert taken[:2] == ["python_function_0", "python_function_1"]
        assert len(taken) >= 2 * times if times > 1 else len(taken) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_function_may_wait_for_the_next_one_with_an_earlier_sample(threads):
    """With parallel="threads" a sample passes through both before one thread takes the next one."""
    passed = [threading.Event() for _ in range(SIZE)]

    def first(x):
        if x > 0 and not passed[int(x) - 1].wait(LONG):
            for event in passed:
                event.set()  # the others need not wait too
            raise TimeoutError
        return x + 0.0

    def second(x):
        passed[int(x)].set()
        return x + 0.0

    def graph():
        x = fn.external_source(scalars)
        for function in (first, second):
            x = fn.python_function(x, function=function, parallel="threads")
        return x

    (found,) = pipeline_def(graph, batch_size=SIZE, num_threads=threads, prefetch_queue_depth=1)().run()
    assert found.as_array().tolist() == [*range(SIZE)]


@pytest.mark.parametrize("refusing", [0, 1, 2])
def test_a_rule_for_failures_keeps_the_other_samples_of_functions_in_turn(refusing):
    """Whichever of the functions fails."""

    def graph():
        x = fn.external_source(scalars)
        for place in range(3):
            x = fn.python_function(x, function=refuses_eight if place == refusing else adds_nothing, parallel="auto")
        return x

    for threads in (1, 3):
        pipe = pipeline_def(graph, batch_size=SIZE, num_threads=threads, on_error="skip")()
        for _ in range(3):
            (batch,) = pipe.run()
            assert [x.item() for x in batch.samples()] == [x for x in range(SIZE) if x != 8]


@pytest.mark.parametrize("function", [twice, in_place])
def test_one_thread_calls_a_function_for_the_whole_batch(monkeypatch, function):
    """This takes less time than collecting samples, and the result is one array."""
    whole, taken = FunctionStep.run_whole, []

    def watched(step, batch, place):
        taken.append(whole(step, batch, place))
        return taken[-1]

    monkeypatch.setattr(FunctionStep, "run_whole", watched)
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(rows), function=function, parallel="auto"),
        batch_size=SIZE,
        num_threads=1,
    )()
    for _ in range(5):
        pipe.run()
    assert taken
    assert all(failed is None for failed in taken)


def test_functions_that_are_chosen_have_a_stage_of_their_own():
    """Operators before and after it are in other stages; with parallel="threads" all are one."""

    def graph(way):
        data = fn.external_source(rows)
        x = fn.python_function(fn.cast(data * 2.0, dtype=np.float64), function=twice, parallel=way)
        return fn.reductions.sum(fn.python_function(x, function=in_place, parallel=way))

    stages = {}
    for way in ("auto", "threads"):
        pipe = pipeline_def(lambda way=way: graph(way), batch_size=SIZE, num_threads=2)()
        pipe.build()
        stages[way] = [[step.op for step in stage.steps] for stage in pipe.plan.stages[1:]]
    assert [len(steps) for steps in stages["auto"]] == [2, 2, 1]
    assert [len(steps) for steps in stages["threads"]] == [5]


def test_calls_of_equal_length_are_one_row():
    """The times of samples, and their sum with the rest of the batch."""
    laps = SampleLaps()
    laps._rows = [(0.001, 0.001)] * 3 + [(0.02, 0.0)] + [(0.001, 0.001)] * 4
    merged = laps.merged()
    assert [(count, pytest.approx(seconds), pytest.approx(busy)) for count, seconds, busy in merged] == [
        (3, 0.003, 0.003),
        (1, 0.02, 0.0),
        (4, 0.004, 0.004),
    ]
    whole = _completed(merged, (1, 0.035, 0.011))
    assert [sum(row[i] for row in whole) for i in range(3)] == [8, pytest.approx(0.035), pytest.approx(0.011)]


def test_a_measured_run_knows_which_sample_waits():
    """A function called in order, for a predicted run on threads."""
    numbers = iter(range(10**6))

    def slow_at_two(x):
        next(numbers)
        return np.sort(np.arange(60000.0)[::-1] * (40 if x == 2 else 1))[:1] if x != 2 else _busy(x)

    def _busy(x):
        for _ in range(40):
            np.sort(np.arange(60000.0)[::-1])
        return np.zeros(1)

    pipe = made(slow_at_two, scalars)
    with pipe.measure():
        for _ in range(6):
            pipe.run()
    stage = pipe.statistics().stages[1]
    for batch in stage.batches:
        assert sum(samples for samples, _, _ in batch) == SIZE
        longest = max(batch, key=lambda row: row[1] / row[0])
        assert longest[0] <= 2


def test_one_thread_takes_a_whole_batch_also_if_its_calls_take_long(clock, monkeypatch):
    """A call of a second is far above the limit of a chunk; with one thread nothing would be gained by dividing the batch."""
    sizes, run = [], FunctionStep.run_whole

    def counted(self, batch, place):
        sizes.append(batch.size)
        return run(self, batch, place)

    def slow(x):
        clock.advance(1.0)
        return x * 2

    monkeypatch.setattr(FunctionStep, "run_whole", counted)
    monkeypatch.setattr("pipeflow.operators.python_function.changes_nothing", lambda _: True)
    monkeypatch.setattr("pipeflow.operators.python_function.where_calls_run", lambda *_: "threads")
    graph = lambda: fn.python_function(fn.external_source(scalars), function=slow, parallel="auto")
    pipe = pipeline_def(graph, batch_size=SIZE, num_threads=1, prefetch_queue_depth=1, device_id=None)()
    for _ in range(4):
        (found,) = pipe.run()
        assert found.as_array().tolist() == [2.0 * number for number in range(SIZE)]
    assert sizes[:4] == [SIZE] * 4
