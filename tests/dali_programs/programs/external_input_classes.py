"""Sources as users write them: classes with __iter__ and __next__, datasets with __call__, zipped files, and their ends."""

import numpy as np
from material import FILES, encoded
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error


class Inputs:
    def __init__(self, batch_size):
        self.batch_size, self.files = batch_size, list(range(len(FILES)))

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        if self.place >= len(self.files):
            raise StopIteration
        batch, labels = [], []
        for number in self.files[self.place : self.place + self.batch_size]:
            batch.append(encoded(number))
            labels.append(np.array([number], np.uint8))
        self.place += self.batch_size
        return batch, labels

    def __len__(self):
        return len(self.files)

    next = __next__


class Dataset:
    def __init__(self, count, full):
        self.count, self.full = count, full

    def __call__(self, info):
        if info.iteration >= self.full:
            raise StopIteration
        return np.int32([info.idx_in_epoch, info.idx_in_batch, info.iteration]), np.float32(info.epoch_idx)


def run_to_the_end(pipe, most=8):
    shown = []
    for _ in range(most):
        try:
            shown.append(pipe.run())
        except StopIteration:
            shown.append("end")
            pipe.reset()
    return shown


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def decoded(cycle):
    jpegs, labels = fn.external_source(source=Inputs(3), num_outputs=2, dtype=types.UINT8, cycle=cycle)
    return fn.decoders.image(jpegs).shape(), labels


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def counted():
    place, epoch = fn.external_source(Dataset(6, 3), num_outputs=2, batch=False)
    return place, epoch


for cycle in ("raise", "quiet", True):
    show(run_to_the_end(decoded(cycle)))
show(run_to_the_end(counted()))


def batches():
    for number in range(2):
        yield np.full((2, 3), number, np.int16)


def generated_pipe():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def definition():
        return fn.external_source(batches, cycle="raise")

    return definition()


show(run_to_the_end(generated_pipe()))
show_error(
    lambda: pipeline_def(
        lambda: fn.external_source(batches, batch=False, cycle="maybe"), batch_size=2, num_threads=1, device_id=None
    )()
)
