"""Advice: the rules on given figures, exactly; and the situations themselves, in a time that only the test lets pass."""

import hashlib
import threading
import types

import numpy as np
import pytest
from loop.simulation import Simulation

from pipeflow import fn, pipeline_def, timing
from pipeflow.errors import InvalidState, function_name
from pipeflow.executor import clocks
from pipeflow.executor.figures import Statistics, StepFigures
from pipeflow.plan import Plan
from pipeflow.reporting.advice import advise

pytestmark = pytest.mark.usefixtures("lossless")
BATCHES = 100
NEAR = 0.1  # a simulation counts single samples, and what sending them to workers costs; the formulas do not


def figures(*steps, pace=0.020, waited=0.0, **settings):
    """100 batches of 10 samples; seconds are given for one batch."""
    settings = {"threads": 4, "processors": 4, "depth": 2, "peak": 4, **settings}
    return Statistics(pace * BATCHES, waited * BATCHES, BATCHES, 10 * BATCHES, steps=tuple(steps), **settings)


def step(title, role, seconds, busy=None, kept=0.0, **more):
    busy = seconds if busy is None else busy
    kept = None if kept is None else BATCHES * kept
    return StepFigures(title, role, BATCHES * seconds, BATCHES * busy, kept, **more)


FUNCTION_WAYS = ("threads", "processes", "jit")


def function(seconds, busy=None, kept=0.0, role="serial"):
    return step(
        "fn.python_function of f", role, seconds, busy, kept, python=True, ways=FUNCTION_WAYS, where="train.py:7"
    )


def kinds(run):
    return [advice.kind for advice in advise(run)]


def only(run, kind):
    (found,) = [advice for advice in advise(run) if advice.kind == kind]
    return found


