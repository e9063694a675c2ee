"""The model of a run: by formulas that do not simulate, and against the executor itself in a time of its own."""

from dataclasses import replace

import numpy as np
import pytest
from loop.simulation import Simulation

from pipeflow import fn, pipeline_def, system, types
from pipeflow.executor.figures import StageFigures, Statistics, StepFigures
from pipeflow.executor.model import KEPT_SECONDS, TURNS_OF_OPERATORS, Changes, Model
from pipeflow.reporting.advice import predicted

BATCHES, SIZE = 100, 12
WAYS = ("threads", "processes", "jit")


def step(role, seconds, busy=None, kept=0.0, python=False):
    """Seconds for one batch."""
    busy = seconds if busy is None else busy
    return StepFigures(
        "f", role, BATCHES * seconds, BATCHES * busy, BATCHES * kept, python, WAYS if python else (), name="f"
    )


def model(*steps, pace, loop=0.0, threads=2, processors=2, depth=2, **more):
    waited = max(0.0, pace - loop)
    return Model(
        Statistics(
            pace * BATCHES,
            waited * BATCHES,
            BATCHES,
            SIZE * BATCHES,
            threads,
            processors,
            depth,
            steps=tuple(steps),
            **more,
        )
    )


def meeting(model):
    """The same, with functions in the pool that may wait for each other."""
    run = model.run
    size = round(run.samples / run.batches)
    stages = tuple(
        StageFigures(
            each.role, (place,), (((size, run.per_batch(each.seconds), run.per_batch(each.busy)),),), meets=True
        )
        for place, each in enumerate(run.steps)
    )
    return Model(replace(run, stages=stages))


def pace(model, **changes):
    return model.predict(Changes(**changes)).pace


def test_the_clocks_of_a_measurement_are_no_part_of_brief_batches():
    """Batches of 0.4 ms took 0.3 ms before the measurement; those of 4 ms take what was measured."""
    brief = model(step("serial", 4e-4), pace=4e-4, unmeasured=3e-4)
    assert pace(brief) == pytest.approx(3e-4)
    assert pace(brief, threads=1) == pytest.approx(0.75 * pace(model(step("serial", 4e-4), pace=4e-4), threads=1))
    assert pace(model(step("serial", 4e-3), pace=4e-3, unmeasured=3e-3)) == pytest.approx(4e-3)
    assert pace(model(step("serial", 4e-4), pace=4e-4, unmeasured=5e-4)) == pytest.approx(4e-4)


def test_a_caller_that_makes_its_batches_itself():
    """0.2 and 0.1 ms, one after the other, with any threads and batches ahead. Larger batches are made by two threads."""
    figures = step("pool", 2e-4), step("serial", 1e-4, python=True)
    found = model(*figures, pace=3e-4, by_caller=True)
    for changes in ({}, {"threads": 1}, {"threads": 4}, {"depth": 1}, {"depth": 4}):
        assert pace(found, **changes) == pytest.approx(3e-4, rel=0.01)
    assert pace(found, batch_size=SIZE * 10) < 0.8 * 3e-3
    assert pace(found, ways={1: "threads"}) != pytest.approx(3e-4, rel=0.01)


