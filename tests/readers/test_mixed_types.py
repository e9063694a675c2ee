"""Files of several types in one batch."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types


@pytest.fixture
def files(tmp_path):
    arrays = [np.zeros(3, np.int32), np.full(3, 1.5, np.float32), np.zeros((2, 3), np.int32)]
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    return [str(tmp_path / f"{number}.npy") for number in range(3)]


def pipeline(files, after, **options):
    @pipeline_def(batch_size=2, num_threads=2, device_id=None, **options)
    def read():
        return after(fn.readers.numpy(files=files))

    return read()


@pytest.mark.parametrize("after", [lambda x: x, lambda x: x + 1, lambda x: fn.reshape(x, shape=[3])])
def test_types_that_differ_are_an_error(files, after):
    """It names the sample, its file and what helps; a batch never has two types."""
    with pytest.raises(
        TypeError, match=r"int32 \(3,\) for the first and float32 \(3,\) for sample 1: fn\.cast"
    ) as raised:
        pipeline(files[:2], after).run()
    assert any(files[1] in note for note in raised.value.__notes__)


def test_axes_that_differ_are_an_error(files):
    with pytest.raises(ValueError, match=r"int32 \(3,\) for the first and int32 \(2, 3\) for sample 1"):
        pipeline(files[::2], lambda x: x).run()


def test_cast_gives_them_one_type(files):
    (batch,) = pipeline(files[:2], lambda x: fn.cast(x, dtype=types.FLOAT)).run()
    assert batch.as_array().tolist() == [[0] * 3, [1.5] * 3]


def test_other_files_go_on(files):
    """With `on_error="skip"` the batch has the samples of the first type."""
    (batch,) = pipeline(files[:2], lambda x: x, on_error="skip").run()
    assert batch.dtype == types.INT32
    assert len(batch) == 1
