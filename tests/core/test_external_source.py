"""fn.external_source: every kind of source, its checks, feeding, ends of data."""

import ctypes
import functools
import threading

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def, types
from pipeflow.tensors import TensorCPU, TensorListCPU


def make(source=None, batch_size=2, pipeline=None, **arguments):
    """A pipeline whose outputs are those of one external source."""

    def define():
        made = fn.external_source(source, **arguments)
        return tuple(made) if isinstance(made, list) else made

    pipe = pipeline_def(define, batch_size=batch_size, num_threads=2, seed=1, **(pipeline or {}))()
    pipe.build()
    return pipe


def values(pipe, runs):
    """What some runs give, "STOP" at the end of data."""
    results = []
    for _ in range(runs):
        try:
            outputs = pipe.run()
            results.append([sample.tolist() for sample in outputs[0].samples()])
        except StopIteration:
            results.append("STOP")
    return results


def two():
    """A generator function of two batches."""
    for index in range(2):
        yield np.array([index, index])


class Pages:
    """A sequence by its items alone."""

    def __getitem__(self, index):
        return two_pages[index]


two_pages = list(two())
BOUND = np.array([5, 6])


class CallableAndIterable:
    """It starts over with every ``iter``, and as an iterable it is not called."""

    def __iter__(self):
        self.number = 0
        return self

    def __next__(self):
        self.number += 1
        if self.number > 2:
            raise StopIteration
        return np.array([self.number] * 2)

    def __call__(self):
        raise AssertionError("called")


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        ([[np.array(1), np.array(2)], [np.array(3), np.array(4)]], {}, [[1, 2], [3, 4], "STOP"]),
        ([np.array([1, 2]), np.array([3, 4])], {}, [[1, 2], [3, 4], "STOP"]),
        (lambda i: [np.array(i), np.array(i + 10)], {}, [[0, 10], [1, 11], [2, 12]]),
        (lambda: np.array([5, 6]), {}, [[5, 6]] * 3),
        (lambda i=7: np.array([i, i]), {}, [[0, 0], [1, 1], [2, 2]]),
        (lambda bound=BOUND: bound, {}, [[5, 6]] * 3),
        (functools.partial(lambda factor, i=7: np.array([factor, i]), 3), {}, [[3, 7]] * 3),
        (Pages(), {}, [[0, 0], [1, 1], "STOP"]),
        (CallableAndIterable(), {}, [[1, 1], [2, 2], "STOP"]),
        (CallableAndIterable(), {"cycle": "quiet"}, [[1, 1], [2, 2], [1, 1]]),
        (two, {}, [[0, 0], [1, 1], "STOP"]),
        (two, {"cycle": "quiet"}, [[0, 0], [1, 1], [0, 0]]),
        (two, {"cycle": True}, [[0, 0], [1, 1], [0, 0]]),
        ([np.array(1), np.array(2), np.array(3)], {"batch": False}, [[1, 2], [3], "STOP"]),
        ([np.array(1), np.array(2), np.array(3)], {"batch": False, "cycle": "quiet"}, [[1, 2], [3, 1], [2, 3]]),
        (lambda info: np.array(info.iteration), {"batch_info": True}, None),
    ],
)
def test_kinds_of_sources(source, arguments, expected):
    """Lists, callables with and without an argument, generator functions, per batch and per sample, cycled or not."""
    if expected is None:
        pipe = make(lambda info: np.array([info.iteration, info.epoch_idx]), **arguments)
        expected = [[0, 0], [1, 0], [2, 0]]
    else:
        pipe = make(source, **arguments)
    assert values(pipe, 3) == expected


def test_generator_object_is_read_once():
    """A generator object works, and cannot be cycled."""
    assert values(make(two()), 3) == [[0, 0], [1, 1], "STOP"]
    with pytest.raises(TypeError, match="pass the generator function itself"):
        make(two(), cycle="quiet")


