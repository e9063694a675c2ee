"""Names: of inputs and operators, given and not given, and how feed_input and reader_meta use them."""

import numpy as np
import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import Pipeline, pipeline_def
from shown import show, show_error

pipe = Pipeline(2, 1, None)
with pipe:
    first = fn.external_source()
    second = fn.external_source(name="given")
    total = first + second
    files, labels = fn.readers.file(file_root=PICTURES, name="Reader")
    flipped = fn.copy(total, name="my_copy")
    pipe.set_outputs(total, flipped, labels)
show(first.name, second.name, files.name, labels.name, flipped.name)
pipe.build()
for number in range(2):
    pipe.feed_input(first, [np.int32([number])] * 2)
    pipe.feed_input("given", [np.int32([10])] * 2)
show(pipe.run(), sorted(pipe.reader_meta()), pipe.reader_meta("Reader")["epoch_size"])


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def unnamed():
    a = fn.external_source()
    b = fn.copy(a)
    c = fn.readers.file(file_root=PICTURES)[1]
    show(a.name, b.name, c.name, (a + 1).name)
    return b, c


pipe = unnamed()
for number in range(2):
    pipe.feed_input("__ExternalSource_0", np.int32([[number], [number + 1]]))
show(pipe.run(), sorted(pipe.reader_meta()), sorted(pipe.epoch_size()))
show_error(lambda: pipe.feed_input("nothing", [np.int32([1])] * 2))
show_error(lambda: pipe.reader_meta("nothing"))


def doubled():
    p = Pipeline(2, 1, None)
    with p:
        a = fn.external_source(lambda: [np.int32([1])] * 2, name="same")
        b = fn.external_source(lambda: [np.int32([1])] * 2, name="same")
        p.set_outputs(a, b)
    p.build()
    return len(p.run())


show_error(doubled)
