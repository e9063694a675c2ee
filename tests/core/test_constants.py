"""types.Constant in a pipeline definition: the device of an array and of what is made from it."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types


def test_a_constant_for_the_gpu_is_there():
    """Its node, and a part that each sample chooses by a number on the CPU, may be used with data on the GPU."""
    seen = []

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=1)
    def define():
        table = types.Constant(np.array([3, 12], np.uint8), device="gpu")
        chosen = table[fn.external_source(lambda: [np.int32(number % 2) for number in range(4)])]
        data = fn.external_source(lambda: [np.uint8([1, 7, 15])] * 4).gpu()
        here = types.Constant(np.array([3, 12], np.uint8))
        seen.extend(node.device for node in (table, chosen, data & chosen, here, here[0]))
        return data & chosen, types.Constant(np.uint8([5]), device="gpu")

    with pytest.warns(UserWarning, match="CPU"):
        masked, constant = define().run()
    assert seen == ["gpu", "gpu", "gpu", "cpu", "cpu"]
    assert [np.asarray(sample).tolist() for sample in masked.samples()] == [[1, 3, 3], [0, 4, 12]] * 2
    assert np.asarray(constant[3]).tolist() == [5]


@pytest.mark.parametrize("dtype", [types.DATA_TYPE, types.IMAGE_TYPE, types.INTERP_TYPE])
def test_names_of_types_are_numbers(dtype):
    """DALI's types of names such as types.INTERP_CUBIC are INT32, and become other types of integers."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        names = types.Constant([types.INTERP_CUBIC, types.INTERP_GAUSSIAN], dtype=dtype)
        return names, fn.cast(names, dtype=types.INT64), fn.cast(fn.cast(np.uint8(3), dtype=dtype), dtype=types.UINT8)

    names, wide, one = define().run()
    assert (names.dtype, wide.dtype, one.dtype) == (types.INT32, types.INT64, types.UINT8)
    assert names.as_array().tolist() == wide.as_array().tolist() == [[2, 5]] * 2
    assert one.as_array().tolist() == [3, 3]