@pytest.mark.usefixtures("lossless")
class TestFormulas:
    """Each prediction on given figures, with the formula of each."""

    def test_the_measured_settings_give_the_measured_speed(self):
        """What the simulation does not explain is a factor."""
        assert pace(model(step("pool", 0.024), pace=0.013)) == pytest.approx(0.013)

    def test_work_is_shared_by_threads(self):
        """24 ms of computing on 8 processors: 12 ms on 2 threads, 24 on 1, 6 on 4, 3 on 8."""
        found = model(step("pool", 0.024), pace=0.012, processors=8)
        for threads, expected in ((1, 0.024), (2, 0.012), (4, 0.006), (8, 0.003)):
            assert pace(found, threads=threads) == pytest.approx(expected, rel=0.02)

    def test_threads_beyond_the_processors_give_nothing(self):
        """Two processors do 24 ms of computing in 12 ms, however many threads there are."""
        found = model(step("pool", 0.024), pace=0.012)
        for threads in (3, 4, 8, 32):
            assert pace(found, threads=threads) == pytest.approx(0.012, rel=0.01)

    def test_waiting_needs_no_processor(self):
        """24 ms of waiting: with 12 threads for 24 samples in flight 2 ms, on two processors."""
        found = model(step("pool", 0.024, busy=0.0), pace=0.012)
        assert pace(found, threads=12) == pytest.approx(0.002, rel=0.02)

    def test_waiting_and_computing(self):
        """8 ms of computing and 16 of waiting: 12 threads are limited by two processors, to 4 ms."""
        found = model(step("pool", 0.024, busy=0.008), pace=0.012)
        assert pace(found, threads=12) == pytest.approx(0.004, rel=0.05)

    def test_the_interpreter_is_for_one_at_a_time(self):
        """8 ms with it, 4 without: 8 ms a batch at best on any number of threads and processors."""
        held = step("pool", 0.012, kept=0.008, python=True)
        for threads in (2, 4, 16):
            assert pace(model(held, pace=0.008, processors=16), threads=threads) == pytest.approx(0.008, rel=0.02)

    def test_waiting_for_the_interpreter_is_no_work(self):
        """Four threads are in a function all the time and one can run: 20 ms of work, in four worker processes 5."""
        found = model(step("pool", 0.080, busy=0.020, kept=0.020, python=True), pace=0.020, threads=4, processors=4)
        assert pace(found, ways={0: "processes"}, workers=4) == pytest.approx(0.005, rel=0.12)
        assert pace(found, threads=1) == pytest.approx(0.020, rel=0.01)

    def test_a_serial_step_limits_the_others(self):
        """A serial function of 10 ms after 12 ms of the pool: 11 ms of work for each processor.

        With four threads, three do the 12 ms while one is in the function: each gets half a processor, so this takes 8 ms, in
        which the function gets 4. The other 6 ms it has a processor to itself: 14. With 8 processors only the function counts.
        """
        found = model(step("pool", 0.012), step("serial", 0.010, python=True), pace=0.011)
        assert pace(found) == pytest.approx(0.011, rel=0.01)
        assert pace(meeting(found), threads=4, depth=8) == pytest.approx(0.014, rel=0.02)
        assert pace(found, threads=4, depth=8) == pytest.approx(0.011, rel=0.01)  # only two threads work
        more = model(step("pool", 0.012), step("serial", 0.010, python=True), pace=0.011, processors=8)
        assert pace(more, threads=8) == pytest.approx(0.010, rel=0.02)

    def test_a_serial_function_on_threads(self):
        """12 ms of waiting, one sample after another; on 6 threads 2 ms."""
        found = model(step("serial", 0.012, busy=0.0, python=True), pace=0.012)
        assert pace(found, threads=6, ways={0: "threads"}) == pytest.approx(0.002, rel=0.03)

    def test_functions_that_become_one_stage_store_no_results_between_them(self):
        """Two functions of 12 ms for a batch of 12, half of the first for its results: on 3 threads 6 ms instead of 8."""
        found = model(step("serial", 0.012, python=True), step("serial", 0.012, python=True), pace=0.012, processors=3)
        stages = [StageFigures("serial", (place,), (((SIZE, 0.012, 0.012),),)) for place in range(2)]
        plain = Model(replace(found.run, stages=tuple(stages)))
        joined = Model(replace(found.run, stages=(replace(stages[0], storing=0.5), stages[1])))
        both, one = {0: "threads", 1: "threads"}, {0: "threads"}
        assert pace(plain, threads=3, ways=both) == pytest.approx(0.008, rel=0.06)
        assert pace(joined, threads=3, ways=both) == pytest.approx(0.006, rel=0.06)
        assert pace(joined, threads=3, ways=one) == pace(plain, threads=3, ways=one)

    def test_compiled_code_does_not_need_the_interpreter(self):
        """12 ms with the interpreter on three threads: 12 in Python, 4 compiled."""
        found = model(step("serial", 0.012, kept=0.012, python=True), pace=0.012, processors=3, threads=3)
        assert pace(found, ways={0: "threads"}) == pytest.approx(0.012, rel=0.02)
        assert pace(found, ways={0: "jit"}) == pytest.approx(0.004, rel=0.02)

    def test_worker_processes(self):
        """24 ms in one worker, 8 in three; 0.2 ms for each of a batch's chunks of 8 ms."""
        found = model(step("processes", 0.024, python=True), pace=0.025, workers=1, processors=4)
        assert pace(found, workers=3) == pytest.approx(0.0085, rel=0.05)

    def test_loop_and_pipeline_take_turns_without_prefetch(self):
        """10 ms each: 20 without a batch ahead, 10 with one."""
        found = model(step("serial", 0.010, busy=0.0), pace=0.020, loop=0.010, depth=1)
        assert pace(found) == pytest.approx(0.020, rel=0.01)
        assert pace(found, depth=2) == pytest.approx(0.010, rel=0.01)

    def test_a_slow_loop_sets_the_pace(self):
        """It takes 30 ms; more threads change nothing, and without it the pipeline could give a batch every 5 ms."""
        found = model(step("pool", 0.010), pace=0.030, loop=0.030)
        assert pace(found, threads=8) == pytest.approx(0.030, rel=0.01)
        assert pace(found, loop=0.0) == pytest.approx(0.005, rel=0.02)

    def test_bursts_are_absorbed_by_batches_ahead(self):
        """One batch in 4 takes 30 ms, the others none; the loop takes 10. With 4 ahead it never waits; with 1 it waits for 30."""
        course = tuple(((1, seconds, 0.0),) for seconds in (0.030, 1e-6, 1e-6, 1e-6) * 3)
        slow = step("source", 0.0075, busy=0.0)
        more = {"stages": (StageFigures("source", (0,), course),), "loop": 0.010}
        found = model(slow, pace=0.010, depth=6, **more)
        assert pace(found) == pytest.approx(0.010, rel=0.01)
        assert pace(found, depth=1) == pytest.approx(0.0175, rel=0.01)

    def test_larger_batches_take_longer(self):
        """The same samples a second."""
        found = model(step("pool", 0.024), pace=0.012)
        assert found.predict(Changes(batch_size=2 * SIZE)).samples_per_second == pytest.approx(1000, rel=0.02)

    def test_other_programs_keep_their_share(self):
        """One of them uses a processor. Two threads get 2/3 of both processors, 12 ms in 9; four threads 4/5, 12 ms in 7.5."""
        found = model(step("pool", 0.012), pace=0.009, others=1.0)
        assert pace(found) == pytest.approx(0.009, rel=0.01)
        assert pace(found, threads=4) == pytest.approx(0.0075, rel=0.01)

    def test_other_programs_may_use_all_processors_while_a_step_waits(self):
        """A step that only waits needs no processor."""
        found = model(step("source", 0.010, busy=0.0), pace=0.010, others=2.0)
        assert pace(found) == pytest.approx(0.010, rel=0.01)

    def test_no_promise_beyond_the_processors(self):
        """Whatever is changed: 12 ms of computing need 6 ms on two processors, even if a batch came every 5 ms when measured."""
        found = model(step("pool", 0.012), pace=0.005)
        for changes in ({}, {"threads": 8}, {"depth": 8}, {"threads": 32, "depth": 16}):
            assert pace(found, **changes) >= 0.006

    def test_the_step_that_works_limits_not_the_one_that_waits(self):
        """A serial step of 10 ms, before it one that takes 3 ms and waits for the same interpreter for 7."""
        waits = step("pool", 0.010, busy=0.003, kept=0.003, python=True)
        works = step("serial", 0.010, kept=0.010, python=True)
        found = model(waits, works, pace=0.013)
        assert found.limits()[0][1] == 1

    def test_kept_samples_are_read_instead_of_made(self):
        """Two steps of 60 ms a batch on two threads: with the first one spared 30 ms are left, and reading 12 samples.

        If nothing else is left, the threads wait for each other: most of the reading needs the interpreter.
        """
        found = model(step("pool", 0.060), step("pool", 0.060), pace=0.060)
        reading, held = (SIZE * seconds for seconds in KEPT_SECONDS)
        assert pace(found, spared=frozenset({0}), kept=0) == pytest.approx(0.030 + reading / 2, rel=0.05)
        assert pace(found, spared=frozenset({0, 1}), kept=1) == pytest.approx(held, rel=0.05)

    def test_equal_figures_give_equal_predictions(self):
        """Nothing is random."""
        figures = (step("pool", 0.024, busy=0.010), step("serial", 0.005))
        one, two = model(*figures, pace=0.012), model(*figures, pace=0.012)
        assert pace(one, threads=5, depth=3) == pace(two, threads=5, depth=3)

    def test_predictions_for_named_functions(self):
        """``predicted`` has the names of the settings; functions are named by their titles. Others stay as they are.

        Twelve threads wait for a millisecond, then compute 4 ms on two processors.
        """
        found = model(step("pool", 0.004), step("serial", 0.012, busy=0.0, python=True), pace=0.012)
        wanted = {"num_threads": 12, "prefetch_queue_depth": 8}
        assert predicted(found, **wanted, parallel="threads").pace == pytest.approx(0.003, rel=0.1)
        assert predicted(found, **wanted, parallel={"f": "threads"}).pace == pytest.approx(0.003, rel=0.1)
        assert predicted(found, **wanted, parallel={"g": "threads"}).pace == pytest.approx(0.012, rel=0.02)


