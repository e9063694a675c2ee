"""fn.python_function on the CPU: calls, outputs, memory, order, randomness and mistakes."""

import sys
import threading
from types import ModuleType

import numpy as np
import pytest
from helpers import LONG

from pipeflow import Pipeline, fn, ops, pipeline_def, types
from pipeflow.declare.registration import find
from pipeflow.tensors import has_mask


def make(define, batch_size=4, num_threads=2, seed=7, **arguments):
    """A built pipeline over ``define()``."""
    pipe = pipeline_def(define, batch_size=batch_size, num_threads=num_threads, seed=seed, **arguments)()
    pipe.build()
    return pipe


def numbers(size=4, start=0, dtype=np.float32, shape=()):
    """A source of batches whose sample i of batch k is filled with start + k * size + i."""

    def batch(iteration):
        first = start + iteration * size
        return [np.full(shape, first + index, dtype) for index in range(size)]

    return batch


def run_function(function, *, source=None, runs=1, batch_size=4, num_threads=2, **arguments):
    """The outputs of the last of some runs of a pipeline of one source and one function."""
    feed = source or numbers(batch_size)

    def define():
        made = fn.python_function(fn.external_source(feed), function=function, **arguments)
        return tuple(made) if isinstance(made, list) else made

    pipe = make(define, batch_size, num_threads)
    for _ in range(runs):
        outputs = pipe.run()
    return outputs


def test_identity_returns_equal_data():
    """A function that returns its input gives the same values."""
    (out,) = run_function(lambda x: x)
    assert out.as_array().tolist() == [0, 1, 2, 3]


def test_inputs_are_numpy_arrays_of_the_sample():
    """Scalars come as 0-d arrays, never as NumPy scalars."""
    seen = []
    run_function(lambda x: seen.append((type(x), x.shape, x.dtype)) or x)
    assert seen[:4] == [(np.ndarray, (), np.dtype(np.float32))] * 4


def test_no_inputs_call_once_a_sample():
    """Without inputs a function is called for each sample of the batch."""
    calls = iter(range(1000))
    pipe = make(lambda: fn.python_function(function=lambda: np.int32(next(calls))), batch_size=3)
    assert pipe.run()[0].as_array().tolist() == [0, 1, 2]


def test_no_inputs_in_batch_mode_call_once_without_arguments():
    """In batch mode a function without inputs is called once and returns the whole batch."""
    pipe = make(
        lambda: fn.python_function(function=lambda: np.arange(3), batch_processing=True),
        batch_size=3,
        prefetch_queue_depth=1,
    )
    assert pipe.run()[0].as_array().tolist() == [0, 1, 2]


def test_many_inputs():
    """256 inputs are handed over in their order."""

    def define():
        inputs = [types.Constant(np.array([index])) for index in range(256)]
        return fn.python_function(*inputs, function=lambda *xs: np.array([x.item() for x in xs]))

    assert make(define, 2).run()[0].at(1).tolist() == list(range(256))


def test_more_than_256_inputs_are_refused():
    """The 257th input is an error that tells the limit."""
    with pytest.raises(ValueError, match="from 0 to 256 inputs, but received 257"):
        make(lambda: fn.python_function(*[types.Constant(np.array([0]))] * 257, function=lambda *xs: xs[0]))


@pytest.mark.parametrize("form", [tuple, list])
def test_several_outputs_as_tuple_or_list(form):
    """A tuple or list with one entry an output."""
    first, second = run_function(lambda x: form((x + 1, np.stack([x, x]))), num_outputs=2)
    assert first.as_array().tolist() == [1, 2, 3, 4]
    assert second.as_array().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_one_output_in_a_tuple():
    """One output may come bare or as the only entry of a tuple."""
    (out,) = run_function(lambda x: (x * 2,))
    assert out.as_array().tolist() == [0, 2, 4, 6]


