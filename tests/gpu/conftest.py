"""A fake device in place of the GPU."""

import fake_device
import pytest

from pipeflow import backends


@pytest.fixture
def device(monkeypatch):
    """What pipelines with a device_id work on; kernels are those of NumPy."""
    runtime = fake_device.FakeRuntime(seed=5, launcher=fake_device.by_numpy)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    monkeypatch.setattr(backends.gpu, "for_arrays", lambda *_: runtime)
    return runtime