def test_sample_info():
    """A callable for samples is told where it is."""
    pipe = make(lambda i: np.array([i.idx_in_epoch, i.idx_in_batch, i.iteration, i.epoch_idx]), batch=False)
    assert values(pipe, 2) == [[[0, 0, 0, 0], [1, 1, 0, 0]], [[2, 0, 1, 0], [3, 1, 1, 0]]]
    pipe.reset()
    assert values(pipe, 1) == [[[0, 0, 0, 1], [1, 1, 0, 1]]]


def test_without_cycle_the_end_is_final():
    """As in DALI a source that is not cycled does not rewind at reset."""
    pipe = make(two)
    assert values(pipe, 3)[-1] == "STOP"
    pipe.reset()
    assert values(pipe, 1) == ["STOP"]


def test_cycle_raise_rewinds_at_reset():
    """cycle="raise": StopIteration at the end, again until reset, then from the beginning."""
    pipe = make(two, cycle="raise")
    assert values(pipe, 4) == [[0, 0], [1, 1], "STOP", "STOP"]
    pipe.reset()
    assert values(pipe, 3) == [[0, 0], [1, 1], "STOP"]


def test_stop_iteration_from_a_callable_ends_the_data():
    """A callable ends an epoch by raising StopIteration, and decides itself what comes after reset."""

    def source(iteration):
        if iteration == 2:
            raise StopIteration
        return np.array([iteration, iteration])

    pipe = make(source)
    assert values(pipe, 4) == [[0, 0], [1, 1], "STOP", "STOP"]
    pipe.reset()
    assert values(pipe, 3) == [[0, 0], [1, 1], "STOP"]


def test_per_sample_callable_that_stops_in_the_middle():
    """The samples before the end make a shorter last batch: none is lost."""

    def source(info):
        if info.idx_in_epoch == 3:
            raise StopIteration
        return np.array(info.idx_in_epoch)

    pipe = make(source, batch=False)
    assert values(pipe, 3) == [[0, 1], [2], "STOP"]
    pipe.reset()
    assert values(pipe, 3) == [[0, 1], [2], "STOP"]


def test_several_outputs():
    """num_outputs gives a list of nodes; a source returns one entry an output."""
    pipe = make(lambda i: ([np.array(1), np.array(2)], np.array([3.0, 4.0])), num_outputs=2)
    first, second = pipe.run()
    assert first.as_array().tolist() == [1, 2]
    assert second.as_array().tolist() == [3, 4]
    pipe = make(lambda i: (np.array(1), np.array([2, 3])), num_outputs=2, batch=False)
    assert pipe.run()[1].as_array().tolist() == [[2, 3], [2, 3]]
    outputs = np.array([[1, 2], [3, 4]])  # the first axis of an array has the outputs
    assert [x.as_array().tolist() for x in make(lambda: outputs, num_outputs=2).run()] == outputs.tolist()
    single = make(lambda: outputs, num_outputs=2, batch=False)
    assert [x.at(1).tolist() for x in single.run()] == outputs.tolist()


def test_one_output_in_a_list():
    """num_outputs=1 gives a list of one node, none the bare node."""
    seen = []

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        seen.append(type(fn.external_source(lambda: np.zeros(1))))
        made = fn.external_source(lambda: [np.zeros(1)], num_outputs=1)
        seen.append(type(made))
        return made[0]

    define().run()
    assert seen[1] is list
    assert seen[0] is not list