def test_no_outputs_runs_for_its_effect():
    """With num_outputs=0 the function is called although nothing depends on it."""
    seen = []

    def define():
        data = fn.external_source(numbers())
        fn.python_function(data, function=lambda x: seen.append(x.item()), num_outputs=0)
        return data

    make(define, prefetch_queue_depth=1).run()
    assert seen[:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("batch_processing", [False, True])
def test_returning_a_value_from_zero_outputs_is_an_error(batch_processing):
    """A value where none is declared is not dropped in silence."""

    def define():
        data = fn.external_source(numbers())
        fn.python_function(data, function=lambda x: 5, num_outputs=0, batch_processing=batch_processing)
        return data

    with pytest.raises(TypeError, match="num_outputs=0 and returned int 5"):
        make(define).run()


def test_batch_mode_gets_lists_and_gives_lists():
    """One call a batch: a list of arrays in, a list of arrays out."""
    sizes = []

    def function(xs):
        sizes.append((type(xs), len(xs)))
        return [x + len(xs) for x in xs]

    (out,) = run_function(function, batch_processing=True)
    assert out.as_array().tolist() == [4, 5, 6, 7]
    assert sizes[0] == (list, 4)


def test_batch_mode_may_return_one_array():
    """An array whose first axis is the batch."""
    (out,) = run_function(lambda xs: np.stack(xs)[:, None] * np.ones(3), batch_processing=True)
    assert out.as_array().tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]


def test_batch_mode_several_outputs():
    """One entry an output, each a list or an array."""
    first, second = run_function(lambda xs: (xs, np.arange(4)), num_outputs=2, batch_processing=True)
    assert first.as_array().tolist() == second.as_array().tolist() == [0, 1, 2, 3]


def test_one_thing_in_a_list_is_no_batch():
    """A number or a text in place of the samples is counted as one sample."""
    for made in (5, "four"):
        with pytest.raises((ValueError, TypeError), match="1 sample"):
            run_function(lambda xs, made=made: [made], batch_processing=True)


def test_a_function_that_takes_whole_arrays_gets_each_input_as_one():
    """Framework functions say by `stacked` how a batch becomes an array; it is called once an input, in their order."""

    def function(xs, ys):
        return [*(xs - ys)]

    def stacked(values, position, batch):
        return (position + 1) * np.stack([*values]).astype(np.float64) * (batch.size == 4)

    function.stacked = stacked

    def define():
        data = fn.external_source(numbers())
        return fn.python_function(data, data, function=function, batch_processing=True)

    assert make(define).run()[0].as_array().tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("made", [np.zeros((2, 3)), "ab", {1: 2, 3: 4}])
def test_several_outputs_are_a_tuple_or_a_list(made):
    """Nothing else of the right length is taken apart."""
    with pytest.raises(TypeError, match="must return a tuple or list of 2"):
        run_function(lambda x: made, num_outputs=2)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 5), (1, 1), (2, 5), (3, 2), (1,)])
def test_a_list_of_samples_keeps_the_axes_of_each(size, shape):
    """A batch of one is a list of one sample, also where that sample's first extent is the size of the batch."""
    feed = [[np.full(shape, number, np.float32) for number in range(size)]]
    (out,) = run_function(lambda xs: [x + 1 for x in xs], source=feed, batch_size=size, batch_processing=True)
    assert out.shape() == [shape] * size
    assert [float(out.at(number).flat[0]) for number in range(size)] == [number + 1 for number in range(size)]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("form", [list, tuple])
@pytest.mark.parametrize("convert", [list, np.stack])
def test_the_only_output_of_a_batch_may_be_in_a_list(size, form, convert):
    """Where it cannot be taken for the samples: a list of one list, or of one array, of as many samples as the batch."""
    feed = [[np.full((2,), number, np.float32) for number in range(size)]]
    (out,) = run_function(lambda xs: form([convert(xs)]), source=feed, batch_size=size, batch_processing=True)
    assert out.as_array().tolist() == [[number] * 2 for number in range(size)]


