"""fn.python_function(parallel="processes"): the same results as on a thread, and errors that say sample, operator and line."""

import ctypes
import functools
import gc
import io
import os
import pickle
import signal
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest
from helpers import LONG, in_time
from process_helpers import Meeting, begin_long_ago, gone, meet

from pipeflow import Spec, fn, pipeline_def, system
from pipeflow.errors import FunctionTimeout, InvalidState, WorkerDied
from pipeflow.executor.workers import anonymous_files
from pipeflow.executor.workers.zygote import SharedForkServer
from pipeflow.saving.functions import by_value


def numbers(batches=100):
    """Batches of 6 ragged arrays; the first element is the running number of the sample."""
    count = 0
    for _ in range(batches):
        yield [np.full((i % 3 + 1, 4), count + i, np.float32) for i in range(6)]
        count += 6


def make(function, batches=100, **arguments):
    """A pipeline with one function over the running numbers."""
    options = {"py_num_workers": 2, "num_threads": 1, "seed": 7}
    options.update(
        {k: arguments.pop(k) for k in list(arguments) if k in ("num_threads", "prefetch_queue_depth", "exec_async")}
    )

    @pipeline_def(batch_size=6, device_id=None, **options)
    def pipeline():
        data = fn.external_source(functools.partial(numbers, batches), batch=True, cycle="raise")
        return fn.python_function(data, function=function, **arguments)

    return pipeline()


def rows(outputs):
    return [[np.asarray(batch.at(i)) for i in range(len(batch))] for batch in outputs]