@pytest.mark.parametrize(
    ("source", "arguments", "error", "text"),
    [
        (lambda i: ([1],), {"num_outputs": 2}, IndexError, "returned 1 outputs for a batch, num_outputs is 2"),
        (
            lambda i: np.array([1, 2]),
            {"dtype": types.UINT8},
            RuntimeError,
            "expected data of type uint8 and got: int64",
        ),
        (lambda i: np.array([[1], [2]]), {"ndim": 0}, RuntimeError, "expected data with 0 dimensions and got 1"),
        (lambda i: np.array([[1], [2]]), {"layout": "HW"}, RuntimeError, "'HW' cannot describe 1-dimensional"),
        (
            lambda i: [np.array(1), np.array(2.5)],
            {},
            RuntimeError,
            "first sample of this epoch is int64 and this one is float64",
        ),
        (lambda i: [np.array(1), np.array([2])], {}, RuntimeError, "same number of dimensions"),
        (lambda i: np.zeros(5), {}, RuntimeError, "Expected batch_size <= 2, actual: 5"),
        (lambda i: None, {}, RuntimeError, "NoneType None"),
        (lambda i: 1 / 0, {}, ZeroDivisionError, "division by zero"),
        (lambda i: 3.5, {}, RuntimeError, "a batch is a list of arrays"),
        (lambda i: np.zeros(()), {}, RuntimeError, "single number"),
        (lambda i: np.zeros(2, np.longdouble), {}, RuntimeError, "is not supported"),
        (lambda i: np.zeros(2, "M8[s]"), {}, ValueError, "datetime64.* is not supported"),
        (lambda i: (np.zeros(1), np.zeros(2)), {"num_outputs": 2}, RuntimeError, "different batch sizes"),
    ],
)
def test_what_a_source_must_not_return(source, arguments, error, text):
    """Every mistake is an error of the type DALI raises, with the user's line, and the pipeline goes on."""
    pipe = make(source, **arguments)
    with pytest.raises(error, match=text) as caught:
        pipe.run()
    assert any("test_external_source.py" in note for note in caught.value.__notes__)
    with pytest.raises(error, match=text):
        pipe.run()


@pytest.mark.parametrize(
    ("source", "arguments", "error", "text"),
    [
        (lambda a, b: None, {}, TypeError, "either 0 or 1 positional arguments"),
        (5, {}, TypeError, "must be callable, iterable or a parameterless generator function"),
        (None, {"cycle": "quiet"}, ValueError, "cycle needs a source"),
        (lambda: 1, {"num_outputs": 0}, ValueError, "num_outputs must be at least 1"),
        (lambda: 1, {"cycle": "often"}, ValueError, "must be 'no' or 'quiet' or 'raise'"),
        (lambda: 1, {"dtype": [types.UINT8] * 3, "num_outputs": 2}, ValueError, "dtype has 3 entries for 2 outputs"),
        (lambda: 1, {"ndim": 2, "layout": "HWC"}, RuntimeError, "ndim=2 does not fit layout='HWC', which has 3 axes"),
        (lambda: 1, {"dtpye": types.UINT8}, KeyError, "did you mean 'dtype'"),
    ],
)
def test_what_is_refused_when_the_graph_is_built(source, arguments, error, text):
    """Arguments that cannot work are found before anything runs."""
    with pytest.raises(error, match=text):
        make(source, **arguments)


def test_declared_types_are_known_to_the_graph():
    """dtype, ndim and layout, one for all or one an output, are known while the pipeline is being defined."""
    known = []

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        first, second = fn.external_source(
            lambda: 1, num_outputs=2, dtype=[types.UINT8, types.FLOAT], ndim=[3, 0], layout=["HWC", ""]
        )
        known.append((first.dtype, first.ndim, first.layout, second.dtype, second.ndim))
        return first, second

    define()
    assert known[0] == (types.UINT8, 3, "HWC", types.FLOAT, 0)


@pytest.mark.parametrize("layout", ["HWC", None])
def test_layouts_travel(layout):
    """The declared layout, or that of a fed batch, is the layout of the output."""
    data = TensorListCPU(np.zeros((2, 4, 4, 3)), "HWC")
    pipe = make(lambda: data if layout is None else np.zeros((2, 4, 4, 3)), layout=layout)
    assert pipe.run()[0].layout() == "HWC"