def test_batch_mode_wrong_number_of_samples():
    """A batch of the wrong size names both sizes."""
    with pytest.raises(ValueError, match=r"output 0 of .* has 3 samples in a batch of 4"):
        run_function(lambda xs: xs[:3], batch_processing=True)
    with pytest.raises(RuntimeError, match="has 1 sample in a batch of 4"):
        run_function(lambda xs: xs[:1], batch_processing=True)
    (out,) = run_function(lambda xs: [xs], batch_processing=True)
    assert out.as_array().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda x: None, TypeError, "returned None instead of an array"),
        (lambda x: {"a": 1}, TypeError, "which is not an array"),
        (lambda x: object(), TypeError, "which is not an array"),
        (lambda x: np.clongdouble(1), TypeError, "complex256 is not supported"),
        (lambda x: [[1, 2], [3]], TypeError, "which is not an array"),
        (lambda x: (x, x), ValueError, "returned 2 outputs, declared is num_outputs=1"),
    ],
)
def test_what_is_no_array_is_an_error(result, error, text):
    """The message says the function, the output and what came back."""
    with pytest.raises(error, match=text) as caught:
        run_function(result)
    notes = "\n".join(caught.value.__notes__)
    assert "in fn.python_function, sample 0 of batch 0" in notes
    assert "test_python_function.py" in notes


@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x,), lambda x: (x, x, x)])
def test_wrong_number_of_outputs(result):
    """Too few or too many outputs: the declared and the returned number."""
    with pytest.raises((TypeError, ValueError), match="num_outputs=2"):
        run_function(result, num_outputs=2)


def test_mixed_dtypes_in_a_batch():
    """The first sample that differs is named."""
    with pytest.raises(TypeError, match="float32 for the first sample and float64 for sample 2") as caught:
        run_function(lambda x: x if x < 2 else x.astype(np.float64))
    assert "sample 2 of batch 0" in caught.value.__notes__[0]


def test_mixed_numbers_of_axes_in_a_batch():
    """The same for the number of axes."""
    with pytest.raises(ValueError, match=r"\(\) for the first sample and \(1,\) for sample 3"):
        run_function(lambda x: x if x < 3 else x[None])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(3, np.int64), (2.5, np.float64), (True, np.bool_), ([1, 2], np.int64), (np.float32(1), np.float32)],
)
def test_numbers_and_lists_are_accepted(value, dtype):
    """Scalars and lists become arrays as NumPy makes them."""
    (out,) = run_function(lambda x: value)
    assert out.at(0).dtype == dtype
    assert out.at(0).tolist() == value


