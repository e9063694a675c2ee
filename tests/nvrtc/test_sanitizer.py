"""Every kernel steps over no edge of its memory: the host tests under AddressSanitizer, and what it would say."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

OVER_THE_EDGE = """
import numpy as np
from host_device import HostMemory, View
from pipeflow.device_calls import DeviceCall
from pipeflow.operators.on_gpu.geometry import FLIP_ROW

memory = HostMemory()
image = np.zeros((4, 5, 3), np.uint8)
row = np.zeros(1, FLIP_ROW)
row["input"], row["output"] = memory.upload(image), memory.scratch(image.nbytes)
row["planes"] = row["depth"] = 1
row["height"], row["width"], row["channels"] = 4, 5 + {extra}, 3
DeviceCall(None, [], memory).launch("flip.cu:flip<unsigned char>", row, [1])
print("went through")
"""


def run(code, environment):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=HERE.parents[1], capture_output=True, text=True,
        env={**environment, "PYTHONPATH": f"{HERE}:{HERE.parents[1]}"},
    )  # fmt: skip


def test_a_step_over_the_edge_is_caught():
    """One column too many in a row of descriptors ends the process with the name of the kernel; the right number does not."""
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {
        **os.environ, "PIPEFLOW_SANITIZE": "1", "LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0",
    }  # fmt: skip
    good = run(OVER_THE_EDGE.format(extra=0), environment)
    assert good.returncode == 0, good.stderr
    assert "went through" in good.stdout
    bad = run(OVER_THE_EDGE.format(extra=1), environment)
    assert bad.returncode != 0
    assert "heap-buffer-overflow" in bad.stderr
    assert "flip" in bad.stderr


def test_no_kernel_steps_over_an_edge(sanitized):
    """All host tests pass under the sanitizers of addresses and of alignment."""
    output, _ = sanitized.communicate(timeout=170)
    assert sanitized.returncode == 0, output[-8000:]
    assert " passed" in output
