"""Every instance of every kernel compiles with NVRTC for every architecture that is supported; no driver is needed."""

import older_compilers
import pytest
from nvrtc_compiler import ALL, ARCHITECTURES, compiled

from pipeflow.backends import cuda_programs
from pipeflow.kernels import gpu

# Structs and lambdas inside lambdas, in which compilers differ; `make test-nvrtc ARCHITECTURES=all` tries all files.
FILES_FOR_OLDER = gpu.files() if ARCHITECTURES == ALL else ["boxes.cu", "move.cu"]


@pytest.mark.parametrize("file", gpu.files())
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile(compilations, file, architecture):
    """One program a file, with all its instances, to machine code of the architecture."""
    names = gpu.instances_of(file)
    code, lowered = compilations[file, architecture].result()
    assert code[:4] == b"\x7fELF"
    assert len(set(lowered)) == len(names)
    for name in lowered:
        assert (name if isinstance(name, bytes) else name.encode()) in code


@pytest.mark.parametrize("file", FILES_FOR_OLDER)
@pytest.mark.parametrize("version", older_compilers.VERSIONS)
def test_older_compilers(version, file):
    """A kernel compiles with the oldest compiler of each version of CUDA."""
    layer, headers = older_compilers.compiler(version)
    names = gpu.instances_of(file)
    made = cuda_programs.compiled(layer, file, gpu.source(file), names, 80, headers)
    assert made.code[:4] == b"\x7fELF"
    assert set(made.lowered) == set(names)


def test_an_error_names_file_and_line():
    """What the compiler says of a mistake in a kernel tells where it is."""
    text = gpu.source("move.cu")
    line = text[: text.index("const Place place")].count("\n") + 1
    with pytest.raises(RuntimeError, match=rf"move\.cu\({line}\): error: .*no_such_type"):
        compiled(text.replace("const Place place", "no_such_type place"), "move.cu", ["move<int>"], 90)
