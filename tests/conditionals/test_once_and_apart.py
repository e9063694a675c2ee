"""In conditional code each call is made once, and values keep apart: constants, containers and merges of other scopes.

The functions under test are written as users write them, not as a linter would have them.
"""

import functools
import re

import numpy as np
import pytest
from conditional_harness import B, agree, batch, data, operators, pipeline, pyfn

from pipeflow import do_not_convert, fn, pipeline_def, types
from pipeflow.autograph_guard import why_not_converted
from pipeflow.errors import CAST, RESHAPE


def test_the_middle_of_a_chained_comparison_is_asked_for_once():
    """`low < draw() < high` compares one draw with both ends; a function in the middle is called once a sample."""
    seen = []

    def middle(x):
        seen.append(int(x))
        return x

    def f(i):
        return 1 < pyfn(i, function=middle) < 4

    assert batch(f) == [False, False, True, True, False, False]
    assert sorted(seen) == list(range(B))

    def draws(i):
        return 0.2 < fn.random.uniform() < 0.8

    assert operators(draws).count("random.uniform") == 1


def test_a_longer_chain_asks_for_each_part_once():
    """Three comparisons have two middles."""
    calls = []

    def part(number):
        def function(x):
            calls.append(number)
            return x + number

        return function

    def f(i):
        return 0 <= pyfn(i, function=part(0)) < pyfn(i, function=part(1)) < 6

    assert batch(f) == [True, True, True, True, True, False]
    assert (calls.count(0), calls.count(1)) == (B, B)


@pytest.mark.parametrize("choose", [min, max, sorted], ids=lambda function: function.__name__)
def test_a_key_function_may_depend_on_data(choose):
    """The function given as key= is converted like any other that is called."""

    def f(i):
        noted = []

        def key(number):
            if i > 2:
                noted.append(i + number)
            else:
                noted.append(i - number)
            return number

        chosen = choose([3, 1, 2], key=key)
        return i * (chosen[0] if choose is sorted else chosen), noted[0], noted[-1]

    agree(f)


def test_what_a_partial_holds_by_keyword_is_changed_for_its_samples_only():
    """A list or dict that is reached only through the keywords of a partial is merged like a variable."""

    def put(box, value):
        box.append(value)

    def store(value, box):
        box["x"] = value

    def f(i):
        add = functools.partial(put, box=[i])
        set_ = functools.partial(store, box={"x": i})
        if i > 2:
            add(value=i * 2)
            set_(i * 5)
        else:
            add(value=i * 3)
        return add.keywords["box"][1], set_.keywords["box"]["x"]

    agree(f)


def test_the_same_merge_inside_and_outside_of_another_condition():
    """Two values merged by one predicate in a branch, and again behind it, are merged for the samples of each place."""

    def inside_first(i):
        p, a, b = i % 2 == 0, i + 1, i + 2
        if i < 4:
            if p:
                x = a
            else:
                x = b
            y = x * 2
        else:
            y = i
        if p:
            z = a
        else:
            z = b
        return y, z

    agree(inside_first)

    def outside_first(i):
        p, a, b = i % 2 == 0, i + 1, i + 2
        if p:
            z = a
        else:
            z = b
        if i < 4:
            if p:
                x = a
            else:
                x = b
            y = x * 2
        else:
            y = i
        return y, z

    agree(outside_first)

    def in_both_branches(i):
        p, a, b = i % 2 == 0, i + 1, i + 2
        if i < 4:
            if p:
                x = a
            else:
                x = b
        else:
            if p:
                x = a
            else:
                x = b
            x = x * 10
        return x

    agree(in_both_branches)


@pytest.mark.parametrize("wrap", [lambda array: array, types.Constant], ids=["array", "types.Constant"])
def test_an_array_of_the_users_stays_the_users(wrap):
    """It can be written to after it went into a pipeline, and what is written does not reach the pipeline."""
    given = np.array([1.0, 2.0], np.float32)

    def definition():
        return data() * wrap(given), fn.python_function(wrap(given), function=lambda x: x)

    pipe = pipeline_def(definition, batch_size=B, num_threads=1, prefetch_queue_depth=1)()
    pipe.build()
    assert given.flags.writeable
    given[:] = 0
    product, constant = pipe.run()
    assert product.as_array()[:, 1].tolist() == [0, 2, 4, 6, 8, 10]
    assert constant.at(3).tolist() == [1, 2]
    assert given.tolist() == [0, 0]


