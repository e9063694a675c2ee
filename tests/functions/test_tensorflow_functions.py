"""fn.py_func, fn.numpy_function and fn.py_function: TensorFlow's signatures, types checked, pure calls merged."""

import importlib.util
import inspect

import numpy as np
import pytest

from pipeflow import declare, fn, pipeline_def, types

THREE = (fn.py_func, fn.numpy_function, fn.py_function)
three = pytest.mark.parametrize("op", THREE, ids=lambda op: op.__name__)
BATCH = 4


def numpy_only(op):
    """Keywords with which an operator hands NumPy arrays to the function."""
    return {"framework": "numpy"} if op is fn.py_function else {}


def numbers(info):
    return np.arange(3, dtype=np.float32) + info.idx_in_epoch


def run(define, batches=1, **settings):
    """The outputs of some batches of a pipeline, as lists of arrays."""
    pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings})()
    results = [[[np.array(x) for x in batch.samples()] for batch in pipe.run()] for _ in range(batches)]
    return pipe, results


@three
def test_the_signature_is_tensorflows(op):
    """func, inp and Tout may be given by position in TensorFlow's order, name and stateful as TensorFlow has them."""
    names = list(inspect.signature(op).parameters)
    expected = ["func", "inp", "Tout", "name"] if op is fn.py_function else ["func", "inp", "Tout", "stateful", "name"]
    assert names[: len(expected)] == expected
    result = op(lambda a, b: a + b, [np.ones(2), np.full(2, 2.0)], np.float64, **numpy_only(op))
    np.testing.assert_array_equal(result, [3, 3])


@three
def test_keywords_mean_the_same_as_positions(op):
    """The call by keywords gives what the call by position gives."""
    result = op(Tout=np.float64, inp=[np.ones(2)], func=np.negative, **numpy_only(op))
    np.testing.assert_array_equal(result, [-1, -1])


def test_the_class_api_takes_data_at_the_call():
    """ops.NumpyFunction gets its arguments at construction and its data by position at the call, as all operators do."""
    from pipeflow import ops

    operator = ops.NumpyFunction(func=np.add, Tout=np.float64)
    np.testing.assert_array_equal(operator(np.ones(2), np.ones(2)), [2, 2])


@three
def test_a_pipeline_calls_the_function_for_every_sample(op):
    """In a pipeline inp may mix nodes and constants; every sample is one call."""

    def define():
        x = fn.external_source(numbers, batch=False)
        return op(lambda a, b: a * b, [x, np.float32(2)], types.FLOAT, **numpy_only(op))

    _, [[outputs]] = run(define)
    for sample, output in enumerate(outputs):
        np.testing.assert_array_equal(output, (np.arange(3) + sample) * 2)
        assert output.dtype == np.float32


@three
@pytest.mark.parametrize("several", [list, tuple])
def test_a_list_of_types_gives_a_list_of_outputs(op, several):
    """Tout as a list or tuple gives as many outputs in a list, also for one; a bare type gives one output."""
    result = op(lambda x: (x, 3), [np.ones(2)], several([np.float64, np.int32]), **numpy_only(op))
    assert isinstance(result, list)
    assert [x.dtype for x in result] == [np.float64, np.int32]
    one = op(lambda x: x, [np.ones(2)], several([np.float64]), **numpy_only(op))
    assert isinstance(one, list)
    assert len(one) == 1
    assert isinstance(op(lambda x: x, [np.ones(2)], np.float64, **numpy_only(op)), np.ndarray)


@three
def test_a_single_result_may_come_in_a_list(op):
    """With one type the function may return the array or a list that holds it."""
    for function in (lambda x: x, lambda x: [x], lambda x: (x,)):
        np.testing.assert_array_equal(op(function, [np.arange(2.0)], np.float64, **numpy_only(op)), [0, 1])


@three
def test_no_types_mean_no_results(op):
    """With Tout=[] the function is called for its effect and may return None; anything else is an error."""
    seen = []
    assert op(seen.append, [np.array(5)], [], **numpy_only(op)) is None
    assert [int(x) for x in seen] == [5]
    with pytest.raises(TypeError, match=r"declared with Tout=\[\] and returned"):
        op(lambda x: x, [np.array(5)], [], **numpy_only(op))