class TestRules:
    """Every rule on figures that are given, with the formula of each."""

    def test_a_balanced_pipeline_gets_none(self):
        """A loop that waits for 2 of 20 ms, and a pipeline that needs 16 of them: nothing to say."""
        run = figures(step("fn.external_source", "source", 0.001), function(0.016, role="serial"), waited=0.002)
        assert advise(run) == []

    def test_between_fed_and_starved_nothing_is_said(self):
        """A loop that waits 15% of the time is neither."""
        assert advise(figures(function(0.001), waited=0.003)) == []

    def test_the_loop_is_the_bottleneck(self):
        """The loop takes 19.9 of 20 ms; the pipeline could give a batch every 4 ms (16 ms on 4 threads)."""
        run = figures(step("fn.resize", "pool", 0.016), waited=0.0001)
        (advice,) = advise(run)
        assert advice.kind == "consumer"
        assert advice.figures == pytest.approx(
            {"pace": 0.02, "loop": 0.0199, "waited": 0.0001, "pipeline": 0.004}, rel=NEAR
        )
        assert str(advice) == (
            "the input is not your bottleneck: the loop itself takes 19.9 ms for a batch, and waits 0.1 ms (0.5% of "
            "a step); the pipeline could give a batch every 4.02 ms. A faster pipeline would not help"
        )

    @pytest.mark.parametrize(
        ("pace", "waited", "limits"),
        [
            (0.020, 0.0004, False),  # 2 % of a step
            (0.020, 0.0005, True),  # 2.5 %, and 500 us
            (0.0006, 0.00005, False),  # 8 %, but 50 us
            (0.0002, 0.00005, True),  # 50 us are a quarter of this step
        ],
    )
    def test_when_the_input_is_not_the_bottleneck(self, pace, waited, limits):
        """A wait of at most 2 %, or of at most 50 us and 10 %; then advice says so, even if the pipeline is nearly as slow."""
        run = figures(function(0.95 * pace), pace=pace, waited=waited)
        assert run.exposed_wait.is_bottleneck is limits
        assert ("consumer" in kinds(run)) is not limits

    def test_a_function_that_keeps_the_interpreter(self):
        """20 ms serial on 4 processors: 5 ms in processes; compiled on 4 threads the same."""
        run = figures(function(0.0198, 0.0196, 0.0190), waited=0.019)
        bound, advice = advise(run)
        assert (bound.kind, advice.kind) == ("bound", "gil")
        assert bound.text == (
            "fn.python_function of f at train.py:7 limits the speed: it takes 19.8 ms for a batch, and a batch comes every 20 ms "
            "(busy 19.6 ms, holding the GIL for 19 ms of that; waiting 0.2 ms)"
        )
        assert advice.gain == pytest.approx(0.020 / 0.00495, rel=NEAR)
        assert advice.figures == pytest.approx(
            {"pace": 0.02, "kept": 0.019 / 0.0196, "idle": 1 - 0.0198 / 0.08, "processes": 0.00495, "jit": 0.00495},
            rel=NEAR,
        )
        assert (
            "holds the GIL for 97% of its busy time, while the 4 threads of the pipeline are idle 75% of the time"
            in advice.text
        )
        assert (
            'parallel="processes" with py_num_workers=4 would give a batch every 5.1 ms instead of 20 ms: 3.9 '
            in advice.text
        )
        assert "jit=True would run it on 4 threads without the GIL, if Numba can compile it: 4.0 times" in advice.text

    @pytest.mark.parametrize(("kept", "kind"), [(0.4, "gil"), (0.3, "serial")])
    def test_how_much_of_the_time_is_most_of_it(self, kept, kind):
        """Who keeps it for 35 % of the time cannot share it with another."""
        assert only(figures(function(0.0198, 0.0196, kept * 0.0196), waited=0.019), kind).kind == kind

    def test_on_several_threads_it_waits_for_itself(self):
        """4 threads are in it all the time, and have one processor between them: 20 ms of work become 5 ms."""
        run = figures(function(0.080, 0.020, 0.0195, role="pool"), waited=0.019)
        advice = only(run, "gil")
        assert "the threads that call it wait for each other, 75% of their time in it" in advice.text
        assert advice.figures["processes"] == pytest.approx(0.005, rel=NEAR)
        assert "threads_few" not in kinds(run)

    def test_a_busy_machine_does_not_raise_the_estimate(self):
        """Half of its 20 ms it waited for a processor, and would in another process too."""
        run = figures(function(0.0198, 0.0098, 0.0090), waited=0.019, queued=0.010 * BATCHES)
        assert only(run, "gil").gain == pytest.approx(0.020 / 0.00495, rel=NEAR)

    def test_batch_functions_go_to_processes_only(self):
        """What a function's arguments do not allow is not offered."""
        whole = step("fn.python_function of f", "serial", 0.0198, kept=0.0196, python=True, ways=("processes",))
        advice = only(figures(whole, waited=0.019), "gil")
        assert "processes" in advice.text
        assert "jit" not in advice.text

    def test_one_processor_gives_no_gain(self):
        """Where nothing would help, the bounding step is named and nothing is offered."""
        run = figures(function(0.0198, 0.0196, 0.0190), waited=0.019, threads=1, processors=1)
        assert kinds(run) == ["bound"]

    def test_a_serial_function_that_waits(self):
        """It sleeps: threads help, 20 ms become 5."""
        advice = only(figures(function(0.0198, 0.0002), waited=0.019), "serial")
        assert 'parallel="threads", a batch every 5 ms instead of 20 ms (4.0 times as many batches)' in advice.text
        assert "processes" not in advice.figures
        assert advice.gain == pytest.approx(0.020 / 0.00495, rel=NEAR)

    def test_a_serial_function_that_leaves_the_interpreter_free(self):
        """It computes in NumPy: threads help as well."""
        advice = only(figures(function(0.0198, 0.0197, 0.001), waited=0.019), "serial")
        assert "it is busy 99% of its time and holds the GIL for 5% of that" in advice.text
        assert "threads" in advice.text

    def test_where_nobody_measured_who_keeps_it(self):
        """All ways are given, and how to know."""
        advice = only(figures(function(0.0198, 0.0197, None), waited=0.019), "serial")
        for way in ('parallel="threads"', 'parallel="processes"', "jit=True", "with pipe.measure():"):
            assert way in advice.text

    def test_where_the_only_thread_is_never_idle(self):
        """Nothing is said of idle threads, and one way is taken, not all."""
        advice = only(figures(function(0.0199, 0.0197, None), waited=0.019, threads=1), "serial")
        assert "is called for one sample after another (it is busy 99% of its time)" in advice.text
        assert "; or parallel=" in advice.text
        assert "if Numba can compile it" in advice.text

    def test_few_threads(self):
        """2 threads work all the time on 8 processors: 40 ms of work, a loop of 1 ms; 32 samples may be in flight."""
        run = figures(step("fn.resize", "pool", 0.040), waited=0.019, threads=2, processors=8)
        advice = only(run, "threads_few")
        assert advice.figures["threads"] == 8  # 40 ms / 8 processors is the shortest pace
        assert advice.figures["estimate"] == pytest.approx(0.005, rel=NEAR)
        assert only(run, "bound").step == "fn.resize"

    def test_few_threads_for_a_step_that_waits(self):
        """It is on a processor 5% of the time: more threads than processors help, as many as samples are in flight."""
        run = figures(step("fn.io", "pool", 0.040, 0.002), waited=0.0199, threads=2, processors=2)
        assert only(run, "threads_few").figures["threads"] == 20  # 2 batches of 10 samples

    def test_a_full_machine_needs_no_threads(self):
        """As many threads as processors and all at work: the largest step is named, nothing else."""
        run = figures(step("fn.decoders.image", "pool", 0.060), step("fn.resize", "pool", 0.019), waited=0.019)
        (advice,) = advise(run)
        assert (advice.kind, advice.step) == ("bound", "fn.decoders.image")

    def test_threads_that_wait_for_a_processor_need_no_more_threads(self):
        """Half of their time other work has the processors."""
        busy = step("fn.resize", "pool", 0.040, 0.020)
        run = figures(busy, waited=0.019, threads=2, processors=2, queued=0.020 * BATCHES)
        assert kinds(run) == ["bound"]

    def test_a_queue_for_the_processors_is_no_gain_of_more_threads(self):
        """Of 40 ms other programs take 36: without them it would be fast, and with more threads it is not."""
        run = figures(
            step("fn.resize", "pool", 0.040, 0.002), waited=0.019, threads=2, processors=2, queued=0.036 * BATCHES
        )
        assert kinds(run) == ["bound"]

    def test_too_many_threads_for_the_processors(self):
        """8 threads on 2 processors spend 3/4 of their time in the queue."""
        run = figures(
            step("fn.resize", "pool", 0.160, 0.040), waited=0.019, threads=8, processors=2, queued=0.120 * BATCHES
        )
        advice = only(run, "threads_many")
        assert advice.figures == {"threads": 8, "processors": 2, "queued": pytest.approx(0.75)}
        assert "threads with work waited for a processor 75% of the time. num_threads=2" in advice.text

    def test_threads_that_are_never_used(self):
        """8 threads on 4 processors, and never more than 2 had work."""
        advice = only(figures(function(0.016), waited=0.001, threads=8, peak=2), "threads_many")
        assert advice.figures == pytest.approx({"threads": 8, "peak": 2, "mean": 0.8})
        starved = figures(function(0.0198, 0.0002), waited=0.019, threads=8, peak=2)  # which is told to use them
        assert kinds(starved) == ["bound", "serial"]

    def test_as_many_threads_as_processors_are_never_too_many(self):
        """The default is no mistake."""
        assert advise(figures(function(0.016), waited=0.001, threads=4, peak=1)) == []

    def test_small_prefetch(self):
        """Loop and function take 20 ms each and take turns: with 2 batches in flight a batch every 20 ms."""
        run = figures(function(0.020), pace=0.040, waited=0.020, depth=1)
        (advice,) = advise(run)
        assert advice.kind == "prefetch_small"
        assert advice.gain == pytest.approx(2, rel=NEAR)
        assert "prefetch_queue_depth=1 is too small" in advice.text
        assert "2 would give a batch every 20 ms instead of 40 ms: 2.0 times" in advice.text

    def test_a_loop_that_waits_gets_advice_always(self):
        """A loop that waits for 30 of 40 ms although its function works for 8: its report refers to advice, so there is some."""
        run = figures(step("fn.external_source", "source", 0.001), function(0.008), pace=0.040, waited=0.030)
        assert str(run.exposed_wait).endswith("the input limits this loop: pipe.advice() says why")
        assert [str(each) for each in advise(run)] == [
            "the loop waits 30 ms for a batch, although no step and no thread works all the time, and more batches ahead would "
            "hardly help. The step that matters most is fn.python_function of f at train.py:7: it takes 8 ms for a batch"
        ]

    @pytest.mark.parametrize("percent", range(0, 100, 5))
    def test_the_report_of_a_loop_refers_to_advice_only_if_there_is_some(self, percent):
        """Whatever share of 20 ms a loop waits, with a function that takes half of the time or nearly all of it."""
        for seconds in (0.010, 0.0198):
            run = figures(function(seconds), waited=0.0002 * percent)
            assert "advice()" not in str(run.exposed_wait) or advise(run)

    def test_large_prefetch(self):
        """6 of 8 batches stood ready whenever one was asked for: 3 do the same."""
        run = figures(function(0.016), waited=0.001, depth=8, ready=6)
        (advice,) = advise(run)
        assert advice.kind == "prefetch_large"
        assert advice.figures == {"depth": 8, "ready": 6, "enough": 3}
        (advice,) = advise(figures(function(0.016), waited=0.001, depth=8, ready=8))
        assert advice.figures["enough"] == 2  # one batch is used while another is made

    def test_synchronous_runs(self):
        """Made while the loop waits, 20 + 20 ms; made ahead 20 ms. A differentiable pipeline has no choice."""
        settings = {"pace": 0.040, "waited": 0.020, "synchronous": True}
        assert only(figures(function(0.020), **settings), "synchronous").gain == pytest.approx(2, rel=NEAR)
        (advice,) = advise(figures(step("fn.flip", "pool", 0.002), function(0.018), one_at_a_time=True, **settings))
        assert (advice.kind, advice.step) == ("bound", "fn.python_function of f")

    def test_a_slow_source(self):
        """A source that is asked sample by sample can be asked in processes."""
        source = step("fn.external_source of read", "source", 0.0198, ways=("parallel",))
        advice = only(figures(source, waited=0.019), "source")
        assert "parallel=True" in advice.text
        assert advice.figures["estimate"] == pytest.approx(0.00495, rel=NEAR)
        whole = step("fn.external_source of read", "source", 0.0198)
        assert kinds(figures(whole, waited=0.019)) == ["bound"]

    def test_few_workers(self):
        """One worker on 4 processors."""
        busy = step("fn.python_function of f", "processes", 0.0198, python=True)
        advice = only(figures(busy, waited=0.019, workers=1), "workers_few")
        assert advice.gain == pytest.approx(0.020 / 0.00495, rel=NEAR)
        assert kinds(figures(step("f", "processes", 0.0792), waited=0.019, workers=4)) == ["bound"]

    def test_a_small_hint(self):
        """The hint, the size and the operator are named, whatever else is the matter."""
        hinted = step("fn.python_function of f", "serial", 0.016, hint=(16, 100), largest=(4096, 100), where="a.py:3")
        (advice,) = advise(figures(hinted, waited=0.001))
        assert advice.figures == {"hint": 16, "largest": 4096}
        assert advice.text.startswith(
            "bytes_per_sample_hint=16 of fn.python_function of f at a.py:3 is too small for output 0: its largest sample has 4096"
        )

    def test_the_table(self):
        """It has a line for the loop and one for every step."""
        run = figures(function(0.016, 0.010, 0.008), step("fn.resize", "pool", 0.004, kept=None), waited=0.001)
        lines = str(run).splitlines()
        assert lines[0] == "100 batches, one every 20 ms: the loop itself 19 ms, waiting 1 ms; 500 samples/s"
        assert lines[2].split() == ["fn.python_function", "of", "f", "16.000", "10.000", "6.000", "8.000"]
        assert lines[3].split() == ["fn.resize", "4.000", "4.000", "0.000", "?"]


