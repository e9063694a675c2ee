"""on_error and max_failures: one bad sample never ends a job, and no other sample notices."""

import gc
import json
import os
import weakref
from fractions import Fraction

import numpy as np
import pytest

from pipeflow import Pipeline, fn, pipeline_def, types
from pipeflow.errors import TooManyFailures
from pipeflow.executor.failures import JUDGED, Failures
from pipeflow.plan import Plan

BATCH = 8
PLACES = ("function", "threaded function", "pure function", "py_function", "source", "operator", "reader")
places = pytest.mark.parametrize("place", PLACES)


def is_bad(number):
    """Which samples fail: two in each batch of eight, never the last."""
    return number % 4 == 1


def check(x):
    if is_bad(int(x[0])):
        raise ValueError(f"bad sample {int(x[0])}")
    return x * 10


def numbers(info):
    return np.full(2, info.idx_in_epoch, np.int32)


def bad_numbers(info):
    if is_bad(info.idx_in_epoch):
        raise ValueError(f"bad sample {info.idx_in_epoch}")
    return np.full(2, info.idx_in_epoch, np.int32)


def failing_at(place, rule, folder=None):
    """Nodes (the sample's number, ten times it) of which the second fails for bad samples; the rule is the operator's."""
    if place == "source":
        x = fn.external_source(bad_numbers, batch=False, on_error=rule)
        return x, fn.python_function(x, function=lambda x: x * 10)
    if place == "reader":
        x = fn.readers.numpy(file_root=str(folder), file_filter="*.npy", on_error=rule, name="reader")
        return x, fn.python_function(x, function=lambda x: x * 10)
    x = fn.external_source(numbers, batch=False)
    if place == "operator":
        y = fn.python_function(x, function=lambda x: np.repeat(x * 10, 1 + is_bad(int(x[0]))), parallel="threads")
        return x, fn.reshape(y, shape=[2], on_error=rule)
    if place == "threaded function":
        return x, fn.python_function(x, function=check, parallel="threads", on_error=rule)
    if place == "pure function":
        return x, fn.numpy_function(check, [x], np.int32, stateful=False, on_error=rule)
    if place == "py_function":
        return x, fn.py_function(check, [x], np.int32, framework="numpy", on_error=rule)
    return x, fn.python_function(x, function=check, on_error=rule)


@pytest.fixture
def folder(tmp_path):
    """Sixteen .npy files of which the bad ones are broken."""
    for number in range(2 * BATCH):
        path = tmp_path / f"{number:02}.npy"
        np.save(path, np.full(2, number, np.int32))
        if is_bad(number):
            path.write_bytes(path.read_bytes()[:40])
    return tmp_path


def pipeline(define, **settings):
    return pipeline_def(define, **{"batch_size": BATCH, "num_threads": 3, "seed": 5, **settings})()


def firsts(batch):
    return [int(np.ravel(x)[0]) for x in batch.samples()]


def good(first):
    return [number for number in range(first, first + BATCH) if not is_bad(number)]


@places
def test_skip_leaves_the_row_out_of_all_outputs(place, folder):
    """The batch is shorter, in every output, and everything else is as if nothing had happened."""
    pipe = pipeline(lambda: (*failing_at(place, "skip", folder), fn.random.uniform(range=[0.0, 1.0])))
    sound = pipeline(lambda: (fn.external_source(numbers, batch=False), fn.random.uniform(range=[0.0, 1.0])))
    for first in (0, BATCH):
        plain, tenfold, random = pipe.run()
        _, reference = sound.run()
        assert firsts(plain) == good(first)
        assert firsts(tenfold) == [10 * number for number in good(first)]
        expected = [reference.at(number - first) for number in good(first)]
        np.testing.assert_array_equal(np.stack(random.samples()), np.stack(expected))


