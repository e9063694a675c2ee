"""The rules of conditional execution, one test each.

The functions under test are written as users write them, not as a linter would have them.
"""
# ruff: noqa: B023, C417, E741, F841, RUF015, RUF034, RUF046, SIM223, UP028

import collections
import contextlib
import functools
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pytest
from conditional_harness import NUMBERS, B, agree, batch, data, operators, pipeline, pyfn, single, unknown
from helpers import LONG

from pipeflow import autograph_guard as guard
from pipeflow import fn, pipeline_def, types

HERE = "test_conditional_rules.py"


TRACED = []


def trace(value=None):
    """Notes at module level, out of sight of the branches, that this line was traced."""
    TRACED.append(value)


def line_of(function, text):
    """The number of the line of a function that holds some text."""
    lines, first = __import__("inspect").getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


def fails(function, *sources, error=RuntimeError, match=".", **options):
    """The message of the error that building or running raises."""
    with pytest.raises(error, match=match) as caught:
        batch(function, *sources, **options)
    return str(caught.value)


def fails_at_build(function, *sources, error=RuntimeError, match=".", **options):
    """The message of the error that building alone raises."""
    with pytest.raises(error, match=match) as caught:
        pipeline(function, *sources, **options).build()
    return str(caught.value)


# What is a conditional


def test_only_a_data_node_is_a_condition():
    """Plain Python values, arrays included, choose one branch and add no node."""
    calls = []

    def f(i):
        if np.array(True):
            calls.append("if")
            i = i + 1
        else:
            calls.append("else")
        return i if not False else i * 2

    assert batch(f) == [1, 2, 3, 4, 5, 6]
    assert calls == ["if"]
    assert "_merge" not in operators(f)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64]
)
def test_any_numeric_predicate(dtype):
    """Whatever the numeric type, non-zero is true, and so is NaN."""

    def f(i):
        if i:
            r = 1
        else:
            r = 0
        return r

    values = NUMBERS.astype(dtype)
    if np.issubdtype(dtype, np.floating):
        values[5] = np.nan
    assert batch(f, lambda: data(values)) == [0, 1, 1, 1, 1, 1]


def test_a_predicate_is_one_number_per_sample():
    """A predicate with axes is refused while the graph is built where that is known, else in the first batch."""

    def f(i):
        if i:
            r = 1
        else:
            r = 0
        return r

    where = f"{HERE}:{line_of(f, 'if i:')}"
    assert where in fails_at_build(
        f, lambda: data(np.ones((B, 2))), match=r"must be one number per sample \(0-d\), got 1-d"
    )
    assert where in fails_at_build(f, lambda: data(np.ones((B, 1))), match="0-d")
    text = fails(f, lambda: unknown(np.ones((B, 2))), match=r"must be one number per sample \(0-d\), got shape \(2,\)")
    assert where in text
    assert "fn.reductions" in text


def test_a_predicate_is_on_the_cpu():
    """A GPU predicate is an error that names the line of the `if` and says .cpu()."""

    def f(i):
        if i.gpu():
            r = 1
        else:
            r = 0
        return r

    text = fails_at_build(f, error=ValueError, match=r"is on the GPU.*\.cpu\(\)", device_id=0)
    assert f"{HERE}:{line_of(f, 'if i.gpu')}" in text


def test_a_constant_node_is_a_predicate():
    """Both branches of a condition on a Constant node are recorded."""
    seen = []

    def f(i):
        if types.Constant(True):
            seen.append(1)
            r = i
        else:
            seen.append(2)
            r = i + 100
        return r

    def g(i):
        if types.Constant(np.int32(1)):
            r = i
        else:
            r = i + 100
        return r

    assert batch(f) == [0, 1, 2, 3, 4, 5]
    assert batch(g) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("construct", ["if", "not", "and", "bool"])
def test_without_the_feature_a_truth_test_says_how_to_get_it(construct):
    """With conditional execution off, the error names it and the alternative."""

    def f(i):
        if construct == "if":
            if i:
                pass
        elif construct == "not":
            i = not i
        elif construct == "and":
            i = i and i
        else:
            bool(i)
        return i

    text = fails_at_build(f, error=TypeError, match="conditional execution is off", conditionals=False)
    assert "enable_conditionals=True" in text
    assert "f()" in text


def test_what_cannot_be_per_sample_is_named():
    """while, assert, in, bool, min, any and filters on a node raise TypeError with the construct and an alternative."""

    def loop(i):
        while i < 3:
            i = i + 1
        return i

    def check(i):
        assert i < 10
        return i

    def member(i):
        return i if i in [1, 2] else i

    def cast(i):
        return i if bool(i) else i

    def smallest(i):
        return min(i, 3)

    def some(i):
        return i if any(x < 3 for x in [i, i]) else i

    def kept(i):
        return [x for x in [i, i] if x < 3][0]

    expected = {
        loop: "`while`.*the loop count",
        check: "`assert`",
        member: "`in`.*x == a or x == b",
        cast: r"`bool\(\)`",
        smallest: r"`min\(\)`",
        kept: "filter of a comprehension",
    }
    for function, match in expected.items():
        text = fails_at_build(function, error=TypeError, match=match)
        assert f"{HERE}:" in text
        assert "enable_conditionals" not in text
    fails_at_build(some, error=TypeError, match="no single truth value")


def test_a_node_cannot_be_iterated():
    """`for x in node` is a TypeError in clean words."""

    def f(i):
        for _ in i:
            pass

    assert "iterate" in fails_at_build(f, error=TypeError)


def test_is_none_is_plain_python():
    """`node is None` is False."""

    def f(i):
        return 1 if i is None else i

    agree(f)


