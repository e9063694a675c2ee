"""The executor's contract: order, errors, ends, and every way a program can stop."""

import gc
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG, threads

from pipeflow import fn, pipeline_def, types
from pipeflow.executor import ring, surroundings
from pipeflow.executor.crew import Crew
from pipeflow.executor.runners.sample import SampleStage


def source(iteration):
    """Four samples of a batch."""
    return np.arange(4) + 4 * iteration


def ended(before):
    """Whether all threads of pipelines end, beyond those of ``before``."""
    for thread in threads(before):
        thread.join(LONG)
    return not threads(before)


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_batches_come_in_order(num_threads):
    """Whatever thread does what, batch k is the k-th."""

    def slow(x):
        sum(range(30_000 if int(x) % 3 == 0 else 10))
        return x

    @pipeline_def(batch_size=4, num_threads=num_threads, prefetch_queue_depth=4)
    def define():
        return fn.python_function(fn.external_source(source), function=slow, parallel="threads") + 1

    pipe = define()
    assert [pipe.run()[0].as_array().tolist() for _ in range(20)] == [
        [4 * k + 1 + i for i in range(4)] for k in range(20)
    ]


def test_threads_take_work_of_later_batches():
    """A thread idles only when the ring has no work: while one sample of batch 0 is stuck, the others of batch 1 are done."""
    gate, done = threading.Event(), []

    def function(x):
        if x == 0:
            assert gate.wait(LONG)
        else:
            done.append(int(x))
            if len(done) >= 7:  # three of batch 0 and all of batch 1
                gate.set()
        return x

    @pipeline_def(batch_size=4, num_threads=2, prefetch_queue_depth=2)
    def define():
        return fn.python_function(fn.external_source(source), function=function, parallel="threads")

    assert define().run()[0].as_array().tolist() == [0, 1, 2, 3]
    assert set(done) >= set(range(1, 8))


def test_the_first_of_several_failing_samples_is_reported():
    """By position, whichever failed first in time."""
    later = threading.Event()

    def function(x):
        if x == 1:
            assert later.wait(LONG)
        if x in (1, 3):
            later.set()
            raise ValueError(f"sample {int(x)}")
        return x

    @pipeline_def(batch_size=4, num_threads=4)
    def define():
        return fn.python_function(fn.external_source(source), function=function, parallel="threads")

    with pytest.raises(ValueError, match="sample 1"):
        define().run()


