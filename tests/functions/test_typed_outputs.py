"""outputs=Spec(...): checked at every call, known when the graph is built, and named."""

import dataclasses
import pickle
from collections import namedtuple
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from pipeflow import Spec, fn, pipeline_def, types
from pipeflow.declare import NamedOutputs, Outputs
from pipeflow.operators.functions.results import _as_promised

BATCH = 3
IMAGE = Spec(np.uint8, (None, None, 3), "HWC")


def images(info):
    return np.full((4 + info.idx_in_batch, 5, 3), info.idx_in_epoch, np.uint8)


def run(define, **settings):
    pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings})()
    return pipe.run()


@pytest.mark.parametrize("settings", [{}, {"parallel": "threads"}, {"batch_processing": True}])
def test_a_promise_is_known_when_the_graph_is_built(settings):
    """Type, number of axes and layout of the output are there before anything runs, and on the batch."""
    seen = []

    def define():
        x = fn.external_source(images, batch=False)
        y = fn.python_function(x, function=lambda x: x, outputs=IMAGE, **settings)
        seen.append((y.dtype, y.ndim, y.layout, y.spec.shape))
        return y

    (batch,) = run(define)
    assert seen == [(types.UINT8, 3, "HWC", (None, None, 3))]
    assert batch.layout() == "HWC"


@pytest.mark.parametrize(
    ("result", "error", "shown"),
    [
        (np.zeros((2, 2, 3), np.float32), TypeError, "returned float32 2x2x3"),
        (np.zeros((2, 2, 4), np.uint8), ValueError, "returned uint8 2x2x4"),
        (np.zeros((2, 2), np.uint8), ValueError, "returned uint8 2x2"),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"parallel": "threads"}, {"batch_processing": True}])
def test_a_broken_promise_shows_both_sides(result, error, shown, settings):
    """The message has what was declared and what came back, for every way of calling."""

    def function(x):
        return [result] * len(x) if settings.get("batch_processing") else result

    def define():
        return fn.python_function(fn.external_source(images, batch=False), function=function, outputs=IMAGE, **settings)

    with pytest.raises(error) as caught:
        run(define)
    assert "is declared as uint8 ?x?x3 HWC and the function" in str(caught.value)
    assert shown in str(caught.value)


def test_the_promise_is_checked_at_every_call():
    """The third sample is checked as the first one is, also where only its shape differs."""

    def shrink(x):
        return x[:, :, : 2 if x.shape[0] == 6 else 3]

    with pytest.raises(ValueError, match="returned uint8 6x5x2") as caught:
        run(lambda: fn.python_function(fn.external_source(images, batch=False), function=shrink, outputs=IMAGE))
    assert "sample 2 of batch 0" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.float32])
@pytest.mark.parametrize("value", [0, [0, 1], [0, 0], [7]], ids=str)
@pytest.mark.parametrize("settings", [{}, {"parallel": "threads"}])
def test_python_integers_from_zero_up_take_every_promised_type_of_numbers(kind, value, settings):
    """0 is no negative number: an unsigned type holds it."""

    def define():
        x = fn.external_source(images, batch=False)
        return fn.python_function(x, function=lambda x: value, outputs=Spec(kind), **settings)

    (out,) = run(define)
    assert out.at(1).dtype == kind
    assert out.at(1).tolist() == value


@pytest.mark.parametrize("value", [-1, [0, -1]], ids=str)
def test_a_negative_integer_is_none_of_an_unsigned_type(value):
    """It is refused with the promise; it does not wrap around."""
    with pytest.raises(TypeError, match="is declared as uint8"):
        run(
            lambda: fn.python_function(
                fn.external_source(images, batch=False), function=lambda x: value, outputs=Spec(np.uint8)
            )
        )


def test_a_list_of_promises_is_several_outputs():
    """The number of entries is the number of outputs; num_outputs need not be said again."""
    left, right = fn.python_function(
        np.ones(3), function=lambda x: (x, 2), outputs=[Spec(np.float64, (3,)), types.INT32]
    )
    assert left.dtype == np.float64
    assert right.dtype == np.int32
    with pytest.raises(ValueError, match="outputs has 2 entries and num_outputs is 3"):
        fn.python_function(np.ones(3), function=lambda x: (x, x), outputs=[Spec(), Spec()], num_outputs=3)


@dataclasses.dataclass
class Detection:
    """A result with fields."""

    image: Annotated[np.ndarray, Spec(np.uint8, (None, None, 3), "HWC")]
    label: Annotated[int, Spec(np.int32, ())]


class Pair(NamedTuple):
    """A result with fields."""

    image: Annotated[np.ndarray, Spec(np.uint8, (None, None, 3), "HWC")]
    label: Annotated[int, Spec(np.int32, ())]