def test_chained_comparison():
    """`a < node < b` acts per sample and asks the second half only where the first holds."""
    seen = []

    def upper(x):
        seen.append(int(x))
        return np.int32(4)

    def f(i):
        return 1 < i < pyfn(i, function=upper)

    assert batch(f) == [False, False, True, True, False, False]
    assert seen == [2, 3, 4, 5]

    def g(i):
        return 1 < i < 4

    agree(g)


# Splitting and merging


def test_outer_values_are_seen_through_every_predicate():
    """A value of the outside is the same node in every branch, however deep; nothing moves it."""

    def f(i):
        if i < 6:
            if i < 5:
                if i < 4:
                    if i < 3:
                        if i < 2:
                            r = i + 10
                        else:
                            r = i + 20
                    else:
                        r = i + 30
                else:
                    r = i + 40
            else:
                r = i + 50
        else:
            r = i
        return r

    agree(f)
    assert operators(f).count("_merge") == 5
    assert not any("split" in name for name in operators(f))


def test_both_branches_are_traced():
    """An exception in a branch is raised while the graph is built, and its note says why."""

    def f(i):
        if i < 3:
            raise ValueError("mine")
        return i

    with pytest.raises(ValueError, match="mine") as caught:
        pipeline(f).build()
    notes = "\n".join(caught.value.__notes__)
    assert "both branches" in notes
    assert f"{HERE}:{line_of(f, 'if i < 3')}" in notes


def test_elif_and_nested_ifs():
    """elif is an if in the else."""

    def f(i):
        if i < 2:
            r = i * 10
        elif i < 4:
            r = i * 100
        else:
            r = i * 1000
        return r

    agree(f)


def test_a_prior_value_stays_where_a_branch_does_not_assign():
    """A variable assigned in one branch keeps its value in the other."""

    def f(i):
        r = i * 0
        if i < 3:
            r = i + 1
        return r

    assert batch(f) == [1, 2, 3, 0, 0, 0]


def test_a_variable_without_a_value_in_one_branch_is_an_error_at_its_use():
    """E4 names the variable, the branch and the line of the condition."""

    def f(i):
        if i < 3:
            r = i
        return r + 1

    def g(i):
        if i < 3:
            pass
        else:
            r = i
        return r

    text = fails_at_build(f, match="variable 'r' cannot be used here: it has no value in the `else` branch")
    assert f"{HERE}:{line_of(f, 'if i < 3')}" in text
    assert "default before the `if`" in text
    fails_at_build(g, match="no value in the `if` branch")


def test_a_temporary_of_one_branch_is_fine():
    """A variable that is not used later needs no value in the other branch."""

    def f(i):
        if i < 3:
            twice = i * 2
            r = twice + 1
        else:
            r = i
        return r

    agree(f)


def test_deleting_in_a_branch():
    """`del` in one branch is fine when the variable is not used later, and an error at the use otherwise."""

    def unused(i):
        t = i + 1
        if i < 3:
            r = t
            del t
        else:
            r = i
        return r

    def used(i):
        t = i + 1
        if i < 3:
            del t
        return t + 1

    agree(unused)
    fails_at_build(used, match="variable 't'.*no value in the `if` branch")


def test_correlated_conditions_are_not_analysed():
    """Two ifs on the same predicate do not make a half-assigned variable usable."""

    def f(i):
        p = i < 3
        if p:
            x = i
        if p:
            y = x + 1
        else:
            y = i
        return y

    fails_at_build(f, match="variable 'x'.*`else` branch")


def test_types_must_agree():
    """E8 while the graph is built where the types are known, in the first batch with samples of both sides otherwise."""

    def f(i):
        if i < 100:
            r = i
        else:
            r = i / 2
        return r

    text = fails_at_build(f, match="'r': int32 0-d in the `if` branch")
    assert "float32 0-d in the `else` branch" in text
    assert "fn.cast" in text
    assert f"{HERE}:{line_of(f, 'r = i / 2')}" in text

    def g(i):
        if i < 3:
            r = pyfn(i, function=lambda x: x)
        else:
            r = pyfn(i, function=lambda x: x / np.float32(2))
        return r

    text = fails(g, match="'r'")
    assert "int32" in text
    assert "float64" in text

    def declared(i):
        if i < 100:
            r = pyfn(i, function=lambda x: x.astype(np.float64))
        else:
            r = i + 1
        return r

    assert batch(declared) == [0, 1, 2, 3, 4, 5]  # no sample takes the `else` branch


def test_dimensions_and_layouts_must_agree():
    """Different numbers of axes or layouts are an error while the graph is built; no layout takes the other's."""
    image = np.zeros((B, 2, 2, 3), np.uint8)

    def merged(first, second):
        def f(i, a, b):
            if i < 3:
                r = a
            else:
                r = b
            return r

        sources = (data, lambda: data(image, layout=first), lambda: data(image, layout=second))
        return f, sources

    f, sources = merged("HWC", "CHW")
    fails_at_build(f, *sources, match="'r': uint8 HWC in the `if` branch.*uint8 CHW in the `else` branch")
    for first, second in (("HWC", None), (None, "HWC"), ("HWC", "HWC")):
        f, sources = merged(first, second)
        pipe = pipeline(f, *sources)
        pipe.build()
        assert pipe.run()[0].layout() == "HWC"

    def axes(i):
        if i < 3:
            r = i
        else:
            r = data(np.zeros((B, 2), np.int32))
        return r

    fails_at_build(axes, match="'r': int32 0-d in the `if` branch.*int32 1-d")

    def unknown_axes(i):
        if i < 3:
            r = pyfn(i, function=lambda x: np.stack([x, x]))
        else:
            r = i
        return r

    fails(unknown_axes, match="'r'.*(1-d|\\(2,\\)).*(0-d|\\(\\))")


