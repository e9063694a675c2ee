"""Functions and sources of the user that write every result into one array of their own: what was delivered stays as it is."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

BATCH, DEPTH, RUNS = 3, 3, 4
KEPT = {kind: np.zeros((BATCH, 2), kind) for kind in (np.float32, np.uint16, object)}


def number(info):
    return np.array(info.idx_in_epoch, np.int32)


def word(x, kind):
    """What a sample becomes."""
    return f"number {int(x)}" if kind is object else int(x) + 1


def one(x, kind, row=0):
    """The row of the array, filled for this sample."""
    KEPT[kind][row] = word(x, kind)
    return KEPT[kind][row]


def whole(xs, kind):
    """The array, filled for the batch."""
    for row, x in enumerate(xs):
        one(x, kind, row)
    return KEPT[kind][: len(xs)]


# Name -> the operator for a node of numbers, and how many outputs it has.
FUNCTIONS = {
    "a sample": lambda x, k: fn.python_function(x, function=lambda x: one(x, k)),
    "a sample on one of the threads": lambda x, k: fn.python_function(
        x, function=lambda x: one(x, k), parallel="threads"
    ),
    "two results of a sample": lambda x, k: fn.python_function(
        x, function=lambda x: (one(x, k), KEPT[k][0, ::-1]), num_outputs=2
    ),
    "a view of the result of another one": lambda x, k: fn.python_function(
        fn.python_function(x, function=lambda x: one(x, k)), function=lambda x: x[::-1]
    ),
    "a batch in one array": lambda x, k: fn.python_function(x, function=lambda xs: whole(xs, k), batch_processing=True),
    "a batch as a list": lambda x, k: fn.python_function(
        x, function=lambda xs: list(whole(xs, k)), batch_processing=True
    ),
    "two results of a batch": lambda x, k: fn.python_function(
        x, function=lambda xs: (whole(xs, k), list(whole(xs, k)[:, ::-1])), batch_processing=True, num_outputs=2
    ),
    "a sample that an operator reads": lambda x, k: fn.copy(fn.python_function(x, function=lambda x: one(x, k))),
}


def check(pipe, kind):
    """Every batch has its own numbers, also when later ones have been made."""
    batches = [pipe.run() for _ in range(RUNS)]
    for place, outputs in enumerate(batches):
        for output in outputs:
            found = [np.asarray(sample).tolist() for sample in output.samples()]
            assert found == [[word(BATCH * place + row, kind)] * 2 for row in range(BATCH)]


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_keeps_its_own_buffer(name, kind):
    """Of one sample or a batch, with several results, of numbers and of objects."""

    def define():
        made = FUNCTIONS[name](fn.external_source(number, batch=False, dtype=types.INT32, ndim=0), kind)
        return tuple(made) if isinstance(made, (list, tuple)) else made

    threads = 1 if "threads" in name else 2  # two threads would write into the same row at the same time
    check(pipeline_def(define, batch_size=BATCH, num_threads=threads, prefetch_queue_depth=DEPTH)(), kind)


SOURCES = {
    "samples": ({"batch": False}, lambda info, k: one(info.idx_in_epoch, k, info.idx_in_batch)),
    "batches in one array": ({"batch_info": True}, lambda info, k: whole(following(info), k)),
    "batches as lists": ({"batch_info": True}, lambda info, k: list(whole(following(info), k))),
}


def following(info):
    """The numbers of a batch."""
    return range(BATCH * info.iteration, BATCH * (info.iteration + 1))


@pytest.mark.parametrize("kind", [np.float32, np.uint16])  # a source gives no arrays of objects
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_its_own_buffer(name, kind):
    """Of samples and of batches; they are copied before the source is called again."""
    arguments, function = SOURCES[name]

    def define():
        return fn.external_source(lambda info: function(info, kind), **arguments)

    check(pipeline_def(define, batch_size=BATCH, num_threads=2, prefetch_queue_depth=DEPTH)(), kind)