class OnlyDLPack:
    """An object that can be read by DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_dlpack_results_are_accepted():
    """Anything with __dlpack__ is an array."""
    (out,) = run_function(lambda x: OnlyDLPack(np.array([7, 8])))
    assert out.at(2).tolist() == [7, 8]


def test_text_results_travel_as_objects():
    """str results make a batch of objects."""
    (out,) = run_function(lambda x: f"sample {int(x)}")
    assert out.at(1).tolist() == "sample 1"
    (out,) = run_function(lambda xs: [f"sample {int(x)}" for x in xs], batch_processing=True)
    assert out.at(2).tolist() == "sample 2"
    texts, _ = run_function(lambda x: (b"x" * (int(x) + 1), x), num_outputs=2)
    assert texts.at(2).tolist() == b"xxx"
    (out,) = run_function(lambda x: np.array(["a", "bc"], object))
    assert out.at(0).tolist() == ["a", "bc"]


ALL_DTYPES = [dtype.type for dtype in types.in_order(types.NUMBERS)]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 2, 2, 2, 2), (0,), (0, 3)])
def test_every_dtype_and_shape_comes_through(dtype, shape):
    """Values, types and shapes survive, empty arrays included."""
    data = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    (out,) = run_function(lambda x: x, source=lambda i: [data] * 4)
    assert out.at(3).dtype == dtype
    assert out.at(3).shape == shape
    np.testing.assert_array_equal(out.at(3), data)


@pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda x: x[::-1], lambda x: x.T, lambda x: np.broadcast_to(x[:1], x.shape)]
)
def test_results_of_any_memory_order(change):
    """Non-contiguous and Fortran-ordered results are copied right."""
    data = np.arange(12).reshape(3, 4)
    (out,) = run_function(lambda x: change(x), source=lambda i: [data] * 4)
    np.testing.assert_array_equal(out.at(1), change(data))


def test_ragged_results():
    """Every sample may have a shape of its own."""
    (out,) = run_function(lambda x: np.full((int(x) + 1, 2), x))
    assert out.shape() == [(1, 2), (2, 2), (3, 2), (4, 2)]
    assert out.at(3).tolist() == [[3, 3]] * 4
    assert not out.is_dense_tensor()


@pytest.mark.parametrize("arguments", [{}, {"parallel": "threads"}, {"batch_processing": True}])
def test_a_function_may_reuse_its_own_buffer(arguments):
    """The result is copied at once, so the function can write the next one into the same memory."""
    buffer = np.empty((2,), np.float32)

    def one(x):
        buffer[:] = x
        return buffer

    def batch(xs):
        return [one(x).copy() for x in xs]

    if arguments.get("parallel"):
        (out,) = run_function(one, num_threads=1, **arguments)
    else:
        (out,) = run_function(batch if arguments else one, **arguments)
    assert out.as_array().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("dtype", [object, np.float32])
@pytest.mark.parametrize("whole", [True, False], ids=["array", "list of views"])
def test_a_batch_function_may_reuse_its_own_buffer(dtype, whole):
    """What was delivered stays as it is when the function writes the next batch into the same array."""
    buffer = np.empty((4, 2), dtype)
    word = (lambda x: f"number {int(x)}") if dtype is object else float

    def function(xs):
        for row, x in zip(buffer, xs):
            row[:] = word(x)
        return buffer if whole else list(buffer)

    pipe = make(
        lambda: fn.python_function(fn.external_source(numbers()), function=function, batch_processing=True),
        prefetch_queue_depth=2,
    )
    batches = [pipe.run()[0] for _ in range(3)]
    for batch, first in zip(batches, (0, 4, 8)):
        assert [sample.tolist() for sample in batch.samples()] == [[word(first + index)] * 2 for index in range(4)]


def test_sole_reader_may_write_in_place():
    """An input that nobody else reads is writable."""

    def negate(x):
        assert x.flags.writeable
        np.negative(x, out=x)
        return x

    (out,) = run_function(negate, source=numbers(shape=(2,)))
    assert out.as_array().tolist() == [[0, 0], [-1, -1], [-2, -2], [-3, -3]]


def test_a_result_in_memory_of_its_own_may_be_written_to():
    """What the operator before it read is an output too, and is not changed."""

    def negate(x):
        assert x.flags.writeable
        np.negative(x, out=x)
        return x

    def define():
        data = fn.external_source(numbers(shape=(2,)))
        return fn.python_function(data + 1, function=negate, parallel="threads"), data

    made, data = make(define).run()
    assert made.as_array().tolist() == [[-1, -1], [-2, -2], [-3, -3], [-4, -4]]
    assert data.as_array().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


def shared_input(function, **arguments):
    """A pipeline in which the function's input is an output as well."""

    def define():
        data = fn.external_source(numbers(shape=(2,)))
        return data, fn.python_function(data, function=function, **arguments)

    return make(define)


@pytest.mark.parametrize("arguments", [{}, {"parallel": "threads"}])
def test_one_of_two_readers_may_not_write(arguments):
    """A shared input is read-only; the error says who else reads it and what to do."""

    def negate(x):
        x *= -1
        return x

    with pytest.raises(ValueError, match="read-only") as caught:
        shared_input(negate, **arguments).run()
    notes = "\n".join(caught.value.__notes__)
    assert "x.copy()" in notes
    assert "output 0 of the pipeline" in notes


def test_the_same_node_passed_twice_is_read_only():
    """A function that gets one batch as two inputs may write neither."""
    flags = []

    def define():
        data = fn.external_source(numbers(shape=(2,)))
        return fn.python_function(
            data, data, function=lambda a, b: flags.append((a.flags.writeable, b.flags.writeable)) or a
        )

    make(define).run()
    assert set(flags) == {(False, False)}


def test_a_view_shares_the_rights_of_its_base():
    """A slice of a batch that is read elsewhere is read-only too."""
    flags = []

    def define():
        data = fn.external_source(numbers(shape=(2,)))
        made = fn.python_function(data[:1], function=lambda a: flags.append(a.flags.writeable) or a.copy())
        return data, made

    make(define).run()
    assert set(flags) == {False}


