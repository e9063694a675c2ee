"""fn.readers.mxnet: RecordIO with an index."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import encoded, write_recordio
from nvidia.dali.pipeline import Pipeline
from shown import show

record, index = write_recordio(".", [(k * 2, encoded(k).tobytes()) for k in range(4)])
pipe = Pipeline(batch_size=2, num_threads=2, device_id=None)
with pipe:
    jpegs, labels = fn.readers.mxnet(path=[record], index_path=[index])
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    pipe.set_outputs(images, labels)
pipe.build()
show(pipe.run(), pipe.run())
