"""Several threads that ask one pipeline for batches, and threads that ask when the program is ending."""

import logging
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.errors import InvalidState

BATCHES = 200


def numbers(**settings):
    """A pipeline whose batch k holds 2k and 2k + 1; the epoch has BATCHES batches."""

    def source(iteration):
        if iteration == BATCHES:
            raise StopIteration
        return np.arange(2) + 2 * iteration

    @pipeline_def(batch_size=2, seed=1, **settings)
    def define():
        return fn.python_function(fn.external_source(source), function=lambda x: x + 0, parallel="threads")

    return define()


def ask(callers, target):
    """Runs a function in so many threads that begin at the same moment; what each of them returned or raised."""
    found = [None] * callers
    gate = threading.Barrier(callers)

    def work(number):
        gate.wait()
        try:
            found[number] = target(number)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"num_threads": 1, "prefetch_queue_depth": 1},
        {"num_threads": 2, "prefetch_queue_depth": 2},
        {"num_threads": 3, "prefetch_queue_depth": 4},
        {"num_threads": 2, "exec_async": False, "exec_pipelined": False},
    ],
)
def test_every_batch_goes_to_one_of_the_callers(settings):
    """Two threads call run() on one pipeline: each batch comes once, each thread gets its own in order, and both meet the end."""
    pipe = numbers(**settings)

    def take(number):
        got = []
        try:
            while True:
                got.append(int(pipe.run()[0].as_array()[0]) // 2)
        except StopIteration:
            return got

    found = ask(2, take)
    assert all(got == sorted(got) for got in found), found
    assert sorted(found[0] + found[1]) == list(range(BATCHES))


def test_what_is_fed_with_a_run_comes_back_to_its_caller():
    """Named inputs of run() belong to the batch that this call returns, whoever else calls at the same time."""
    pipe = pipeline_def(batch_size=1, num_threads=2, prefetch_queue_depth=1)(
        lambda: fn.external_source(name="data") * 2
    )()

    def take(number):
        return [int(pipe.run(data=np.array([1000 * number + k]))[0].as_array()[0]) for k in range(100)]

    for number, got in enumerate(ask(3, take)):
        assert got == [2 * (1000 * number + k) for k in range(100)]


def test_a_pipeline_is_built_once_by_callers_who_come_together():
    """The first run() builds; two of them build one pipeline."""
    pipe = numbers(num_threads=2)
    found = ask(4, lambda number: int(pipe.run()[0].as_array()[0]))
    assert sorted(found) == [0, 2, 4, 6]


def test_scheduled_batches_are_shared_out():
    """schedule_run() and outputs() in two threads: as many batches as were scheduled, each once."""
    pipe = numbers(num_threads=2)

    def take(number):
        got = []
        for _ in range(50):
            pipe.schedule_run()
            got.append(int(pipe.outputs()[0].as_array()[0]) // 2)
        return got

    found = ask(2, take)
    assert sorted(found[0] + found[1]) == list(range(100))


def test_closing_lets_go_of_a_caller():
    """A thread that waits in run() for data that never comes is told that the pipeline was closed."""
    pipe = pipeline_def(batch_size=1, num_threads=1, prefetch_queue_depth=1)(
        lambda: fn.external_source(name="data", blocking=True)
    )()
    pipe.build()
    inside, found = threading.Event(), []
    executor = pipe._executor
    wait = executor._wait

    def noted(over):
        inside.set()
        wait(over)

    executor._wait = noted

    def take():
        try:
            pipe.run()
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    assert inside.wait(LONG)
    executor.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert isinstance(found[0], InvalidState) or "no data was fed" in str(found[0])


def test_without_threads_the_caller_makes_the_batch(monkeypatch, caplog):
    """Where the system starts no thread, batches are made by the thread that asks, and the log says so."""

    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    pipe = numbers(num_threads=2)
    pipe.build()
    monkeypatch.setattr("pipeflow.executor.crew.threading.Thread", NoThread)
    with caplog.at_level(logging.WARNING, "pipeflow"):
        assert [int(pipe.run()[0].as_array()[0]) for _ in range(3)] == [0, 2, 4]
    assert "can't start new thread" in caplog.text


@pytest.mark.parametrize("processes", [False, True])
def test_a_thread_that_outlives_the_main_thread(processes):
    """A thread may use a pipeline after the program's last line: it works, or there is one error that says why, and no hang."""
    program = f"""
        import threading
        import numpy as np
        from pipeflow import fn, pipeline_def

        def double(x):
            return x * 2

        @pipeline_def(batch_size=2, num_threads=2)
        def define():
            x = fn.external_source(lambda k: np.arange(2) + k, batch=True)
            return fn.python_function(x, function=double, parallel={"processes" if processes else "threads"!r})


        def work():
            main.join()
            pipe = define()
            print([pipe.run()[0].as_array().tolist() for _ in range(2)])

        main = threading.main_thread()
        threading.Thread(target=work).start()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert "cannot join thread before it is started" not in done.stderr
    assert done.stderr.count("Traceback (most recent call last)") <= 1
    if not processes:
        assert done.stdout.strip() == "[[0, 2], [2, 4]]", done.stderr
    else:
        assert done.stdout.strip() == "[[0, 2], [2, 4]]" or "interpreter shutdown" in done.stderr, done.stderr