@three
def test_the_wrong_type_names_both_types(op):
    """A result of another type than declared is an error that names both, the function and its line."""
    with pytest.raises(TypeError) as caught:
        op(lambda x: x.astype(np.float64), [np.ones(2, np.float32)], np.float32, **numpy_only(op))
    text = str(caught.value)
    assert "declared as float32" in text
    assert "returned float64 2" in text
    assert "test_tensorflow_functions.py" in text


@three
def test_the_wrong_number_of_results_names_both_numbers(op):
    """A result of another number of outputs than declared is an error that names both."""
    with pytest.raises(ValueError, match="returned 3 outputs, declared is Tout of 2 types"):
        op(lambda x: (x, x, x), [np.ones(2)], [np.float64, np.float64], **numpy_only(op))
    with pytest.raises(ValueError, match="returned 2 outputs, declared is Tout of 1 type"):
        op(lambda x: (x, x), [np.ones(2)], np.float64, **numpy_only(op))


@three
def test_python_numbers_take_the_declared_type(op):
    """A Python int may be any integer or float, a Python float any float but no integer."""
    assert op(lambda _: 3, [np.ones(1)], np.float32, **numpy_only(op)).dtype == np.float32
    assert op(lambda _: 3, [np.ones(1)], np.uint8, **numpy_only(op)).dtype == np.uint8
    assert op(lambda _: [1.5, 2.5], [np.ones(1)], np.float32, **numpy_only(op)).dtype == np.float32
    with pytest.raises(TypeError, match="declared as int32"):
        op(lambda _: 1.5, [np.ones(1)], np.int32, **numpy_only(op))


@pytest.mark.parametrize("op", THREE[:2], ids=lambda op: op.__name__)
def test_equal_pure_calls_are_merged(op):
    """With stateful=False the same function on the same inputs runs once a sample; another function runs as well."""
    calls = []

    def count(x):
        calls.append(1)
        return x

    def define():
        x = fn.external_source(numbers, batch=False)
        once = op(count, [x], np.float32, stateful=False)
        twice = op(count, [x], np.float32, stateful=False)
        return once, twice, op(np.negative, [x], np.float32, stateful=False)

    pipe, [outputs] = run(define, prefetch_queue_depth=1, exec_pipelined=False)
    assert len(calls) == BATCH
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], np.negative(outputs[2]))
    assert sum(step.op == op.op.name for step in pipe.plan.steps()) == 2


@pytest.mark.parametrize("op", THREE, ids=lambda op: op.__name__)
def test_stateful_calls_are_neither_merged_nor_dropped(op):
    """Equal calls both run, and one whose result nobody uses runs too."""
    calls = []

    def count(x):
        calls.append(1)
        return x

    def define():
        x = fn.external_source(numbers, batch=False)
        op(count, [x], np.float32, **numpy_only(op))
        return op(count, [x], np.float32, **numpy_only(op)), op(count, [x], np.float32, **numpy_only(op))

    run(define, prefetch_queue_depth=1, exec_pipelined=False)
    assert len(calls) == 3 * BATCH


@pytest.mark.parametrize("op", THREE[:2], ids=lambda op: op.__name__)
def test_an_unused_pure_call_is_dropped(op):
    """With stateful=False a call whose result nobody uses never runs."""

    def never(_x):
        raise AssertionError

    def define():
        x = fn.external_source(numbers, batch=False)
        op(never, [x], np.float32, stateful=False)
        return x

    run(define)


@three
def test_a_missing_argument_is_named(op):
    """Calls without inp or Tout, with too many positions or with the same argument twice say so."""
    with pytest.raises(TypeError, match="'inp' is required"):
        op(func=np.negative, Tout=np.float32, **numpy_only(op))
    with pytest.raises(TypeError, match="argument 'Tout' is required"):
        op(np.negative, [np.ones(1)], **numpy_only(op))
    with pytest.raises(TypeError, match="several values for the argument 'func'"):
        op(np.negative, [np.ones(1)], np.float64, func=np.negative)
    with pytest.raises(TypeError, match="positional arguments, got 7"):
        op(np.negative, [np.ones(1)], np.float64, None, None, None, None)
    with pytest.raises(TypeError, match="must be callable, got int"):
        op(3, [np.ones(1)], np.float64)


