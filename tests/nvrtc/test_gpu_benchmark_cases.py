"""The cases of benchmarks/gpu_operators.py can be prepared and run; what they cost is measured on a GPU only."""

import sys
from pathlib import Path

import fake_device
import numpy as np
import pytest
from host_device import launch_on_host

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu_operators  # type: ignore[import-not-found]

sys.path.pop(0)


@pytest.mark.parametrize("name", gpu_operators.CASES)
def test_a_case(monkeypatch, name):
    """It has launches, all of which run, and moves bytes."""
    monkeypatch.setattr(gpu_operators, "BATCH", 2)
    for images in ("IMAGE", "FLOATS"):  # the smallest that the crops fit into
        monkeypatch.setattr(gpu_operators, images, np.ascontiguousarray(getattr(gpu_operators, images)[:224, :224]))
    device = fake_device.FakeRuntime(launcher=launch_on_host)
    memory, moved = gpu_operators.prepared(device, gpu_operators.call_of(gpu_operators.CASES[name]))
    assert memory.queue
    for launch in memory.queue:
        launch()
    device.finish_all()
    assert moved > 2 * 224 * 224 * 3