# ----------------------------------------------------------------------------------------------------
# The situations themselves, in a time of their own


def zeros(_sample):
    return np.zeros(4, np.float32)


@pytest.fixture
def simulation(monkeypatch):
    return Simulation(monkeypatch)


@pytest.fixture
def spin(simulation):
    def spin(x):
        """2 ms of processor time in the interpreter."""
        simulation.hold(0.002)
        return x

    return spin


@pytest.fixture
def digest(simulation):
    def digest(x):
        """2 ms of processor time outside of the interpreter."""
        simulation.compute(0.002)
        return x

    return digest


@pytest.fixture
def doze(simulation):
    def doze(x):
        """20 ms of waiting."""
        simulation.sleep(0.02)
        return x

    return doze


@pytest.fixture
def measured(simulation):
    def measured(function, *, loop=0.0, batches=12, source=zeros, num_threads=2, probing=True, **settings):
        """A pipeline of 10 samples a batch, and a loop that takes so many seconds a batch; measured."""
        ours = {name: settings.pop(name) for name in ("parallel", "bytes_per_sample_hint") if name in settings}

        @pipeline_def(batch_size=10, num_threads=num_threads, **settings)
        def definition():
            return fn.python_function(fn.external_source(source, batch=False), function=function, **ours)

        pipe = definition()
        pipe.run()

        def walk():
            for _ in range(batches):
                pipe.run()
                simulation.sleep(loop)

        if probing:
            with pipe.measure():
                walk()
        else:
            walk()
        return pipe

    return measured