class TestLosses:
    """What work loses by other work at the same time."""

    def test_taking_turns_costs(self):
        """Eight threads on two processors: each has four turns, three more than it needs, at 9 % each. Operators have two.

        If functions in their stage may wait for each other, they have eight, and stop each other when they take the interpreter.
        """
        function = meeting(model(step("pool", 0.024, python=True), pace=0.012))
        assert pace(function, threads=8) == pytest.approx(0.012 * 1.27, rel=0.06)
        found = model(step("pool", 0.024), pace=0.012)
        assert pace(meeting(found), threads=8) == pytest.approx(0.012 * (1 + 2 * TURNS_OF_OPERATORS), rel=0.06)
        assert pace(found, threads=8) == pytest.approx(0.012, rel=0.01)

    def test_threads_that_wait_for_the_interpreter_take_no_turns(self):
        """Eight threads with a function that always has the interpreter are as fast as two."""
        held = meeting(model(step("pool", 0.012, kept=0.012, python=True), pace=0.012))
        assert pace(held, threads=8) == pytest.approx(0.012, rel=0.01)

    def test_a_loop_that_waits_for_a_processor(self):
        """The loop computes for 10 ms and shares two processors with two threads that compute for 20 ms: 15 ms for all.

        It measures 15 ms. If one thread is left, it needs 10 ms again, and the thread 20. If it rests for 5 ms it needs 15.
        """
        loops = ((0.015, 0.010),) * BATCHES
        busy = model(step("pool", 0.020), pace=0.015, loop=0.015, loops=loops)
        assert pace(busy, threads=1) == pytest.approx(0.020, rel=0.06)
        rests = model(step("pool", 0.001), pace=0.015, loop=0.015, loops=loops)
        assert pace(rests) == pytest.approx(0.015, rel=0.01)

    def test_neighbours_use_the_memory(self):
        """On two processors work is 3 % slower than on one: half of 6 %. In the interpreter it is not."""
        found = model(step("pool", 0.024), pace=0.012)
        assert pace(found, threads=1) == pytest.approx(0.024 / 1.03, rel=0.01)
        held = model(step("pool", 0.012, kept=0.012, python=True), pace=0.012)
        assert pace(held, threads=1) == pytest.approx(0.012, rel=0.01)

    def test_threads_that_take_the_interpreter_from_each_other(self):
        """12 ms, half of it in the interpreter: two threads could do it in 6 and need 9. One thread takes 12."""
        found = model(step("pool", 0.012, kept=0.006), pace=0.009)
        assert pace(found) == pytest.approx(0.009, rel=0.05)
        assert pace(found, threads=1) == pytest.approx(0.012, rel=0.07)

    def test_calls_on_threads_cost(self):
        """A function of 10 us for 12 samples: on threads each call costs 2 us more, and each of seven chunks 10, in Python."""
        found = model(step("serial", 0.00012, kept=0.00012, python=True), pace=0.00012)
        assert pace(found, ways={0: "threads"}) == pytest.approx(0.00012 + 12 * 2e-6 + 7 * 1e-5, rel=0.05)

    def test_two_functions_that_keep_the_interpreter_from_each_other(self):
        """A probe saw only half of it, but batches came as slowly as if they had it all the time: 20 ms, in two processes 10."""
        half = step("serial", 0.010, kept=0.005, python=True)
        found = model(half, half, pace=0.020)
        assert pace(found) == pytest.approx(0.020, rel=0.02)
        assert pace(found, ways={0: "processes", 1: "processes"}, workers=2) == pytest.approx(0.011, rel=0.06)
        assert pace(found, threads=1) == pytest.approx(0.020, rel=0.05)


