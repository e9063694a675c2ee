"""Functions of one sample with ``parallel="threads"`` that do not depend on each other run at the same time."""

import threading

import numpy as np
import pytest
from helpers import LONG

from pipeflow import Spec, fn, pipeline_def, types
from pipeflow.errors import FunctionTimeout

DATA = [np.full(2, value, np.float32) for value in range(4)]


def run(definition, batches=2, batch_size=4, num_threads=2, **arguments):
    """The batches of a pipeline as lists of lists of arrays."""
    arguments = {"device_id": None, "seed": 3, **arguments}
    pipe = pipeline_def(batch_size=batch_size, num_threads=num_threads, **arguments)(definition)()
    made = [pipe.run() for _ in range(batches)]
    return [[[np.asarray(x).tolist() for x in output] for output in batch] for batch in made]


def test_a_function_waits_for_another_strand_only_with_those_it_meets():
    """Of two functions of one result, one also reads another result: both run in the next stage, side by side."""

    def own(*inputs):
        return fn.python_function(*inputs, function=lambda *arrays: arrays[0], parallel="threads")

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        data = fn.external_source(lambda: DATA)
        one, other, third = own(data), own(data), own(data)
        return own(one), own(other, third), own(other)

    pipe = define()
    pipe.build()
    assert [stage.strands for stage in pipe.plan.stages] == [(), (1, 1, 1), (1, 1, 1)]


def test_a_thread_goes_on_from_a_strand_to_a_stage_without_strands():
    """The thread that ends the last strand of a batch takes the next stage of it."""

    def called(function, *inputs, parallel="threads"):
        return fn.python_function(*inputs, function=function, parallel=parallel)

    def definition():
        data = fn.external_source(lambda: DATA)
        both = called(lambda a, b: a + b, called(lambda x: x * 2, data), called(lambda x: x + 1, data))
        return called(lambda x: x - 1, both, parallel="serial")

    expected = [[(3 * x).tolist() for x in DATA]]
    assert run(definition, batches=20) == [expected] * 20


def meeting(count):
    """A function that returns when ``count`` calls are there, and adds ``amount``."""
    barrier = threading.Barrier(count, timeout=LONG)

    def meet(amount):
        def add(x):
            barrier.wait()
            return x + np.float32(amount)

        return lambda data: fn.python_function(data, function=add, parallel="threads")

    return meet


class Float(np.ndarray):
    """An array of another class."""