def test_shapes_need_not_agree():
    """Branches may give samples of different shapes."""

    def f(i):
        if i < 3:
            r = pyfn(i, function=lambda x: np.stack([x, x]))
        else:
            r = pyfn(i, function=lambda x: np.stack([x, x, x]))
        return r

    assert batch(f) == [[0, 0], [1, 1], [2, 2], [3, 3, 3], [4, 4, 4], [5, 5, 5]]


def test_devices_must_agree():
    """A GPU and a CPU value cannot be merged; the message has variable, branches and lines."""

    def f(i):
        if i < 3:
            r = i.gpu()
        else:
            r = i
        return r

    text = fails_at_build(f, match="'r' is on GPU in the `if` branch", device_id=0)
    assert "on CPU in the `else` branch" in text
    assert f"{HERE}:{line_of(f, 'r = i.gpu')}" in text


def test_the_message_suggests_a_cast():
    """A type that an operator changed on its way is met by the advice fn.cast."""

    def f(i):
        if i < 3:
            r = i * np.int64(2)
        else:
            r = i
        return r

    text = fails_at_build(f, match=r"fn\.cast")
    assert "int64" in text
    assert "int32" in text


# Constants and Python objects


def test_constants_become_nodes():
    """Numbers, bools and arrays that differ are merged as constants, which have 32 bits."""

    def f(i):
        if i < 3:
            a, b, c = 7, True, np.zeros(2)
        else:
            a, b, c = 9, False, np.ones(3)
        return a, b, c

    assert batch(f) == single(f)
    pipe = pipeline(f)
    pipe.build()
    assert [output.dtype for output in pipe.run()] == [types.INT32, types.BOOL, types.FLOAT]


def test_python_numbers_take_the_type_of_the_other_side():
    """A Python number adopts the dtype of the node it meets, if it fits."""

    def f(i):
        x = i * np.float32(1)
        if i < 3:
            r, q, s = x, i, 1
        elif i < 5:
            r, q, s = 0, 5, 2
        else:
            r, q, s = 1.5, True, x
        return r, q, s

    pipe = pipeline(f)
    pipe.build()
    outputs = pipe.run()
    assert [output.dtype for output in outputs] == [types.FLOAT, types.INT32, types.FLOAT]
    assert [x.tolist() for x in map(np.asarray, outputs)] == [
        [0, 1, 2, 0, 0, 1.5],
        [0, 1, 2, 5, 5, 1],
        [1, 1, 1, 2, 2, 5],
    ]

    def lossy(i):
        if i < 3:
            r = i
        else:
            r = 1.5
        return r

    fails_at_build(lossy, match="'r': int32 0-d in the `if` branch.*float32")

    def too_big(i):
        r = 300
        if i < 3:
            r = i * np.uint8(1) if False else data(np.zeros(B, np.uint8))
        return r

    fails_at_build(too_big, match="'r': uint8")

    def late(i):
        r = 1
        if i < 3:
            r = pyfn(i, function=lambda x: np.float64(x))
        return r

    assert batch(late) == [0, 1, 2, 1, 1, 1]


def test_equal_python_values_stay_python():
    """The same number in both branches is still a number."""

    def f(i):
        if i < 3:
            n = 2
        else:
            n = 2
        r = i
        for _ in range(n):
            r = r + 1
        return r

    agree(f)


def test_a_variable_that_is_only_read_stays_python():
    """Reading in branches makes no node."""

    def f(i):
        n = 3
        if i < 3:
            r = i * n
        else:
            r = i + n
        return r * len(range(n))

    agree(f)


def test_python_objects():
    """The same object or an equal value stays; two different ones are an error at the use, with both values."""
    thing = object()

    def same(i):
        if i < 3:
            mode, what, r = "a", thing, i
        else:
            mode, what, r = "a", thing, i * 2
        assert what is thing
        return r + 1 if mode == "a" else r

    agree(same)

    def unused(i):
        if i < 3:
            mode = "a"
            r = i
        else:
            mode = "b"
            r = i * 2
        return r

    agree(unused)

    def used(i):
        if i < 3:
            mode = "a"
        else:
            mode = "b"
        return i * 2 if mode == "a" else i

    fails_at_build(used, error=TypeError, match="variable 'mode'.*cannot be merged.*str 'a' .if. vs str 'b' .else.")


def test_none():
    """None in both branches stays None; None against a node is an error at the use."""

    def both(i):
        if i < 3:
            r, q = None, i
        else:
            r, q = None, i + 1
        assert r is None
        return q

    agree(both)

    def mixed(i):
        r = None
        if i < 3:
            r = i
        return r + 1

    fails_at_build(mixed, error=ValueError, match="a DataNode .if. vs None .else.")


def test_a_merged_flag_is_a_condition():
    """A Python flag that differs between branches becomes a node, and an if on it acts per sample."""

    def f(i):
        flag = False
        if i < 3:
            flag = True
        return i * 10 if flag else i

    agree(f)


# Structures and mutation

Pair = collections.namedtuple("Pair", "x y")


class Thing:
    """An object with attributes."""


def test_structures_are_merged_leaf_by_leaf():
    """Tuples, lists, dicts and namedtuples, nested; a mismatch of type, length or keys is an error at the use."""

    def f(i):
        if i < 3:
            d, p = {"a": i, "b": (i, [1])}, Pair(i, i + 1)
        else:
            d, p = {"a": i * 0, "b": (i * 2, [i])}, Pair(i * 10, i)
        assert isinstance(p, Pair)
        return d["a"], d["b"][0], d["b"][1][0], p.x, p.y

    agree(f)

    def length(i):
        r = [i, 2] if i < 3 else [i]
        return r[0]

    def keys(i):
        if i < 3:
            r = {"a": i}
        else:
            r = {"b": i}
        return r["a"]

    def kinds(i):
        if i < 3:
            r = (i, i)
        else:
            r = [i, i]
        return r[0]

    fails_at_build(length, error=ValueError, match="is a list of different length: 2 .if. vs 1 .else.")
    fails_at_build(keys, error=ValueError, match="dicts with different keys")
    fails_at_build(kinds, error=ValueError, match="variable 'r'.*cannot be merged")