@pytest.fixture
def advised(measured):
    def advised(*args, **kwargs):
        return {advice.kind: advice for advice in measured(*args, **kwargs).advice()}

    return advised


def of(pipe, function):
    """The figures of one function."""
    (found,) = [x for x in pipe.statistics().steps if x.title.endswith(f" of {function_name(function)}")]
    return found


class TestSituations:
    """What real pipelines measure leads to the advice: every thread, queue and clock is the executor's own."""

    def test_a_function_that_keeps_the_interpreter(self, measured, spin, digest, doze):
        """A function in pure Python keeps it all the time it computes, hashing never, and one that waits does not compute."""
        for function, busy, kept in ((spin, 0.02, 0.02), (digest, 0.02, 0), (doze, 0, 0)):
            found = of(measured(function, batches=20), function)
            assert found.busy == pytest.approx(20 * busy, rel=0.11, abs=1e-9), function  # a batch more or less
            assert found.kept == pytest.approx(20 * kept, rel=0.11, abs=1e-9), function

    def test_a_function_keeps_the_interpreter_while_the_pool_idles(self, measured, spin):
        """The bounding step is named, and what would help: 20 ms a batch would be 5 on four processors."""
        pipe = measured(spin, batches=30, num_threads=4)
        found = {advice.kind: advice for advice in pipe.advice()}
        assert found["bound"].step == of(pipe, spin).title
        assert found["gil"].figures["pace"] == pytest.approx(0.02)
        assert found["gil"].figures["processes"] == pytest.approx(0.005, rel=NEAR)

    def test_a_function_that_threads_wait_for(self, advised, spin):
        """On four threads it still is one that computes."""
        found = advised(spin, batches=30, num_threads=4, parallel="threads")
        assert "the threads that call it wait for each other" in found["gil"].text

    def test_a_serial_function_that_waits(self, advised, doze):
        """It could be called on threads: on as many as there are processors, four here."""
        found = advised(doze)
        assert 'parallel="threads"' in found["serial"].text
        assert found["serial"].gain == pytest.approx(4, rel=0.01)

    def test_without_measure_the_clocks_of_the_stages_are_there(self, measured, spin):
        """Nobody asked for it, and the bounding step is known all the same."""
        pipe = measured(spin, probing=False)
        assert pipe.advice()[0].step == of(pipe, spin).title
        assert of(pipe, spin).kept is None
        assert of(pipe, spin).seconds == pytest.approx(12 * 0.02, rel=0.17)

    def test_the_loop_is_the_bottleneck(self, advised):
        """The loop takes 30 ms a batch, the function nothing."""
        found = advised(lambda x: x, loop=0.03)
        assert list(found) == ["consumer"]
        assert found["consumer"].figures["loop"] == pytest.approx(0.03 * 11 / 12)  # delivered, then slept

    def test_a_balanced_pipeline_gets_none(self, advised, doze):
        """The function takes 200 ms a batch and the loop 230: neither has much to gain."""
        assert {kind: str(advice) for kind, advice in advised(doze, loop=0.23).items()} == {}

    def test_few_threads(self, advised, doze):
        """Waiting on 2 threads: more would help, on however few processors."""
        found = advised(doze, parallel="threads", batches=5)
        assert found["threads_few"].figures["threads"] > 2

    def test_small_prefetch(self, advised, doze):
        """Loop and function take turns, 200 ms each."""
        found = advised(doze, loop=0.2, prefetch_queue_depth=1)
        assert list(found) == ["prefetch_small"]
        assert found["prefetch_small"].gain == pytest.approx(2, rel=0.1)

    def test_large_prefetch(self, advised):
        """Eight batches ahead of a slow loop."""
        found = advised(lambda x: x, loop=0.01, batches=40, prefetch_queue_depth=8)
        assert found["prefetch_large"].figures["enough"] < 8

    def test_threads_that_are_never_used(self, advised):
        """64 threads and two stages."""
        assert advised(lambda x: x, loop=0.005, num_threads=64)["threads_many"].figures["threads"] == 64

    def test_a_synchronous_pipeline(self, advised, doze):
        """Nothing is made ahead."""
        assert "synchronous" in advised(doze, loop=0.2, exec_async=False)

    def test_a_small_hint(self, advised):
        """4096 bytes come where 16 were announced."""
        found = advised(lambda x: np.zeros(4096, np.uint8) + np.uint8(x[0]), bytes_per_sample_hint=16, loop=0.005)
        assert found["hint"].figures == {"hint": 16, "largest": 4096}

    def test_a_slow_source(self, advised, doze):
        """The callback waits; it could be asked in worker processes."""
        found = advised(lambda x: x, source=lambda info: doze(zeros(info)))
        assert "source" in found

    def test_steps_of_one_stage_are_measured_apart(self, simulation, doze):
        """Of two functions on threads the one that waits is named."""

        @pipeline_def(batch_size=10, num_threads=2)
        def definition():
            x = fn.python_function(fn.external_source(zeros, batch=False), function=lambda x: x + 1, parallel="threads")
            return fn.python_function(x, function=doze, parallel="threads")

        pipe = definition()
        pipe.run()
        with pipe.measure():
            for _ in range(10):
                pipe.run()
        quick, slow = [step for step in pipe.statistics().steps if " of " in step.title and "zeros" not in step.title]
        assert slow.title == of(pipe, doze).title
        assert quick.seconds == 0
        assert slow.seconds == pytest.approx(10 * 0.2, rel=0.21)
        assert pipe.advice()[0].step == slow.title

    def test_executor_statistics_have_the_seconds(self, measured, doze):
        """The same figures by the operators' names."""
        pipe = measured(doze, batches=5)
        found = pipe.executor_statistics()
        name = next(name for name in found if name.startswith("python_function"))
        assert set(found[name]) == {"seconds", "busy_seconds", "waiting_seconds", "gil_seconds"}
        assert found[name]["waiting_seconds"] == found[name]["seconds"] == pytest.approx(of(pipe, doze).seconds)


