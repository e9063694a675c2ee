"""Functions whose state is hidden are called in order by parallel="auto" and jit="auto"; those without state are not."""

import collections
import functools
import itertools
import operator
import re
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import pytest
import scipy
import scipy.fft
from scipy import cluster, optimize, sparse, stats
from scipy.spatial.transform import Rotation

from pipeflow import fn, pipeline_def
from pipeflow.operators.functions.state import state_of

IDS = collections.defaultdict(itertools.count().__next__)
SEEN, WAITING = {0}, collections.deque([1, 2])
RECORD = np.zeros(1, [("calls", int)])[0]
FIXED = np.arange(3.0)
FIXED.flags.writeable = False


class Whole(int):
    """A number that counts the additions."""

    def __add__(self, other):
        SEEN.add(len(SEEN))
        return len(SEEN) + other


class Counting(np.ndarray):
    """An array that counts its views."""

    def __array_finalize__(self, other):
        SEEN.add(len(SEEN))


class Pair(tuple):
    """A tuple with a method that keeps state."""

    def drawn(self):
        return WAITING.pop()


class Items(list):
    """A list that counts who reads it."""

    def __getitem__(self, place):
        return WAITING.pop()


NUMBER, VIEWED, PAIR, ITEMS = Whole(3), FIXED.view(Counting), Pair((1, 2)), Items([1])
VIEWED.flags.writeable = False


def records(x):
    RECORD["calls"] += 1
    return x * RECORD["calls"]


@pytest.mark.parametrize(
    "function",
    [
        records,
        lambda x: x * IDS[int(x[0])],
        lambda x: x + NUMBER,
        lambda x: x + VIEWED,
        lambda x: x * PAIR.drawn(),
        lambda x: x * ITEMS[0],
        lambda x: SEEN.difference_update({0}) or x * len(SEEN),
        lambda x: SEEN.symmetric_difference_update({0}) or x * len(SEEN),
        lambda x: WAITING.rotate(1) or x * WAITING[0],
        lambda x: operator.attrgetter("add")(SEEN)(1) or x,
        lambda x: FIXED.setflags(write=True) or x,
        lambda x: x + stats.norm.rvs(size=3),
        lambda x: stats.bootstrap((x,), np.mean).standard_error + x,
        lambda x: sparse.random(3, 3) + x,
        lambda x: cluster.vq.kmeans2(x[:, None], 2)[0],
        lambda x: Rotation.random().apply(x),
        lambda x: optimize.differential_evolution(np.sum, [(0, 1)]).x,
        lambda x: cv2.kmeans(x, 2, None, (3, 10, 1.0), 3, cv2.KMEANS_RANDOM_CENTERS)[2],
        lambda x: cv2.grabCut(x, None, (0, 0, 1, 1), None, None, 1)[0],
        lambda x: scipy.fft.set_global_backend("scipy") or x,
        functools.partial(lambda x, seen: seen.append(1) or x, seen=[]),
        functools.partial(lambda x, draw: x * draw(), draw=np.random.default_rng(0).random),
    ],
)
def test_state_that_is_hidden_keeps_the_order(function):
    """In classes that are derived from plain ones, in methods that change a set, and in functions of libraries."""
    assert not state_of(function).any_order


CALLS, LIMITS, NAMES = {"count": 0}, {"low": 1}, [1]


def count_calls(x):
    CALLS["count"] += 1
    return x


def add_names(x):
    NAMES.append(x[0])
    return x


def reads_limits(x):
    result = {}
    result["low"] = LIMITS["low"]
    return x * result["low"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * CALLS["count"], "it uses CALLS, which count_calls changes"),
        (lambda x: x * len(NAMES), "it uses NAMES, which add_names changes"),
    ],
)
def test_what_another_function_of_the_module_changes_is_state(function, reason):
    """The function only reads it, but the order of the calls of both decides what it finds."""
    assert state_of(function).reason == reason


def test_tables_that_no_function_changes_are_no_state():
    """Other functions read them too."""
    assert not state_of(lambda x: x * LIMITS["low"]).reason