def test_stores_into_containers():
    """Items and attributes stored in a branch are merged; one that exists on one side only is an error at its use."""

    def f(i):
        d, l, o = {"a": i}, [i], Thing()
        o.attr = i
        key = "b"
        if i < 3:
            d["a"], l[0], o.attr, d[key] = i * 10, i * 20, i * 30, i * 40
        else:
            d[key] = i
        return d["a"], l[0], o.attr, d["b"]

    agree(f)

    def one_sided(i, use):
        d = {"a": i}
        if i < 3:
            d["z"] = i * 10
        return d["z"] if use else d["a"]

    assert batch(lambda i: one_sided(i, False)) == [0, 1, 2, 3, 4, 5]
    fails_at_build(lambda i: one_sided(i, True) + 1, match=r"variable \"d\['z'\]\".*`else` branch")


def test_stores_in_a_python_loop():
    """Stores under computed keys in a loop are merged too."""

    def f(i):
        d = {"a": i, "b": i + 1}
        if i < 3:
            for k in d:
                d[k] = d[k] * 10
        return d["a"], d["b"]

    agree(f)


def test_methods_that_change_containers():
    """append in both branches and dict.update act per sample; different lengths are an error."""

    def f(i):
        l, d, s = [i], {"a": i}, collections.deque([i])
        if i < 3:
            l.append(i * 2)
            d.update(a=i * 10)
            s.append(i)
        else:
            l.append(i * 3)
            s.append(i * 5)
        assert len(l) == 2
        return l[0], l[1], d["a"], s[1]

    agree(f)

    def uneven(i):
        l = [i]
        if i < 3:
            l.append(i)
        return l[0]

    fails_at_build(uneven, error=ValueError, match="'l' is a list of different length: 2 .if. vs 1 .else.")


def test_containers_inside_others_are_merged_too():
    """A list in a tuple, in a deque and in a dict of a list is changed in each branch for its own samples."""

    def f(i):
        rows, line, table = ([i], 5), collections.deque([[i]]), [{"a": [i]}]
        if i < 3:
            rows[0].append(i * 2)
            line[0].append(i * 3)
            table[0]["a"].append(i * 4)
        else:
            rows[0].append(i * 5)
            line[0].append(i * 6)
            table[0]["a"].append(i * 7)
        return rows[0][1], line[0][1], table[0]["a"][1]

    agree(f)


STASH = []


def test_values_that_escape_are_an_error():
    """A value of a branch that gets out by an untracked way cannot be used, returned or merged (E7)."""

    def keep(value):
        STASH.append(value)

    def used(i):
        if i < 3:
            keep(i * 2)
        return STASH.pop() + 1

    def returned(i):
        if i < 3:
            keep(i * 2)
        return STASH.pop()

    for function in (used, returned):
        text = fails_at_build(function, error=ValueError, match="produced in the `if` branch of the condition at")
        assert f"{HERE}:{line_of(function, 'if i < 3')}" in text
        assert "used in the top level" in text
        assert "Assign it in both branches, or return it" in text


GLOBAL = None


def test_global_variables():
    """A module-level variable assigned in branches is merged, also one that was unset or is set by a called function."""

    def f(i):
        global GLOBAL
        if i < 3:
            GLOBAL = i * 10
        else:
            GLOBAL = i
        return GLOBAL

    agree(f)

    def setter(x):
        global GLOBAL
        if x % 2 == 0:
            GLOBAL = x
            return
        GLOBAL = x * 100

    def g(i):
        global GLOBAL
        GLOBAL = i
        if i > 2:
            setter(i)
        return GLOBAL

    agree(g)


def test_nonlocal_variables():
    """A variable of an outer function assigned in a branch is merged."""

    def f(i):
        z = i

        def inner():
            nonlocal z
            if i < 3:
                z = i * 10

        inner()
        return z

    agree(f)


# return, loops and other statements


def test_early_returns():
    """`if p: return a` ... `return b`, in chains."""

    def f(i):
        if i < 3:
            return i * 10
        j = i + 100
        if i < 5:
            return j
        return j * 2

    agree(f)


def test_a_nested_partial_return():
    """Only some of the samples of a branch return; the others go on."""

    def f(i):
        r = i * 0
        if i < 5:
            r = r + 1
            if i > 0:
                r = r + 10
                if i == 2:
                    return r * 1000
                r = r + 100
            elif i == 0:
                r = r + 7
            r = r + 1
        if r > 50:
            return r
        return r - 1

    agree(f)


def test_a_return_inside_a_loop():
    """Samples return from different iterations."""

    def f(i):
        for k in range(3):
            if i < k:
                return i + 100 * k
            i = i - 0
        return i

    agree(f)


def test_a_return_for_some_samples_only():
    """E10 where some samples return a value and the others nothing."""

    def f(i):
        if i < 3:
            return i

    text = fails_at_build(f, match="some samples return a value and others return nothing")
    assert f"{HERE}:{line_of(f, 'if i < 3')}" in text


def test_the_same_number_of_returned_values():
    """A different number of values returned is an error."""

    def f(i):
        if i < 3:
            return i, i
        return i, i, i

    fails_at_build(f, error=ValueError, match="different number of values: 2 .if. vs 3 .else.")


def test_loops_over_python_values():
    """Loops are unrolled; if on nodes, and break and continue under Python conditions, work inside."""

    def f(i):
        r, k = i, 0
        for j in range(4):
            if j % 2:
                continue
            if i < j:
                r = r + 10
        while k < 5:
            k += 1
            if k == 4:
                break
            if i > k:
                r = r + 1
        return r

    agree(f)


