"""fn.dl_tensor_python_function: whole batches of DLPack capsules by default, one sample with batch_processing=False."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show


class Holder:
    """What np.from_dlpack takes: an object with a capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def as_array(capsule):
    return np.from_dlpack(Holder(capsule))


kinds = []


def batched(tensors):
    kinds.append(type(tensors).__name__)
    arrays = [as_array(tensor) for tensor in tensors]
    return [(array * 2 + len(arrays)).__dlpack__() for array in arrays]


def single(tensor):
    return (as_array(tensor) + 5).__dlpack__()


def two(a, b):
    lefts = [as_array(x) for x in a]
    sums = [left + as_array(y) for left, y in zip(lefts, b)]
    return [total.__dlpack__() for total in sums], [left.copy().__dlpack__() for left in lefts]


@pipeline_def(batch_size=3, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
def pipe():
    x = fn.external_source(lambda i: [np.float32([i, k]) for k in range(3)])
    one = fn.dl_tensor_python_function(x, function=batched)
    each = fn.dl_tensor_python_function(x, function=single, batch_processing=False)
    first, second = fn.dl_tensor_python_function(x, one, function=two, num_outputs=2)
    return one, each, first, second


made = pipe()
made.build()
show(made.run(), made.run(), sorted(set(kinds)))
