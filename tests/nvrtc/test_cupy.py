"""CuPy itself, installed and without a driver: what the GPU backend asks of it is there."""

import ast
import inspect

import pytest

from pipeflow import backends, fn, pipeline_def
from pipeflow.errors import NoGpu

cupy = pytest.importorskip("cupy", reason="make test-nvrtc installs it")


def names_of(module):
    """Every dotted name of CuPy that a module mentions."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if text.startswith("cupy.") and all(part.isidentifier() for part in text.split(".")):
                found.add(text)
    return sorted(found)


@pytest.mark.parametrize("name", names_of(backends.gpu))
def test_what_is_used_exists(name):
    """A misspelt function would be found on a GPU only."""
    found = cupy
    for part in name.split(".")[1:]:
        if isinstance(found, property | type(inspect.getattr_static(cupy.cuda.Stream, "done"))):
            return
        found = getattr(found, part)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (cupy.cuda.Event, "record"),
        (cupy.cuda.Event, "synchronize"),
        (cupy.cuda.Event, "done"),
        (cupy.cuda.Stream, "wait_event"),
        (cupy.cuda.Stream, "synchronize"),
        (cupy.cuda.Stream, "null"),
        (cupy.cuda.Stream, "ptds"),
        (cupy.RawModule, "get_function"),
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


def test_the_headers_are_found():
    """NVRTC gets the directory of cuda_fp16.h from the wheels."""
    folders = [option[2:] for option in backends.gpu.compiler_options() if option.startswith("-I")]
    assert len(folders) == 2