FLAT = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        (lambda i: TensorCPU(FLAT, "HW"), {"batch": False}, "HW"),
        (lambda i: TensorCPU(FLAT, "HW") if i.idx_in_batch == 0 else FLAT, {"batch": False}, "HW"),
        ([TensorCPU(FLAT, "HW")] * 2, {"batch": False}, "HW"),
        (lambda: [TensorCPU(FLAT, "HW"), FLAT], {}, "HW"),
        (lambda: [TensorCPU(FLAT, "HW"), TensorCPU(FLAT, "XY")], {"layout": "AB"}, "AB"),
        (lambda i: TensorCPU(FLAT, "HW"), {"batch": False, "layout": ""}, ""),
    ],
)
def test_layouts_of_single_samples(source, arguments, expected):
    """A batch has the layout of its first sample, if no layout is declared; the operators that follow know it."""
    pipe = make(source, **arguments)
    assert pipe.run()[0].layout() == expected


def test_each_output_has_the_layout_of_its_samples():
    """With several outputs a layout may be declared for some of them."""
    source = lambda i: (TensorCPU(FLAT, "HW"), TensorCPU(FLAT, "XY"), FLAT)
    pipe = make(source, batch=False, num_outputs=3, layout=[None, "AB"])
    assert [output.layout() for output in pipe.run()] == ["HW", "AB", ""]


@pytest.mark.parametrize(
    ("source", "arguments", "text"),
    [
        (lambda: [TensorCPU(FLAT, "HW"), TensorCPU(FLAT, "XY")], {}, "sample 0 is 'HW' and that of sample 1 is 'XY'"),
        (lambda: [FLAT, TensorCPU(FLAT, "XY")], {}, "sample 0 is '' and that of sample 1 is 'XY'"),
        (
            lambda i: TensorCPU(FLAT, "XY" if i.idx_in_batch else "HW"),
            {"batch": False},
            "sample 0 is 'HW' and that of sample 1 is 'XY'",
        ),
    ],
)
def test_samples_of_different_layouts(source, arguments, text):
    """A batch has one layout."""
    with pytest.raises(RuntimeError, match=text):
        make(source, **arguments).run()


def test_the_layout_of_single_samples_stays():
    """The layout may not change from batch to batch."""
    pipe = make(lambda i: TensorCPU(FLAT, "XY" if i.iteration else "HW"), batch=False)
    pipe.run()
    with pytest.raises(RuntimeError, match="it was 'HW' in the previous batch and is 'XY' now"):
        pipe.run()


def test_a_sample_that_fails_has_no_layout():
    """The layout is that of the samples that remain."""

    def source(info):
        if info.idx_in_batch == 0:
            raise ValueError("no such sample")
        return TensorCPU(FLAT, "HW")

    pipe = make(source, batch=False, pipeline={"on_error": "skip"})
    assert pipe.run()[0].layout() == "HW"


NAMED = TensorListCPU([FLAT, FLAT], "HW", source_info=["a.png", "b.png"])


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        (lambda: NAMED, {}, ["a.png", "b.png"]),
        (lambda: [NAMED[0], FLAT], {}, ["a.png", ""]),
        (lambda: [FLAT, FLAT], {}, ["", ""]),
        (lambda i: NAMED[i.idx_in_batch], {"batch": False}, ["a.png", "b.png"]),
        (lambda: (FLAT[:2], NAMED), {"num_outputs": 2}, ["a.png", "b.png"]),
        (lambda i: (0, NAMED[i.idx_in_batch]), {"num_outputs": 2, "batch": False}, ["a.png", "b.png"]),
    ],
)
def test_samples_of_another_pipeline_keep_their_sources(source, arguments, expected):
    """Batches and single tensors say where they come from; so do all outputs of a source."""
    for output in make(source, **arguments).run():
        assert output.source_info() == expected