def _reader_of(table):
    return lambda x: x * table["k"]


def _writers():
    """Functions that change a dict or an array, with the one that reads it."""

    def beside():
        table = {"k": 1.0}

        def change(x):
            table["k"] += 1
            return x

        return (lambda x: x * table["k"]), change

    def of_another():
        given = {"k": 1.0}

        def around(held):
            def change(x):
                held.update(k=2.0)
                return x

            return change

        return _reader_of(given), around(given)

    def of_a_part():
        table = {"k": np.ones(3), "n": {"m": 1}}

        def change(x):
            table["n"]["m"] = 2
            return x

        return _reader_of(table), change

    def of_a_slice():
        numbers = np.ones(4)

        def change(x):
            def inner():
                numbers[1:3] = x[0]

            inner()
            return x

        return (lambda x: x * numbers[:3]), change

    return beside, of_another, of_a_part, of_a_slice


@pytest.mark.parametrize("made", _writers(), ids=lambda made: made.__name__)
def test_what_a_function_beside_it_changes_is_state(made):
    """Both have it from the function around them, perhaps with another name."""
    reads, change = made()
    assert re.fullmatch("it uses (table|numbers), which (change|inner) changes", state_of(reads).reason)
    del change
    assert not state_of(reads).reason


def test_a_function_that_is_made_later_may_change_what_an_earlier_one_reads():
    """The first one has been read when the second one is made, and yet does not run on several threads."""
    table, seen = {"k": 0.0}, []

    def change(x):
        table["k"] += 1
        return x

    def pipe_with(later):
        def define():
            data = fn.external_source(lambda: [np.ones(2)] * 4)
            read = fn.python_function(data, function=_reader_of(table), parallel="auto")
            return read, fn.python_function(data, function=later)

        pipe = pipeline_def(define, batch_size=4, num_threads=2)()
        pipe.build()
        return [choice.reason for choice in pipe.settings() if choice.name.startswith("parallel of")]

    del change
    (reason,) = pipe_with(np.copy)
    assert reason.startswith("its code shows no state")

    def made_later(x):
        table["k"] += 1
        seen.append(x)
        return x

    assert pipe_with(made_later) == ["it uses table, which made_later changes"]


def test_what_several_functions_only_read_is_no_state():
    """The function around them fills the table before it makes them."""
    table = {}
    table["k"] = 2.0

    def reads(x):
        out = {}
        out["k"] = table["k"]
        out[table["k"]] = table.get("n")
        return x * out["k"]

    assert not state_of(reads).reason


@dataclass(frozen=True)
class Settings:
    """Options of a function."""

    size: int = 2
    scale: float = 0.5


class Named(NamedTuple):
    """The same with names."""

    size: int
    scale: float


SETTINGS, NAMED = Settings(), Named(2, 0.5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: SETTINGS.size] * SETTINGS.scale,
        lambda x: x[: NAMED.size] * NAMED.scale,
        lambda x: x * sum(float(number) for number in x),
        lambda x: x * next(iter(x)),
        lambda x: x if type(x) is np.ndarray and hasattr(x, "shape") else np.array(x),
        lambda x: np.abs(scipy.fft.fft(x)),
        functools.partial(lambda x, factor: x * factor, factor=2.0),
    ],
)
def test_functions_without_state_may_run_in_any_order(function):
    """With settings that cannot change, generators of their own, and arguments that are given before."""
    assert state_of(function).any_order


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"parallel": "auto"}, "its code shows no state"), ({"jit": "auto"}, "it is not a plain function")],
)
def test_a_partial_function_may_run_on_threads_and_is_not_compiled(options, reason):
    """The settings of the pipeline say why."""
    scaled = functools.partial(lambda x, factor: x * factor, factor=2.0)
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(lambda: [np.ones(2)] * 2), function=scaled, **options),
        batch_size=2,
        num_threads=2,
    )()
    assert np.array_equal(pipe.run()[0].at(0), [2.0, 2.0])
    assert next(choice for choice in pipe.settings() if " of " in choice.name).reason.startswith(reason)
