"""Every instance of every kernel compiles with NVRTC for every architecture that is supported; no driver is needed."""

import pytest
from nvrtc_compiler import ARCHITECTURES, compiled

from pipeflow.kernels import gpu


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


def test_an_error_names_file_and_line():
    """What the compiler says of a mistake in a kernel tells where it is."""
    text = gpu.source("move.cu")
    line = text[: text.index("const Place place")].count("\n") + 1
    with pytest.raises(RuntimeError, match=rf"move\.cu\({line}\): error: .*no_such_type"):
        compiled(text.replace("const Place place", "no_such_type place"), "move.cu", ["move<int>"], 90)