FIELDS = {"image": IMAGE, "label": Spec(np.int32, ())}
RESULTS = {
    "dict": (FIELDS, lambda x: {"label": 7, "image": x}),
    "dataclass": (Detection, lambda x: Detection(x, 7)),
    "dataclass by fields": (FIELDS, lambda x: Detection(x, 7)),
    "named tuple": (Pair, lambda x: Pair(x, 7)),
    "collections.namedtuple": (FIELDS, lambda x: namedtuple("Result", "image label")(x, 7)),
    "plain tuple": (FIELDS, lambda x: (x, 7)),
}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("settings", [{}, {"parallel": "threads"}])
def test_fields_become_named_outputs(kind, settings):
    """Outputs are reached by name, by attribute and by position."""
    promise, function = RESULTS[kind]

    def define():
        x = fn.external_source(images, batch=False)
        found = fn.python_function(x, function=function, outputs=promise, **settings)
        first, second = found
        assert found["image"] is found.image is first is found[0]
        assert found.label is second
        return found.image, found["label"], x

    image, label, plain = run(define)
    assert [int(x) for x in label.samples()] == [7] * BATCH
    assert label.dtype == types.INT32
    for left, right in zip(image.samples(), plain.samples()):
        np.testing.assert_array_equal(left, right)


def test_fields_of_a_batch_function():
    """A function of whole batches may return a dict of batches."""

    def function(xs):
        return {"sum": [x.sum() for x in xs], "twice": [2 * x for x in xs]}

    out = fn.python_function(
        [np.arange(2), np.arange(3)],
        function=function,
        batch_processing=True,
        outputs={"twice": np.int64, "sum": np.int64},
    )
    assert [int(x) for x in out.sum.samples()] == [1, 3]
    np.testing.assert_array_equal(out.twice.at(1), [0, 2, 4])


@pytest.mark.parametrize("result", [{"image": 1}, {"image": 1, "label": 2, "more": 3}])
def test_missing_and_unknown_fields_are_named(result):
    """The message lists the returned and the declared fields."""
    with pytest.raises(ValueError, match=r"returned the fields image.*; declared are image, label"):
        fn.python_function(np.ones(1), function=lambda _: result, outputs={"image": None, "label": None})


def test_an_unknown_name_lists_the_names():
    """Attribute and key errors of named outputs say which names there are, and named outputs can be pickled."""
    out = NamedOutputs((1, 2), ("left", "right"))
    with pytest.raises(AttributeError, match="there are left, right"):
        _ = out.middle
    with pytest.raises(KeyError, match="there are left, right"):
        _ = out["middle"]
    assert pickle.loads(pickle.dumps(out)).right == 2


def test_a_layout_that_contradicts_is_refused():
    """outputs and output_layouts must agree, and a layout must have as many letters as the shape axes."""
    with pytest.raises(ValueError, match="outputs says layout 'HWC' and output_layouts 'CHW'"):
        fn.python_function(np.ones(1), function=lambda x: x, outputs=IMAGE, output_layouts="CHW")
    with pytest.raises(ValueError, match="has 3 axes and shape"):
        Spec(np.uint8, (None, 3), "HWC")
    with pytest.raises(ValueError, match="must be an identifier"):
        Outputs.of({"two words": None})


@pytest.mark.parametrize("kind", [str, bytes])
def test_text_travels(kind):
    """str and bytes are samples of type STRING, through functions, stages and pipeline outputs."""

    def name(x):
        return f"number {int(x)}" if kind is str else b"number %d" % int(x)

    def define():
        x = fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False)
        text = fn.python_function(x, function=name, outputs=Spec(kind))
        threads = fn.python_function(text, function=lambda t: t.item() + t.item()[:2], parallel="threads")
        return text, threads, fn.python_function(text, function=lambda t: len(t.item()))

    text, longer, length = run(define)
    assert text.dtype == types.STRING
    assert text.at(1).item() == (kind("number 1") if kind is str else b"number 1")
    assert longer.at(2).item()[-2:] in ("nu", b"nu")
    assert int(length.at(0)) == len("number 0")


def test_text_cannot_go_to_the_gpu():
    """Text on its way to the GPU is an error when the graph is built."""

    def define():
        x = fn.external_source(images, batch=False)
        return fn.python_function(x, function=lambda _: "text", outputs=Spec(str)).gpu()

    with pytest.raises(TypeError, match="str and bytes stay on the CPU"):
        run(define)


@pytest.mark.parametrize(
    ("value", "dtype", "kept"), [(1.5, "u1", 1.5), (-1, "u1", -1), (3, "u1", 3), ([2, 3], "u2", [2, 3]), (2, "f4", 2.0)]
)
def test_python_numbers_become_the_declared_type_if_it_holds_them(value, dtype, kept):
    """No float becomes an integer, and no negative number an unsigned one: these are checked as they are."""
    found = _as_promised(value, np.dtype(dtype))
    fits = kept is not value or isinstance(found, np.ndarray)
    assert fits == (value not in (1.5, -1))
    assert np.asarray(found).tolist() == kept
    assert not fits or found.dtype == dtype