def test_jumps_under_a_condition_in_a_while_loop():
    """Samples leave a loop whose count is a Python value, or skip the rest of its body, each by itself."""

    def left(i):
        r, k = i, 0
        while k < 4:
            k += 1
            if i < k:
                break
            r = r + 10
        return r

    def skipped(i):
        r, k = i, 0
        while k < 4:
            k += 1
            if i < k:
                continue
            r = r + 10
        return r

    agree(left)
    agree(skipped)


def test_continue_under_a_condition():
    """Samples that continue skip the rest of the body, which is recorded once."""

    def f(i):
        r = i
        for k in range(4):
            if i < k:
                continue
            r = r + 10
            if i == 3:
                r = r + 1
                continue
            elif i == 4:
                if k > 1:
                    continue
                r = r + 5
            trace(k)
            r = r + 1000
        return r

    agree(f)
    TRACED.clear()
    pipeline(f).build()
    assert TRACED == [0, 1, 2, 3]


def test_break_under_a_condition():
    """Samples break out of a loop in different iterations; the else clause is for those that did not."""

    def f(i):
        r = i
        for k in range(5):
            if i < k:
                break
            r = r + 10
        else:
            r = r + 1000
        return r

    agree(f)


def test_for_else():
    """The else of a loop works with Python breaks."""

    def f(i):
        for k in range(5):
            if k == 2:
                break
            if i < 3:
                i = i + 1
        else:
            i = i * 1000
        for _ in range(2):
            pass
        else:
            i = i + 1
        return i

    agree(f)


def test_try_and_with():
    """try/except/finally and with, around and inside branches; a handler goes back to the scope of its try."""

    def f(i):
        done = []
        with contextlib.nullcontext(5) as k:
            try:
                if i < 3:
                    return i * k
                i = i + 1
            finally:
                done.append(1)
        if i < 5:
            try:
                int("x")
                r = i
            except ValueError:
                r = i * 10
        else:
            r = i
        return r

    agree(f)

    def assigning(i):
        r = i
        try:
            if i < 3:
                return r
        finally:
            r = r + 1
        return r

    fails_at_build(assigning, match="`finally` cannot assign")


def test_match():
    """match works on Python subjects and is refused on a node."""

    def f(i):
        match "a":
            case "a" if True:
                if i < 3:
                    r = i * 10
                else:
                    r = i
            case _:
                r = i
        return r

    agree(f)

    def on_node(i):
        match i:
            case 1:
                r = i
            case _:
                r = i
        return r

    fails_at_build(on_node, error=TypeError, match="`match` at .*use if/elif")


def test_walrus():
    """:= in tests and branches works; inside a ternary on a node its name has no single value."""

    def f(i):
        if (j := i + 1) < 3:
            r = (q := i + 1) * 10
        else:
            r = (q := j)
        w = (y := i + 5) if True else (y := i)
        return r, q, w, y

    agree(f)

    def bad(i):
        s = (z := i + 5) if i < 3 else (z := i)
        return z + s

    fails_at_build(bad, match="variable 'z'.*`:=`.*use an `if` statement")


def test_ternary():
    """`a if node else b`, nested, in lambdas and comprehensions."""

    def f(i):
        r = 1 if i < 2 else 2 if i < 4 else 3
        g = lambda x: x * 10 if x < 3 else x
        l = [(x * 10 if x < 3 else x) for x in [i, i + 1]]
        return r, g(i), l[0], l[1]

    agree(f)


def helper(x, p):
    """Called by converted code."""
    if p:
        return x * 10
    else:
        return x


def test_comprehensions():
    """A comprehension calls converted helpers."""

    def f(i):
        values = [helper(x, x < 3) for x in (i, i + 1)]
        table = {k: helper(i, i > k) for k in range(2)}
        return values[0], values[1], table[1]

    agree(f)


def test_generators_are_left_alone():
    """An inner generator runs as written, while the function around it is converted."""

    def f(i):
        def counts():
            for k in range(3):
                yield k

        r = i
        for k in counts():
            if i > k:
                r = r + 10
        return r

    agree(f)
    assert "generators" in guard.why_not_converted(lambda: (yield))


def test_class_bodies():
    """A class defined inside, with an if in its body."""

    def f(i):
        class K:
            if True:
                k = 10

            def m(self, x):
                return x * self.k if x < 3 else x

        return K().m(i)

    agree(f)


def test_other_statements_in_branches():
    """f-strings, imports, defs, del and starred targets."""

    def f(i):
        if i < 3:
            import math

            def g(x):
                return x * int(math.floor(10.5))

            first, *rest = [i, 1, 2]
            text = f"{len(rest)!r:>3}"
            del first
            r = g(i) + len(text)
        else:
            g = lambda x: x
            r = g(i)
        return r

    agree(f)

    def different(i):
        if i < 3:
            g = lambda x: x
        else:
            g = lambda x: x + 1
        return g(i)

    fails_at_build(different, error=TypeError, match="variable 'g'.*function")


def test_empty_branches_make_no_nodes():
    """pass in both branches costs nothing."""

    def f(i):
        if i < 3:
            pass
        else:
            pass
        return i

    assert "_merge" not in operators(f)
    assert batch(f) == [0, 1, 2, 3, 4, 5]


# not, and, or


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float32])
def test_not(dtype):
    """`not` of any numeric scalar is a bool node."""
    values = NUMBERS.astype(dtype)
    assert batch(lambda i: not i, lambda: data(values)) == [True] + [False] * 5
    fails_at_build(lambda i: not i, lambda: data(np.ones((B, 2))), match="`not`.*0-d")
    assert batch(lambda i: not i, lambda: unknown(values)) == [True] + [False] * 5


