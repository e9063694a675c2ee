"""Samples without elements: the GPU form of every operator gives on the host what the CPU gives, or refuses them too."""

import dataclasses

import device_cases
import numpy as np
import pytest
from host_device import on_cpu, on_host

from pipeflow.tensors import TensorListCPU

# Decoders finish on the CPU, and read one axis of bytes; examples of random numbers have no input.
LEFT_OUT = ("decoders.", "random.")
EXAMPLES = [(op, text) for op, text in device_cases.EXAMPLES if op.max_inputs and not op.name.startswith(LEFT_OUT)]


def plain(value):
    """The array of an input or an argument."""
    return np.asarray(value.samples()[0] if isinstance(value, TensorListCPU) else value)


def batch_of(value, size):
    """A batch of the same sample."""
    layout = value.layout() if isinstance(value, TensorListCPU) else None
    return TensorListCPU([plain(value)] * size, layout)


def outcome(run, call):
    """The results, or the words with which the call is refused."""
    try:
        return run(call)
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        return str(error)


@pytest.mark.parametrize(("op", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])
def test_as_on_the_cpu(op, text):
    """Along each axis in turn, in a batch of such samples and, along the first axis, next to a sample with elements."""
    call = device_cases.call_of(text)
    call.key = 5 if op.random else call.key
    first = plain(call.inputs[0])
    layout = batch_of(call.inputs[0], 1).layout() or op.layout_of_array(first.ndim)
    empty = [np.take(first, [], axis=axis) for axis in range(first.ndim)]
    for samples in [[x, x] for x in empty] + [[first, x] for x in empty[:1]]:
        inputs = [TensorListCPU(samples, layout or None), *(batch_of(x, 2) for x in call.inputs[1:])]
        named = {name: batch_of(x, 2) for name, x in call.arguments.items()}
        made = dataclasses.replace(call, inputs=tuple(inputs), arguments=named)
        expected, found = outcome(on_cpu, made), outcome(on_host, made)
        assert isinstance(found, str) == isinstance(expected, str)
        if isinstance(found, str):
            assert len(found) > 10
            continue
        assert found[1] == expected[1]
        for one, other in zip(found[0], expected[0], strict=True):
            for x, y in zip(one, other, strict=True):
                assert (x.dtype, x.shape) == (y.dtype, y.shape)
                np.testing.assert_allclose(x.astype(float), y.astype(float), atol=2e-3 if x.dtype.kind == "f" else 1)
