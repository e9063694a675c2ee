"""Every kernel steps over no edge of its memory: the host tests under AddressSanitizer, and what it would say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

OVER_THE_EDGE = """
import numpy as np
from host_device import HostMemory
from pipeflow.device.calls import DeviceCall, View
from pipeflow.operators.on_gpu.moves import Box, move

memory = HostMemory()
image = np.zeros((4, 5), np.float32)
source, target = memory.upload(image), memory.scratch(image.nbytes)
# every fourth row, turned: no run
box = Box(source, target, (5, 4 + {extra}), (4, 20), (16, 4), source + image.nbytes)
move(DeviceCall(None, [], memory), [box], 4)
print("went through")
"""


def run(code, environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": f"{HERE}:{HERE.parent}:{HERE.parents[1]}"},
    )


def test_a_step_over_the_edge_is_caught():
    """One row too many in a box ends the process with the name of the kernel; the right number does not."""
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {
        **os.environ,
        "PIPEFLOW_SANITIZE": "1",
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    good = run(OVER_THE_EDGE.format(extra=0), environment)
    assert good.returncode == 0, good.stderr
    assert "went through" in good.stdout
    bad = run(OVER_THE_EDGE.format(extra=1), environment)
    assert bad.returncode != 0
    assert "heap-buffer-overflow" in bad.stderr
    assert "move" in bad.stderr


@pytest.mark.timeout(3600)
def test_no_kernel_steps_over_an_edge(sanitized):
    """All tests that launch kernels pass under the sanitizers of addresses and of alignment."""
    assert sanitized.status == 0, sanitized.output[-30000:]
    assert " passed" in sanitized.output
