"""What @pipeline_def may decorate: methods, static methods, partials, callable objects, lambdas, closures."""

import functools

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import Pipeline, pipeline_def
from shown import show

settings = dict(batch_size=2, num_threads=1, device_id=None)


def source():
    return fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)


class Loader:
    def __init__(self, factor):
        self.factor = factor

    @pipeline_def(**settings)
    def method(self, offset):
        return source() * self.factor + offset

    @staticmethod
    @pipeline_def(**settings)
    def static(offset):
        return source() + offset

    def make(self):
        @pipeline_def(**settings)
        def closure():
            return source() - self.factor

        return closure()

    def plain(self, offset):
        return source() * 100 * self.factor + offset

    def __call__(self, offset):
        return source() + 1000 * self.factor + offset


loader = Loader(3)
show(loader.method(5).run(), Loader.static(7).run(), loader.make().run())
show(pipeline_def(loader.plain)(4, **settings).run(), pipeline_def(loader.plain, **settings)(offset=6).run())
show(pipeline_def(lambda: source() + 9)(**settings).run())
show(pipeline_def(**settings)(lambda n: source() + n)(2).run())


def three(a, b, c):
    return source() + a * 100 + b * 10 + c


@pipeline_def(**settings)
def through_partial():
    return functools.partial(three, 1, c=3)(2)


show(through_partial().run())


def decorated(factory):
    @functools.wraps(factory)
    def wrapper(*args, **kwargs):
        return factory(*args, **kwargs)

    return wrapper


@decorated
@pipeline_def(**settings)
def wrapped(n):
    return source() + n


pipe = wrapped(4)
show(isinstance(pipe, Pipeline), pipe.run())
show(through_partial.__name__, Loader.method.__name__)
