"""Pipelines whose settings choose themselves: batches are those of fixed settings, and the report says what was chosen."""

import itertools
import types

import numpy as np
import pytest

from pipeflow import Pipeline, fn, pipeline_def
from pipeflow.executor import Settings, measuring, settings, tuning
from pipeflow.executor.claims import Claims
from pipeflow.handle import choices


def noisy(x, rng):
    return x * 2 + rng.random()


def numbers(**options):
    data = fn.external_source(lambda info: np.float64(info.idx_in_epoch), batch=False)
    data = fn.python_function(data, function=noisy, **options)
    return data, fn.random.uniform(range=(0.0, 1.0)), fn.python_function(data, function=lambda x: x + 1)


def test_settings_that_are_compared_are_not_reported(monkeypatch):
    """The report has the settings that are kept, whatever is in use for a moment."""
    pipe = pipeline_def(numbers, batch_size=5, num_threads="auto", prefetch_queue_depth="auto")()
    pipe.build()
    tuner = pipe._executor.tuner
    tuner.reviewing, tuner._kept = True, tuner.chosen._replace(threads=1, depth=3)
    report = pipe.settings()
    assert (report["num_threads"].value, report["prefetch_queue_depth"].value) == (1, 3)


def test_threads_that_are_not_needed_end():
    """Those that were tried and are too many for the settled settings; when more are needed, others begin."""
    pipe = pipeline_def(numbers, batch_size=5, num_threads="auto", seed=3)()
    pipe.run()
    executor, tuner = pipe._executor, pipe._executor.tuner
    for threads, settled in ((6, False), (2, True), (4, False), (1, True)):
        with executor._lock:
            tuner.settled, tuner.threads, tuner._kept, tuner._skip = settled, threads, tuner.chosen, 10**9
            executor._claims.threads = threads
            tuner.rests = lambda: False
        wanted = threads if settled else max(threads, executor.crew.size)
        while len(executor.crew.threads) != wanted:
            pipe.run()
        assert executor.crew.size == wanted


@pytest.mark.parametrize("way", ["run", "epoch", "schedule"])
def test_changes_do_not_change_a_value(monkeypatch, way):
    """All settings change after every batch, and every bit is that of fixed ones."""
    changes = itertools.cycle([(1, 1, True), (4, 3, False), (2, 5, True), (3, 1, True), (6, 2, False)])

    def change(tuner, *_):
        tuner.threads, tuner.depth, tuner.alone = next(changes)
        tuner.most = max(tuner.most, tuner.threads)
        return True

    monkeypatch.setattr(tuning.Tuner, "delivered", change)
    fixed = pipeline_def(numbers, batch_size=5, num_threads=1, prefetch_queue_depth=1, seed=3)()
    tuned = pipeline_def(
        lambda: numbers(parallel="auto"), batch_size=5, num_threads="auto", prefetch_queue_depth="auto", seed=3
    )()
    if way == "epoch":
        batches = zip(fixed.epoch(), tuned.epoch())
    elif way == "run":
        batches = ((fixed.run(), tuned.run()) for _ in itertools.count())
    else:
        tuned.schedule_run()
        batches = ((fixed.run(), (tuned.schedule_run(), tuned.outputs())[1]) for _ in itertools.count())
    for left, right in itertools.islice(batches, 30):
        for one, two in zip(left, right, strict=True):
            assert one.as_array().tobytes() == two.as_array().tobytes()
    assert len(tuned._executor.crew.threads) == 6


def test_one_thread_at_a_time_calls_functions_that_disturb_each_other(monkeypatch):
    """Other threads read the next batches meanwhile; a thread takes all samples that are left, and every batch is complete."""
    claim, most, chunks = Claims.claim, [0], []

    def watched(claims, last=False):
        task = claim(claims, last)
        here = [other for other in claims.tasks.values() if other.batch.stage == 1 and not other.over]
        most[0] = max(most[0], len(here))
        if task is not None and task.batch.stage == 1:
            chunks.append(task.end - task.begin)
        return task

    def alone(tuner, *_):
        tuner.alone = True
        return True

    monkeypatch.setattr(tuning.Tuner, "delivered", alone)

    def define(**options):
        return fn.python_function(fn.random.uniform(range=(0.0, 1.0)), function=noisy, **options)

    fixed = pipeline_def(define, batch_size=8, num_threads=4, seed=3)()
    pipe = pipeline_def(lambda: define(parallel="auto"), batch_size=8, num_threads=4, seed=3)()
    for number in range(20):
        (one,), (two,) = fixed.run(), pipe.run()
        assert one.as_array().tobytes() == two.as_array().tobytes()
        if number == 3:  # what was claimed before is over
            monkeypatch.setattr(Claims, "claim", watched)
    assert most == [1]
    assert 8 in chunks


def test_the_report_says_that_calls_wait_for_each_other():
    """The function may run on all threads, and is called by one at a time."""
    pipe = pipeline_def(lambda: numbers(parallel="auto"), batch_size=5, num_threads=2)()
    pipe.build()
    pipe._executor.tuner.alone = True
    function = next(choice for choice in pipe.settings() if choice.name.startswith("parallel of noisy"))
    expected = "its code shows no state; calls at the same time are not tried yet"
    assert (function.value, function.reason) == ("serial", expected)
    pipe._executor.tuner.settled = True
    function = next(choice for choice in pipe.settings() if choice.name.startswith("parallel of noisy"))
    assert function.reason == "its code shows no state; calls at the same time would not help"
    pipe._executor.tuner.alone = False
    function = next(choice for choice in pipe.settings() if choice.name.startswith("parallel of noisy"))
    assert (function.value, function.reason) == ("threads", "its code shows no state")