def test_fed_samples_keep_their_sources():
    """Also if the batch is fed by hand."""
    pipe = make(name="x", pipeline={"prefetch_queue_depth": 1})
    for data in (NAMED, list(NAMED)):
        pipe.feed_input("x", data)
        assert pipe.run()[0].source_info() == ["a.png", "b.png"]


@pytest.mark.parametrize("debug", [False, True])
def test_samples_at_other_places_of_the_batch_name_no_source(debug):
    """Neither does what is made of them: the sources of the reader are in another order."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, debug=debug)
    def define():
        data = fn.external_source(lambda: NAMED)
        moved = fn.permute_batch(data, indices=[1, 0])
        return data, moved, moved + 1, data + moved

    pipe = define()
    pipe.build()
    first, *others = pipe.run()
    assert first.source_info() == ["a.png", "b.png"]
    assert [output.source_info() for output in others] == [["", ""]] * 3


def test_the_source_of_a_sample_that_replaces_another():
    """It is delivered with the sample; the report has the source of the one that failed."""

    def check(x):
        if not x.any():
            raise ValueError("not this one")
        return x

    samples = TensorListCPU([FLAT, FLAT + 1], source_info=["a.png", "b.png"])

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, on_error="replace")
    def define():
        return fn.python_function(fn.external_source(lambda: samples), function=check)

    pipe = define()
    assert pipe.run()[0].source_info() == ["b.png", "b.png"]
    assert pipe.failures()[0].source == "a.png"


def test_sources_beside_a_sample_that_fails():
    """Each of the others keeps its own."""

    def source(info):
        if info.idx_in_batch == 0:
            raise ValueError("no such sample")
        return NAMED[info.idx_in_batch]

    (batch,) = make(source, batch=False, pipeline={"on_error": "skip"}).run()
    assert batch.source_info() == ["b.png"]


class Buffer:
    """Only the buffer protocol."""

    def __init__(self, data):
        self._data = data

    def array(self):
        return memoryview(self._data)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: x.tolist(),
        TensorCPU,
        lambda x: memoryview(x),
        lambda x: (ctypes.c_int64 * 2)(*x.tolist()),
        lambda x: x.__dlpack__(),
    ],
)
def test_what_counts_as_a_sample(convert):
    """NumPy arrays, lists, tensors, buffers and DLPack capsules are samples."""
    pipe = make(lambda: [convert(np.array([1, 2])), convert(np.array([3, 4]))])
    assert pipe.run()[0].as_array().tolist() == [[1, 2], [3, 4]]


def test_data_is_copied_unless_no_copy():
    """The source may overwrite its array after returning it; with no_copy the batch is the user's own memory."""
    mine = np.zeros((2, 3), np.float32)

    def source(iteration):
        mine[:] = iteration
        return mine

    pipe = make(source)
    first, second = pipe.run()[0], pipe.run()[0]
    assert first.as_array().max() == 0
    assert second.as_array().min() == 1
    assert np.shares_memory(make(lambda: mine, no_copy=True).run()[0].as_array(), mine)


def fed(name="data", **arguments):
    """A pipeline that is fed by hand."""
    return make(None, name=name, **arguments)


def test_feed_input():
    """Batches come out in the order in which they were fed, as arrays, lists or batches."""
    pipe = fed()
    pipe.feed_input("data", np.array([1, 2]))
    pipe.feed_input("data", [np.array(3), np.array(4)])
    pipe.feed_input("data", TensorListCPU([np.array(5)]))
    assert values(pipe, 3) == [[1, 2], [3, 4], [5]]


def test_fed_data_is_copied_at_once():
    """The array may be changed as soon as feed_input returns."""
    pipe, data = fed(), np.array([1, 2])
    pipe.feed_input("data", data)
    data[:] = 9
    assert values(pipe, 1) == [[1, 2]]


def test_run_with_named_inputs():
    """Keywords of run() feed the inputs of that very batch, at any prefetch depth."""
    pipe = fed()
    assert pipe.run(data=np.array([1, 2]))[0].as_array().tolist() == [1, 2]
    assert pipe.run(data=np.array([3]))[0].as_array().tolist() == [3]