def test_prefetched_batches_are_kept_after_an_error():
    """An error costs its own batch only, at every position and depth."""

    def function(x):
        if int(x) // 4 in (0, 3, 4):
            raise RuntimeError("broken batch")
        return x

    @pipeline_def(batch_size=4, num_threads=2, prefetch_queue_depth=3)
    def define():
        return fn.python_function(fn.external_source(source), function=function)

    pipe, seen = define(), []
    for _ in range(8):
        try:
            seen.append(int(pipe.run()[0].at(0)) // 4)
        except RuntimeError:
            seen.append("error")
    assert seen == ["error", 1, 2, "error", "error", 5, 6, 7]


def test_notes_are_added_once():
    """An exception object that is raised again does not collect notes without end."""
    problem = ValueError("always the same")

    def function(x):
        raise problem

    @pipeline_def(batch_size=1, num_threads=1, prefetch_queue_depth=1)
    def define():
        return fn.python_function(fn.external_source(lambda: np.zeros(1), name="same"), function=function)

    pipe = define()
    for _ in range(3):
        with pytest.raises(ValueError, match="always"):
            pipe.run()
    assert len([note for note in problem.__notes__ if note.startswith("called at")]) == 1


def test_out_of_memory_request():
    """An impossible allocation is a MemoryError at its operator, and the pipeline goes on."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        size = fn.external_source(lambda i: np.array([1, 1 << 50 if i == 0 else 2]))
        return fn.python_function(size, function=lambda n: np.zeros(int(n), np.uint8))

    pipe = define()
    with pytest.raises(MemoryError) as caught:
        pipe.run()
    assert "sample 1 of batch 0" in caught.value.__notes__[0]
    assert pipe.run()[0].shape() == [(1,), (2,)]


def test_a_dropped_pipeline_ends_its_threads():
    """Garbage collection of a pipeline with batches in flight."""
    before = threads()

    @pipeline_def(batch_size=4, num_threads=3)
    def define():
        return fn.python_function(fn.external_source(source), function=lambda x: x)

    pipe = define()
    kept = pipe.run()[0]
    assert len(threads(before)) == 3
    dead = weakref.ref(pipe)
    del pipe
    gc.collect()
    assert dead() is None
    assert ended(before)
    assert kept.as_array().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("loop", [False, True])
def test_the_pipeline_does_not_keep_the_batch_before_the_last_one(loop, synchronous):
    """Only the user has it, so its memory is free for the next batch when the user drops it."""

    @pipeline_def(batch_size=4, num_threads=1, exec_async=not synchronous, exec_pipelined=not synchronous)
    def define():
        return fn.cast(fn.external_source(source), dtype=types.FLOAT)

    pipe = define()
    batches = iter(pipe.epoch()) if loop else iter(pipe.run, None)
    first = next(batches)[0]
    second = next(batches)
    assert sys.getrefcount(first) <= 2, "this variable and the call"
    assert second[0].as_array().tolist() == [4, 5, 6, 7]


def test_a_pipeline_that_its_own_function_refers_to_is_collected():
    """A cycle through the user's function does not keep threads alive for good."""
    before = threads()

    def build():
        holder = {}

        @pipeline_def(batch_size=4, num_threads=2)
        def define():
            return fn.python_function(fn.external_source(source), function=lambda x: x + len(holder))

        holder["pipe"] = define()
        holder["pipe"].run()
        return weakref.ref(holder["pipe"], lambda _: collected.set())

    collected = threading.Event()
    dead = build()
    for _ in range(1000):  # a thread that is in the middle of its loop may hold the pipeline for a moment
        gc.collect()
        if collected.wait(LONG / 1000):
            break
    assert dead() is None
    assert ended(before)


def test_closing_from_a_thread_of_the_pipeline():
    """The garbage collector may close a pipeline from one of its own threads, under its lock: nothing waits for itself."""
    before = threads()
    holder = []

    def function(x):
        crew = holder[0]._executor.crew
        with crew.lock:
            crew.close()
        return x

    @pipeline_def(batch_size=4, num_threads=3)
    def define():
        return fn.python_function(fn.external_source(source), function=function)

    holder.append(define())
    holder[0].schedule_run()
    assert ended(before)


def test_a_pipeline_that_is_never_run_starts_no_threads():
    """build() alone costs no thread."""
    before = threads()

    @pipeline_def(batch_size=4, num_threads=3)
    def define():
        return fn.external_source(source)

    pipe = define()
    pipe.build()
    assert not threads(before)
    del pipe


def test_memory_is_recycled():
    """After warm-up a pipeline whose batches are dropped allocates nothing."""

    @pipeline_def(batch_size=4, num_threads=2)
    def define():
        data = fn.external_source(lambda: np.zeros((4, 100_000), np.float32))
        return fn.python_function(data * 2, function=lambda x: x)

    pipe = define()
    for _ in range(10):
        pipe.run()
    before = pipe.executor_statistics()["pool"]["allocations"]
    for _ in range(50):
        pipe.run()
    assert pipe.executor_statistics()["pool"]["allocations"] - before <= 2


def test_kept_batches_are_never_overwritten():
    """The ring allocates rather than take memory that somebody still sees."""

    @pipeline_def(batch_size=2, num_threads=2, prefetch_queue_depth=2)
    def define():
        data = fn.external_source(lambda i: np.full((2, 20_000), i, np.int32))
        return data, data + 1, fn.python_function(data, function=lambda x: x + 2)

    pipe = define()
    kept = [tuple(batch.at(1)[5:10] for batch in pipe.run()) for _ in range(20)]
    gc.collect()
    for index, arrays in enumerate(kept):
        assert [array.tolist() for array in arrays] == [[index + extra] * 5 for extra in range(3)]


PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
from pipeflow import fn, pipeline_def
def source(i):
    return np.arange(4) + 4 * i
@pipeline_def(batch_size=4, num_threads=2, prefetch_queue_depth=3)
def define(function=lambda x: x):
    return fn.python_function(fn.external_source(source), function=function)
"""


def program(text, seconds=LONG, **arguments):
    """Runs a program with a hard time limit."""
    code = PRELUDE + textwrap.dedent(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment,
        **arguments,
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has limits of freed memory that can be set")
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_of_a_function_is_used_again(threads):
    """A function's arrays of 900 KB that are freed at once do not need new pages for every sample."""
    done = program(
        f"""
        import resource
        image = np.zeros((256, 300, 3), np.uint8)

        @pipeline_def(batch_size=8, num_threads={threads}, device_id=None)
        def floats():
            return fn.python_function(fn.external_source(lambda: [image] * 8), function=lambda x: x.astype("f4") * 2)

        pipe = floats()
        for batches in (20, 30):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(batches):
                pipe.run()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize() / (240 * image.size * 8))
        """
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.05  # without the limit 0.18


@pytest.mark.parametrize(
    "text",
    [
        "pipe = define(); pipe.run()",
        "pipe = define(); pipe.build()",
        "pipe = define()",
        "define().run(); define().run()",
        "pipe = define(); batch = pipe.run()[0]; array = batch.at(0)",
        "pipe = define(); pipe.run(); sys.exit(0)",
        "pipe = define(lambda x: sum(range(10**6)) and x); pipe.run()",
        "import builtins; builtins.pipe = define(); builtins.pipe.run()",
        "pipe = define(); holder = {}; holder['pipe'] = pipe; holder['self'] = holder; pipe.run(); pipe.holder = holder",
        "pipe = define(); pipe.run(); pipe.reset(); pipe.run(); del pipe",
        "threading.Thread(target=lambda: define().run()).start()",
    ],
)
def test_programs_end_by_themselves(text):
    """A pipeline left alive, never run, collected, in a cycle or with a slow function never keeps a program from ending."""
    done = program(text)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_sigint_while_waiting():
    """Ctrl-C interrupts run() at once; a later run() returns the batch, nothing is lost."""
    done = program(
        """
        gate, inside = threading.Event(), threading.Event()
        pipe = define(lambda x: inside.set() or gate.wait() and x)
        threading.Thread(target=lambda: inside.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            pipe.run()
        except KeyboardInterrupt:
            gate.set()
            print(pipe.run()[0].as_array().tolist(), pipe.run()[0].as_array().tolist())
        """
    )
    assert done.stdout.strip() == "[0, 1, 2, 3] [4, 5, 6, 7]", done.stderr


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system cannot send a signal past a thread")
def test_sigint_that_does_not_end_the_wait():
    """Ctrl-C ends run() also if the signal did not interrupt its wait: it came just before, or another thread got it."""
    done = program(
        """
        gate, inside = threading.Event(), threading.Event()
        pipe = define(lambda x: inside.set() or gate.wait() and x)
        threading.Thread(target=lambda: inside.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            pipe.run()
        except KeyboardInterrupt:
            gate.set()
            print(pipe.run()[0].as_array().tolist())
        """
    )
    assert done.stdout.strip() == "[0, 1, 2, 3]", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_use_after_fork_is_refused():
    """In a forked child every call says why it cannot work; the parent goes on, and the child may build its own."""
    done = program(
        """
        import warnings
        warnings.simplefilter("ignore")
        pipe = define()
        pipe.run()
        child = os.fork()
        if child == 0:
            try:
                pipe.run()
            except RuntimeError as error:
                print("refused:", "built in another process" in str(error), flush=True)
            print(define().run()[0].as_array().tolist(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(pipe.run()[0].as_array().tolist())
        """
    )
    assert done.stdout.splitlines() == ["refused: True", "[0, 1, 2, 3]", "[4, 5, 6, 7]"], done.stderr


def test_sigterm_ends_a_busy_program():
    """A program in the middle of a batch dies of SIGTERM as any other."""
    code = PRELUDE + "pipe = define(lambda x: threading.Event().wait() and x)\nprint('up', flush=True)\npipe.run()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda data: fn.shapes(data.gpu(), device="cpu"), "use .cpu()"),
        (lambda data: fn.copy(data, device="gpu"), "use .gpu()"),
        (lambda data: fn.random.uniform(range=data.gpu()), "argument 'range' is on the GPU"),
        (lambda data: fn.python_function(data, function=print, device="mixed"), "use .gpu()|no mixed"),
    ],
)
def test_wrong_mixes_of_devices(use, text):
    """They are found while the pipeline is being defined, at the user's line."""

    @pipeline_def(batch_size=4, num_threads=1)
    def define():
        return use(fn.external_source(source))

    with pytest.raises(ValueError, match=text) as caught:
        define()
    assert any("test_executor.py" in note for note in caught.value.__notes__)


