"""External input made by worker processes, sample by sample."""

import numpy as np
import nvidia.dali.fn as fn
from material import FILES
from nvidia.dali import pipeline_def
from shown import show, show_error


class ExternalInputCallable:
    def __init__(self, batch_size):
        self.files = FILES
        self.full_iterations = len(self.files) // batch_size

    def __call__(self, sample_info):
        sample_idx = sample_info.idx_in_epoch
        if sample_info.iteration >= self.full_iterations:
            raise StopIteration()
        with open(self.files[sample_idx], "rb") as f:
            encoded_img = np.frombuffer(f.read(), dtype=np.uint8)
        return encoded_img, np.int32([sample_idx])


def main():
    batch_size = 3

    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, py_num_workers=2, py_start_method="fork")
    def pipeline():
        jpegs, labels = fn.external_source(
            source=ExternalInputCallable(batch_size), num_outputs=2, batch=False, parallel=True, prefetch_queue_depth=2
        )
        return fn.decoders.image(jpegs), labels

    pipe = pipeline()
    pipe.build()
    for _ in range(2):
        for _ in range(2):
            images, labels = pipe.run()
            show([image.shape() for image in images], labels)
        show_error(pipe.run)
        pipe.reset()


if __name__ == "__main__":
    main()