@pytest.mark.parametrize("number", [np.float16(0.5), np.int16(3)], ids=["float16", "int16"])
@pytest.mark.parametrize("known", [True, False], ids=["at build", "at run"])
def test_a_number_with_a_type_keeps_it(number, known):
    """A NumPy number has the type it was made with; only a Python number takes that of the other branch."""

    def f(i):
        r = number
        if i < 3:
            r = fn.cast(i, dtype=types.FLOAT) if known else pyfn(i, function=lambda x: np.float32(x))
        return r

    with pytest.raises(RuntimeError, match=f"'r': float32 0-d in the `if` branch .*, {number.dtype} 0-d in the `else`"):
        batch(f)

    def plain(i):
        r = number.item()
        if i < 3:
            r = fn.cast(i, dtype=types.FLOAT) if known else pyfn(i, function=lambda x: np.float32(x))
        return r

    assert batch(plain) == [0, 1, 2, *[number.item()] * 3]


def test_a_float64_of_numpy_is_no_python_number():
    """np.float64 is a float by inheritance; as a constant it has 32 bits, and does not take the type of the other branch."""

    def f(i):
        r = np.float64(0.5)
        if i < 3:
            r = fn.cast(i, dtype=types.FLOAT16)
        return r

    with pytest.raises(RuntimeError, match=r"'r': float16 0-d in the `if` branch .*, float32 0-d in the `else`"):
        batch(f)


@pytest.mark.parametrize("seen", [lambda batch: batch.as_array(), lambda batch: batch.at(5)], ids=["as_array", "at"])
def test_a_batch_with_a_constant_from_a_branch_is_the_users_to_write(seen):
    """What is delivered is owned by the caller, and writing into it changes neither the constant nor the next batch."""

    def f(i):
        if i < 3:
            r = pyfn(i, function=lambda x: np.full(2, x, np.float32))
        else:
            r = types.Constant(np.array([7.0, 8.0], np.float32))
        return r

    pipe = pipeline(f)
    pipe.build()
    for _ in range(3):
        (delivered,) = pipe.run()
        assert delivered.at(5).tolist() == [7, 8]
        array = seen(delivered)
        assert array.flags.writeable
        array[...] = -1
        assert delivered.at(5).tolist() == [-1, -1]


def test_only_an_error_in_a_branch_is_explained_by_branches():
    """That both branches are recorded says nothing about an error beside them."""

    def inside(i):
        if i < 3:
            raise LookupError("missing")
        return i

    def beside(i):
        raise LookupError("missing")

    for function, explained in ((inside, True), (beside, False)):
        with pytest.raises(LookupError, match="missing") as caught:
            batch(function)
        notes = getattr(caught.value, "__notes__", [])
        assert any("both branches of a condition" in note for note in notes) is explained


@pytest.mark.parametrize(
    ("one", "other", "advice"),
    [
        (np.int32(1), np.float32(1), CAST),
        (np.int32([1]), np.int32(1), RESHAPE),
        (np.int32([1]), np.float32(1), RESHAPE),
    ],
)
def test_what_to_write_is_a_cast_only_where_the_axes_agree(one, other, advice):
    """Sides whose types are known only when the batch is there."""

    def f(i):
        if i < 3:
            r = pyfn(i, function=lambda x: one)
        else:
            r = pyfn(i, function=lambda x: other)
        return r

    with pytest.raises(RuntimeError, match=re.escape(advice)):
        batch(f)


def test_two_returned_values_that_do_not_merge_are_named():
    """A missing return is the reason only where one path returns nothing."""

    def f(i):
        if i < 3:
            return "text"
        return len

    with pytest.raises(
        TypeError, match=r"'return value' .* cannot be merged into one batch: str 'text' \(if\) vs built"
    ):
        batch(f)

    def g(i):
        if i < 3:
            return i
        return None

    with pytest.raises(RuntimeError, match="some samples return a value and others return nothing"):
        batch(g)


def test_why_a_callable_runs_as_written():
    """A marked function, a marked object, one in a partial; a plain function is converted."""

    @do_not_convert
    def marked(x):
        return x

    @do_not_convert
    class Marked:
        def __call__(self, x):
            return x

        def method(self, x):
            return x

    reason = "it is marked @do_not_convert"
    assert why_not_converted(marked) == reason
    assert why_not_converted(functools.partial(marked, 1)) == reason
    assert why_not_converted(Marked()) == reason
    assert why_not_converted(Marked().method) == reason
    assert why_not_converted(lambda x: x) is None