@three
def test_an_error_keeps_its_type_and_names_the_sample(op):
    """What the user's function raises comes out as it is, with the operator, the sample and the user's line as notes."""

    class Broken(Exception):
        pass

    def fail_at_two(x):
        if x[0] == 2:
            raise Broken("two")
        return x

    def define():
        return op(fail_at_two, [fn.external_source(numbers, batch=False)], np.float32, **numpy_only(op))

    with pytest.raises(Broken, match="two") as caught:
        run(define)
    notes = "\n".join(caught.value.__notes__)
    assert f"fn.{op.op.name}, sample 2 of batch 0" in notes
    assert "test_tensorflow_functions.py" in notes


def test_an_unknown_framework_lists_the_known_ones():
    """A misspelt framework is an error when the graph is built, with the nearest name."""
    with pytest.raises(ValueError, match="did you mean 'torch'"):
        fn.py_function(np.negative, [np.ones(1)], np.float64, framework="troch")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_a_missing_framework_says_what_to_install():
    """py_function hands out torch's tensors; without torch the error names the pip command."""
    with pytest.raises(ModuleNotFoundError, match="pip install torch"):
        fn.py_function(np.negative, [np.ones(1)], np.float64)


def test_types_of_tensorflow_and_torch_are_understood():
    """Tout may be written with the types of the framework that the code comes from."""

    class TensorFlowType:
        as_numpy_dtype = np.float32

    assert fn.numpy_function(lambda x: x, [np.ones(2, np.float32)], TensorFlowType()).dtype == np.float32


def test_text_travels_through_numpy_function():
    """str results are samples of type STRING and reach the next function as they are."""
    words = ["a", "bcd", "", "é"]

    def define():
        x = fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False)
        text = fn.numpy_function(lambda i: words[int(i)], [x], types.STRING)
        return text, fn.numpy_function(lambda t: len(t.item()), [text], np.int32)

    _, [[texts, lengths]] = run(define, prefetch_queue_depth=1)
    assert [x.item() for x in texts] == words
    assert [int(x) for x in lengths] == [1, 3, 0, 1]


def seen(values):
    """What functions of a pipeline and of an eager call get for the same ``inp``, and whether both are alike."""
    got = []

    def note(*arrays):
        got.append([np.array(x) for x in arrays])
        return np.float32(0)

    run(
        lambda: fn.numpy_function(note, [*values, fn.external_source(lambda: [np.float32([1, 2])])], np.float32),
        batch_size=1,
    )
    in_pipeline = got[-1][:-1]
    fn.numpy_function(note, [*values, np.float32([1, 2])], np.float32)
    assert [(x.dtype, x.tolist()) for x in got[-1][:-1]] == [(x.dtype, x.tolist()) for x in in_pipeline]
    return in_pipeline


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("abc", object),
        (["a", "bc"], object),
        ([["a", "b"], ["c", "d"]], object),
        (np.array(["a", "bc"]), object),
        (np.array([b"a", b"bc"]), object),
        (3, np.int32),
        (3.5, np.float32),
        (True, np.bool_),
        ([1, 2], np.int32),
        ([[1.5, 2], [3, 4]], np.float32),
        (np.array([1.0, 2.0]), np.float64),
        ([np.uint8([1, 2]), np.uint8([3, 4])], np.uint8),
    ],
)
def test_constants_are_the_same_in_a_pipeline_and_outside(value, dtype):
    """Text, numbers and nested lists of them, each one tensor; arrays keep their type."""
    (found,) = seen([value])
    assert found.dtype == dtype
    assert found.tolist() == np.array(value).tolist()


def test_a_list_of_inputs_inside_inp_is_one_stacked_tensor():
    """As in TensorFlow: one call, in a pipeline and outside."""

    def define():
        x = fn.external_source(numbers, batch=False)
        nested = fn.numpy_function(lambda pair, x: pair[0] + 10 * pair[1] + x, [[x, x + 1], x], np.float32)
        return nested, fn.numpy_function(lambda pair: pair.copy(), [(x, [1, 2, 3.0])], np.float32)

    _, [[nested, mixed]] = run(define)
    assert nested[1].tolist() == [22, 34, 46]
    assert mixed[0].tolist() == [[0, 1, 2], [1, 2, 3]]
    x = np.arange(3, dtype=np.float32)
    assert fn.numpy_function(lambda pair, x: pair[0] + pair[1] + x, [[x, x + 1], x], np.float32).tolist() == [1, 4, 7]