def shifted(x):
    """Takes 20 ms by the clock of its worker process, and no time."""
    before = timing.stamp
    timing.stamp = lambda: before() + 20_000_000
    return x


def test_workers_report_their_time(clock):
    """What a function took in its worker process is counted for its step: 200 ms a batch."""

    @pipeline_def(batch_size=10, num_threads=1, device_id=None, py_num_workers=1)
    def definition():
        return fn.python_function(fn.external_source(zeros, batch=False), function=shifted, parallel="processes")

    pipe = definition()
    pipe.run()
    for _ in range(20):
        pipe.run()
        clock.advance(0.3)
    found = of(pipe, shifted)
    assert found.role == "processes"
    assert pipe.statistics().workers == 1
    assert 0 <= found.busy <= found.seconds
    assert (
        14 * 0.2 <= found.seconds <= 26 * 0.2
    )  # of twenty batches some were ready at the beginning, others are ready now


class Script:
    """Clocks that give what a test has written down, one reading after another."""

    def __init__(self, monkeypatch, wall, processor, queued=(0.0,)):
        for module, name, values in (
            (timing, "wall", wall), (timing, "processor", processor), (clocks, "queued_seconds", queued),
        ):  # fmt: skip
            left = list(values)
            monkeypatch.setattr(module, name, lambda *_, left=left: left.pop(0) if len(left) > 1 else left[0])