# ----------------------------------------------------------------------------------------------------
# The executor in a time of its own


def zeros(_sample):
    return np.zeros(4, np.float32)


@pytest.fixture
def simulation(monkeypatch, lossless):
    return Simulation(monkeypatch)


@pytest.fixture
def functions(simulation):
    def spin(x):
        simulation.hold(0.002)
        return x

    def doze(x):
        simulation.sleep(0.02)
        return x

    def compute(x):
        simulation.compute(0.002)
        return x

    return {"spin": spin, "doze": doze, "compute": compute}


def made(simulation, function, loop=0.0, parallel="serial", batches=14, **settings):
    """The pace of a pipeline in the simulated time, and its figures."""

    @pipeline_def(device_id=None, **{"batch_size": 10, "num_threads": 2, **settings})
    def definition():
        return fn.python_function(fn.external_source(zeros, batch=False), function=function, parallel=parallel)

    pipe = definition()
    pipe.run()
    for _ in range(4):
        pipe.run()
        simulation.sleep(loop)
    with pipe.measure():
        for _ in range(batches):
            pipe.run()
            simulation.sleep(loop)
    return pipe.statistics()


@pytest.mark.parametrize(
    ("name", "loop", "measured", "changed"),
    [
        ("doze", 0.0, {"parallel": "threads"}, {"num_threads": 4}),
        ("doze", 0.0, {"parallel": "threads"}, {"num_threads": 1}),
        ("doze", 0.0, {}, {"parallel": "threads", "num_threads": 4}),
        ("spin", 0.0, {}, {"parallel": "threads", "num_threads": 4}),
        ("spin", 0.0, {"parallel": "threads", "num_threads": 4}, {"num_threads": 1}),
        ("compute", 0.0, {"parallel": "threads"}, {"num_threads": 4}),
        ("doze", 0.15, {"prefetch_queue_depth": 1}, {"prefetch_queue_depth": 2}),
        ("doze", 0.15, {}, {"prefetch_queue_depth": 1}),
        ("doze", 0.03, {"parallel": "threads"}, {"num_threads": 8}),
        ("compute", 0.03, {}, {"num_threads": 4, "parallel": "threads"}),
        ("doze", 0.0, {"parallel": "threads"}, {"batch_size": 20}),
    ],
)
def test_predictions_come_true_in_the_executor(simulation, functions, name, loop, measured, changed):
    """One run is measured, and another one with other settings takes as long as predicted. Threads and queues are real."""
    model = Model(made(simulation, functions[name], loop, **measured))
    expected = predicted(model, **changed).samples_per_second
    found = made(simulation, functions[name], loop, **{**measured, **changed})
    assert found.samples / found.seconds == pytest.approx(expected, rel=0.1)