@places
def test_replace_makes_the_row_from_the_next_good_one(place, folder):
    """The row holds what the next good sample of the batch gives, and the batch is as long as ever."""
    pipe = pipeline(lambda: failing_at(place, "replace", folder))
    for first in (0, BATCH):
        plain, tenfold = pipe.run()
        expected = [number + 1 if is_bad(number) else number for number in range(first, first + BATCH)]
        assert firsts(plain) == expected
        assert firsts(tenfold) == [10 * number for number in expected]


@places
@pytest.mark.parametrize("kind", ["value", "function"])
def test_a_value_stands_for_the_output(place, kind, folder):
    """A value, or what a function of the failure says, takes the place of the operator's output."""
    seen = []

    def substitute(failure):
        seen.append(failure)
        return np.full(2, -1, np.int32)

    rule = np.full(2, -1, np.int32) if kind == "value" else substitute
    pipe = pipeline(lambda: failing_at(place, rule, folder))
    for first in (0, BATCH):
        _, tenfold = pipe.run()
        given = -10 if place in ("source", "reader") else -1
        assert firsts(tenfold) == [given if is_bad(n) else 10 * n for n in range(first, first + BATCH)]
    if kind == "function":
        assert {failure.position for failure in seen} >= {1, 5, 9, 13}
        assert all(failure.action == "value" for failure in seen)


@places
def test_raise_consumes_the_batch_and_no_other(place, folder):
    """Without a rule the first failing sample's error is raised in its batch's turn, and the next batch comes after it."""
    pipe = pipeline(lambda: failing_at(place, None, folder))
    for first in (1, BATCH + 1):
        with pytest.raises(Exception) as caught:  # noqa: PT011  (readers raise what the format says)
            pipe.run()
        assert "sample 1 of batch" in "\n".join(caught.value.__notes__)
        if place not in ("reader", "operator"):
            assert str(caught.value) == f"bad sample {first}"
    assert pipe.failures() == []


@places
def test_the_rule_of_the_pipeline_holds_where_an_operator_has_none(place, folder):
    """on_error of the pipeline is every operator's; an operator's own goes before it."""
    pipe = pipeline(lambda: failing_at(place, None, folder), on_error="skip")
    assert firsts(pipe.run()[0]) == good(0)
    pipe = pipeline(lambda: failing_at(place, "raise", folder), on_error="skip")
    with pytest.raises(Exception) as caught:  # noqa: PT011  (readers raise what the format says)
        pipe.run()
    assert not isinstance(caught.value, TooManyFailures)


@pytest.mark.parametrize("place", PLACES[:4])
def test_the_pipelines_value_stands_for_the_whole_row(place):
    """A value given to the pipeline is a tuple with one value an output."""
    value = (np.full(2, -5, np.int32), np.full(2, -7, np.int32))
    pipe = pipeline(lambda: failing_at(place, None), on_error=value)
    plain, tenfold = pipe.run()
    assert firsts(plain) == [-5 if is_bad(n) else n for n in range(BATCH)]
    assert firsts(tenfold) == [-7 if is_bad(n) else 10 * n for n in range(BATCH)]
    pipe = pipeline(lambda: failing_at(place, None), on_error=lambda failure: (value[0], value[1] - failure.position))
    assert firsts(pipe.run()[1]) == [-7 - n if is_bad(n) else 10 * n for n in range(BATCH)]


def test_a_replaced_row_keeps_its_own_randomness():
    """The row is made again under its own key: its random numbers are those it would have had."""

    def jitter(x, rng):
        noise = rng.integers(0, 1 << 30)
        if is_bad(int(x[0])):
            raise ValueError("bad")
        return np.array([x[0], noise])

    def clean(x, rng):
        return np.array([x[0], rng.integers(0, 1 << 30)])

    def define(function, rule):
        x = fn.external_source(numbers, batch=False)
        return fn.python_function(x, function=function, on_error=rule, name="f"), fn.random.uniform(range=[0, 1])

    noisy, random = pipeline(lambda: define(jitter, "replace")).run()
    expected, reference = pipeline(lambda: define(clean, None)).run()
    assert [int(x[1]) for x in noisy.samples()] == [int(x[1]) for x in expected.samples()]
    np.testing.assert_array_equal(random.as_array(), reference.as_array())