def test_a_caller_waits_at_a_gate_and_does_not_look_again_and_again(monkeypatch):
    """The function ends when its caller waits: one that only looked would need the processor all the time."""
    waits = threading.Event()

    class Told(ring.Gate):
        def wait(self, seconds=None):
            waits.set()
            super().wait(seconds)

    monkeypatch.setattr(ring, "Gate", Told)

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        return fn.python_function(
            fn.external_source(lambda: [np.zeros(1)]), function=lambda _: np.array(waits.wait(LONG))
        )

    assert define().run()[0].as_array().tolist() == [True]


@pytest.mark.parametrize(("given", "passed"), [(None, -1), (0.5, 0.5)])
def test_a_gate_without_a_limit_is_waited_at_until_it_opens(given, passed):
    """Minus one is how a lock says it."""
    seen = []
    gate = ring.Gate()
    gate._lock = SimpleNamespace(acquire=lambda timeout: seen.append(timeout))
    gate.wait(given)
    assert seen == [passed]


def sample_stage_of(pipe):
    """The stage of a pipeline that has one for samples."""
    pipe.build()
    (stage,) = [stage for stage in pipe._built().stages if isinstance(stage, SampleStage)]
    return stage


def test_chunks_do_not_shrink_because_threads_wait_for_processors(monkeypatch):
    """With four threads for each processor a sample takes four times as long by the clock, but it is not more work."""
    monkeypatch.setattr(surroundings, "available_cpus", lambda: 2)

    def chunk(count, seconds):
        pipe = pipeline_def(
            lambda: fn.cast(fn.external_source(source), dtype=types.FLOAT), batch_size=4, num_threads=2
        )()
        stage = sample_stage_of(pipe)
        stage._use(None)
        stage._seconds_per_sample = seconds
        return stage.chunk(64, count, 1)

    assert chunk(2, 2e-5) == 16
    assert chunk(8, 8e-5) == 11


def test_calls_of_a_function_that_may_wait_for_each_other_are_not_put_together():
    """However fast its first calls were, each sample has a thread of its own while there are threads."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(source), function=abs, parallel="threads"),
        batch_size=4,
        num_threads=4,
    )()
    stage = sample_stage_of(pipe)
    stage._seconds_per_sample = 1e-7
    assert [stage.chunk(left, 4, 1) for left in (4, 3, 2, 1)] == [1] * 4


def test_an_ended_thread_is_not_taken_for_the_present_one():
    """A new thread may get the number of a thread of the pipeline that has ended: it must still end the others."""
    crew, woken = Crew(1, affinity=False), []
    crew.workers = SimpleNamespace(let_go=lambda: woken.append(True))
    crew.threads = [SimpleNamespace(ident=threading.get_ident(), is_alive=lambda: False)]
    crew.let_go()
    assert woken
