"""The samples of a batch as columns of addresses and extents: each is read as the array that it is."""

from struct import Struct

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.executor.runners.program_parts import CallRecords
from pipeflow.tensors import PlacedArrays, TensorListCPU

FLOAT = np.dtype(np.float32)


def address_of(array):
    return array.__array_interface__["data"][0]


def filled(parts, size=None):
    """Samples of one block, placed as compiled code does it, and the arrays that they are."""
    block = np.arange(64, dtype=np.float32).view(np.uint8)
    values = PlacedArrays(len(parts) if size is None else size)
    numbers = values.numbers(FLOAT, 2)
    expected, begin = [], 0
    for sample, shape in enumerate(parts):
        numbers[sample] = address_of(block) + begin, *shape
        count = shape[0] * shape[1]
        expected.append(block.view(np.float32)[begin // 4 : begin // 4 + count].reshape(shape))
        begin += 4 * count
    values.placed(len(parts), [block])
    return values, expected


def same(values, expected):
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(values, expected, strict=True))


def test_arrays_are_those_at_the_addresses():
    """By index, by slice, in a loop and as a dense batch gives them; each array is made once."""
    values, expected = filled([(2, 3), (1, 4), (5, 2)])
    assert same(values, expected)
    assert same(values[1:], expected[1:])
    assert same([values[2, ...], values[-1]], [expected[2], expected[2]])
    assert values[1] is values[1]
    assert (len(values), values.dtype, values.ndim) == (3, FLOAT, 2)


def test_a_sample_without_elements_may_end_a_block():
    """Its address is that of the end of the block."""
    values, expected = filled([(8, 8), (0, 5)])
    assert same(values, expected)


def test_columns_are_known_if_all_samples_are_placed():
    """A sample that is stored as an array, or none, leaves no columns."""
    values, expected = filled([(2, 3), (1, 4)], size=3)
    assert values.columns is None
    assert values[2] is None
    values[2] = expected[0]
    assert values.columns is None
    assert same(values, [*expected, expected[0]])
    whole, _ = filled([(2, 3), (1, 4)])
    assert whole.columns[:, 1:].tolist() == [[2, 3], [1, 4]]
    whole[0] = None
    assert whole.columns is None
    assert whole[0] is None


def test_another_type_has_no_column():
    """The memory for numbers is only for samples of one type and number of axes."""
    values, _ = filled([(2, 3)])
    assert values.numbers(FLOAT, 2) is not None
    assert values.numbers(FLOAT, 3) is None
    assert values.numbers(np.dtype(np.uint8), 2) is None


def test_arrays_keep_their_block():
    """Memory is kept as long as an array of it, also if the batch is gone."""
    values, expected = filled([(2, 3)])
    kept = values[0]
    block = kept.base
    del values
    assert block is not None
    assert np.array_equal(kept, expected[0])


def test_a_batch_of_placed_arrays_is_a_batch():
    """TensorListCPU gives the same as for a list of arrays."""
    values, expected = filled([(2, 3), (2, 3)])
    batch = TensorListCPU.from_parts(values, None, None, "", None)
    assert (len(batch), batch.ndim, np.dtype(batch.dtype.name.lower() + "32")) == (2, 2, FLOAT)
    assert same([batch.at(0), batch.at(-1)], expected)
    assert same(batch.samples(), expected)
    assert np.array_equal(batch.as_array(), np.stack(expected))
    assert same(
        TensorListCPU.from_parts(filled([(2, 3), (1, 4)])[0], None, None, "", None)[1:].samples(),
        [np.arange(6, 10, dtype=np.float32).reshape(1, 4)],
    )


@pytest.mark.parametrize("options", [{}, {"axes": [1]}, {"align": 4}, {"shape": [3, -1]}, {"fill_value": 2.0}])
@pytest.mark.parametrize("shapes", [[(2, 3), (1, 4)], [(2, 3), (2, 3)], [(0, 3), (2, 1)], [(2, 3, 2), (1, 3, 2)]])
def test_padding_columns_is_padding_arrays(options, shapes):
    """pad makes the same batch, or the same error, of columns and of arrays, with any of its arguments."""
    arrays = [np.random.default_rng(n).random(shape, np.float32) for n, shape in enumerate(shapes)]

    def padded(made):
        pipe = pipeline_def(batch_size=2, num_threads=1, device_id=None)(
            lambda: fn.pad(fn.external_source(lambda: arrays), **options)
        )()
        pipe.build()
        executor = pipe._executor
        (stage,) = [stage for stage in executor.stages if stage.blamed is not None and "pad" in stage.blamed.op] or [
            None
        ]
        if made and stage is not None and not stage.per_sample:
            run = stage._input
            stage._input = lambda values, active: placed(run(values, active))
        try:
            return [(x.shape, x.tobytes()) for x in pipe.run()[0].samples()]
        except (ValueError, RuntimeError) as error:
            return str(error)

    def placed(values):
        result = PlacedArrays(len(values))
        numbers = result.numbers(FLOAT, values[0].ndim)
        for sample, array in enumerate(values):
            numbers[sample] = address_of(array), *array.shape
        result.placed(len(values), [array.reshape(-1).view(np.uint8) for array in values])
        return result

    assert padded(True) == padded(False)


def test_the_extents_are_those_of_each_axis():
    """With the address of the numbers, which compiled code writes."""
    values, _ = filled([(2, 3), (1, 4), (5, 2)])
    assert values.extents() == [[2, 1, 5], [3, 4, 2]]
    assert values.address == address_of(values.columns)
    assert values.one_shape() is None
    assert filled([(2, 3), (2, 3)])[0].one_shape() == (2, 3)
    assert filled([(2, 3)], size=2)[0].one_shape() is None  # one of them is not placed
    assert PlacedArrays(0).one_shape() is None


def test_a_program_keeps_the_lines_of_its_columns():
    """Batch after batch, with other addresses and with a result more that becomes an array at once."""
    records = object.__new__(CallRecords)
    records._table, records._numbers, records._cells = np.empty((0, 5), np.int64), Struct(""), memoryview(b"")
    records._lines = ()
    lines = [(1, 2**40, 8, 2, -1), (2, 2**40 + 8, 8, 2, -1)]
    for given in (lines, lines, [(1, 2**41, 24, 0, 3), lines[1]], [*lines, (3, 5, 8, 6, -1)], lines[:1], []):
        assert records.table_of(given).tolist() == [list(line) for line in given]