def test_missing_feed():
    """Without data a run says what is missing; fed afterwards it works."""
    pipe = fed()
    with pytest.raises(IndexError, match="no data was fed"):
        pipe.run()
    assert pipe.run(data=np.array([1]))[0].as_array().tolist() == [1]


def test_repeat_last():
    """repeat_last gives the last batch again when nothing new was fed."""
    pipe = fed(repeat_last=True)
    pipe.feed_input("data", np.array([1, 2]))
    assert values(pipe, 3) == [[1, 2]] * 3


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize(
    "form", [np.array, lambda numbers: [np.array([number]) for number in numbers]], ids=["dense", "list"]
)
def test_a_batch_that_comes_again_is_as_it_was_fed(no_copy, form):
    """A function that would write into it gets no right to: neither the next batch nor the user's data change."""

    def double(x):
        if x.flags.writeable:
            x *= 2
            return x
        return x * 2

    def define():
        data = fn.external_source(name="data", repeat_last=True, no_copy=no_copy)
        return fn.python_function(data, function=double)

    pipe = pipeline_def(define, batch_size=2, num_threads=2, prefetch_queue_depth=1)()
    given = form([1, 2])
    pipe.feed_input("data", given)
    assert [np.ravel(pipe.run()[0].as_array()).tolist() for _ in range(4)] == [[2, 4]] * 4
    assert np.ravel(given).tolist() == [1, 2]


def test_blocking_waits_for_data(monkeypatch):
    """blocking=True waits in the pipeline until a batch is fed."""
    pipe = fed(blocking=True)
    pipe.build()
    waiting, wait = threading.Event(), threading.Condition.wait
    arrived = pipe._built().course.source("data").fed._arrived

    def noted(condition, timeout=None):
        if condition is arrived:
            waiting.set()
        return wait(condition, timeout)

    def feed():
        assert waiting.wait(LONG)
        pipe.feed_input("data", np.array([7]))

    monkeypatch.setattr(threading.Condition, "wait", noted)
    feeder = threading.Thread(target=feed)
    feeder.start()
    assert values(pipe, 1) == [[7]]
    feeder.join()


def test_unknown_input():
    """A wrong name lists the right ones."""
    with pytest.raises(RuntimeError, match=r'input operator with name "dat" .*did you mean .data'):
        fed().feed_input("dat", np.array([1]))


def test_feeding_a_source_that_has_a_callable():
    """It cannot be fed as well."""
    pipe = make(two, name="data")
    with pytest.raises(RuntimeError, match="Cannot use `feed_input` on an external source with a `source` argument"):
        pipe.feed_input("data", np.array([1]))


def test_feed_with_the_wrong_type():
    """Declared types hold for fed data, at the call that feeds."""
    with pytest.raises(RuntimeError, match="expected data of type uint8 and got: int64"):
        fed(dtype=types.UINT8).feed_input("data", np.array([1]))


def test_input_feed_count():
    """At first one batch for each that is prepared ahead, then one."""
    pipe = fed()
    assert pipe.input_feed_count("data") == 2
    for index in range(2):
        pipe.feed_input("data", np.array([index]))
    pipe.run()
    assert pipe.input_feed_count("data") == 1


def test_sources_must_agree_on_the_batch_size():
    """Two sources with different sizes in one batch: both are named."""

    @pipeline_def(batch_size=4, num_threads=1)
    def define():
        return fn.external_source(lambda: np.zeros(2), name="a"), fn.external_source(lambda: np.zeros(3), name="b")

    with pytest.raises(RuntimeError, match="a: 2, b: 3"):
        define().run()