def test_a_pipeline_predicts(simulation, functions):
    """``pipe.predict`` has the names of the settings: 10 samples that wait for 20 ms are 200 ms, on 5 threads 40."""

    @pipeline_def(batch_size=10, num_threads=2, device_id=None)
    def definition():
        return fn.python_function(fn.external_source(zeros, batch=False), function=functions["doze"], name="doze")

    pipe = definition()
    for _ in range(8):
        pipe.run()
    assert pipe.predict().pace == pytest.approx(0.2, rel=0.01)
    assert pipe.predict(num_threads=5, parallel={"doze": "threads"}).pace == pytest.approx(0.04, rel=0.01)
    assert str(pipe.predict()) == "a batch every 200 ms, 50 samples/s"
    with pytest.raises(ValueError, match=r"there is no function 'dose' in this pipeline.*'doze'"):
        pipe.predict(parallel={"dose": "threads"})
    with pytest.raises(ValueError, match=r"parallel must be one of \['serial', 'threads', 'processes'\], got 'fast'"):
        pipe.predict(parallel="fast")
    with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
        pipe.predict(num_threads=0)
    with pytest.raises(ValueError, match=r"there is no function 'dose' in this pipeline.*'doze'"):
        pipe.predict(jit=["dose"])
    with pytest.raises(
        TypeError, match=r"jit must be True, False or a list of names, got 'doze': write jit=\['doze'\]"
    ):
        pipe.predict(jit="doze")
    with pytest.raises(ValueError, match=r"there is no node 'dose' in this pipeline.*'doze'"):
        pipe.predict(cached="dose")


