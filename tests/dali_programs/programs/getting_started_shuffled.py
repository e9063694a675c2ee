"""Adding random_shuffle to the reader: other samples in every batch, the same ones in every epoch."""

import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show, show_form


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1234)
def shuffled_pipeline():
    jpegs, labels = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=21, name="Reader")
    images = fn.decoders.image(jpegs)
    return images, labels


pipe = shuffled_pipeline()
pipe.build()
seen = []
for _ in range(2):
    images, labels = pipe.run()
    seen += [int(label[0]) for label in labels.as_array()]
show(sorted(seen), pipe.epoch_size("Reader"), pipe.epoch_size(), images.layout())
show_form(labels)
