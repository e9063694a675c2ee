"""Which functions travel to workers, and what is said of those that do not."""

import functools
import threading

import numpy as np
import pytest

from pipeflow.executor.workers.pool import WorkerPool
from pipeflow.saving import functions
from pipeflow.saving.functions import dumps_function, find_culprit

LOCK = threading.Lock()
OFFSET = 10


class Holder:
    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return x + self.value

    def method(self, x):
        return x * self.value


def local_with_lock():
    def use_lock(x):
        with LOCK:
            return x

    return use_lock


def test_functions_of_every_kind_travel():
    """Lambdas, closures, bound methods, callable objects, partials, ufuncs and functions with globals."""
    step = 3

    def closure(x):
        return x + step + OFFSET

    callables = [
        (lambda x: x + 1, 2),
        (closure, 14),
        (Holder(5), 6),
        (Holder(5).method, 5),
        (functools.partial(np.add, 4), 5),
        (np.negative, -1),
        (abs, 1),
    ]
    with WorkerPool(1) as pool:
        for function, expected in callables:
            [result] = pool.submit(pool.register(function), [(np.array(1),)]).result()
            assert result == expected


@pytest.mark.parametrize(
    ("make", "culprit"),
    [
        (local_with_lock, "global 'LOCK' (lock)"),
        (lambda: Holder(threading.Lock()), "attribute 'value' (lock)"),
        (lambda: Holder(threading.Lock()).method, "its object (Holder), in it attribute 'value' (lock)"),
        (lambda: functools.partial(use_number, threading.Lock()), "argument 0 of the partial (lock)"),
        (
            lambda: closure_over(Holder({"a": (i for i in ())})),
            "closure variable 'value' (Holder), in it attribute 'value' (dict), in it item 'a' (generator)",
        ),
    ],
)
def test_the_culprit_is_named(make, culprit):
    """What keeps a function from travelling is named by variable, attribute and type."""
    function = make()
    assert find_culprit(function) == culprit
    with pytest.raises(TypeError) as info:
        dumps_function(function)
    assert culprit in str(info.value)
    assert "cannot be sent to a worker process" in str(info.value)


def use_number(lock, x):
    return x


def closure_over(value):
    return lambda x: (x, value)


def test_a_large_capture_is_warned_about():
    """A function that drags a large array along says which."""
    table = np.zeros(20 << 20, np.uint8)

    def lookup(x):
        return table[x]

    with pytest.warns(UserWarning, match="is 20 MiB when sent .* 20 MiB of it for closure variable 'table'"):
        dumps_function(lookup)


def test_without_cloudpickle_the_command_is_named(monkeypatch):
    """A missing cloudpickle is one clear line."""
    monkeypatch.setattr(functions, "cloudpickle", None)
    with pytest.raises(ModuleNotFoundError, match="pip install cloudpickle"):
        WorkerPool(1)


def test_wrong_arguments_are_refused():
    """Numbers and names are checked where they are given."""
    with pytest.raises(ValueError, match="num_workers must be at least 1, got 0"):
        WorkerPool(0)
    with pytest.raises(ValueError, match="start_method must be one of 'forkserver', 'spawn', 'fork', got 'thread'"):
        WorkerPool(1, "thread")
    with pytest.raises(ValueError, match="timeout must be positive or None, got 0"):
        WorkerPool(1, timeout=0)
