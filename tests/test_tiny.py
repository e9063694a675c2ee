"""The whole house in a few seconds: one look at everything a user does on the first day.

Run it after any change: `pytest tests/test_tiny.py`. Each of these properties is tested in depth elsewhere.
"""

import numpy as np
import pytest

from pipeflow import fn, ops, pipeline_def, types


def source(sample):
    if sample.idx_in_epoch >= 10:
        raise StopIteration
    return np.full((2, 3), sample.idx_in_epoch, np.uint8), np.int32(sample.idx_in_epoch)


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=11)
def everything(parallel="serial"):
    """Source, random argument, Python function, arithmetic, indexing, an effect-only function."""
    pictures, numbers = fn.external_source(source, num_outputs=2, batch=False, layout=["HW", None])
    scale = fn.random.uniform(range=(1.0, 2.0))
    scaled = fn.python_function(pictures, scale, function=lambda x, s: x * s, output_layouts="HW", parallel=parallel)
    fn.python_function(numbers, function=lambda x: None, num_outputs=0)
    return pictures, numbers, scaled, (pictures + 1) / 2, pictures[:, -1]


def epoch(pipe):
    batches = []
    try:
        while True:
            batches.append(pipe.run())
    except StopIteration:
        pipe.reset()
    return batches


def test_an_epoch_comes_in_order_and_ends_with_a_short_batch():
    """Ten samples in batches of four: 4, 4 and 2, then StopIteration, and the same again after reset()."""
    pipe = everything()
    pipe.build()
    for _ in range(2):
        batches = epoch(pipe)
        assert [len(batch[1]) for batch in batches] == [4, 4, 2]
        assert np.concatenate([batch[1].as_array() for batch in batches]).tolist() == list(range(10))


def test_values_types_and_layouts():
    """Each output is what NumPy computes, in DALI's types."""
    pipe = everything()
    pipe.build()
    pictures, _, scaled, halved, column = pipe.run()
    np.testing.assert_array_equal(halved.as_array(), (pictures.as_array() + 1) / 2)
    np.testing.assert_array_equal(column.as_array(), pictures.as_array()[:, :, -1])
    assert (pictures.layout(), scaled.layout(), column.layout()) == ("HW", "HW", "H")
    assert (pictures.dtype, scaled.dtype, halved.dtype) == (types.UINT8, types.FLOAT, types.FLOAT)


@pytest.mark.parametrize(
    "arguments",
    [{"num_threads": 1}, {"num_threads": 8}, {"prefetch_queue_depth": 1}, {"prefetch_queue_depth": 5}, {"debug": True}],
    ids=str,
)
def test_the_same_numbers_however_it_is_run(arguments):
    """Threads, prefetching and debugging leave every bit as it is."""
    reference, other = everything(), everything(**arguments)
    for pipe in (reference, other):
        pipe.build()
    for expected, got in zip(epoch(reference), epoch(other), strict=True):
        for a, b in zip(expected, got):
            np.testing.assert_array_equal(a.as_array(), b.as_array())


def test_functions_side_by_side_give_what_they_give_one_by_one():
    """`parallel="threads"` changes the time, not the result."""
    one, many = everything(), everything(parallel="threads")
    for pipe in (one, many):
        pipe.build()
    np.testing.assert_array_equal(one.run()[2].as_array(), many.run()[2].as_array())


def test_an_error_names_operator_sample_and_line_and_the_pipeline_goes_on():
    """The exception is the function's own; the batch is gone, the next one comes."""

    def picky(x):
        if x[0, 0] == 2:
            raise KeyError("two")
        return x

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def definition():
        pictures, _ = fn.external_source(source, num_outputs=2, batch=False)
        return fn.python_function(pictures, function=picky)

    pipe = definition()
    pipe.build()
    with pytest.raises(KeyError, match="two") as caught:
        pipe.run()
    notes = "\n".join(caught.value.__notes__)
    assert "fn.python_function, sample 2 of batch 0" in notes
    assert "test_tiny.py" in notes
    assert pipe.run()[0].as_array()[0, 0, 0] == 4


def test_wrong_arguments_are_refused_all_at_once():
    """The first mistake gives the type, the others stand in the notes."""
    with pytest.raises(TypeError, match="'mean'") as caught:
        fn.random.normal(mean="zero", stddev="one")
    assert any("'stddev'" in note for note in caught.value.__notes__)


def test_arrays_outlive_their_pipeline():
    """What was taken out of a batch stays as it was."""
    pipe = everything()
    pipe.build()
    kept = pipe.run()[0].at(3)
    epoch(pipe)
    del pipe
    assert kept.tolist() == [[3, 3, 3]] * 2


def test_operators_run_at_once_on_arrays():
    """Outside a pipeline the same names compute: a sample from an array, a batch from a list."""
    assert fn.python_function(np.arange(3), function=lambda x: x * 2).tolist() == [0, 2, 4]
    assert len(ops.PythonFunction(function=lambda x: x * 2)([np.zeros(2), np.ones(2)])) == 2


def test_an_array_constant_is_a_node_inside_a_definition():
    """`types.Constant(array)` can be indexed, computed with and asked for its shape, like any other node."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def definition():
        table = types.Constant(np.arange(6, dtype=np.uint8).reshape(2, 3))
        return table[1], table + 1, table.shape()

    pipe = definition()
    pipe.build()
    row, more, shape = (batch.at(1).tolist() for batch in pipe.run())
    assert (row, more, shape) == ([3, 4, 5], [[1, 2, 3], [4, 5, 6]], [2, 3])
    assert isinstance(types.Constant([1, 2]), types.ArrayConstant)
