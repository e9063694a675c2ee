"""The first pipeline of a tutorial: read JPEG files and decode them."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline, pipeline_def
from shown import show

max_batch_size = 4


@pipeline_def
def simple_pipeline():
    jpegs, labels = fn.readers.file(file_root=PICTURES)
    images = fn.decoders.image(jpegs, device="cpu")
    return images, labels


pipe = simple_pipeline(batch_size=max_batch_size, num_threads=1, device_id=None)
pipe.build()
pipe_out = pipe.run()
images, labels = pipe_out

show(isinstance(pipe, Pipeline), len(images), images.is_dense_tensor(), labels.is_dense_tensor())
labels_tensor = labels.as_tensor()
show(labels_tensor.shape(), np_labels := labels.as_array())
show([image.shape() for image in images], images.at(0), images[1])
show(labels_tensor.dtype == types.INT32, images.dtype == types.UINT8, images.layout(), int(np_labels.sum()))