def test_a_row_may_be_replaced_across_several_stages():
    """A failure late in the graph makes the row again from its source, through every stage before."""
    calls = []

    def first(x):
        calls.append(int(x[0]))
        return x + 1

    def define():
        x = fn.external_source(numbers, batch=False)
        y = fn.python_function(x, function=first)
        z = fn.python_function(y, function=lambda y: y * 2, parallel="threads")
        return x, fn.python_function(z, function=lambda z: check(z // 2 - 1), on_error="replace")

    plain, tenfold = pipeline(define, prefetch_queue_depth=1, exec_pipelined=False).run()
    expected = [number + 1 if is_bad(number) else number for number in range(BATCH)]
    assert firsts(plain) == expected
    assert firsts(tenfold) == [10 * number for number in expected]
    assert sorted(calls) == sorted([*range(BATCH), 2, 6])


def test_the_last_row_is_replaced_by_the_first_good_one():
    """The next good row is searched on from the beginning of the batch; rows that fail too are passed over."""

    def only_three(x):
        if x[0] != 3:
            raise ValueError("bad")
        return x

    def define():
        return fn.python_function(fn.external_source(numbers, batch=False), function=only_three, on_error="replace")

    assert firsts(pipeline(define).run()[0]) == [3] * BATCH


def test_a_batch_without_a_good_row_is_raised():
    """Where every row fails there is nothing to replace with: the first error comes, with a note."""

    def fail(x):
        raise ValueError(f"bad {int(x[0])}")

    def define():
        return fn.python_function(fn.external_source(numbers, batch=False), function=fail, on_error="replace")

    pipe = pipeline(define)
    for first in (0, BATCH):
        with pytest.raises(ValueError, match=f"^bad {first}") as caught:
            pipe.run()
        assert "no good row of this batch could replace it" in caught.value.__notes__


def test_a_batch_of_skipped_rows_is_empty():
    """Where every row is skipped the batch has no samples, and the next one comes as usual."""

    def fail_first(x):
        if x[0] < BATCH:
            raise ValueError("bad")
        return x

    def define():
        return fn.python_function(fn.external_source(numbers, batch=False), function=fail_first, on_error="skip")

    pipe = pipeline(define)
    assert len(pipe.run()[0]) == 0
    assert firsts(pipe.run()[0]) == list(range(BATCH, 2 * BATCH))


def test_later_functions_do_not_see_skipped_rows():
    """A skipped row is given to no later function, in a stage or in a batch."""
    seen, batches = [], []

    def look(x):
        seen.append(int(x[0]) // 10)
        return x

    def whole(xs):
        batches.append(len(xs))
        return xs

    def define():
        x = fn.python_function(fn.external_source(numbers, batch=False), function=check, on_error="skip")
        y = fn.python_function(x, function=look)
        return fn.python_function(y, function=whole, batch_processing=True)

    pipeline(define, prefetch_queue_depth=1, exec_pipelined=False).run()
    assert seen == good(0)
    assert batches == [len(good(0))]


def unlucky(x, share):
    """Fails for most random numbers, whatever the data."""
    if share > 0.3:
        raise ValueError(f"the share is {share}")
    return x + share


@pytest.mark.parametrize("options", [{"num_threads": 1}, {"num_threads": 3}, {"debug": True}], ids=str)
def test_failures_by_random_numbers_where_samples_move(options):
    """A row that is left out does its work with the data and the random numbers of a good one, so it does not fail again."""
    size = 12

    def batches(moves):
        def definition():
            data = fn.external_source(lambda batch: [np.full(2, batch * size + n, np.float32) for n in range(size)])
            kept = fn.python_function(data, fn.random.uniform(range=(0.0, 1.0)), function=unlucky)
            order = fn.batch_permutation()
            return kept, fn.permute_batch(kept, indices=order) if moves else order

        pipe = pipeline_def(batch_size=size, device_id=None, seed=3, on_error="skip", **options)(definition)()
        pipe.build()
        return [[[np.asarray(x).copy() for x in output] for output in pipe.run()] for _ in range(4)]

    rows = 0
    for batch, ((good, _), (own, moved)) in enumerate(zip(batches(False), batches(True))):
        known = {int(x[0]): x for x in good}
        assert len(good) < size
        assert len(own) <= len(good)
        rows += len(own)
        for x in (*own, *moved):
            assert np.array_equal(x, known[int(x[0])])
            assert batch * size <= int(x[0]) < (batch + 1) * size
    assert rows


def test_a_function_of_whole_batches_fails_for_whole_batches():
    """What gets a whole batch cannot tell which row was bad: all rows follow the rule."""
    count = iter(range(10))

    def every_other(xs):
        if next(count) % 2:
            raise ValueError("bad batch")
        return xs

    def define():
        x = fn.external_source(numbers, batch=False)
        return fn.python_function(x, function=every_other, batch_processing=True, on_error="skip")

    pipe = pipeline(define, prefetch_queue_depth=1, exec_pipelined=False)
    assert [len(pipe.run()[0]) for _ in range(4)] == [BATCH, 0, BATCH, 0]
    assert len(pipe.failures()) == 2 * BATCH


def test_positions_do_not_move():
    """What follows a skipped row has the same position, key and number as without the failure."""

    def keyed(x, rng):
        if is_bad(int(x[0])):
            raise ValueError("bad")
        return np.array([x[0], rng.integers(0, 1 << 30)])

    def define(function, rule=None):
        return fn.python_function(fn.external_source(numbers, batch=False), function=function, on_error=rule, name="f")

    with_failures = pipeline(lambda: define(keyed, "skip"))
    reference = pipeline(lambda: define(lambda x, rng: np.array([x[0], rng.integers(0, 1 << 30)])))
    for first in (0, BATCH, 2 * BATCH):
        got = with_failures.run()[0]
        expected = {int(x[0]): int(x[1]) for x in reference.run()[0].samples()}
        assert [int(x[0]) for x in got.samples()] == good(first)
        assert all(int(x[1]) == expected[int(x[0])] for x in got.samples())


@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_results_do_not_depend_on_threads_and_prefetch(rule):
    """The same batches come with one thread and with four, with and without prefetching."""

    def batches(**settings):
        pipe = pipeline(lambda: failing_at("threaded function", rule), **settings)
        return [[firsts(batch) for batch in pipe.run()] for _ in range(6)]

    expected = batches(num_threads=1, prefetch_queue_depth=1)
    assert batches(num_threads=4, prefetch_queue_depth=3) == expected
    assert batches(num_threads=2, exec_async=False, exec_pipelined=False) == expected


def test_the_list_tells_what_happened(folder):
    """pipe.failures() has the position, source, operator, exception and traceback of each failure, in order."""
    pipe = pipeline(lambda: failing_at("reader", "skip", folder))
    pipe.run()
    listed = pipe.failures()
    assert [failure.position for failure in listed] == [1, 5]
    assert [failure.sample for failure in listed] == [1, 5]
    assert all(failure.source.endswith(f"{failure.position:02}.npy") for failure in listed)
    assert {failure.operator for failure in listed} == {"fn.readers.numpy"}
    assert all(failure.action == "skip" and failure.epoch == 0 and failure.batch == 0 for failure in listed)
    assert all(isinstance(failure.exception, Exception) for failure in listed)
    assert "Traceback" in listed[0].traceback
    assert "position 1 of epoch 0" in str(listed[0])


def test_failures_count_at_delivery():
    """What was prefetched and not delivered has not failed yet."""
    pipe = pipeline(lambda: failing_at("function", "skip"), prefetch_queue_depth=4)
    for batches in (1, 2, 3):
        pipe.run()
        assert len(pipe.failures()) == 2 * batches


def test_a_count_limits_the_failures():
    """The batch in which more samples have failed than max_failures allows is raised with the last error as cause."""
    pipe = pipeline(lambda: failing_at("function", "skip"), max_failures=5)
    pipe.run()
    pipe.run()
    with pytest.raises(TooManyFailures, match="6 samples of 24 failed, more than max_failures=5") as caught:
        pipe.run()
    assert str(caught.value.__cause__) == "bad sample 21"
    assert "position 21 of epoch 0" in str(caught.value)
    strict = pipeline(lambda: failing_at("function", "skip"), max_failures=0)
    with pytest.raises(TooManyFailures):
        strict.run()


@pytest.mark.parametrize("fraction", [0.2, Fraction(1, 5)])
def test_a_fraction_limits_the_failures(fraction):
    """A fraction is judged on at least a thousand samples: a quarter of bad samples is then more than a fifth."""
    pipe = pipeline(lambda: failing_at("function", "skip"), max_failures=fraction)
    delivered = 0

    def run_until_the_limit():
        nonlocal delivered
        while delivered < 2 * JUDGED:
            pipe.run()
            delivered += BATCH

    with pytest.raises(TooManyFailures):
        run_until_the_limit()
    # 0.25 * n > 0.2 * max(n, JUDGED) holds first where n is just over 0.8 * JUDGED
    assert 0.8 * JUDGED - BATCH <= delivered <= 0.8 * JUDGED + BATCH
    enough = pipeline(lambda: failing_at("function", "skip"), max_failures=0.3)
    for _ in range(20):
        enough.run()


def test_the_count_is_in_the_checkpoint():
    """A resumed pipeline goes on counting where the saved one stood."""

    def build(**settings):
        return pipeline(lambda: failing_at("function", "skip"), max_failures=5, enable_checkpointing=True, **settings)

    pipe = build()
    pipe.run()
    pipe.run()
    saved = pipe.checkpoint()
    assert json.loads(saved)["failures"] == [4, 2 * BATCH]
    resumed = build(checkpoint=saved)
    with pytest.raises(TooManyFailures, match="6 samples of 24"):
        resumed.run()


def test_failures_keep_no_arrays_alive():
    """The list holds exceptions without their frames: a failed batch's memory is free again."""
    kept = []

    def fail(x):
        local = np.zeros(3)
        kept.append(weakref.ref(local))
        raise ValueError("bad")

    def define():
        return fn.python_function(fn.external_source(numbers, batch=False), function=fail, on_error="skip")

    pipe = pipeline(define, prefetch_queue_depth=1, exec_pipelined=False)
    pipe.run()
    gc.collect()
    assert len(pipe.failures()) == BATCH
    assert all(reference() is None for reference in kept)


def test_inputs_stay_whole_where_rows_are_made_again():
    """With "replace" an input cannot be changed in place, since it may be needed once more; the error says so."""

    def change(x):
        x += 1
        return x

    def define():
        x = fn.external_source(numbers, batch=False)
        return fn.python_function(x, function=change), fn.python_function(x, function=check, on_error="replace")

    with pytest.raises(ValueError, match="read-only") as caught:
        pipeline(define).run()
    assert 'needed again where on_error="replace"' in "\n".join(caught.value.__notes__)


def test_branches_fail_by_themselves():
    """In a conditional only the samples of the failing branch follow the rule."""

    @pipeline_def(batch_size=BATCH, num_threads=2, seed=1, enable_conditionals=True)
    def define():
        x = fn.external_source(numbers, batch=False)
        if x[0] > 3:
            y = fn.python_function(x, function=check, on_error="skip", outputs=types.INT32)
        else:
            y = x
        return x, y

    plain, results = define().run()
    assert firsts(plain) == [0, 1, 2, 3, 4, 6, 7]
    assert firsts(results) == [0, 1, 2, 3, 40, 60, 70]


@pytest.mark.parametrize("rule", ["ignore", "Skip"])
def test_an_unknown_rule_is_refused(rule):
    """Misspelt rules are errors when the graph is built, for operators and pipelines."""
    with pytest.raises(ValueError, match="'raise', 'skip', 'replace', a value or a function"):
        fn.python_function(np.ones(1), function=check, on_error=rule)
    with pytest.raises(ValueError, match="'raise', 'skip', 'replace', a value or a function"):
        Pipeline(batch_size=1, on_error=rule)


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (1.5, ValueError), (True, TypeError), ("3", TypeError)])
def test_a_wrong_limit_is_refused(limit, error):
    """max_failures is a count from 0 or a fraction below 1."""
    with pytest.raises(error, match="max_failures must be a count"):
        Pipeline(batch_size=1, max_failures=limit)


def test_a_value_that_does_not_fit_is_named():
    """Substitutes of another number, type or number of axes are errors, not silent conversions."""
    wrong = pipeline(lambda: failing_at("function", (np.zeros(2, np.int32),) * 3))
    with pytest.raises(ValueError, match="on_error gives 3 values in place of 1 output"):
        wrong.run()
    wrong = pipeline(lambda: failing_at("function", np.zeros(2, np.float64)))
    with pytest.raises(TypeError, match="different kinds in one batch"):
        wrong.run()
    wrong = pipeline(lambda: failing_at("function", None), on_error=(np.zeros(2, np.int32), np.zeros((2, 2), np.int32)))
    with pytest.raises(TypeError, match="on_error gives int32 \\(2, 2\\) for output 1"):
        wrong.run()


def test_an_error_of_the_substitute_itself_is_raised():
    """A function for on_error that fails ends the batch with its own error."""

    def substitute(failure):
        raise KeyError(failure.position)

    pipe = pipeline(lambda: failing_at("threaded function", substitute))
    with pytest.raises(KeyError):
        pipe.run()


def test_rules_are_saved_with_the_graph():
    """A serialized pipeline has the rules of its operators and its own."""
    saved = pipeline(
        lambda: fn.reshape(fn.external_source(numbers, batch=False, name="in"), shape=[1, 2], on_error="replace"),
        on_error="skip",
        max_failures=3,
    )
    loaded = Pipeline.deserialize(saved.serialize(allow_pickle=True), allow_pickle=True)
    assert [node.on_error for node in loaded.graph.nodes][-1] == "replace"
    assert loaded.serialize(allow_pickle=True) == saved.serialize(allow_pickle=True)


def test_calls_with_different_rules_are_not_merged():
    """Equal pure calls with different rules are two steps."""

    def define():
        x = fn.external_source(numbers, batch=False)
        once = fn.numpy_function(check, [x], np.int32, stateful=False, on_error=np.zeros(2, np.int32))
        return once, fn.numpy_function(check, [x], np.int32, stateful=False, on_error=np.ones(2, np.int32))

    left, right = pipeline(define).run()
    assert firsts(left)[1] == 0
    assert firsts(right)[1] == 1


@pytest.mark.parametrize("rule", ["skip", "replace", "value"])
@pytest.mark.parametrize("how", ["raises", "dies"])
def test_rules_hold_in_worker_processes(rule, how):
    """A sample that raises in a worker process, or kills it, follows the rule; its neighbours are delivered."""

    def fragile(x):
        if x[0] % 4 == 1:
            if how == "dies":
                os._exit(3)
            raise ValueError("bad")
        return x * 10

    value = np.full(2, -1, np.int32)

    def define():
        x = fn.external_source(numbers, batch=False)
        on_error = value if rule == "value" else rule
        return fn.python_function(x, function=fragile, parallel="processes", on_error=on_error)

    pipe = pipeline(define, py_num_workers=2)
    expected = {
        "skip": [10 * n for n in good(0)],
        "replace": [10 * (n + is_bad(n)) for n in range(BATCH)],
        "value": [-1 if is_bad(n) else 10 * n for n in range(BATCH)],
    }
    assert firsts(pipe.run()[0]) == expected[rule]
    assert [failure.position for failure in pipe.failures()] == [1, 5]


# --- debug runs --------------------------------------------------------------------------------------------------------


RULES = {
    "skip": "skip",
    "replace": "replace",
    "value": np.array([7, 7], np.int32),
    "function": lambda failure: np.array([failure.position, -1], np.int32),
}


def two_ways(define, batches=3, **settings):
    """(outputs or error, failures) of the compiled and the debug run, batch by batch."""
    for debug in (False, True):
        pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings}, debug=debug)()
        found = []
        for _ in range(batches):
            try:
                found.append([[np.array(x).tolist() for x in batch.samples()] for batch in pipe.run()])
            except Exception as error:
                found.append((type(error), str(error)))
        rows = [(f.position, f.batch, f.sample, f.operator, f.action, str(f.exception)) for f in pipe.failures()]
        yield found, rows