def probed(monkeypatch, **readings):
    """The clock of a step after one measurement of a probe with these readings."""
    clock, probe = clocks.Clock(), clocks.GilProbe.__new__(clocks.GilProbe)
    probe._on, probe._closed, probe._thread = clock, False, None
    Script(monkeypatch, **readings)
    probe._measure(clock)
    return clock


def test_a_probe_counts_how_long_it_waits(monkeypatch):
    """Of 120 ms it was on a processor for 30 and ready without one for 20: 70 it waited for the interpreter."""
    clock = probed(monkeypatch, wall=[5.0, 5.03, 5.06, 5.12], processor=[1.0, 1.03], queued=[0.5, 0.52])
    assert (clock.probed, clock.waited) == (pytest.approx(0.12), pytest.approx(0.07))
    assert clock.kept() == pytest.approx(0.07 / 0.12)


def test_a_probe_that_does_not_wait(monkeypatch):
    """More processor time than wall time, as clocks of different grain may say, is no debt."""
    clock = probed(monkeypatch, wall=[5.0, 5.11], processor=[1.0, 1.12], queued=[0.0])
    assert (clock.probed, clock.waited) == (pytest.approx(0.11), 0.0)
    assert clocks.Clock().kept() is None


def test_a_measurement_is_long_enough_and_each_step_has_a_budget(monkeypatch):
    """It ends with a call after 20 ms at least, is for one step at a time, and 60 ms a step are enough."""
    probe = clocks.GilProbe.__new__(clocks.GilProbe)
    probe._on, probe._closed, probe._go, probe._first = None, False, threading.Semaphore(0), 1.0
    one, other = clocks.Clock(), clocks.Clock()
    Script(monkeypatch, wall=[1.0, 1.01, 1.02, 1.03], processor=[0.0])
    probe.begin(one)
    assert probe._on is one
    probe.begin(other)
    probe.end(other)
    assert probe._on is one
    probe.end(one)  # after 10 ms
    assert probe._on is one
    probe.end(one)  # after 20 ms
    assert probe._on is None
    one.probed = 0.06
    probe.begin(one)
    assert probe._on is None
    probe.begin(other)
    assert probe._on is other