ODD = {
    "another type": (lambda x: x.astype(np.int32), None),
    "a tuple": (lambda x: (x + 1,), None),
    "a number": (lambda x: float(x[0]), None),
    "a list": (lambda x: x.tolist(), None),
    "a view of another class": (lambda x: x.view(Float), None),
    "nothing": (lambda x: None, None),
    "another shape": (lambda x: x[:1], None),
    "another number of axes": (lambda x: x[None], None),
    "a type without a number": (lambda x: x.astype("datetime64[s]"), None),
    "not as declared": (lambda x: x[:1], Spec(np.float32, (2,))),
    "not the declared type": (lambda x: x.astype(np.float64), Spec(np.float32, (None,))),
    "as declared": (lambda x: x + 1, Spec(np.float32, (None,), "C")),
    "a shorter one as declared": (lambda x: x[:1], Spec(np.float32, (None,))),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("rng", [False, True])
def test_results_are_checked_after_ordinary_ones(name, rng):
    """The third sample has an odd result, or an error, and it is that of a function whose calls come one after another."""
    change, outputs = ODD[name]

    def plain(x):
        return change(x) if x[0] == 2 else x

    def drawing(x, rng):
        return change(x) if x[0] == 2 else x + rng.random(dtype=np.float32)

    def outcome(parallel):
        function = drawing if rng else plain
        named = {"function": function, "parallel": parallel, "outputs": outputs}
        try:
            return run(lambda: (fn.python_function(source(), **named),))
        except Exception as error:
            return type(error), str(error)

    threads, serial = outcome("threads"), outcome("serial")
    if isinstance(serial, tuple) and isinstance(threads, tuple):
        assert issubclass(serial[0], threads[0])  # samples that differ are noticed when the whole batch is compared
    else:
        assert threads == serial


def plus(amount):
    return [[value + amount] * 2 for value in range(4)]


def source():
    return fn.external_source(lambda iteration: DATA, batch=True)


@pytest.mark.parametrize("num_threads", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [2, 3])
def test_functions_of_one_sample_meet(count, num_threads):
    """Two or three functions that wait for each other return, whatever the number of threads."""
    meet = meeting(count)
    batches = run(lambda: tuple(meet(k)(data) for data in [source()] for k in range(count)), 3, num_threads=num_threads)
    assert batches == [[plus(k) for k in range(count)]] * 3


def test_functions_meet_without_threads():
    """A pipeline that makes its batches in the caller's thread has a thread for every function all the same."""
    meet = meeting(2)
    batches = run(lambda: (meet(1)(source()), meet(2)(source())), exec_async=False, exec_pipelined=False)
    assert batches == [[plus(1), plus(2)]] * 2


@pytest.mark.parametrize("first", [True, False])
def test_one_waits_for_the_other(first):
    """A function may wait for another one of its sample, whichever is first in the graph."""
    events = [threading.Event() for _ in DATA]

    def wait(x):
        assert events[int(x[0])].wait(LONG)
        return x

    def tell(x):
        events[int(x[0])].set()
        return x

    def definition():
        data = source()
        calls = [
            fn.python_function(data, function=f, parallel="threads") for f in ([wait, tell] if first else [tell, wait])
        ]
        return tuple(calls)

    assert run(definition, 1) == [[plus(0), plus(0)]]


def test_chains_before_and_after_the_functions():
    """What functions read, and what is made of their results, may be common to them."""
    meet = meeting(3)

    def definition():
        data = source() * 2
        one, two = meet(1)(data + 1), meet(2)(data)
        three = meet(3)(fn.cast(source(), dtype=types.FLOAT))
        both = fn.cat(one, two) + 1
        return both, fn.python_function(three, function=lambda x: x * 2, parallel="threads")

    both, doubled = run(definition, 1)[0]
    assert both == [[2 * k + 3.0] * 4 for k in range(4)]
    assert doubled == [[2 * (k + 3.0)] * 2 for k in range(4)]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_functions_in_a_branch(num_threads):
    """Functions of one branch meet, for the samples that take it; those of the two branches do not wait for each other."""
    meet = meeting(2)

    def definition():
        data = source()
        if fn.reductions.sum(data) > 2:
            one, two = meet(1)(data), meet(2)(data)
        else:
            one, two = fn.python_function(data, function=lambda x: -x, parallel="threads"), data
        return one, two

    one, two = run(definition, 1, num_threads=num_threads, enable_conditionals=True)[0]
    assert one == [[0, 0], [-1, -1], [3, 3], [4, 4]]
    assert two == [[0, 0], [1, 1], [4, 4], [5, 5]]


def test_functions_of_two_branches_are_one_strand():
    """No sample is in both branches, so nothing can wait and nothing is divided."""

    def definition():
        data = source()
        if fn.reductions.sum(data) > 2:
            data = fn.python_function(data, function=lambda x: -x, parallel="threads")
        else:
            data = fn.python_function(data, function=lambda x: x + 1, parallel="threads")
        return data

    pipe = pipeline_def(batch_size=4, num_threads=2, device_id=None, enable_conditionals=True)(definition)()
    pipe.build()
    assert "side by side" not in str(pipe.plan)


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(
    ("rule", "one", "two"),
    [
        ("replace", [1, 3, 3, 4], [2, 4, 4, 5]),
        ("skip", [1, 3, 4], [2, 4, 5]),
        (np.float32([7, 7]), [1, 7, 3, 4], [2, 3, 4, 5]),
    ],
    ids=["replace", "skip", "value"],
)
def test_a_failure_in_one_of_them(rule, one, two, num_threads):
    """The rule for failures holds as elsewhere, and a sample that is made again meets again."""
    meet = meeting(2)

    def fail(x):
        if x[0] == 2:
            raise ValueError("two")
        return x

    def definition():
        data = source()
        failing = fn.python_function(meet(1)(data), function=fail, parallel="threads", on_error=rule)
        return failing, meet(2)(data)

    (batch,) = run(definition, 1, num_threads=num_threads)
    assert [[row[0] for row in output] for output in batch] == [one, two]


def test_the_first_failure_is_reported():
    """Of two functions that both fail for a sample the error is that of the first in the graph, whichever comes first."""
    barrier = threading.Barrier(2, timeout=LONG)
    second_failed = threading.Event()

    def first(x):
        barrier.wait()
        assert second_failed.wait(LONG)
        raise ValueError("first")

    def second(x):
        barrier.wait()
        second_failed.set()
        raise KeyError("second")

    def definition():
        data = source()
        return [fn.python_function(data, function=f, parallel="threads") for f in (first, second)]

    with pytest.raises(ValueError, match="first"):
        run(lambda: tuple(definition()), batch_size=4)


def test_a_pipeline_closes_while_functions_meet(gate):
    """A function that has begun meets the other one although the pipeline is being closed, and no thread is left."""
    begun = threading.Event()
    met = []
    barrier = threading.Barrier(2, timeout=LONG)

    def slow(x):
        begun.set()
        gate.wait()
        barrier.wait()
        met.append(1)
        return x

    def other(x):
        barrier.wait()
        met.append(2)
        return x

    @pipeline_def(batch_size=1, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def definition():
        data = fn.external_source(lambda: DATA[:1], batch=True)
        return tuple(fn.python_function(data, function=f, parallel="threads") for f in (slow, other))

    pipe = definition()
    pipe.build()
    pipe.schedule_run()
    assert begun.wait(LONG)
    gate.open()
    pipe._executor.close()
    assert met.count(1) == met.count(2)


def test_random_numbers_and_checkpoints_do_not_depend_on_threads():
    """The same batches with one thread and three, and after going on from a checkpoint."""

    def definition():
        data = source()
        noise = fn.python_function(data, function=lambda x, rng: x + np.float32(rng.random()), parallel="threads")
        other = fn.python_function(data, function=lambda x, rng: x * np.float32(rng.random()), parallel="threads")
        return noise, other

    one, three = [run(definition, 3, num_threads=threads) for threads in (1, 3)]
    assert one == three
    arguments = {"batch_size": 4, "num_threads": 2, "device_id": None, "seed": 3, "enable_checkpointing": True}
    pipe = pipeline_def(**arguments)(definition)()
    pipe.run()
    again = pipeline_def(**arguments, checkpoint=pipe.checkpoint())(definition)()
    assert [[np.asarray(x).tolist() for x in output] for output in again.run()] == one[1]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_time_limit_ends_a_meeting_that_fails(num_threads, gate):
    """A function that waits in vain is an error after its time limit."""

    def definition():
        data = fn.external_source(lambda: DATA[:1], batch=True)
        waits = fn.python_function(data, function=lambda x: gate.wait() or x, parallel="threads", timeout=0.05)
        return waits, fn.python_function(data, function=lambda x: x, parallel="threads")

    with pytest.raises(FunctionTimeout):
        run(definition, 1, batch_size=1, num_threads=num_threads, prefetch_queue_depth=1)


def test_pure_and_compiled_functions_stay_together():
    """Functions that wait for nothing are not divided: pure ones, and those that Numba compiles."""

    def definition():
        data = source()
        pure = [fn.numpy_function(f, [data], np.float32, stateful=False) for f in (lambda x: x, lambda x: x + 1)]
        return (*pure, fn.python_function(data, function=lambda x: x, jit=True, outputs=Spec(np.float32, (2,))))

    pipe = pipeline_def(batch_size=4, num_threads=2, device_id=None)(definition)()
    pipe.build()
    assert "side by side" not in str(pipe.plan)


def test_the_only_function_on_threads_is_apart_from_operators():
    """It can wait for no other, so operators before and after it stay in their chains. Two functions stay with operators."""

    def stages(count):
        def definition():
            data = fn.flip(source(), horizontal=1)
            made = [fn.python_function(data, function=lambda x: x, parallel="threads") for _ in range(count)]
            return tuple(fn.flip(each, horizontal=1) for each in made)

        pipe = pipeline_def(batch_size=4, num_threads=2, device_id=None)(definition)()
        pipe.build()
        return [[step.op for step in stage.steps] for stage in pipe.plan.stages[1:]]

    assert stages(1) == [["flip"], ["python_function"], ["flip"]]
    assert any({"flip", "python_function"} <= {*names} for names in stages(2))
