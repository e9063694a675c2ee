"""Parts of the first run on a GPU, on late streams with the kernels built by g++: nothing here ran on a GPU."""

import device_cases
import fake_device
import first_run
import first_run_hazards
import pytest
from host_device import launch_on_host

from pipeflow import backends


@pytest.fixture
def device(monkeypatch):
    """A fake device that runs the real kernels."""
    runtime = fake_device.FakeRuntime(seed=5, launcher=launch_on_host)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    monkeypatch.setattr(backends.gpu, "for_arrays", lambda *_: runtime)
    return runtime


def test_the_operators(device, monkeypatch):
    """The part runs through examples, and through the graph of images."""
    monkeypatch.setattr(device_cases, "EXAMPLES", device_cases.EXAMPLES[::40])
    report = first_run.Report(1000.0)
    first_run.all_operators(report)
    assert {line.verdict for line in report.lines} == {"fine"}
    assert len(report.lines) == len(device_cases.EXAMPLES) + 1


@pytest.mark.parametrize("check", first_run_hazards.EVERYWHERE, ids=lambda check: check.__name__)
def test_hazards(device, check):
    """Those that need no CUDA are right here."""
    check()
