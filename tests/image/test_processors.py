"""Images are the same on every processor, bit by bit, and the kernels compile for arm64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# The first has only SSE2, the second AVX2 and an instruction that rounds a product and a sum together.
OLDEST, MIDDLE = ("x86-64", "+sse2"), ("haswell", "")
QUICK = ["cut"]
ALL = ["cut", "resized", "decoded", "progressive", "compressed"]


def told(folder, processor, verb, names):
    """What the program of this folder says when it compiles for a processor; None: this one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(TESTS)))}
    if folder is not None:
        environment["PIPEFLOW_CACHE_DIR"] = str(folder)
    if processor is not None:
        environment["NUMBA_CPU_NAME"], environment["NUMBA_CPU_FEATURES"] = processor
    program = TESTS / "image" / "processors.py"
    done = subprocess.run(
        [sys.executable, program, verb, *names], env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(folder, names):
    expected = told(None, None, "digest", names)
    assert set(expected) == set(names)
    for processor in (OLDEST, MIDDLE):
        assert told(folder, processor, "digest", names) == expected


def check_machines(folder, names):
    """Every kernel becomes code for arm64; no machine rounds a product and a sum together, even if it could."""
    found = told(folder, OLDEST, "machines", names)
    assert set(found) == {f"{name} {cpu}" for name in names for cpu in ("generic", "haswell")}
    for count, together in found.values():
        assert count > 100
        assert together == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_results_do_not_depend_on_the_processor(tmp_path):
    """Decoded, compressed, resized and cut images, compiled for three processors."""
    check(tmp_path, ALL)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_compile_for_arm64(tmp_path):
    check_machines(tmp_path, ALL)


def test_a_kernel_gives_the_same_on_an_old_processor(tmp_path):
    """The quick part of the tests above."""
    expected = told(None, None, "digest", QUICK)
    assert told(tmp_path, OLDEST, "digest", QUICK) == expected


def test_a_kernel_compiles_for_arm64(tmp_path):
    check_machines(tmp_path, QUICK)
