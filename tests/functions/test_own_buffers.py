"""Functions and sources of the user that write every result into one array of their own: what was delivered stays as it is."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

BATCH, DEPTH, RUNS = 3, 3, 4
KINDS = (np.float32, np.uint16, object)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def number(info):
    return np.array(info.idx_in_epoch, np.int32)


def word(x, kind):
    """What a sample becomes."""
    return f"number {int(x)}" if kind is object else int(x) + 1


def following(info):
    """The numbers of a batch."""
    return range(BATCH * info.iteration, BATCH * (info.iteration + 1))


class Own:
    """An array, and functions and sources that write to it again and again."""

    def __init__(self, kind):
        self.kind, self.array = kind, np.zeros((BATCH, 2), kind)

    def sample(self, x, row=0):
        self.array[row] = word(x, self.kind)
        return self.array[row]

    def two_of_a_sample(self, x):
        return self.sample(x), self.array[0, ::-1]

    def batch(self, xs):
        for row, x in enumerate(xs):
            self.sample(x, row)
        return self.array[: len(xs)]

    def listed(self, xs):
        return list(self.batch(xs))

    def two_of_a_batch(self, xs):
        return self.batch(xs), list(self.array[: len(xs), ::-1])

    def source_of_samples(self, info):
        return self.sample(info.idx_in_epoch, info.idx_in_batch)

    def source_of_batches(self, info):
        return self.batch(following(info))

    def source_of_lists(self, info):
        return self.listed(following(info))


def reverse(x):
    return x[::-1]


# Name -> the operators for a node of numbers; the functions of a whole batch are not called on several threads at once.
FUNCTIONS = {
    "a sample": lambda x, own, **way: fn.python_function(x, function=own.sample, **way),
    "two results of a sample": lambda x, own, **way: fn.python_function(
        x, function=own.two_of_a_sample, num_outputs=2, **way
    ),
    "a view of the result of another one": lambda x, own, **way: fn.python_function(
        fn.python_function(x, function=own.sample, **way), function=reverse, **way
    ),
    "a sample that an operator reads": lambda x, own, **way: fn.copy(fn.python_function(x, function=own.sample, **way)),
    "a batch in one array": lambda x, own, **way: fn.python_function(
        x, function=own.batch, batch_processing=True, **way
    ),
    "a batch as a list": lambda x, own, **way: fn.python_function(x, function=own.listed, batch_processing=True, **way),
    "two results of a batch": lambda x, own, **way: fn.python_function(
        x, function=own.two_of_a_batch, batch_processing=True, num_outputs=2, **way
    ),
}
SOURCES = {
    "samples": ("source_of_samples", {"batch": False}),
    "batches in one array": ("source_of_batches", {"batch_info": True}),
    "batches as lists": ("source_of_lists", {"batch_info": True}),
}


def check(definition, kind, **settings):
    """Every batch has its own numbers, also when later ones have been made."""
    settings = {"batch_size": BATCH, "num_threads": 2, "prefetch_queue_depth": DEPTH, **settings}
    pipe = pipeline_def(definition, **settings)()
    batches = [pipe.run() for _ in range(RUNS)]
    for place, outputs in enumerate(batches):
        for output in outputs:
            found = [np.asarray(sample).tolist() for sample in output.samples()]
            assert found == [[word(BATCH * place + row, kind)] * 2 for row in range(BATCH)]


def flat(outputs):
    """The nodes that operators have returned, of one output or of several."""
    return tuple(node for made in outputs for node in (made if isinstance(made, (list, tuple)) else [made]))


@every_kind
@pytest.mark.parametrize("parallel", ["serial", "threads", "auto", "processes"])
def test_a_function_keeps_its_own_buffer(parallel, kind):
    """Of one sample or a batch, with several results, of numbers and of objects; each function has an array of its own."""

    def define():
        x = fn.external_source(number, batch=False, dtype=types.INT32, ndim=0)
        names = [name for name in FUNCTIONS if parallel != "threads" or "batch" not in name]
        return flat([FUNCTIONS[name](x, Own(kind), parallel=parallel) for name in names])

    # two threads would write into the same row at the same time
    check(define, kind, num_threads=1 if parallel == "threads" else 2, py_num_workers=2)


@pytest.mark.parametrize("kind", [np.float32, np.uint16])  # a source gives no arrays of objects
@pytest.mark.parametrize("parallel", [False, True])
def test_a_source_keeps_its_own_buffer(parallel, kind):
    """Of samples and of batches; they are copied before the source is called again, here and in worker processes."""

    def define():
        return flat(
            [
                fn.external_source(getattr(Own(kind), source), parallel=parallel, **arguments)
                for source, arguments in SOURCES.values()
            ]
        )

    check(define, kind, py_num_workers=2)