def test_a_probe_is_over_after_a_while_and_between_measurements(monkeypatch):
    """After 0.4 s, but not before the end of a measurement; it starts no other one."""
    probe, clock = clocks.GilProbe.__new__(clocks.GilProbe), clocks.Clock()
    probe._on, probe._closed, probe._go, probe._first = None, False, threading.Semaphore(0), 1.0
    now = [1.3]
    monkeypatch.setattr(timing, "wall", lambda: now[0])
    assert not probe.over
    probe.begin(clock)
    now[0] = 1.41
    assert not probe.over
    probe.end(clock)
    assert probe.over
    probe.begin(clock)
    assert probe._on is None


@pytest.mark.slow
def test_the_interpreter_is_really_kept():
    """On a machine with nothing else to do: pure Python keeps the interpreter, hashing of large blocks does not."""

    def spin(x):
        return x + sum(range(30_000)) * 0

    def digest(x):
        hashlib.sha256(bytes(1 << 20)).digest()
        return x

    found = {}
    for function in (spin, digest):

        @pipeline_def(batch_size=10, num_threads=2)
        def definition(function=function):
            return fn.python_function(fn.external_source(zeros, batch=False), function=function)

        pipe = definition()
        pipe.run()
        with pipe.measure():
            for _ in range(30):
                pipe.run()
        found[function] = of(pipe, function)
    assert found[spin].kept / found[spin].busy > found[digest].kept / found[digest].busy + 0.2


def test_few_batches_are_no_basis():
    """An error says how many there are."""

    @pipeline_def(batch_size=2, num_threads=1)
    def definition():
        return fn.external_source(zeros, batch=False)

    pipe = definition()
    pipe.run()
    pipe.run()
    with pytest.raises(InvalidState, match=r"advice needs at least 3 measured batches and there are 1 "):
        pipe.advice()


def test_measuring_is_for_one_at_a_time_and_leaves_no_thread():
    """A second measure() inside the first is refused; the probe ends with the block."""

    @pipeline_def(batch_size=2, num_threads=1)
    def definition():
        return fn.external_source(zeros, batch=False)

    def rivals():
        return [thread for thread in threading.enumerate() if thread.name == "pipeflow-probe"]

    pipe = definition()
    pipe.run()
    with pipe.measure():
        assert len(rivals()) == 1
        with pytest.raises(InvalidState, match="is being measured already"), pipe.measure():
            pass
    assert rivals() == []