@three
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((None, np.float32), TypeError, "'inp' is required"),
        (([np.ones(1)], None), TypeError, "'Tout' is required"),
        (([np.ones(1), None], np.float32), TypeError, "an entry must be a tensor.*NoneType None"),
        (({"a": np.ones(1)}, np.float32), TypeError, "inp must be a list of inputs, got a dict"),
        (([{"a": np.ones(1)}], np.float32), TypeError, "an entry must be a tensor.*dict"),
    ],
)
def test_what_is_no_list_of_tensors_is_refused(op, arguments, error, text):
    """Before the function is called."""
    with pytest.raises(error, match=text):
        op(lambda *_: pytest.fail("called"), *arguments, **numpy_only(op))


@pytest.fixture
def torch_or_numpy(monkeypatch):
    """Lets ``framework="torch"`` be named where it is not installed; nothing is run."""
    monkeypatch.setitem(declare.frameworks, "torch", declare.frameworks["numpy"])


def halve(x):
    """A function to be named."""
    return x / 2


class TestDifferentiable:
    """What is refused when the pipeline is built, with any framework or none installed."""

    @pytest.mark.parametrize(
        ("read", "reader"),
        [
            (lambda x: fn.crop(x, crop=(1, 1)), r"fn\.crop \(crop_0\)"),
            (lambda x: x + 1, r"fn\.math\.add \(math\.add_0\)"),
            (lambda x: fn.python_function(x, function=np.sin), r"fn\.python_function \(python_function_0\)"),
        ],
    )
    @pytest.mark.usefixtures("torch_or_numpy")
    def test_operators_that_would_lose_gradients(self, read, reader):
        """The error names both and gives both lines."""

        def define():
            x = fn.external_source(lambda: [np.ones((2, 2, 1), np.float32)] * 2, layout="HWC")
            made = fn.py_function(halve, [x], np.float32, differentiable=True)
            return read(made)

        pipe = pipeline_def(define, batch_size=2, num_threads=1)()
        text = reader + r" would lose the gradients of fn\.py_function \(py_function_0\) of halve"
        with pytest.raises(ValueError, match=text) as caught:
            pipe.build()
        assert "\n".join(caught.value.__notes__).count("test_tensorflow_functions.py") == 2

    @pytest.mark.usefixtures("torch_or_numpy")
    def test_the_end_of_a_branch(self):
        """Both sides become one there, and arrays."""

        @pipeline_def(batch_size=2, num_threads=1, enable_conditionals=True)
        def define():
            x = fn.external_source(lambda: [np.float32(1)] * 2, dtype=np.float32, ndim=0)
            if x > 0:
                y = fn.py_function(halve, [x], np.float32, differentiable=True)
            else:
                y = x
            return y

        with pytest.raises(ValueError, match="the end of a branch would lose the gradients"):
            define().build()

    @pytest.mark.usefixtures("torch_or_numpy")
    def test_gradients_within_the_pipeline(self):
        """One or the other."""

        def define():
            x = fn.external_source(lambda: [np.float32(1)] * 2)
            return fn.gradients(fn.py_function(halve, [x], np.float32, differentiable=True), [x])[0]

        with pytest.raises(ValueError, match="takes derivatives within the pipeline, and differentiable=True of"):
            pipeline_def(define, batch_size=2, num_threads=1)().build()

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"framework": "jax"}, "needs torch, whose tensors keep their history; those of jax do not"),
            ({"framework": "numpy"}, "those of numpy do not"),
            ({"parallel": "processes"}, "it cannot be combined with parallel='processes'"),
            ({"timeout": 1.0}, "it cannot be combined with timeout=1.0"),
        ],
    )
    def test_arguments_that_do_not_go_together(self, arguments, text):
        """The function is named in every case."""

        def define():
            x = fn.external_source(lambda: [np.float32(1)] * 2)
            return fn.py_function(halve, [x], np.float32, differentiable=True, **arguments)

        with pytest.raises(ValueError, match=text):
            pipeline_def(define, batch_size=2, num_threads=1)().build()

    @pytest.mark.parametrize("settings", [{"on_error": "skip"}, {"on_error": "replace"}])
    @pytest.mark.usefixtures("torch_or_numpy")
    def test_failures_cannot_be_replaced(self, settings):
        """A row that stands in for another has no history."""

        def define():
            x = fn.external_source(lambda: [np.float32(1)] * 2)
            return fn.py_function(halve, [x], np.float32, differentiable=True)

        with pytest.raises(ValueError, match=r'fn.py_function \(py_function_0\) of halve .* needs on_error="raise"'):
            pipeline_def(define, batch_size=2, num_threads=1, **settings)().build()
