"""What a DataNode says of itself, and what it refuses to do."""

import collections.abc

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline, data_node
from nvidia.dali.data_node import DataNode
from shown import show, show_error

pipe = Pipeline(2, 1, None)
with pipe:
    x = fn.external_source(lambda: [np.ones((3, 4), np.uint8)] * 2, layout="HW")
    boxes = fn.random.uniform(range=(0, 1), shape=(4,))
    pair = fn.nonsilent_region(fn.random.uniform(shape=(100,)))
    show(isinstance(x, DataNode), x.device, isinstance(pair, (list, tuple)), len(pair))
    show(isinstance(x, collections.abc.Iterable), isinstance(x, collections.abc.Sequence))
    show_error(lambda: bool(x))
    show_error(lambda: len(x))
    show_error(lambda: iter(x))
    show_error(lambda: 3 in x)
    show_error(lambda: x if x > 1 else None)
    show_error(lambda: list(x))
    show(data_node.DataNode is DataNode)
    show_error(lambda: x + "text")
    show_error(lambda: x + None)
    shape = x.shape()
    info = x.property("layout")
    pipe.set_outputs(shape, info, x.shape(dtype=types.INT32), fn.cast(boxes > 2, dtype=types.INT32))
pipe.build()
show(pipe.run())
