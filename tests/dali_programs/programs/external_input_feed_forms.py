"""feed_input and run with inputs: lists, arrays, tensors, tensor lists, layouts, and what is refused."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def, tensors, types
from shown import show, show_error


def err(f, *a, **k):
    show_error(lambda: f(*a, **k))


@pipeline_def(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1)
def pipe(layout=None, dtype=None, ndim=None, batch=None):
    return fn.external_source(name="x", layout=layout, dtype=dtype, ndim=ndim, batch=batch)


def out(p):
    (o,) = p.run()
    return o, o.layout(), o.dtype


x = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
p = pipe()
p.build()
p.feed_input("x", x)
show(*out(p))
p.feed_input("x", list(x))
show(*out(p))
p.feed_input("x", [x[0], x[1, :1], x[2]])
show(*out(p))
p.feed_input("x", x[:2])
show(*out(p))
p.feed_input("x", x, layout="HW")
show(*out(p))
p = pipe()
p.build()
p.feed_input("x", tensors.TensorListCPU(x, "WH"))
show(*out(p))
p = pipe()
p.build()
p.feed_input("x", [tensors.TensorCPU(a) for a in x])
show(*out(p))
for lay in ("NHW", "", "HWC"):
    p = pipe()
    p.build()

    def one():
        p.feed_input("x", tensors.TensorCPU(x, lay))
        return out(p)

    err(one)
    p = pipe()
    p.build()

    def one():
        p.feed_input("x", tensors.TensorCPU(x, lay), layout="WH")
        return out(p)

    err(one)
p = pipe()
p.build()
p.feed_input("x", [np.float32(1), np.float32(2)])
show(*out(p))
err(p.feed_input, "x", np.zeros((4, 2), np.uint8))
err(p.feed_input, "y", x)
err(p.feed_input, "x", "text")
err(p.feed_input, "x", 3)
err(p.feed_input, "x", None)
err(p.run)
p = pipe()
p.build()
show(p.run(x=x))
show(p.run(x=list(x[:2])))
err(p.run, y=x)
err(p.run, x)
p = pipe(layout="HW", dtype=types.UINT8, ndim=2)
p.build()
p.feed_input("x", x)
show(*out(p))


def both():
    p.feed_input("x", x, layout="WH")
    p.run()


err(both)
p = pipe(dtype=types.UINT8)
p.build()
err(lambda: (p.feed_input("x", x.astype(np.int32)), p.run()))
p = pipe(ndim=2)
p.build()
err(lambda: (p.feed_input("x", x[0]), p.run()))
p = pipe(batch=False)
p.build()
err(p.feed_input, "x", x)


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def deep():
    return fn.external_source(name="x", repeat_last=True), fn.external_source(name="y", batch=True)


p = deep()
p.build()
show(p.input_feed_count("x"), p.input_feed_count("y"))
err(p.input_feed_count, "z")


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def sourced():
    return fn.external_source(lambda: x, name="x")


p = sourced()
p.build()
err(p.feed_input, "x", x)