def test_the_time_in_the_queue_is_the_second_number_of_linux(monkeypatch):
    """Of "running waiting slices" in nanoseconds the waiting counts, summed over the threads."""
    lines = {
        "/proc/self/task/7/schedstat": ["5000000000 2000000000 31"],
        "/proc/self/task/8/schedstat": ["1 500000000 2"],
    }
    monkeypatch.setattr(clocks.system, "lines_of", lines.get)
    threads = [types.SimpleNamespace(native_id=number) for number in (7, 8)]
    assert clocks.queued_seconds(threads) == 2.5


def test_the_first_batch_does_not_wait_for_counts_of_the_system(monkeypatch):
    """Other programs and the queue of the processors are asked about when the second batch has been delivered."""
    asked = []
    monkeypatch.setattr(clocks, "seconds_of_others", lambda: asked.append("others"))
    monkeypatch.setattr(clocks, "queued_seconds", lambda threads: asked.append("queue") or 5.0)

    @pipeline_def(batch_size=2, num_threads=1)
    def definition():
        return fn.external_source(zeros, batch=False)

    pipe = definition()
    pipe.run()
    assert asked == []
    assert pipe.statistics().queued == 0
    pipe.run()
    assert asked == ["others", "others", "queue"]  # the first one is for the statistics
    pipe.run()
    assert asked == ["others", "others", "queue"]


@pytest.mark.parametrize(("of_workers", "expected"), [(0.0, 0.5), (12.0, 0.1), (14.0, 0.0)])
def test_others_are_what_is_left_of_the_busy_processors(monkeypatch, of_workers, expected):
    """From second 10 to 30 all others took 10 s, and worker processes of the pipeline two thirds of what they took in 30 s."""
    now, busy = [0.0], [3.0]
    monkeypatch.setattr(timing, "wall", lambda: now[0])
    monkeypatch.setattr(clocks, "seconds_of_others", lambda: busy[0])
    measures = clocks.Measures(Plan((), (), (), ()))
    measures.begin([])
    for now[0], busy[0] in ((10.0, 5.0), (30.0, 9.0)):
        measures.delivered(now[0], 0, 1)
    busy[0] = 15.0
    steps = [StepFigures("work", "processes", 0.0, of_workers, None)]
    assert measures._processors_of_others(steps) == pytest.approx(expected)


def test_batches_that_were_all_made_before(simulation):
    """At the end of an epoch no task runs any more while the last batches are taken."""

    @pipeline_def(batch_size=2, num_threads=1, prefetch_queue_depth=8, device_id=None)
    def definition():
        return fn.external_source(lambda sample: zeros(sample) if sample.idx_in_epoch < 12 else stop(), batch=False)

    pipe = definition()
    pipe.run()
    simulation.sleep(1.0)  # until all are made
    with pipe.measure():
        for _ in range(4):
            pipe.run()
            simulation.sleep(0.01)
    assert pipe.statistics().batches == 4
    assert [advice.kind for advice in pipe.advice()] == ["consumer"]


def stop():
    raise StopIteration


def test_the_figures_begin_after_the_probe(simulation, measured, spin):
    """It disturbs the times. Its figures are used only until eight batches were made without it."""
    pipe = measured(spin, batches=2)
    with pipe.measure():
        for _ in range(5):
            pipe.run()
        probe = pipe._executor.measures.probe
        kept = of(pipe, spin).kept
        probe.over = True
        for _ in range(8):
            pipe.run()
        assert pipe._executor.figures().batches == 6  # with the one that ends the probe; seven were made since
        pipe.run()
        assert pipe._executor.figures().batches == 8
    found = of(pipe, spin)
    assert kept > 0
    assert found.kept / found.busy == pytest.approx(1)
    assert pipe.statistics().seconds == pytest.approx(8 * 0.02)


@pytest.mark.parametrize("runs", [2, 3])
def test_times_are_there_when_a_probe_has_just_ended(clock, runs):
    """Measuring begins again after the probe; the times before count until there are enough others."""

    def slow(x):
        clock.advance(1.0)
        return x

    @pipeline_def(batch_size=1, num_threads=1, exec_async=False)
    def define():
        return fn.python_function(fn.external_source(lambda: np.zeros((1, 1))), function=slow)

    pipe = define()
    with pipe.measure():
        for _ in range(runs):
            pipe.run()
    assert pipe.statistics().batches >= 1
    found = [value["seconds"] for name, value in pipe.executor_statistics().items() if "python_function" in name]
    assert found == [pytest.approx(1.0 * pipe.statistics().batches)]