FUNCTIONS = {
    "one output": (lambda x: x * 2 + 1, {}),
    "two outputs": (lambda x: (x[:1].copy(), np.float64(x.sum())), {"num_outputs": 2}),
    "random": (lambda x, rng: x + rng.random(x.shape, np.float32), {}),
    "lists": (lambda x: [[1, 2], [3, int(x[0, 0])]], {}),
    "batch": (lambda samples: [s[::-1] * len(samples) for s in samples], {"batch_processing": True}),
    "batch, two outputs": (
        lambda samples: ([s + 1 for s in samples], np.arange(len(samples))),
        {"batch_processing": True, "num_outputs": 2},
    ),
    "batch, random": (
        lambda samples, rng: [s * key.unit(0) for s, key in zip(samples, rng)],
        {"batch_processing": True},
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_processes_give_what_a_thread_gives(name):
    """Results, random ones included, do not depend on where the function runs."""
    function, arguments = FUNCTIONS[name]
    expected, actual = make(function, **arguments), make(function, parallel="processes", **arguments)
    for _ in range(5):
        for one, other in zip(rows(expected.run()), rows(actual.run()), strict=True):
            for left, right in zip(one, other, strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("arguments", [{"exec_async": False}, {"num_threads": 3, "prefetch_queue_depth": 4}])
def test_every_way_of_running(arguments):
    """Synchronous runs and deep queues give the batches in order."""
    pipe = make(lambda x: x * 2, parallel="processes", **arguments)
    for number in range(8):
        (batch,) = pipe.run()
        assert [float(batch.at(i)[0, 0]) for i in range(6)] == [2 * (number * 6 + i) for i in range(6)]


def test_it_runs_in_other_processes_and_several_at_once(tmp_path):
    """No call happens in this process, and both workers take part."""
    meeting = Meeting(tmp_path / "meeting", 2)

    def where(x, path):
        meet(path)
        return np.int64(os.getpid())

    pipe = make(functools.partial(where, path=meeting.path), parallel="processes")
    seen = {int(x) for _ in range(4) for x in in_time(pipe.run)[0].as_array()}
    assert os.getpid() not in seen
    assert len(seen) == 2


def test_two_functions_in_processes_and_steps_between():
    """Results of one function go into operators and on to the next function."""

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, py_num_workers=2)
    def pipeline():
        data = fn.external_source(functools.partial(numbers, 100), batch=True)
        first = fn.python_function(data, function=lambda x: x + 1, parallel="processes")
        second = fn.python_function(first * 2, data, function=lambda x, y: x - y, parallel="processes")
        return second, first

    pipe = pipeline()
    for number in range(4):
        second, first = pipe.run()
        for i in range(6):
            value = number * 6 + i
            assert (np.asarray(first.at(i)) == value + 1).all()
            assert (np.asarray(second.at(i)) == (value + 1) * 2 - value).all()


@pytest.mark.parametrize("stateful", [True, False])
def test_numpy_function_in_processes(stateful):
    """TensorFlow's operator takes the same argument; results are checked against Tout in the worker."""

    @pipeline_def(batch_size=6, num_threads=1, device_id=None, py_num_workers=2)
    def pipeline(types):
        data = fn.external_source(functools.partial(numbers, 100), batch=True)
        return tuple(
            fn.numpy_function(
                lambda x: (x * 2, np.int64(os.getpid())), [data], types, stateful=stateful, parallel="processes"
            )
        )

    doubled, pids = pipeline([np.float32, np.int64]).run()
    assert [float(np.asarray(doubled.at(i))[0, 0]) for i in range(6)] == [0, 2, 4, 6, 8, 10]
    assert os.getpid() not in pids.as_array()
    with pytest.raises(TypeError, match="is declared as"):
        pipeline([np.float64, np.int64]).run()


def test_a_function_may_change_its_input_and_nobody_sees_it():
    """Workers have the data to themselves."""

    def change(x):
        x[...] = -1
        return x

    @pipeline_def(batch_size=6, num_threads=1, device_id=None)
    def pipeline():
        data = fn.external_source(functools.partial(numbers, 100), batch=True)
        return fn.python_function(data, function=change, parallel="processes"), data

    changed, data = pipeline().run()
    assert (np.asarray(changed.at(3)) == -1).all()
    assert (np.asarray(data.at(3)) == 3).all()


def test_results_stay_valid_after_the_pipeline():
    """A batch is the user's for good, though its memory came from a pool of segments."""
    pipe = make(lambda x: np.repeat(x, 500, axis=0), parallel="processes")
    kept = pipe.run()[0]
    for _ in range(10):
        pipe.run()
    del pipe
    for i in range(6):
        assert (np.asarray(kept.at(i)) == i).all()


def fail_at_20(x):
    if x[0, 0] == 20:
        raise LookupError("no twenty")  # the line
    return x


def test_an_error_says_sample_operator_and_both_lines():
    """The exception has its type, the user's line in the function and the line of the call; later batches are intact."""
    pipe = make(fail_at_20, parallel="processes")
    for _ in range(3):
        pipe.run()
    with pytest.raises(LookupError, match="no twenty") as info:
        pipe.run()
    notes = "\n".join(info.value.__notes__)
    assert "in fn.python_function, sample 2 of batch 3" in notes
    assert "test_process_functions.py" in notes
    last = traceback.extract_tb(info.value.__traceback__)[-1]
    assert last.name == "fail_at_20"
    assert last.line.endswith("# the line")
    assert float(pipe.run()[0].at(0)[0, 0]) == 24


def test_the_first_of_several_failing_samples_is_reported():
    """As on threads: all samples run, the first failure is raised."""

    def fail(x):
        if x[0, 0] % 2:
            raise ValueError(f"odd {int(x[0, 0])}")
        return x

    with pytest.raises(ValueError, match="odd 1"):
        make(fail, parallel="processes").run()


def test_samples_of_different_kinds_are_refused():
    """The results of one batch have one type, also when they come from different workers."""
    with pytest.raises(TypeError, match=r"float32 .* for the first and float64 .* for sample 1"):
        make(lambda x: x.astype("f8") if x[0, 0] == 1 else x, parallel="processes").run()
    with pytest.raises(TypeError, match="returned None instead of an array"):
        make(lambda x: None, parallel="processes").run()
    with pytest.raises(ValueError, match="returned 3 outputs, declared is num_outputs=2"):
        make(lambda x: (x, x, x), parallel="processes", num_outputs=2).run()


def test_a_worker_that_dies_fails_its_batch_and_the_pipeline_goes_on():
    """The error says how the worker ended and for which sample; the next batches are complete."""

    def die(x):
        if x[0, 0] == 8:
            ctypes.string_at(0)
        return x

    pipe = make(die, parallel="processes")
    pipe.run()
    with pytest.raises(WorkerDied, match="segmentation fault") as info:
        pipe.run()
    assert "sample 2 of batch 1" in "\n".join(info.value.__notes__)
    for number in range(2, 8):
        assert float(pipe.run()[0].at(5)[0, 0]) == number * 6 + 5


@pytest.mark.parametrize("guarded", [False, True], ids=["all samples", "in a branch"])
@pytest.mark.parametrize("culprit", [1, 5, 11, 17, 29, 31])
def test_the_sample_that_killed_a_worker_is_named(culprit, guarded):
    """Its number in the batch, whichever chunk it was in and however many of the samples before it were in the branch."""

    def die(x):
        if x == culprit:
            os._exit(3)
        return x * 10

    @pipeline_def(batch_size=32, num_threads=1, device_id=None, py_num_workers=2, enable_conditionals=True)
    def pipeline():
        x = fn.external_source(lambda: np.arange(32), batch=True)
        if not guarded:
            return fn.python_function(x, function=die, parallel="processes")
        if x % 2 == 1:
            y = fn.python_function(x, function=die, parallel="processes")
        else:
            y = x
        return y

    with pytest.raises(WorkerDied) as info:
        pipeline().run()
    assert f"sample {culprit} of batch 0" in "\n".join(info.value.__notes__)


def hang_at_7(x, line):
    """Waits for ever, and is late at once: reading from the line has the pools look."""
    if x[0, 0] == 7:
        begin_long_ago()
        io.FileIO(line).read(1)  # where it hangs
    return x


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_function_that_hangs(num_threads, late):
    """After `timeout` the consumer gets an error that names function and line, and the next batches."""
    function = functools.partial(hang_at_7, line=late)
    pipe = make(function, parallel="processes", timeout=45, num_threads=num_threads)
    assert float(pipe.run()[0].at(0)[0, 0]) == 0
    with pytest.raises(FunctionTimeout, match=r"hang_at_7 \(.*py:\d+\) did not return within 45 s") as info:
        pipe.run()
    notes = "\n".join(info.value.__notes__)
    lines = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.endswith("# where it hangs"))
    assert f", line {line}" in notes
    assert "in fn.python_function, sample 1 of batch 1" in notes
    assert f"was at {__file__}:{line};" in str(info.value)
    assert "pipeflow/operators" not in notes
    for number in range(2, 5):
        assert float(pipe.run()[0].at(5)[0, 0]) == number * 6 + 5


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_a_function_that_hangs_under_a_rule(on_error, late):
    """A call that hangs in a worker is a failing row like any other."""
    function = functools.partial(hang_at_7, line=late)
    pipe = make(function, parallel="processes", timeout=45, num_threads=2, on_error=on_error)
    pipe.run()
    (batch,) = pipe.run()
    values = [float(batch.at(i)[0, 0]) for i in range(len(batch))]
    assert values == ([6, 8, 9, 10, 11] if on_error == "skip" else [6, 8, 8, 9, 10, 11])
    assert [failure.sample for failure in pipe.failures()] == [1]
    for number in range(2, 5):
        assert float(pipe.run()[0].at(5)[0, 0]) == number * 6 + 5


def test_a_timeout_that_is_kept_changes_nothing():
    """Functions within their limit give the usual results, on threads and in processes."""
    for parallel in ("serial", "threads", "processes"):
        (batch,) = make(lambda x, rng: x + rng.integers(5), parallel=parallel, timeout=LONG).run()
        (same,) = make(lambda x, rng: x + rng.integers(5), parallel="serial").run()
        for i in range(6):
            np.testing.assert_array_equal(np.asarray(batch.at(i)), np.asarray(same.at(i)))
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
        make(lambda x: x, timeout=0).build()


def test_what_cannot_travel_is_named_when_the_pipeline_is_built():
    """The culprit and the operator's line come before anything runs."""
    lock = threading.Lock()

    def locked(x):
        with lock:
            return x

    with pytest.raises(TypeError, match=r"closure variable 'lock' \(lock\)") as info:
        make(locked, parallel="processes").build()
    assert "in fn.python_function" in info.value.__notes__


def test_workers_end_with_the_pipeline():
    """Dropping the pipeline ends its processes; so does an epoch's end not."""
    pipe = make(lambda x: np.int64(os.getpid()), batches=4, parallel="processes")
    seen = {int(x) for _ in range(4) for x in pipe.run()[0].as_array()}
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.reset()
    assert {int(x) for x in pipe.run()[0].as_array()} <= seen
    del pipe
    gc.collect()
    assert gone(seen) == []


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_pipeline_may_be_collected_while_another_starts_its_workers(method):
    """The garbage collector runs where it likes, also under the lock that ending the workers needs: it waits for none."""

    def build():
        @pipeline_def(batch_size=2, num_threads=1, device_id=None, py_num_workers=1, py_start_method=method)
        def pipeline():
            return fn.python_function(
                fn.external_source(lambda: np.arange(2)), function=lambda x: x, parallel="processes"
            )

        pipe = pipeline()
        pipe.run()
        return pipe

    pipes = [build()]
    pids = pipes[0]._built().crew.workers.worker_pids()
    with SharedForkServer._lock:
        in_time(pipes.clear)
    gc.collect()
    assert gone(pids) == []


def test_the_arguments_of_the_pipeline():
    """py_num_workers and py_start_method are checked and shown; start_py_workers starts them at once."""
    with pytest.raises(ValueError, match="py_start_method must be one of 'forkserver', 'spawn', 'fork', got 'threads'"):
        pipeline_def(batch_size=1, py_start_method="threads")(lambda: fn.random.uniform())()
    pipe = make(lambda x: np.int64(os.getpid()), parallel="processes")
    pipe.start_py_workers()
    assert pipe.py_num_workers == 2
    assert pipe.py_start_method == "forkserver"
    assert int(pipe.run()[0].at(0)) != os.getpid()
    forking = pipeline_def(batch_size=2, device_id=None, py_start_method="fork")(
        lambda: fn.python_function(function=lambda: np.zeros(1), parallel="processes")
    )()
    if system.HAS_FORK:  # without it, workers are fresh interpreters
        with pytest.raises(RuntimeError, match="needs a process with a single thread"):
            forking.start_py_workers()
    del pipe


def test_interrupting_a_run_loses_nothing(tmp_path):
    """KeyboardInterrupt while the consumer waits leaves the batch to the next run."""
    meeting = Meeting(tmp_path / "meeting", 1)
    resumed = Meeting(tmp_path / "resumed", 2)

    def function(x, paths):
        if x[0, 0] == 0:
            for path in paths:
                meet(path)
        return x

    paths = [meeting.path, resumed.path]
    pipe = make(functools.partial(function, paths=paths), parallel="processes")

    def interrupt():
        meeting.over.wait()  # the first sample is in a worker, so the consumer waits
        os.kill(os.getpid(), signal.SIGINT)
        meet(resumed.path)

    thread = threading.Thread(target=interrupt)
    thread.start()
    values = []
    interrupted = 0
    while len(values) < 4:
        try:
            values.append(float(pipe.run()[0].at(0)[0, 0]))
        except KeyboardInterrupt:
            interrupted += 1
    thread.join()
    assert interrupted == 1
    assert values == [0, 6, 12, 18]


def test_a_worker_starts_no_workers_of_its_own():
    """A pipeline with processes inside a function is refused, instead of workers that start workers without end."""
    pipes = []
    pipes.append(make(lambda x: pipes[0].run()[0].at(0), parallel="processes"))
    with pytest.raises(InvalidState, match="cannot start other worker processes"):
        pipes[0].run()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list the descriptors of a process")
@pytest.mark.skipif(not anonymous_files.HAS_MEMFD, reason="this system does not say which descriptors are open")
def test_a_pipeline_that_is_built_and_dropped_leaves_no_descriptors():
    """The function that was made ready for the workers is let go without a run."""

    def count():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def settled(most):
        """Workers end on their own time, and then their descriptors are closed."""
        while count() > most:
            os.sched_yield()

    make(np.abs, parallel="processes").build()
    before = count()
    for _ in range(20):
        make(np.abs, parallel="processes").build()
    in_time(lambda: settled(before + 10))


def in_several_forms(x):
    """The number as what is declared, or as a list: only the first is written to its place."""
    number = int(x[0, 0])
    return [number, 1.0] if number % 3 == 1 else np.float32([number, 1])


def test_declared_results_in_another_form_come_with_the_others():
    """Each sample has its own numbers, whether it was written to shared memory or sent; each alone and in any mixture."""

    @pipeline_def(batch_size=6, num_threads=1, py_num_workers=2)
    def define():
        data = fn.external_source(functools.partial(numbers, 3), batch=True, cycle="raise")
        declared = Spec(np.float32, (2,))
        return fn.python_function(data, function=in_several_forms, parallel="processes", outputs=declared)

    pipe = define()
    for first in (0, 6, 12):
        (result,) = pipe.run()
        assert result.as_array().tolist() == [[first + place, 1] for place in range(6)]
        assert result.as_array().dtype == np.float32


def test_functions_keep_the_names_of_their_files():
    """Errors and tracebacks need them; cloudpickle 3.1.3 leaves them out."""

    def outer(value):
        return [lambda: value]

    class Method:
        def call(self):
            return 1

    function, made = pickle.loads(by_value((outer, Method)))
    codes = function.__code__, function(1)[0].__code__, made.call.__code__
    assert [code.co_filename for code in codes] == [__file__] * 3
    assert (codes[0].co_firstlineno, codes[1].co_name) == (outer.__code__.co_firstlineno, "<lambda>")
