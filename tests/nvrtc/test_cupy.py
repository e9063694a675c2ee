"""CuPy itself, installed and without a driver: what the GPU backend asks of it is there."""

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeflow import backends, fn, pipeline_def
from pipeflow.backends import cuda_objects, cuda_programs
from pipeflow.errors import NoGpu

cupy = pytest.importorskip("cupy", reason="make test-nvrtc installs it")


CUDA = ("cuda.runtime.", "cuda.driver.", "cuda.nvrtc.")


def names_of(module):
    """Every dotted name of CuPy that a module mentions."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            for part in CUDA:
                if part in text:  # of cupy.cuda under another name
                    text = f"cupy.{part}{text.partition(part)[2]}"
            if text.startswith("cupy.") and all(part.isidentifier() for part in text.split(".")):
                found.add(text)
    return sorted(found - {"cupy.cuda.cufft"})  # which is loaded by its name


@pytest.mark.parametrize("name", sorted({*names_of(backends.gpu), *names_of(cuda_objects), *names_of(cuda_programs)}))
def test_what_is_used_exists(name):
    """A misspelt function would be found on a GPU only."""
    found = cupy
    computed = property | type(inspect.getattr_static(cupy.cuda.Stream, "done"))  # their values have no attributes yet
    for part in name.split(".")[1:]:
        if not isinstance(found, computed):
            found = getattr(found, part)
    assert found is not cupy


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (cupy.cuda.Stream, "__enter__"),
        (cupy.cuda.Device, "compute_capability"),
        (cupy.cuda.function.Module, "load"),
        (cupy.cuda.function.Module, "get_function"),
        (cupy.cuda.memory.MemoryPool, "free_all_blocks"),
        (cupy.cuda.driver, "ctxGetCurrent"),
        (cupy.cuda.driver, "ctxSetCurrent"),
        (cupy.cuda.nvrtc, "getLoweredName"),
        (cupy.cuda.nvrtc, "getCUBIN"),
        (cupy.ndarray, "__dlpack__"),
    ],
)
def test_methods_exist(owner, name):
    """And so do the methods of its objects."""
    assert hasattr(owner, name)


def test_the_reason_without_a_driver():
    """Where CuPy is installed and no driver is, the probe says so, and so does building a pipeline."""
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert "there is no NVIDIA driver" in backends.gpu.why_not(0)

    @pipeline_def(batch_size=2, num_threads=1, device_id=0)
    def define():
        return fn.external_source(lambda: [1, 2]).gpu()

    with pytest.raises(NoGpu, match="works on GPU 0, which cannot be used here: there is no NVIDIA driver"):
        define().build()


@pytest.mark.filterwarnings("error")
def test_streams_of_others_are_handles(monkeypatch):
    """Recording and waiting on a foreign stream calls CUDA with its number; CuPy's objects for such streams warn."""
    calls = []
    runtime = cupy.cuda.runtime
    for name in ("eventRecord", "streamWaitEvent"):
        monkeypatch.setattr(runtime, name, lambda *given, name=name: calls.append((name, *given)))
    pipelines = backends.gpu.CupyRuntime
    event = SimpleNamespace(ptr=77)
    for handle in (1, 2, 4096):
        stream = pipelines.external(None, handle)
        pipelines.record(None, event, stream)
        pipelines.wait(None, stream, event)
    expected = [[("eventRecord", 77, handle), ("streamWaitEvent", handle, 77)] for handle in (1, 2, 4096)]
    assert calls == [call for pair in expected for call in pair]


@pytest.mark.skipif(find_spec("nvidia.cufft") is not None, reason="cuFFT is installed")
def test_a_missing_cufft():
    """The line that installs it is said, in one line."""
    with pytest.raises(NoGpu, match=r"pip install nvidia-cufft") as caught:
        backends.gpu.CupyRuntime.require(None, "cuFFT")
    assert "\n" not in str(caught.value)


def test_the_headers_are_found():
    """NVRTC gets the directory of cuda_fp16.h from the wheels."""
    assert (Path(backends.gpu.headers_folder()) / "cuda_fp16.h").exists()
