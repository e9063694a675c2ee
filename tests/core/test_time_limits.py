"""Functions with a time limit on this process's threads, and pipelines that end while something waits.

The clock is the test's own: a call is late when the test says so, however busy the machine is.
"""

import contextlib
import gc
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG, Gate, in_time, threads

from pipeflow import fn, pipeline_def
from pipeflow.errors import FunctionTimeout
from pipeflow.executor import watch

WAYS = ["serial", "threads"]
every_way = pytest.mark.parametrize("parallel", WAYS)


def numbers(batches=100):
    """Batches of six numbers, from 0 on."""
    return [np.arange(6) + 6 * batch for batch in range(batches)]


def make(function, parallel, source=None, on_error=None, num_threads=2):
    """A pipeline of one function whose calls may take a hundredth of a second, by the test's clock."""

    def define():
        data = fn.external_source(numbers() if source is None else source, cycle="raise")
        return fn.python_function(data, function=function, parallel=parallel, timeout=0.01, on_error=on_error)

    return pipeline_def(define, batch_size=6, device_id=None, num_threads=num_threads)()


def hanging_at(*bad, gate, clock):
    """A function that hangs for some numbers, longer than it may."""

    def function(x):
        if int(x) in bad:
            clock.advance(1)
            gate.wait()  # where it hangs
        return x

    return function


def values(pipe):
    return in_time(pipe.run)[0].as_array().tolist()


@every_way
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_call_that_hangs_is_named_and_the_next_batches_come(parallel, num_threads, gate, clock):
    """The error has the function, its line and the sample; another thread takes the place of the one that hangs."""
    pipe = make(hanging_at(7, gate=gate, clock=clock), parallel, num_threads=num_threads)
    assert values(pipe) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(FunctionTimeout, match=r"function \(.*py:\d+\) did not return within 0.01 s") as info:
        in_time(pipe.run)
    notes = "\n".join(info.value.__notes__)
    lines = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.endswith("# where it hangs"))
    assert f", line {line}" in notes
    assert "in fn.python_function, sample 1 of batch 1" in notes
    assert f"is at {__file__}:{line};" in str(info.value)
    assert "pipeflow/operators" not in notes
    for number in range(2, 5):
        assert values(pipe) == list(range(6 * number, 6 * number + 6))


@every_way
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_a_call_that_hangs_is_raised_whatever_the_rule(parallel, on_error, gate, clock):
    """Its thread still has the row, so nothing can stand in for it; the next batches come."""
    pipe = make(hanging_at(7, gate=gate, clock=clock), parallel, on_error=on_error)
    values(pipe)
    with pytest.raises(FunctionTimeout, match="did not return within"):
        in_time(pipe.run)
    for number in range(2, 5):
        assert values(pipe) == list(range(6 * number, 6 * number + 6))


@every_way
def test_a_row_that_hangs_when_it_is_made_again(parallel, gate, clock):
    """on_error="replace" makes a row again with another sample's data: a call that hangs then is noticed as well."""
    calls = []

    def function(x):
        calls.append(int(x))
        if x == 1:
            raise ValueError("bad")
        if x == 2 and calls.count(2) == 2:
            clock.advance(1)
            gate.wait()
        return x

    pipe = make(function, parallel, on_error="replace")
    with pytest.raises(FunctionTimeout, match="did not return within"):
        in_time(pipe.run)
    assert values(pipe)[5] == 11


@every_way
def test_a_call_that_hangs_is_named_among_guarded_samples(parallel, gate, clock):
    """The sample is that of the batch, not the number of the call."""
    function = hanging_at(10, gate=gate, clock=clock)

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True)
    def pipeline():
        data = fn.external_source(numbers())
        if data % 2 == 0:
            result = fn.python_function(data, function=function, parallel=parallel, timeout=0.01)
        else:
            result = data + 0
        return result

    pipe = pipeline()
    values(pipe)
    with pytest.raises(FunctionTimeout) as info:
        in_time(pipe.run)
    assert any("sample 4 of batch 1" in note for note in info.value.__notes__)


@every_way
def test_the_next_epoch_begins_after_a_call_that_hung(parallel, gate, clock):
    """The thread that hangs is not waited for: not by reset, nor by the batches of the next epoch."""
    hung = []

    def function(x):
        if x == 7 and not hung:
            hung.append(threading.current_thread())
            clock.advance(1)
            gate.wait()
        return x

    pipe = make(function, parallel, source=numbers(3))
    values(pipe)
    with pytest.raises(FunctionTimeout):
        in_time(pipe.run)
    for _ in range(2):
        in_time(pipe.reset)
        assert values(pipe) == [0, 1, 2, 3, 4, 5]
        assert values(pipe) == [6, 7, 8, 9, 10, 11]
    assert hung[0].is_alive()


@every_way
def test_an_epoch_may_be_left_while_a_call_hangs(parallel, gate, clock):
    """A call of a batch that was prepared ahead, and is dropped, has its limit too: reset goes on after it."""
    delivered, hung = Gate(), []

    def function(x):
        if x == 7 and not hung:
            hung.append(x)
            delivered.wait()
            clock.advance(1)
            gate.wait()
        return x

    pipe = make(function, parallel)
    values(pipe)
    delivered.open()
    gate.reached()  # by the second batch, which nobody waits for
    in_time(pipe.reset)
    assert values(pipe) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("collecting", [True, False])
def test_no_garbage_is_collected_while_the_frames_of_threads_are_read(monkeypatch, collecting):
    """Python 3.11 may stop for ever otherwise. Afterwards it is as before, also after an error."""
    seen, frames = [], sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or frames())
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        assert watch.frame_of(threading.get_ident()) is not None
        monkeypatch.setattr(sys, "_current_frames", None)
        with pytest.raises(TypeError):
            watch.frame_of(1)
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False]


def test_closing_lets_go_of_a_thread_that_waits_for_data(monkeypatch):
    """With blocking=True a thread of the pipeline waits in the source; close() wakes it, and no thread is left."""
    before = threads()
    waiting = threading.Event()
    wait = threading.Condition.wait

    def noted(condition, timeout=None):
        if condition is source._arrived:
            waiting.set()
        return wait(condition, timeout)

    def define():
        return fn.external_source(name="data", blocking=True)

    pipe = pipeline_def(define, batch_size=2, num_threads=2, prefetch_queue_depth=1)()
    pipe.build()
    source = pipe._built().course.source("data").fed
    monkeypatch.setattr(threading.Condition, "wait", noted)

    def run():
        with contextlib.suppress(Exception):
            pipe.run()

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    assert waiting.wait(LONG)
    started = threads(before)
    assert started
    in_time(pipe._built().close)
    assert [thread for thread in started if thread.is_alive()] == []


def test_a_caller_looks_again_after_the_shortest_limit():
    """Also when the call with the shorter limit has not begun."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        data = fn.external_source(lambda: np.zeros((2, 1)))
        return [fn.python_function(data, function=lambda x: x, timeout=seconds) for seconds in (300, 200, 400)]

    pipe = define()
    pipe.build()
    watch = pipe._compiled().watch
    assert watch.patience() == 200
    watch.calls[0] = SimpleNamespace(left=lambda: 30.0)  # a call that runs has less time left
    assert watch.patience() == 30