def test_a_cache_spares_the_steps_before_it(simulation, tmp_path):
    """Those that other outputs need as well run on; the reader gives its indices as before."""
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.full((2, 2), number))

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def definition():
        arrays = fn.readers.numpy(file_root=str(tmp_path), name="reader")
        turned = fn.transpose(fn.cast(arrays, dtype=types.FLOAT, name="cast"), perm=[1, 0], name="turned")
        return turned * 2, fn.reductions.sum(arrays, name="sum")

    pipe = definition()
    with pipe.measure():
        for _ in range(8):
            pipe.run()
    assert pipe.plan.needed_only_by("turned") == ["cast", "turned"]
    assert pipe.plan.needed_only_by("cast") == ["cast"]
    assert "reader" not in pipe.plan.needed_only_by("sum")


def test_compiled_functions_do_not_share_the_interpreter(simulation, functions):
    """Two threads call a function that computes in Python: compiled, they would take half the time."""

    @pipeline_def(batch_size=10, num_threads=2, device_id=None)
    def definition():
        data = fn.external_source(zeros, batch=False)
        return fn.python_function(data, function=functions["spin"], parallel="threads", name="spin")

    pipe = definition()
    for _ in range(8):
        pipe.run()
    assert pipe.predict(jit=True).pace == pytest.approx(pipe.predict().pace / 2, rel=0.05)
    assert pipe.predict(jit=["spin"]).pace == pipe.predict(jit=True).pace


@pytest.mark.parametrize(("both", "stores"), [(False, True), (True, False)])
def test_what_only_the_next_function_reads_need_not_be_stored(both, stores):
    """A result that is also an output is stored in any case, and so is that of the last function."""

    def definition():
        first = fn.python_function(fn.external_source(lambda _: [np.zeros(300_000)] * 4), function=np.copy)
        second = fn.python_function(first, function=np.copy)
        return (first, second) if both else second

    pipe = pipeline_def(definition, batch_size=4, num_threads=2, device_id=None)()
    with pipe.measure():
        for _ in range(60):
            pipe.run()
    _, first, second = pipe.statistics().stages
    assert bool(first.storing) == stores
    assert not second.storing


# ----------------------------------------------------------------------------------------------------
# The processors


GROUPS = {"/proc/self/cgroup": ["4:cpu,cpuacct:/a/b", "0::/c/d"]}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 4),
        ({"/sys/fs/cgroup/c/cpu.max": ["150000 100000"]}, 2),
        ({"/sys/fs/cgroup/c/d/cpu.max": ["max 100000"], "/sys/fs/cgroup/cpu.max": ["100000 100000"]}, 1),
        (
            {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": ["300000"], "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us": ["100000"]},
            3,
        ),
        ({"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": ["-1"], "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us": ["100000"]}, 4),
        ({"/sys/fs/cgroup/c/d/cpu.max": ["5000 100000"]}, 1),
    ],
)
def test_the_share_of_a_container_limits_the_processors(monkeypatch, files, expected):
    """The least of all groups that the process is in; a part of a processor is one."""
    monkeypatch.setattr(system, "processors", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(system, "lines_of", lambda path: {**GROUPS, **files}.get(path, []))
    monkeypatch.setattr(
        system, "_share_of_container", system._share_of_container.__wrapped__
    )  # not what was read before
    assert system.usable_processors() == expected


def test_only_processors_of_this_process_are_counted(monkeypatch):
    """Of user, nice, system, idle, waiting, two kinds of interrupts and stolen ticks all but idle and waiting are busy."""
    lines = ["cpu  9 9 9 9 9 9 9 9", "cpu0 100 20 30 999 999 4 5 6 0 0", "cpu1 7 7 7 7 7 7 7 7", "intr 1 2 3"]
    monkeypatch.setattr(system, "processors", lambda: [0])
    monkeypatch.setattr(system, "lines_of", {"/proc/stat": lines}.get)
    monkeypatch.setattr(system.os, "sysconf", {"SC_CLK_TCK": 100}.get)
    assert system.busy_seconds() == pytest.approx(1.65)