def test_constants_are_read_only():
    """A constant is the same array for all samples."""
    flags = []

    def define():
        return fn.python_function(types.Constant(np.ones(3)), function=lambda a: flags.append(a.flags.writeable) or a)

    make(define).run()
    assert set(flags) == {False}


def test_the_users_own_array_is_read_only_with_no_copy():
    """With no_copy=True the memory is the user's."""
    mine = np.zeros((4, 2), np.float32)
    flags = []

    def define():
        data = fn.external_source(lambda: mine, no_copy=True)
        return fn.python_function(data, function=lambda a: flags.append(a.flags.writeable) or a + 1)

    make(define).run()
    assert set(flags) == {False}
    assert not mine.any()


def test_kept_inputs_and_results_stay_valid():
    """What user code keeps is not overwritten by later batches."""
    kept = []

    def function(x):
        kept.append(x)
        return x + 0

    pipe = make(lambda: fn.python_function(fn.external_source(numbers(shape=(5000,))), function=function))
    outputs = [pipe.run()[0] for _ in range(6)]
    for index, array in enumerate(kept[:24]):
        assert (array == index).all()
    for batch, out in enumerate(outputs):
        assert [int(out.at(i)[0]) for i in range(4)] == [4 * batch + i for i in range(4)]


def test_numba_and_cv2_take_a_shared_input():
    """Libraries that only read work on a read-only input."""
    cv2 = pytest.importorskip("cv2")
    numba = pytest.importorskip("numba")

    @numba.njit
    def total(x):
        return x.sum()

    def function(x):
        return np.float64(total(x)) + cv2.blur(x, (3, 3)).mean() * 0

    pipe = shared_input(function)
    assert pipe.run()[1].as_array().tolist() == [0, 2, 4, 6]


def test_hint_sizes_the_output_memory():
    """With a sufficient hint nothing is allocated after warm-up, whatever the shapes."""

    def grow(size):
        state = iter(range(10_000))
        return lambda x: np.zeros(size + 997 * (next(state) % 37), np.float32)

    def allocations(hint):
        data, function = numbers(), grow(30_000)
        pipe = make(lambda: fn.python_function(fn.external_source(data), function=function, bytes_per_sample_hint=hint))
        for _ in range(10):
            pipe.run()
        before = pipe.executor_statistics()["pool"]["allocations"]
        for _ in range(40):
            pipe.run()
        return pipe.executor_statistics()["pool"]["allocations"] - before

    assert allocations(4 * (30_000 + 997 * 37)) == 0
    assert allocations([4 * (30_000 + 997 * 37)]) == 0


def test_hints_for_more_outputs_than_there_are():
    """Each entry of a list of hints belongs to an output."""
    with pytest.raises(ValueError, match="bytes_per_sample_hint has 2 entries for 1 output"):
        run_function(lambda x: x, bytes_per_sample_hint=[3, 4])


def test_output_layouts_as_string_and_short_list():
    """One string is for all outputs; a list may be shorter than the outputs."""
    first, second = run_function(lambda x: (np.ones((2, 2)), np.ones((2, 2))), num_outputs=2, output_layouts="HW")
    assert (first.layout(), second.layout()) == ("HW", "HW")
    first, second = run_function(lambda x: (np.ones((2, 2)), x), num_outputs=2, output_layouts=["HW"])
    assert (first.layout(), second.layout()) == ("HW", "")


def test_layout_that_does_not_fit():
    """A layout for another number of axes is an error at the sample."""
    with pytest.raises(ValueError, match=r"layout 'HWC' has 3 axes and output 0 .* has 2"):
        run_function(lambda x: np.ones((2, 2)), output_layouts="HWC")


def test_too_many_layouts():
    """More layouts than outputs is a mistake found when the graph is built."""
    with pytest.raises(ValueError, match="output_layouts has 2 entries for 1 output"):
        run_function(lambda x: x, output_layouts=["", ""])


