"""The pipelines whose checkpoints are tested: one for each kind of part."""

import numpy as np
from loop.loops import read_numbers

from pipeflow import declare, fn, pipeline_def


def _case(define):
    def make(**settings):
        given = {"batch_size": 3, "num_threads": 2, "seed": 11, "enable_checkpointing": True, **settings}
        return pipeline_def(define, **given, enable_conditionals=True)()

    make.__name__ = define.__name__
    CASES[define.__name__] = make
    return make


CASES: dict = {}


class Counter:
    """A function with a state: how often it was called, and a history in arrays and tuples."""

    def __init__(self):
        self.calls = 0
        self.history = {"last": (0, 0.0), "table": np.zeros(3)}

    def __call__(self, x):
        self.calls += 1
        self.history["table"][self.calls % 3] += float(x)
        self.history["last"] = (self.calls, float(x))
        return np.array([float(x), self.calls, *self.history["table"], self.history["last"][0]])

    def get_state(self):
        return {"calls": self.calls, "history": self.history}

    def set_state(self, state):
        self.calls = state["calls"]
        assert isinstance(state["history"]["last"], tuple)
        self.history = {**state["history"], "table": state["history"]["table"].copy()}


class Stream:
    """A stateful source: batches from a generator of its own."""

    def __init__(self, size=5):
        self.generator = np.random.default_rng(3)
        self.left = self.size = size

    def __call__(self):
        if not self.left:
            self.left = self.size
            raise StopIteration
        self.left -= 1
        return self.generator.random((3, 2))

    def get_state(self):
        return {"generator": self.generator.bit_generator.state, "left": self.left}

    def set_state(self, state):
        self.generator.bit_generator.state = state["generator"]
        self.left = state["left"]


@_case
def unshuffled():
    return read_numbers(count=10), fn.random.uniform()


@_case
def shuffled():
    number = read_numbers(count=10, random_shuffle=True)
    return number, fn.random.normal(), fn.random.coin_flip(), fn.random.uniform(range=(0.0, 1.0), shape=[2])


@_case
def one_shard_of_three():
    return read_numbers(count=20, random_shuffle=True, num_shards=3, shard_id=1), fn.random.uniform()


@_case
def contiguous_shard():
    return read_numbers(count=20, num_shards=3, shard_id=1), fn.random.uniform()


@_case
def padded():
    return read_numbers(count=10, random_shuffle=True, pad_last_batch=True), fn.random.uniform()


@_case
def told_which_batch():
    def source(info):
        if info.iteration == 5:
            raise StopIteration
        return np.full((3, 2), 10 * info.epoch_idx + info.iteration)

    return fn.external_source(source, batch_info=True), fn.random.uniform()


@_case
def told_which_sample():
    def source(info):
        if info.idx_in_epoch == 13:
            raise StopIteration
        return np.array([info.idx_in_epoch, info.epoch_idx])

    return fn.external_source(source, batch=False), fn.random.uniform()


@_case
def a_list():
    return fn.external_source([np.full((3, 1), number) for number in range(4)]), fn.random.uniform()


@_case
def a_generator_function():
    def generate():
        for number in range(4):
            yield np.full((3, 1), number)

    return fn.external_source(generate, cycle="raise"), fn.random.uniform()


@_case
def stateful_source():
    return fn.external_source(Stream()), fn.random.uniform()


@_case
def stateless_function():
    number = read_numbers(count=10, random_shuffle=True)
    return fn.python_function(number, function=lambda x, rng: x + rng.random(2))


@_case
def stateful_function():
    return fn.python_function(read_numbers(count=10, random_shuffle=True), function=Counter())


@_case
def two_stateful_functions():
    number = read_numbers(count=10)
    return fn.python_function(fn.python_function(number, function=Counter())[0], function=Counter())


@_case
def threaded_function():
    number = read_numbers(count=10, random_shuffle=True)
    return fn.python_function(number, function=lambda x: x * 2, parallel="threads")


@_case
def conditional():
    number = read_numbers(count=10, random_shuffle=True)
    if fn.random.coin_flip(dtype=declare.types.BOOL):
        result = number + fn.random.uniform(range=(0.0, 1.0))
    else:
        result = fn.cast(fn.python_function(number, function=Counter())[0], dtype=declare.types.FLOAT)
    return result