def test_operands_of_and_and_or_are_scalar_bools():
    """E11 while the graph is built where the type is known, else when it runs."""

    def left(i):
        return i and i < 4

    def right(i):
        return i < 4 or i

    def late(i):
        return pyfn(i, function=lambda x: x) and i < 4

    def array(i):
        return pyfn(i, function=lambda x: np.array([True, True])) or i < 4

    text = fails_at_build(left, match="`and` at .* needs a scalar bool on its left side, got int32; compare it")
    assert f"{HERE}:{line_of(left, 'return')}" in text
    fails_at_build(right, match="`or` at .* needs a scalar bool on its right side, got int32")
    fails(late, match="`and` at .* needs a scalar bool on its left side, got int32")
    fails(array, match="`or` at .* needs a scalar bool on its left side")


def test_short_circuit_per_sample():
    """The right side runs only for the samples it decides for, and is always traced."""
    seen = []
    TRACED.clear()

    def right(x):
        seen.append(int(x))
        return np.bool_(True)

    def f(i):
        return i > 2 and (trace(1) or pyfn(i, function=right))

    assert batch(f) == [False] * 3 + [True] * 3
    assert sorted(seen) == [3, 4, 5]
    assert TRACED == [1]
    seen.clear()
    assert batch(lambda i: i > 2 or pyfn(i, function=right)) == [True] * B
    assert sorted(seen) == [0, 1, 2]


def test_a_python_value_on_the_left():
    """`True and n` is n, `False and n` is False without evaluating n."""

    def f(i):
        assert (True and i) is i
        assert (None or i) is i
        assert (False and undefined) is False  # noqa: F821
        return i

    agree(f)


def test_a_python_bool_on_the_right():
    """`n and True` is a node; `n and 3` an error."""

    def f(i):
        return (i < 3 and True), (i < 3 or False)

    agree(f)
    fails_at_build(lambda i: i < 3 and 3, match="`and` at .* right side, got int")


def test_operands_on_the_gpu():
    """A GPU operand of and/or is an error without the repr of nodes."""
    text = fails_at_build(
        lambda i: (i > 2).gpu() and i < 3, match=r"`and` at .* left side, got data on the GPU", device_id=0
    )
    assert "DataNode(" not in text


def test_elementwise_operators():
    """& and | evaluate both sides, for any shape."""
    values = np.array([[True, False]] * B)
    assert batch(lambda a: a & ~a | a, lambda: data(values)) == values.tolist()


# Operators inside branches


def test_a_python_function_sees_only_its_samples():
    """In batch order."""
    seen = []

    def record(x):
        seen.append(int(x))
        return x * 10

    def f(i):
        if i < 3:
            r = pyfn(i, function=record)
        else:
            r = i
        return r

    assert batch(f) == [0, 10, 20, 3, 4, 5]
    assert seen == [0, 1, 2]


def test_a_batch_function_gets_the_list_of_its_samples():
    """Called once with the partial batch."""
    seen = []

    def record(samples):
        seen.append([int(x) for x in samples])
        return [x * 10 for x in samples]

    def f(i):
        if i % 2 == 0:
            r = pyfn(i, function=record, batch_processing=True)
        else:
            r = i
        return r

    assert batch(f) == [0, 1, 20, 3, 40, 5]
    assert seen == [[0, 2, 4]]


@pytest.mark.parametrize("whole", [False, True])
def test_an_empty_partial_batch_calls_nothing(whole):
    """The function is not called, and the merged output is that of the other side."""
    seen = []

    def record(x):
        seen.append(x)
        return x, x

    def f(i):
        if i > 100:
            a, b = pyfn(i, function=record, num_outputs=2, batch_processing=whole)
        else:
            a, b = i, i + 1
        return a, b

    assert batch(f) == [(k, k + 1) for k in range(B)]
    assert seen == []


def test_a_function_without_inputs_runs_for_the_whole_batch():
    """In a branch too: six calls."""
    seen = []

    def count():
        seen.append(len(seen))
        return np.int32(len(seen) * 11)

    def f(i):
        if i < 3:
            r = pyfn(function=count)
        else:
            r = i
        return r

    assert batch(f, prefetch_queue_depth=1)[:3] == [11, 22, 33]
    assert len(seen) % B == 0


def test_a_function_without_outputs():
    """It runs for its branch only and is not pruned; a value returned by it is a clean error."""
    seen = []

    def f(i):
        if i < 3:
            pyfn(i, function=lambda x: seen.append(int(x)), num_outputs=0)
        return i

    assert batch(f) == [0, 1, 2, 3, 4, 5]
    assert sorted(set(seen)) == [0, 1, 2]

    def wrong(i):
        if i < 3:
            pyfn(i, function=lambda x: x, num_outputs=0)
        return i

    fails(wrong, error=TypeError, match="num_outputs=0")


def test_random_numbers_without_inputs_do_not_depend_on_branches():
    """Sample k draws the same number in the branch and at the top level."""

    def inside(i):
        if i < 3:
            r = fn.random.uniform(range=[0.0, 1.0], seed=7, name="noise")
        else:
            r = -1.0
        return r

    def outside(i):
        return fn.random.uniform(range=[0.0, 1.0], seed=7, name="noise")

    a, b = batch(inside), batch(outside)
    assert a[:3] == b[:3]
    assert a[3:] == [-1.0] * 3


def test_random_numbers_with_inputs_are_keyed_by_the_place_in_the_full_batch():
    """An operator with an input draws the same numbers inside and outside a branch."""

    def inside(i):
        if i >= 3:
            r = fn.random.normal(i, stddev=1.0, seed=3, name="noise")
        else:
            r = 100.0
        return r

    def outside(i):
        return fn.random.normal(i, stddev=1.0, seed=3, name="noise")

    assert batch(inside)[3:] == batch(outside)[3:]