def test_calls_are_serial_and_in_order():
    """By default one call follows another, in the order of the samples, batch after batch, on any number of threads."""
    order, active = [], []

    def function(x):
        active.append(1)
        assert len(active) == 1
        order.append(int(x))
        sum(range(10_000))  # long enough for another thread to come in between
        active.pop()
        return x

    pipe = make(lambda: fn.python_function(fn.external_source(numbers(8)), function=function), 8, num_threads=4)
    for _ in range(5):
        pipe.run()
    assert order == list(range(len(order)))


def test_two_serial_functions_see_whole_batches_in_graph_order():
    """The first function has seen all of a batch before the second sees its first sample."""
    seen = []

    def note(name):
        return lambda x: seen.append((name, int(x))) or x

    def define():
        data = fn.external_source(numbers())
        first = fn.python_function(data, function=note("a"))
        return first, fn.python_function(data, function=note("b"))

    make(define, num_threads=1, prefetch_queue_depth=1).run()
    assert seen[:8] == [("a", i) for i in range(4)] + [("b", i) for i in range(4)]


def test_parallel_threads_run_side_by_side():
    """With parallel="threads" two samples are in the function at the same time."""
    meeting = threading.Barrier(2, timeout=LONG)

    def function(x):
        meeting.wait()
        return x

    (out,) = run_function(function, parallel="threads", num_threads=2)
    assert out.as_array().tolist() == [0, 1, 2, 3]


def test_unused_function_is_still_called():
    """A Python function may have effects, so it is never pruned; equal calls are never merged."""
    calls = []

    def define():
        data = fn.external_source(numbers())

        def count(x):
            calls.append(1)
            return x

        fn.python_function(data, function=count)
        fn.python_function(data, function=count)
        return data

    make(define, prefetch_queue_depth=1).run()
    assert len(calls) % 8 == 0
    assert len(calls) >= 8