def test_texts_travel():
    """str and bytes samples make batches of objects."""
    pipe = make(lambda: ["cat", "dog"])
    assert [sample.item() for sample in pipe.run()[0].samples()] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "returned None instead of an array"),
        ({"a": 1}, "instead of an array"),
        (np.zeros(3, np.float64), "the first sample of this epoch is int32 and this one is float64"),
        (np.zeros((3, 1), np.int32), "the first sample has 1 and this one has 2"),
    ],
)
@pytest.mark.parametrize("at", [0, 2])
def test_one_odd_sample_fails_alone(bad, message, at):
    """It is named, on_error applies to it, and what the epoch began with decides who is odd, not the first of its batch."""

    def source(info):
        return bad if info.idx_in_epoch == 3 + at else np.full(3, info.idx_in_epoch, np.int32)

    def define(rule):
        return pipeline_def(
            lambda: fn.external_source(source, batch=False), batch_size=3, num_threads=1, device_id=None, on_error=rule
        )()

    pipe = define("skip")
    given = [[int(sample[0]) for sample in pipe.run()[0].samples()] for _ in range(3)]
    assert given == [[0, 1, 2], [x for x in (3, 4, 5) if x != 3 + at], [6, 7, 8]]
    assert message in str(pipe.failures()[0].exception)
    strict = define("raise")
    strict.run()
    with pytest.raises(RuntimeError, match=message) as caught:
        strict.run()
    assert any(f"sample {at} of batch 1" in note for note in caught.value.__notes__)
    assert int(strict.run()[0].at(0)[0]) == 6


def test_data_that_changes_its_type_between_batches_is_refused():
    """A whole batch of another type or rank is an error, as in DALI; a new epoch may begin with another one."""
    batches = [np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32), np.zeros((2, 3, 1), np.int32)]
    pipe = pipeline_def(lambda: fn.external_source(batches), batch_size=2, num_threads=1, device_id=None)()
    pipe.run()
    with pytest.raises(RuntimeError, match="Type of the data fed to the external source has changed"):
        pipe.run()
    with pytest.raises(RuntimeError, match="the same number of dimensions, and all batches of an epoch"):
        pipe.run()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_outputs": 2}, "`num_outputs` is only valid when using `source`"),
        ({"source": two, "prefetch_queue_depth": 3}, "`prefetch_queue_depth` is valid only for parallel"),
        ({"source": two, "bogus": 1}, 'Argument "bogus" is not defined'),
    ],
)
def test_arguments_that_do_not_go_together(arguments, text):
    """DALI's ValueError, before anything runs."""
    with pytest.raises(ValueError, match=text):
        pipeline_def(lambda: fn.external_source(**arguments), batch_size=2, num_threads=1)()


def test_a_batch_that_is_fed_is_no_larger_than_those_of_the_pipeline():
    """The error comes from feed_input, not from a later run."""
    pipe = fed()
    with pytest.raises(RuntimeError, match="Expected batch_size <= 2, actual: 3"):
        pipe.feed_input("data", [np.array(1)] * 3)


@pytest.mark.parametrize(
    "odd",
    [np.zeros(3, "i4,i4"), np.zeros(3, "M8[D]"), np.zeros(3, np.longdouble)],
    ids=["structured", "dates", "long double"],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_sample_of_a_type_that_there_is_not_fails_alone(odd, place):
    """Wherever it is in the batch; the first sample of a type that there is decides about the others."""

    def build(rule):
        @pipeline_def(batch_size=3, num_threads=1, on_error=rule)
        def define():
            return fn.external_source(
                lambda info: odd if info.idx_in_batch == place else np.full(3, info.idx_in_batch), batch=False
            )

        return define()

    others = [row for row in range(3) if row != place]
    assert [int(x[0]) for x in build("skip").run()[0].samples()] == others
    assert [int(x[0]) for x in build("replace").run()[0].samples()] == [1, 1, 2] if place == 0 else [0, 2, 2]
    with pytest.raises((TypeError, RuntimeError)) as caught:
        build("raise").run()
    assert f"in fn.external_source, sample {place} of batch 0" in caught.value.__notes__