def test_sources_made_in_a_branch_run_for_every_sample():
    """They are advanced by a full batch in every iteration."""
    calls = []

    def feed(info):
        calls.append(info.idx_in_epoch)
        return np.int32(info.idx_in_epoch)

    def f(i):
        if i < 3:
            r = fn.external_source(source=feed, batch=False, dtype=types.INT32, ndim=0)
        else:
            r = i
        return r

    assert batch(f, iterations=2) == [6, 7, 8, 3, 4, 5]
    assert calls[:12] == list(range(12))


def test_operators_that_depend_on_the_batch_size_take_the_scope():
    """batch_permutation in a branch permutes the places within its samples."""

    def f(i):
        if i < 4:
            r = fn.batch_permutation(seed=5)
        else:
            r = -1
        return r

    result = batch(f)
    assert sorted(result[:4]) == [0, 1, 2, 3]
    assert result[4:] == [-1, -1]


def test_constants_and_shared_operators_in_branches():
    """types.Constant in a branch, and one operator object called in both."""

    def f(i):
        add = functools.partial(pyfn, function=lambda x: x + 1)
        if i < 3:
            r = types.Constant(np.int32(7)) + i
            q = add(i)
        else:
            r = i
            q = add(i * 10)
        return r, q

    assert batch(f) == [(7, 1), (8, 2), (9, 3), (3, 31), (4, 41), (5, 51)]


def test_unused_results_are_pruned():
    """What a branch computes in vain is not in the plan."""

    def f(i):
        if i < 3:
            waste = i * 12345
            r = i
        else:
            waste = i * 54321
            r = i + 1
        return r

    pipe = pipeline(f)
    pipe.build()
    steps = pipe.plan.steps()
    assert sum(step.op == "_merge" for step in steps) == 1
    assert not any(step.op == "math.mul" for step in steps)


# Which functions are converted


class Calls:
    """Everything that can be called on a class."""

    def __init__(self, k):
        self.k = k

    def method(self, x):
        """Uses its object."""
        if x < 3:
            return x * self.k
        return x

    def __call__(self, x):
        return self.method(x)

    @staticmethod
    def static(x):
        """Has no object."""
        return x * 7 if x < 3 else x

    @classmethod
    def of_class(cls, x):
        """Has the class."""
        return x * 8 if x < 3 else x


class Heir(Calls):
    """Calls its parent."""

    def method(self, x):
        """Adds to the parent's."""
        return super().method(x) + 1


def decorator(function):
    """Wraps."""

    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + (1000 if args[0] < 2 else 2000)

    return wrapper


@decorator
def decorated(x):
    """Wrapped."""
    if x < 3:
        return x * 3
    else:
        return x


def test_every_called_function_is_converted():
    """Functions, methods, callables, partials, recursion, decorators and lambdas given to map."""

    def f(i):
        c = Calls(10)

        def recursive(x, n):
            if n == 0:
                return x
            if x < n:
                return recursive(x + 10, n - 1)
            return recursive(x, n - 1)

        mapped = list(map(lambda x: x * 2 if x < 3 else x, [i, i + 1]))
        least = functools.reduce(lambda p, q: p if p < q else q, [i, i * 0 + 2])
        return (
            helper(i, i < 3),
            c.method(i),
            c(i),
            Calls.static(i),
            Calls.of_class(i),
            Heir(10).method(i),
            functools.partial(helper, p=i < 3)(i),
            recursive(i, 3),
            decorated(i),
            mapped[1],
            least,
            sorted([2, 1], key=lambda k: k if True else 0)[0] + i,
        )

    agree(f)


def counted_down(x, n):
    return x if n == 0 else counted_down(x + 1 if x < n else x - 1, n - 1)


def test_a_function_of_a_module_may_call_itself():
    """Its name means what the module has under it at the time of the call."""
    agree(lambda i: counted_down(i, 3))


def test_a_text_that_is_the_name_of_the_function_stays():
    """Converted code is given the qualified names of the original; the user's own texts are not names."""

    def named(x):
        class Inner:
            text = "named"

        if x > 1:
            x = x + 1
        assert ("named", Inner.text) == ("named",) * 2, ("named", Inner.text)
        assert Inner.__qualname__.rpartition(".")[2] == "Inner", Inner.__qualname__
        return x

    agree(named)


def test_what_is_never_converted():
    """Built-in and library functions run as they are."""
    for function in (len, np.sum, textwrap.dedent, functools.reduce, fn.python_function, functools.lru_cache(helper)):
        assert guard.why_not_converted(function)
    assert guard.why_not_converted(textwrap.dedent) == "module 'textwrap' is never converted"
    assert guard.why_not_converted(helper) is None
    assert guard.never_converted("pipeflow.fn")
    assert not guard.never_converted("pipeflow.auto_aug.trivial_augment")


class Built:
    """A plain class with a condition in its constructor."""

    def __init__(self, x, *, k=9):
        if x < 3:
            self.v = x * k
        else:
            self.v = x


class BuiltToo(Built):
    """Inherits the constructor."""


def test_constructors():
    """An if on a node in the __init__ of a plain class works."""
    agree(lambda i: Built(i).v + BuiltToo(i, k=2).v)


def test_properties_are_not_calls():
    """A property with an if on a node raises TypeError and says why."""

    class K:
        def __init__(self, x):
            self.x = x

        @property
        def p(self):
            return 1 if self.x < 3 else 2

    fails_at_build(lambda i: K(i).p, error=TypeError, match=r"In p\(\).*not converted because .*property")


class Private:
    """Uses a private name and its own class."""

    def __init__(self, k):
        self.__k = k

    def go(self, x):
        """Reads it."""
        if x < 3:
            return x * self.__k + (0 if isinstance(self, Private) else 1)
        return x


