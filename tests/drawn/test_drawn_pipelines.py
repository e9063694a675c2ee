"""Drawn pipelines give the same batches in every way of running them.

``PIPEFLOW_DRAWN=200 PIPEFLOW_DRAWN_SEED=1000 python -m pytest tests/drawn`` draws others, and more of them. A program that fails
is in the temporary folder of its test.
"""

import importlib.util
import os

import numpy as np
import pytest
from drawn import drawing

from pipeflow import pipeline_def
from pipeflow.pipeline import Pipeline

FIRST, COUNT = int(os.environ.get("PIPEFLOW_DRAWN_SEED", 0)), int(os.environ.get("PIPEFLOW_DRAWN", 16))
BATCH, BROKEN_OFF = 4, 2


@pytest.fixture(params=range(FIRST, FIRST + COUNT))
def program(request, tmp_path):
    """The module of a drawn program."""
    path = tmp_path / f"drawn{request.param}.py"
    path.write_text(drawing.program(request.param))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batches(pipe, most=100):
    """The outputs as arrays, until the source ends."""
    found = []
    try:
        while len(found) < most:
            found.append([[np.array(sample) for sample in output] for output in pipe.run()])
    except StopIteration:
        pass
    return found


def check_equal(found, expected):
    """Every sample of every output has the same bytes."""
    assert [len(batch[0]) for batch in found] == [len(batch[0]) for batch in expected]
    for number, (batch, other) in enumerate(zip(found, expected)):
        for output, (samples, others) in enumerate(zip(batch, other)):
            for row, (sample, same) in enumerate(zip(samples, others)):
                place = f"batch {number}, output {output}, sample {row}"
                assert (sample.dtype, sample.shape) == (same.dtype, same.shape), place
                np.testing.assert_array_equal(sample, same, place)


def test_all_ways_give_the_same_batches(program):
    """Any number of threads, the caller's thread, a debug run, a copy that was saved, and one that goes on after a checkpoint."""
    settings = {"batch_size": BATCH, "device_id": None, "seed": 3}
    expected = batches(program.pipeline(**settings, num_threads=1, prefetch_queue_depth=1))
    assert len(expected) == program.BATCHES
    check_equal(batches(program.pipeline(**settings, num_threads=3, prefetch_queue_depth=3)), expected)
    called = {"exec_pipelined": False, "exec_async": False}
    check_equal(batches(program.pipeline(**settings, num_threads=2, **called)), expected)
    debugged = pipeline_def(program.pipeline.__wrapped__, enable_conditionals=True, debug=True)
    check_equal(batches(debugged(**settings, num_threads=1)), expected)
    saved = program.pipeline(**settings, num_threads=2).serialize(allow_pickle=True)
    check_equal(batches(Pipeline.deserialize(saved, allow_pickle=True)), expected)
    first = program.pipeline(**settings, num_threads=2, enable_checkpointing=True)
    begun = batches(first, BROKEN_OFF)
    rest = program.pipeline(**settings, num_threads=2, enable_checkpointing=True, checkpoint=first.checkpoint())
    check_equal(begun + batches(rest), expected)
