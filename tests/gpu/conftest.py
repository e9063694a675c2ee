"""A fake device in place of the GPU."""

import gc

import fake_device
import pretend_cupy
import pytest

from pipeflow import backends
from pipeflow.backends import cuda_programs
from pipeflow.kernels import gpu as kernels
from pipeflow.kernels import kept_code


@pytest.fixture
def device(monkeypatch):
    """What pipelines with a device_id work on; kernels are those of NumPy."""
    runtime = fake_device.FakeRuntime(seed=5, launcher=fake_device.by_numpy)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    monkeypatch.setattr(backends.gpu, "for_arrays", lambda *_: runtime)
    return runtime


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Two GPUs of CuPy's interface, and an empty folder for compiled kernels."""
    monkeypatch.setattr(kept_code, "folder_for", lambda _name: tmp_path)
    cupy = pretend_cupy.PretendCupy(launcher=fake_device.by_numpy)
    with pretend_cupy.installed(monkeypatch, backends.gpu, cuda_programs, kernels, cupy):
        yield cupy
        gc.collect()