@places
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("whose", ["operator", "pipeline"])
def test_debug_runs_obey_the_same_rules(place, rule, whose, tmp_path):
    """With debug=True the same rows are left out, made again or given values, and the same failures are told."""
    if place == "reader":
        for number in range(3 * BATCH):
            array = np.full(2, number, np.int32)
            (tmp_path / f"{number:03}.npy").write_bytes(b"broken") if is_bad(number) else np.save(
                tmp_path / f"{number:03}.npy", array
            )
    value = RULES[rule]
    if whose == "pipeline" and rule == "function":
        value = lambda failure: (np.array([failure.position, 0], np.int32), np.array([0, 0], np.int32))
    elif whose == "pipeline" and rule == "value":
        value = (np.array([1, 1], np.int32), np.array([2, 2], np.int32))

    def define():
        return failing_at(place, value if whose == "operator" else None, tmp_path)

    compiled, debugged = two_ways(define, **({"on_error": value} if whose == "pipeline" else {}))
    assert debugged == compiled
    assert compiled[1]


def test_debug_runs_raise_and_go_on_as_compiled_ones_do():
    """Without a rule the batch is consumed whole; the next ones have the numbers of their own positions."""

    def define():
        x = fn.external_source(numbers, batch=False)
        noise = fn.random.uniform(range=[0.0, 1.0])

        def picky(x):
            if x[0] == 9:
                raise ValueError("bad")
            return x

        return fn.python_function(x, function=picky), noise

    compiled, debugged = two_ways(define)
    assert debugged == compiled
    assert compiled[0][1] == (ValueError, "bad")


