"""Whole pipelines with device="gpu" on late streams, with the kernels built by g++: they give what the CPU gives."""

import device_cases
import fake_device
import pytest
from host_device import launch_on_host

from pipeflow import backends


@pytest.fixture
def device(monkeypatch):
    """A fake device that runs the real kernels."""
    runtime = fake_device.FakeRuntime(seed=5, launcher=launch_on_host)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    return runtime


@pytest.mark.parametrize(("op", "text"), device_cases.EXAMPLES, ids=[text for _, text in device_cases.EXAMPLES])
def test_every_example(device, op, text):
    """Every declared example of every operator with a GPU form."""
    del op
    device_cases.compare_example(text)


def test_a_graph_of_images(device):
    """Many operators in one segment: one copy to the device a batch, and what the CPU gives."""
    device_cases.compare_images()
    assert device.counts["upload"] <= 2 * device_cases.BATCHES
