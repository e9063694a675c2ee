"""Runs one function two ways: converted, on a batch through a pipeline; and in plain Python, sample by sample."""

import numpy as np

from pipeflow import fn, pipeline_def
from pipeflow.record import recorder as graph

B = 6
NUMBERS = np.arange(B, dtype=np.int32)


def data(values=NUMBERS, **options):
    """A node with these samples, the same in every batch; dtype and number of axes are known while the graph is built."""
    samples = [np.asarray(value) for value in values]
    known = {"dtype": samples[0].dtype, "ndim": samples[0].ndim, **options}
    return fn.external_source(source=lambda: samples, batch=True, **known)


def unknown(values=NUMBERS):
    """A node of which nothing is known before it runs."""
    samples = [np.asarray(value) for value in values]
    return fn.external_source(source=lambda: samples, batch=True)


pyfn = fn.python_function


def pipeline(function, *sources, conditionals=True, batch_size=B, **options):
    """A pipeline whose definition calls ``function`` with the given sources, by default the numbers 0 to 5."""

    def definition():
        inputs = [make() for make in sources] if sources else [data()]
        return function(*inputs)

    options = {"batch_size": batch_size, "num_threads": 2, "device_id": None, "prefetch_queue_depth": 1, **options}
    return pipeline_def(definition, enable_conditionals=conditionals, **options)()


def batch(function, *sources, iterations=1, **options):
    """The results of a pipeline per sample: plain values, or tuples of them where there are several outputs."""
    pipe = pipeline(function, *sources, **options)
    pipe.build()
    for _ in range(iterations):
        outputs = pipe.run()
    columns = [[np.asarray(output.at(k)).tolist() for k in range(len(output))] for output in outputs]
    return columns[0] if len(columns) == 1 else list(zip(*columns))


def single(function, values=NUMBERS):
    """The results of the function in plain Python, called with one number at a time."""
    rows = []
    for value in values:
        result = function(value)
        rows.append(
            tuple(np.asarray(x).tolist() for x in result) if isinstance(result, tuple) else np.asarray(result).tolist()
        )
    return rows


def agree(function):
    """Asserts that the batch gives what each sample gives alone."""
    assert batch(function) == single(function)


def operators(function, *sources, **options):
    """The names of the operators that a definition records."""
    names = []

    def definition(*inputs):
        outputs = function(*inputs)
        names.extend(node.op.name for node in graph.current.get().graph.nodes)
        return outputs

    pipeline(definition, *sources, **options).build()
    return names
