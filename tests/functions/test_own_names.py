"""Local variables that have only objects of the call: `+=` on them changes nothing that others have."""

import dis

import numpy as np
import pytest

from pipeflow.operators.functions.own_names import own_names
from pipeflow.operators.functions.state import state_of

TABLE = np.arange(4.0)


def longest_run(x):
    longest = here = 0
    for value in x.tolist():
        if value:
            here += 1
            if here > longest:
                longest = here
        else:
            here = 0
    return np.int64(longest)


def weighted(x):
    total = 0.0
    text = ""
    parts = []
    for value in x:
        total += value * TABLE[0]
        text += str(value)
        parts += [value]
    return np.array([total, len(text), len(parts)])


def twice_and_one(x):
    y = x * 2
    y += 1
    y -= x
    return y


def grows(x):
    y = 0
    while y < 3:
        y += 1
        y = y + int(x[0])
    return y


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (longest_run, {"longest", "here"}),
        (twice_and_one, {"y"}),
        (grows, {"y"}),
        (weighted, {"total", "text", "parts"}),
    ],
)
def test_counters_and_sums_belong_to_the_call(function, names):
    """So any thread may call the function, and again for the same sample."""
    code = function.__code__
    assert own_names(code, [item for item in dis.get_instructions(code) if item.opname != "CACHE"]) == names
    assert state_of(function).changes_nothing


def test_a_function_with_counters_may_read_a_table():
    """Without them the code would not show that the table stays as it is."""
    state = state_of(weighted)
    assert state.shared == "TABLE"
    assert state.any_order


def argument(x):
    x += 1
    return x


def default(x, n=0):
    n += 1
    return x + n


def other_name(x):
    y = x
    y += 1
    return y


def two_names(x):
    y = z = x
    z += 1
    return y


def two_at_once(x):
    y, z = x, x
    z += 1
    return y


def item(x):
    y = x[0]
    y += 1
    return y


def item_in_place(x):
    x[0] += 1
    return x


def each(x):
    for y in x:
        y += 1
    return x


def one_of_two(x):
    y = 0 if x.sum() else x
    y += 1
    return y


def either(x):
    y = x is None or x
    y += 1
    return y


def later(x):
    y = 0
    y += 1
    y = x
    y += 1
    return y


def in_condition(x):
    if (y := x) is not None:
        y += 1
    return y


def table(x):
    y = TABLE
    y += x
    return y


def returned(x):
    y = np.asarray(x)
    y += 1
    return y


def of_the_function_around(x):
    y = 0

    def inner():
        nonlocal y
        y += x

    inner()
    return y


def matched(x):
    match x:
        case y:
            y += 1
    return x


@pytest.mark.parametrize(
    "function",
    [
        argument,
        default,
        other_name,
        two_names,
        two_at_once,
        item,
        item_in_place,
        each,
        one_of_two,
        either,
        later,
        in_condition,
        table,
        returned,
        of_the_function_around,
        matched,
    ],
)
def test_what_others_may_have_is_changed(function):
    """The object may come from outside of the call."""
    assert not state_of(function).changes_nothing
