"""The runtime of CuPy, as far as it can be checked without a GPU: what it offers, and why it says no."""

import inspect
import re
import sys

import fake_device
import pytest
from pretend_cupy import CudaError, PretendCupy

from pipeflow import backends, fn, pipeline_def
from pipeflow.device.runtime import Runtime
from pipeflow.errors import NoGpu

METHODS = {name: member for name, member in vars(Runtime).items() if inspect.isfunction(member) and name[0] != "_"}


@pytest.mark.parametrize("runtime", [backends.gpu.CupyRuntime, fake_device.FakeRuntime], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_every_runtime_offers_the_same(runtime, name):
    """The methods of the protocol are there, with its parameters in its order."""
    wanted, found = inspect.signature(METHODS[name]), inspect.signature(getattr(runtime, name))
    assert [p.name for p in found.parameters.values()] == [p.name for p in wanted.parameters.values()]


def stub(capability="90", **answers):
    """CuPy as it answers on a machine; an exception in place of an answer is raised."""
    cupy = PretendCupy(devices=1, capability=capability)

    def answer(value):
        def call(*_):
            if isinstance(value, Exception):
                raise value
            return value

        return call

    places = {
        "version": (cupy.cuda.runtime, "driverGetVersion"),
        "count": (cupy.cuda.runtime, "getDeviceCount"),
        "memory": (cupy.cuda.runtime, "malloc"),
        "nvrtc": (cupy.cuda.nvrtc, "getVersion"),
    }
    for name, value in answers.items():
        setattr(*places[name], answer(value))
    return cupy


@pytest.mark.parametrize(
    ("cupy", "device_id", "reason"),
    [
        (None, 0, r"CuPy cannot be imported \(No module named .cupy.\): pip install cupy-cuda13x nvidia-cuda-nvrtc"),
        (stub(version=0), 0, "there is no NVIDIA driver"),
        (stub(version=CudaError("no answer")), 0, "the NVIDIA driver does not answer: no answer"),
        (stub(count=CudaError("insufficient driver")), 0, r"insufficient driver \(the driver supports CUDA 13\.1\)"),
        (stub(count=0), 0, r"there is no CUDA device \(CUDA_VISIBLE_DEVICES='7' hides the others\)"),
        (stub(count=1), 1, "device_id=1 and there is one GPU, 0"),
        (stub(count=2), 3, "device_id=3 and there are 2 GPUs, from 0"),
        (
            stub(nvrtc=RuntimeError("libnvrtc.so")),
            0,
            r"NVRTC, the CUDA compiler, is not installed \(libnvrtc.so\): pip install",
        ),
        (stub(memory=CudaError("out of memory")), 0, "GPU 0 gives no memory: out of memory"),
        (
            stub(capability="130"),
            0,
            "architecture sm_130, and NVRTC 13.0 compiles for sm_75 to sm_120: install a newer",
        ),
        (stub(), 0, "^$"),
    ],
)
def test_why_a_gpu_cannot_be_used(monkeypatch, cupy, device_id, reason):
    """Every reason has its own text, with what to do."""
    gpu = backends.gpu
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setattr(gpu, "cupy", cupy)
    monkeypatch.setattr(gpu, "MISSING", "No module named 'cupy'")
    monkeypatch.setattr(gpu, "installed_wheels", lambda: ["cupy-cuda13x"])
    monkeypatch.setattr(gpu, "headers_folder", lambda: "/cuda/include")
    monkeypatch.setattr(gpu, "_initialised", [])
    caches = (gpu._why_not, gpu.context_of, gpu.architecture_of)
    for one in caches:
        one.cache_clear()
    try:
        found = gpu.why_not(device_id)
        assert re.search(reason, found), found
    finally:
        for one in caches:
            one.cache_clear()


def test_missing_headers(monkeypatch):
    """NVRTC without the headers of CUDA compiles nothing: the wheel that has them is named."""
    gpu = backends.gpu
    monkeypatch.setattr(gpu, "cupy", stub())
    monkeypatch.setattr(gpu, "installed_wheels", lambda: ["cupy-cuda13x"])
    monkeypatch.setattr(gpu, "headers_folder", lambda: "")
    monkeypatch.setattr(gpu, "_initialised", [])
    gpu._why_not.cache_clear()
    try:
        assert "NVRTC needs them: pip install nvidia-cuda-runtime" in gpu.why_not(0)
    finally:
        gpu._why_not.cache_clear()


def test_two_wheels_of_cupy(monkeypatch):
    """They disturb each other: both are named."""
    gpu = backends.gpu
    monkeypatch.setattr(gpu, "installed_wheels", lambda: ["cupy-cuda12x", "cupy-cuda13x"])
    gpu._why_not.cache_clear()
    try:
        assert "cupy-cuda12x and cupy-cuda13x are both installed and disturb each other" in gpu.why_not(0)
    finally:
        gpu._why_not.cache_clear()


def test_the_wheels_that_are_installed(monkeypatch, tmp_path):
    """They are found by their names, in any folder of imports; other distributions are not read."""
    for folder, name in (("one", "cupy_cuda12x"), ("one", "cupy_helper"), ("two", "cupy_cuda13x")):
        place = tmp_path / folder / f"{name}-14.0.0.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 14.0.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two")])
    assert backends.gpu.installed_wheels() == ["cupy-cuda12x", "cupy-cuda13x"]


def test_building_fails_with_the_reason(monkeypatch):
    """Before anything runs, and only where there is work for a GPU."""
    monkeypatch.setattr(backends.gpu, "why_not", lambda _number: "it is in another machine")

    @pipeline_def(batch_size=2, num_threads=1, device_id=0)
    def define(there):
        data = fn.external_source(lambda: [1, 2])
        return data.gpu() if there else data

    with pytest.raises(NoGpu, match="works on GPU 0, which cannot be used here: it is in another machine"):
        define(True).build()
    assert len(define(False).run()[0]) == 2