def test_debug_runs_refuse_values_that_do_not_fit_the_outputs():
    """A row gets its values at the end of the definition; an error there is raised there."""

    def define():
        return failing_at("function", None)

    compiled, debugged = two_ways(define, on_error=lambda _: (1, 2, 3))
    assert debugged == compiled
    assert (ValueError, "on_error gives 3 values in place of 2 outputs") in compiled[0]


def test_debug_runs_count():
    """max_failures ends a debug run after as many failures as any other."""

    def define():
        return failing_at("function", "skip")

    compiled, debugged = two_ways(define, batches=4, max_failures=5)
    assert debugged == compiled
    assert compiled[0][2][0] is TooManyFailures


def test_sources_behind_a_replaced_row():
    """A source that a debug run reaches after a row was replaced gives that row the same donor's data."""

    def define():
        x = fn.python_function(fn.external_source(numbers, batch=False), function=check, on_error="replace")
        y = fn.external_source(numbers, batch=False)
        return x, y, fn.python_function(y, function=lambda x: x + 1)

    compiled, debugged = two_ways(define)
    assert debugged == compiled


def test_values_in_a_debug_run_are_those_that_are_left():
    """What a definition prints on the way has no rows that were left out."""
    seen = []

    def define():
        x = fn.external_source(numbers, batch=False)
        y = fn.python_function(x, function=check, on_error="skip")
        seen.append((len(y.get()), len(x.get())))
        return y

    pipeline_def(define, batch_size=BATCH, num_threads=1, debug=True)().run()
    assert seen == [(6, 6)]


def test_a_checkpoint_without_failures_counts_from_none():
    """Nothing has failed and nothing was seen; other counts are continued."""
    failures = Failures(Plan((), (), (), ()), [])
    failures.restore([3, 40])
    assert failures.state() == [3, 40]
    failures.restore(None)
    assert failures.state() == [0, 0]