def test_private_names():
    """self.__x is mangled as Python does."""
    agree(lambda i: Private(10).go(i))


def test_two_lambdas_on_one_line():
    """The right one is found by its columns, nested ones too."""

    def f(i):
        g, h = (lambda x: x * 10 if x < 3 else x), (lambda x: x + 1 if x < 4 else x)
        return g(i), h(i), (lambda x: (lambda y: y * 10 if y < 2 else y)(x) if x < 4 else x)(i)

    agree(f)


def test_functions_without_source():
    """A function made by exec is named, with the reason."""
    namespace = {}
    exec("def made(x):\n  if x < 3: return x\n  return x * 2", namespace)
    fails_at_build(lambda i: namespace["made"](i), error=TypeError, match=r"In made\(\).*its source is not available")


@pytest.mark.parametrize("limit", [-1, 0, 3, 9])
@pytest.mark.parametrize("debug", [False, True])
def test_a_number_of_python_and_a_value_of_unknown_type_in_an_inner_branch(limit, debug):
    """The first sample, or every sample, may take a branch in which the inner condition does not stand."""

    def f(i):
        g = 0.25
        if i <= 2:
            if i <= limit:
                g = fn.reductions.mean(i) + 1
            else:
                pass
        return g

    expected = [k + 1 if k <= min(limit, 2) else 0.25 for k in range(B)]
    for order in (list(range(B)), list(range(B))[::-1]):
        given = [np.array(k) for k in order]
        assert batch(f, lambda: unknown(given), iterations=3, debug=debug) == [expected[k] for k in order]


def test_repl_sources():
    """It works where linecache has the text, as notebooks give it; `python -` has none and says so."""
    program = textwrap.dedent("""
        import linecache, numpy as np
        from pipeflow import fn, pipeline_def
        source = "fn.external_source(source=lambda: np.arange(4, dtype=np.int32))"
        text = "def f():\\n    i = " + source + "\\n    return i * 10 if i < 2 else i\\n"
        {0}
        scope = dict(fn=fn, np=np)
        exec(compile(text, "<ipython-input-1-abc>", "exec"), scope)
        try:
            pipe = pipeline_def(scope["f"], batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)()
            print(np.asarray(pipe.run()[0]).tolist())
        except TypeError as error:
            print(error)
    """)
    entry = (
        'linecache.cache["<ipython-input-1-abc>"] = (len(text), None, text.splitlines(True), "<ipython-input-1-abc>")'
    )
    for line, expected in ((entry, "[0, 10, 2, 3]"), ("", "its source is not available")):
        command = [sys.executable, "-"]
        result = subprocess.run(
            command, input=program.format(line), capture_output=True, text=True, timeout=LONG, check=False
        )
        assert expected in result.stdout, result.stdout + result.stderr


def test_a_source_edited_after_import(tmp_path, monkeypatch):
    """An edit of the body is noticed and named instead of converting other code than what runs."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, edited in (("edited_body", "x * 20"), ("edited_lines", "\n\nx * 10")):
        path = tmp_path / f"{name}.py"
        text = "def f(x):\n    if x < 3:\n        return x * 10\n    return x\n"
        path.write_text(text)
        module = __import__(name)
        path.write_text("#\n" + text if name == "edited_lines" else text.replace("x * 10", edited))
        assert "edited" in guard.why_not_converted(module.f)
        fails_at_build(lambda i: module.f(i), error=TypeError, match=r"In f\(\).*edited")


def test_any_kind_of_pipeline_function():
    """A method, a lambda or a closure, with enable_conditionals at the decorator or the call."""

    class Owner:
        def define(self):
            i = data()
            return i * 10 if i < 3 else i

    expected = [0, 10, 20, 3, 4, 5]
    options = {"batch_size": B, "num_threads": 1, "device_id": None}
    ternary = lambda: (lambda i: i * 10 if i < 3 else i)(data())
    for make in (
        lambda: pipeline_def(Owner().define, enable_conditionals=True, **options)(),
        lambda: pipeline_def(ternary, enable_conditionals=True, **options)(),
        lambda: pipeline_def(ternary, **options)(enable_conditionals=True),
        lambda: pipeline_def(enable_conditionals=True)(ternary)(**options),
    ):
        pipe = make()
        pipe.build()
        assert np.asarray(pipe.run()[0]).tolist() == expected


class MyError(Exception):
    """An exception with a constructor of its own."""

    def __init__(self, code, *, why):
        super().__init__(f"{code}: {why}")
        self.code = code


def test_exceptions_are_the_users_own():
    """The original object, the user's file and lines, and no library frame between them."""
    error = MyError(7, why="because")

    def boom(x):
        if x < 3:
            y = x * 10
        else:
            raise error
        return y

    def f(i):
        z = boom(i)
        return z

    with pytest.raises(MyError) as caught:
        pipeline(f).build()
    assert caught.value is error
    frames = traceback.extract_tb(caught.value.__traceback__)
    mine = frames[[frame.name for frame in frames].index("f") :]
    assert [(frame.name, frame.line) for frame in mine] == [("f", "z = boom(i)"), ("boom", "raise error")]
    assert all(frame.filename == __file__ for frame in mine)


def test_run_time_errors_carry_the_users_line():
    """An operator that fails in a branch is reported with the line that called it."""

    def fail(x):
        raise KeyError("at run time")

    def f(i):
        if i < 3:
            r = pyfn(i, function=fail)
        else:
            r = i
        return r

    pipe = pipeline(f)
    pipe.build()
    with pytest.raises(KeyError, match="at run time") as caught:
        pipe.run()
    assert f"{HERE}:{line_of(f, 'function=fail')}" in "\n".join(caught.value.__notes__)