def test_rng_is_keyed_to_the_sample():
    """The generator does not depend on threads or batch boundaries, and differs between samples, epochs and seeds."""

    def draws(batch_size, num_threads, seed=3, count=12, **arguments):
        def function(x, rng):
            return rng.random(3)

        def define():
            return fn.python_function(fn.external_source(numbers(batch_size)), function=function, **arguments)

        pipe = make(define, batch_size, num_threads, seed)
        return np.concatenate([pipe.run()[0].as_array() for _ in range(count // batch_size)])

    reference = draws(12, 1)
    assert len(np.unique(reference)) == reference.size
    np.testing.assert_array_equal(reference, draws(4, 2))
    np.testing.assert_array_equal(reference, draws(3, 4, parallel="threads"))
    assert not np.array_equal(reference, draws(12, 1, seed=4))


def test_rng_in_batch_mode_is_a_list_of_keys():
    """A batch function gets one key a sample, and a key makes the sample's generator."""

    def function(xs, rng):
        return [key.generator().random(2) for key in rng]

    (batch,) = run_function(function, batch_processing=True)
    (single,) = run_function(lambda x, rng: rng.random(2))
    np.testing.assert_array_equal(batch.as_array(), single.as_array())


def test_seed_of_its_own():
    """The ``seed`` argument stands in for the pipeline's."""

    def define():
        data = fn.external_source(numbers())
        first = fn.python_function(data, function=lambda x, rng: rng.random(), seed=5, name="same")
        return first

    one, two = make(define, seed=1).run()[0], make(define, seed=2).run()[0]
    np.testing.assert_array_equal(one.as_array(), two.as_array())


def test_exceptions_keep_type_object_and_traceback():
    """The very exception object arrives, with the user's frame in its traceback and notes of the place."""

    class Mine(Exception):
        pass

    problem = Mine("bad pixel")

    def function(x):
        if x == 2:
            raise problem
        return x

    with pytest.raises(Mine) as caught:
        run_function(function)
    assert caught.value is problem
    assert any(entry.name == "function" for entry in caught.traceback)
    assert "in fn.python_function, sample 2 of batch 0" in problem.__notes__[0]
    assert "run_function" not in problem.__notes__[1]
    assert "fn.python_function(" in problem.__notes__[1]


@pytest.mark.parametrize("failing", [0, 2, 3])
@pytest.mark.parametrize("num_outputs", [0, 1, 2, 3])
@pytest.mark.parametrize("arguments", [{}, {"parallel": "threads"}], ids=["serial", "threads"])
def test_the_sample_that_fails_is_named(failing, num_outputs, arguments):
    """Whatever the number of outputs, the note has the number of the sample the function was called for."""

    def function(x):
        if x == failing:
            raise ValueError("bad pixel")
        return None if num_outputs == 0 else (x,) * num_outputs

    def define():
        data = fn.external_source(numbers())
        made = fn.python_function(data, function=function, num_outputs=num_outputs, **arguments)
        return (data, *(made if isinstance(made, (list, tuple)) else [made] if made is not None else []))

    with pytest.raises(ValueError, match="bad pixel") as caught:
        make(define).run()
    assert f"in fn.python_function, sample {failing} of batch 0" in caught.value.__notes__[0]


@pytest.mark.parametrize("num_outputs", [2, 3])
def test_the_sample_whose_result_does_not_fit_is_named(num_outputs):
    """A wrong type of a later output belongs to its sample as well."""

    def function(x):
        return (x,) * (num_outputs - 1) + (x.astype(np.float64 if x == 2 else np.float32),)

    with pytest.raises(TypeError, match="float64 for sample 2") as caught:
        run_function(function, num_outputs=num_outputs)
    assert "in fn.python_function, sample 2 of batch 0" in caught.value.__notes__[0]


def test_stop_iteration_becomes_runtime_error():
    """A StopIteration from user code must not look like the end of the data."""
    with pytest.raises(RuntimeError) as caught:
        run_function(lambda x: next(iter(())))
    assert isinstance(caught.value.__cause__, StopIteration)


def test_the_pipeline_goes_on_after_an_error():
    """The failing batch is consumed whole; the next run gives the next batch."""

    def function(x):
        if x == 5:
            raise ValueError("no five")
        return x

    pipe = make(lambda: fn.python_function(fn.external_source(numbers()), function=function))
    assert pipe.run()[0].as_array().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no five"):
        pipe.run()
    assert pipe.run()[0].as_array().tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize("ahead", [True, False])
def test_running_the_pipeline_inside_its_function_is_refused(ahead):
    """A call of run() from the function would wait for itself, in a thread of the pipeline and in the caller's."""
    holder = []
    pipe = make(
        lambda: fn.python_function(fn.external_source(numbers()), function=lambda x: holder[0].run()[0].at(0)),
        exec_async=ahead, exec_pipelined=ahead,
    )  # fmt: skip
    holder.append(pipe)
    with pytest.raises(RuntimeError, match="cannot run that same pipeline"):
        pipe.run()


def test_class_api_and_eager_call():
    """ops.PythonFunction and the call on arrays do the same."""
    operator = ops.PythonFunction(function=lambda x: x + 1, num_outputs=1)
    pipe = make(lambda: operator(fn.external_source(numbers())))
    assert pipe.run()[0].as_array().tolist() == [1, 2, 3, 4]
    assert operator(np.array([1, 2])).tolist() == [2, 3]
    batch = fn.python_function([np.zeros(1), np.zeros(2)], function=lambda x: x + 1)
    assert batch.shape() == [(1,), (2,)]
    assert fn.python_function(np.arange(3), function=lambda x: (x, x * 2), num_outputs=2)[1].tolist() == [0, 2, 4]


def test_positional_function_in_the_class_api():
    """As in DALI the function may be the first positional argument of the class."""
    pipe = make(lambda: ops.PythonFunction(lambda x: x * 3)(fn.external_source(numbers())))
    assert pipe.run()[0].as_array().tolist() == [0, 3, 6, 9]


def test_function_must_be_callable():
    """Anything else is refused when the graph is built."""
    with pytest.raises(TypeError, match="must be callable, got int 5"):
        make(lambda: fn.python_function(function=5))


def test_missing_function():
    """The argument is required."""
    with pytest.raises(TypeError, match="argument 'function' is required"):
        make(lambda: fn.python_function())


@pytest.mark.parametrize("number", [-1, 257])
def test_impossible_number_of_outputs(number):
    """num_outputs has limits."""
    with pytest.raises(ValueError, match="num_outputs must be between 0 and 256"):
        make(lambda: fn.python_function(function=lambda: 1, num_outputs=number))


def test_callables_of_every_kind():
    """Methods, partials, callable objects and builtins work."""
    import functools

    class Adder:
        def __init__(self, amount):
            self.amount = amount

        def __call__(self, x):
            return x + self.amount

        def method(self, x):
            return x + self.amount

    for function in (Adder(2), Adder(2).method, functools.partial(np.add, 2), functools.partial(lambda a, b: a + b, 2)):
        (out,) = run_function(function)
        assert out.as_array().tolist() == [2, 3, 4, 5]
    (out,) = run_function(np.negative)
    assert out.as_array().tolist() == [0, -1, -2, -3]


def test_large_outputs_of_a_pipeline_with_statement():
    """The form ``with pipe:`` records the same."""
    pipe = Pipeline(batch_size=2, num_threads=1, seed=1)
    with pipe:
        data = fn.external_source(numbers(2))
        pipe.set_outputs(fn.python_function(data, function=lambda x: x - 1), data)
    first, second = pipe.run()
    assert first.as_array().tolist() == [-1, 0]
    assert second.as_array().tolist() == [0, 1]


def test_smaller_last_batch():
    """A batch smaller than batch_size goes through as it is."""
    batches = [np.arange(4.0), np.arange(2.0)]
    pipe = make(lambda: fn.python_function(fn.external_source(batches), function=lambda x: x))
    assert [len(pipe.run()[0]) for _ in range(2)] == [4, 2]
    with pytest.raises(StopIteration):
        pipe.run()


def test_empty_batch_does_not_call_the_function():
    """A batch of no samples gives a batch of no samples."""
    pipe = make(lambda: fn.python_function(fn.external_source([np.zeros((0, 2))]), function=lambda x: 1 / 0))
    assert len(pipe.run()[0]) == 0


def test_results_are_accepted_while_another_thread_loads_masked_arrays(monkeypatch):
    """The module is there then, without its class."""
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    assert not has_mask(np.zeros(2))


@pytest.mark.parametrize("batched", [False, True])
def test_masked_arrays_are_refused_where_values_are_missing(batched):
    """What stands under a mask is nobody's data: the message says how to give it a value. Without a mask it is an array."""

    def masked(x):
        return np.ma.array(x, mask=np.arange(x.size).reshape(x.shape) == 1)

    def define(function):
        return pipeline_def(
            lambda: fn.python_function(np.ones(3), function=function, batch_processing=batched),
            batch_size=2,
            num_threads=1,
            device_id=None,
        )()

    one = (lambda batch: [masked(x) for x in batch]) if batched else masked
    with pytest.raises(TypeError, match=r"no value for 1 of its 3 elements: fill them with x.filled\(value\)"):
        define(one).run()
    whole = (lambda batch: [np.ma.array(x) for x in batch]) if batched else np.ma.array
    assert type(define(whole).run()[0].at(0)) is np.ndarray


@pytest.mark.parametrize(
    ("hint", "kind", "message"), [(2**45, ValueError, "at most 2"), (2**39, MemoryError, "Unable")]
)
def test_a_hint_beyond_any_memory_names_the_operator_and_the_line(hint, kind, message):
    """Not a bare MemoryError from somewhere inside."""

    def define():
        return fn.python_function(np.ones(3), function=np.negative, bytes_per_sample_hint=hint)

    with pytest.raises(kind, match=message) as caught:
        pipeline_def(define, batch_size=2, num_threads=1, device_id=None)().build()
    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert "bytes_per_sample_hint" in text
    assert "fn.python_function" in text
    assert "test_python_function.py" in text


def test_compiled_functions_run_on_all_threads_and_wait_for_no_other():
    """Whatever `parallel` says: they do not hold the interpreter."""
    traits = find("python_function").traits_of({"function": len, "jit": True})
    assert (traits.granularity, traits.ordered, traits.meets, traits.user_code) == ("sample", False, False, True)
    plain = find("python_function").traits_of({"function": len, "parallel": "threads"})
    assert (plain.granularity, plain.ordered, plain.meets) == ("sample", False, True)
