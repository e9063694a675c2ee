"""The compiled code keeps its numbers in registers, and leaves room for enough threads."""

import pytest
from machine_code import facts_of
from nvrtc_compiler import ARCHITECTURES, compiled

from pipeflow.kernels import gpu

# Registers of a thread above which fewer than two blocks of 256 threads fit on a multiprocessor of 65536.
MOST_REGISTERS = 128
# Kernels that call functions of their own, or of the library, have a frame for the return; those of loops over data have none.
WITHOUT_STACK = {"move.cu", "warp.cu", "filter.cu", "crop_mirror_normalize.cu", "resize_tiles.cu", "debayer.cu"}


@pytest.mark.parametrize("file", gpu.files())
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_and_stack(compilations, file, architecture):
    """No instance needs more registers than two blocks have, and the kernels over images use no memory of a thread."""
    names, future = gpu.instances_of(file), compilations.get((file, architecture))
    code, lowered = compiled(gpu.source(file), file, names, architecture) if future is None else future.result()
    facts = facts_of(code)
    for name, shown in zip(names, lowered, strict=True):
        registers, stack = facts[shown]
        assert 0 < registers <= MOST_REGISTERS, f"{name} has {registers} registers"
        assert not (file in WITHOUT_STACK and stack), f"{name} has {stack} bytes of stack"
