"""Outputs of one pipeline as the input of another: the containers themselves, arrays of them, and by feed_input."""

import numpy as np
from material import image
from nvidia.dali import fn
from nvidia.dali.pipeline import Pipeline
from shown import show, show_error


def images():
    return [image(4, 5, seed=number) for number in range(2)]


first = Pipeline(batch_size=2, num_threads=3, device_id=None)
first.set_outputs(fn.external_source(source=images, layout="HWC"), fn.external_source(source=images))
first.build()
made = first.run()
show(made[0].as_cpu().as_array())


class Collector:
    def __iter__(self):
        return self

    def __next__(self):
        return self.data[0]

    next = __next__


collector = Collector()
collector.data = made
second = Pipeline(batch_size=2, num_threads=3, device_id=None, prefetch_queue_depth=1)
second.set_outputs(fn.external_source(source=collector), fn.external_source(source=collector) + 1)
second.build()
show(second.run(), second.run())
collector.data = [np.stack(images())[:1]]
show_error(second.run)


def fed(data):
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=None, prefetch_queue_depth=1)
    node = fn.external_source(name="data")
    pipe.set_outputs(node, fn.flip(fn.reshape(node, layout="HWC")))
    pipe.build()
    pipe.feed_input("data", data)
    return pipe.run()


for data in (made[0], made[1].as_array(), [made[0][0], made[0][1]], [np.array(made[0].at(1))], made[0].as_tensor()):
    show(fed(data))
show_error(lambda: fed([1, [2]]))