def test_the_wait_of_threads_for_a_processor_is_counted(monkeypatch):
    """For the tuner, which reads it at the begin and the end of a window."""
    pipe = pipeline_def(numbers, batch_size=5, num_threads="auto")()
    pipe.run()
    monkeypatch.setattr(measuring, "queued_seconds", lambda threads: 0.5 * len(threads))
    tuner = pipe._executor.tuner
    assert tuner._look().queued == 0.5 * len(pipe._executor.crew.threads) > 0
    assert pipe._executor.measuring.work().queued == 0.0


def test_figures_have_the_chosen_settings():
    """Advice about a pipeline that tunes itself is about what it uses now."""
    pipe = pipeline_def(numbers, batch_size=5, num_threads="auto", prefetch_queue_depth="auto")()
    pipe.run()
    pipe._executor.tuner.threads, pipe._executor.tuner.depth = 7, 5
    assert (pipe.statistics().threads, pipe.statistics().depth) == (7, 5)


def test_settings_are_reported():
    """Who chose each setting, and why; functions with automatic settings have a line each."""
    pipe = pipeline_def(
        lambda: numbers(parallel="auto"),
        batch_size=5,
        num_threads="auto",
        prefetch_queue_depth="auto",
        memory="2GB",
        py_num_workers=3,
    )()
    report = pipe.settings()
    assert not report.settled
    assert (report["num_threads"].by, report["num_threads"].reason) == ("auto", "not measured yet")
    assert (report["prefetch_queue_depth"].value, report["memory"].value) == (2, 2 * 10**9)
    assert (report["py_num_workers"].by, report["memory"].by) == ("given", "given")
    function = next(choice for choice in report if choice.name.startswith("parallel of noisy"))
    assert (function.value, function.by) == ("serial", "auto")
    assert "prefetch_queue_depth=2 (auto: not measured yet)" in str(report)
    with pytest.raises(KeyError, match="there is no setting 'threads'"):
        report["threads"]
    tuner = types.SimpleNamespace(changes=2, settled=False, reason="not measured yet")
    assert choices._reason(tuner) == "the best that were measured so far; others are still tried"


def test_automatic_workers_are_as_many_as_processors(monkeypatch):
    """Their number is not changed while the pipeline runs."""
    monkeypatch.setattr(settings, "available_cpus", lambda: 3)
    pipe = pipeline_def(numbers, batch_size=5, num_threads=1, py_num_workers="auto")()
    report = pipe.settings()
    assert report.settled
    assert str(report["py_num_workers"]) == "py_num_workers=3 (auto: one for each processor)"


def test_fixed_settings_are_reported_as_given_or_default():
    """A pipeline without automatic settings is settled."""
    report = pipeline_def(numbers, batch_size=5, num_threads=3)().settings()
    assert report.settled
    assert (report["num_threads"].value, report["num_threads"].by) == (3, "given")
    assert (report["prefetch_queue_depth"].value, report["prefetch_queue_depth"].by) == (2, "default")


def remembering():
    seen = []

    def function(x):
        seen.append(x)
        return x

    return function


def test_a_function_with_state_is_called_in_order():
    """With parallel="auto" it runs as without parallel; the report says why."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.random.uniform(), function=remembering(), parallel="auto"),
        batch_size=2,
        num_threads=2,
    )()
    choice = next(choice for choice in pipe.settings() if choice.name.startswith("parallel of"))
    assert (choice.value, choice.reason) == ("serial", "it uses seen, which function changes")
    assert [stage.ordered for stage in pipe.plan.stages][-1]


def test_automatic_settings_are_saved_as_such():
    """A pipeline that is read again chooses for its own machine."""
    pipe = pipeline_def(numbers, batch_size=5, num_threads="auto", prefetch_queue_depth="auto", memory="1GB")()
    read = Settings(**pipe._settings.saved())
    assert read.automatic == {"num_threads", "prefetch_queue_depth"}
    assert read.memory == 10**9


@pytest.mark.parametrize(
    ("given", "expected"),
    [("2GB", 2 * 10**9), ("500 mb", 5 * 10**8), ("1GiB", 2**30), ("1.5k", 1500), (4096, 4096), ("7", 7)],
)
def test_memory_is_a_number_of_bytes_or_a_text(given, expected):
    """With decimal or binary units."""
    assert Settings(prefetch_queue_depth="auto", memory=given).memory == expected


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"memory": "2GB"}, ValueError, 'write prefetch_queue_depth="auto"'),
        ({"memory": "much", "prefetch_queue_depth": "auto"}, ValueError, "a text such as '2GB', got 'much'"),
        ({"memory": 0, "prefetch_queue_depth": "auto"}, ValueError, "memory must be at least 1, got 0"),
        ({"num_threads": "automatic"}, TypeError, "num_threads must be an integer, got str 'automatic'"),
    ],
)
def test_wrong_settings(options, error, text):
    """The message says what may be written."""
    with pytest.raises(error, match=text):
        Pipeline(batch_size=2, **options)
