"""An iterator class as the source of batches, after the tutorial of external input."""

import numpy as np
import nvidia.dali.fn as fn
from material import encoded
from nvidia.dali.pipeline import Pipeline
from shown import show

batch_size = 3


class ExternalInputIterator:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.indices = list(range(6))

    def __iter__(self):
        self.i = 0
        self.n = len(self.indices)
        return self

    def __next__(self):
        batch, labels = [], []
        for _ in range(self.batch_size):
            batch.append(encoded(self.indices[self.i]))
            labels.append(np.array([self.indices[self.i] % 3], dtype=np.uint8))
            self.i = (self.i + 1) % self.n
        return batch, labels


eii = ExternalInputIterator(batch_size)
pipe = Pipeline(batch_size=batch_size, num_threads=2, device_id=None)
with pipe:
    jpegs, labels = fn.external_source(source=eii, num_outputs=2)
    decode = fn.decoders.image(jpegs, device="cpu")
    enhance = fn.brightness_contrast(decode, contrast=2)
    pipe.set_outputs(enhance, labels)
pipe.build()
for _ in range(3):
    show(pipe.run(), within=2)
