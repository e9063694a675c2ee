"""External input made by worker processes, batch by batch: a callable of BatchInfo and a generator."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show


class Batches:
    def __init__(self, batch_size):
        self.batch_size = batch_size

    def __call__(self, batch_info):
        first = batch_info.iteration * self.batch_size
        return [np.int64([first + k, batch_info.epoch_idx]) for k in range(self.batch_size)]


def generator():
    for i in range(5):
        yield [np.full(2, i + k, np.float32) for k in range(3)]


def main():
    @pipeline_def(batch_size=3, num_threads=1, device_id=None, py_num_workers=1, py_start_method="fork")
    def pipeline():
        numbers = fn.external_source(source=Batches(3), batch=True, batch_info=True, parallel=True)
        values = fn.external_source(source=generator, parallel=True, cycle="quiet")
        return numbers, values

    pipe = pipeline()
    pipe.start_py_workers()
    pipe.build()
    for _ in range(7):
        show(pipe.run())


if __name__ == "__main__":
    main()
