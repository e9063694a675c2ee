"""Damaged JPEG files cannot make the kernels touch memory that is not theirs, nor decode what libjpeg-turbo refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from decoders import jpeg_fuzzing

TESTS = Path(__file__).parents[1]


@pytest.mark.slow  # half a minute to compile with checks of bounds; `make fuzz` runs it
@pytest.mark.timeout(3000)
def test_fuzz_damaged_jpeg_files(mutants):
    """No access out of bounds, no byte written outside, and pixels only where libjpeg-turbo has the same and no complaint.

    64 files of all kinds. The program runs both builds of the kernels. Before and after each array is a page of memory without
    access: a kernel that reads or writes there ends the process.
    """
    count = 20 * mutants if mutants < 2000 else 200_000
    command = [sys.executable, "-m", "decoders.jpeg_fuzzing", "0", str(count)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    program = subprocess.run(command, env=path, capture_output=True, text=True, check=False, timeout=2900)
    assert program.returncode == 0, program.stderr[-3000:]
    result = json.loads(program.stdout)
    assert result["wrong"] == []
    assert result["files"] == 64
    # A fuzz test whose files all fail in the header, or none, would test nothing.
    assert result["decoded"] > count / 20
    assert result["left"] > count / 20
    assert result["progressive"] > count / 50
    assert result["decoded"] >= 0.8 * result["stock"]


def test_the_guards_notice_what_they_are_for():
    """An access before or after an array is noticed; arrays begin or end at a page that cannot be read or written."""
    for at_end in (False, True):
        guard = jpeg_fuzzing.Guarded(100, at_end)
        array = guard.array(100, "uint8")
        assert guard.untouched()
        outside = guard.inner[-101:] if at_end else guard.inner[:101]
        first = len(guard.inner) - 100 if at_end else 0
        assert array.ctypes.data == guard.inner.ctypes.data + first
        outside[0 if at_end else -1] = 0
        assert not guard.untouched()
