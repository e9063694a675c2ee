"""What holds for every test of the suite."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Reading a clock or sleeping makes a test depend on how busy the machine is. The one exception is the stamp that
# `helpers.SetClock` begins with, because worker processes compare it with their own.
CLOCKS = {"sleep", "time", "monotonic", "monotonic_ns", "perf_counter", "thread_time", "process_time", "time_ns"}
ALLOWED = {
    "helpers.py": {"monotonic_ns"},
    # The fuzzer measures how long a file takes, and its own test makes one that hangs.
    "fuzz/__main__.py": {"time", "sleep"},
    # A program for a machine with a GPU: its own test gives its report a clock.
    "gpu/first_run.py": {"perf_counter"},
    "fuzz/test_fuzzer.py": {"time", "sleep"},
    # Where the system has no descriptors of processes, only asking again tells that one has ended.
    "processes/process_helpers.py": {"monotonic"},
}
FILES = [path.relative_to(HERE).as_posix() for path in sorted(HERE.rglob("*.py")) if path.name != Path(__file__).name]


def clocks_of(tree):
    """The names of the module ``time`` that a file uses, and calls of ``sleep`` in programs that it writes as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            yield node.attr
        elif isinstance(node, ast.Constant) and "time.sleep(" in str(node.value):
            yield "sleep"


def test_adapters_without_their_library_fail():
    """`make test-adapters` does not pass by skipping: a library that is not there fails the run."""
    program = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    test = str(HERE / "adapters" / "test_differentiable.py")
    command = [sys.executable, "-c", program, "-q", "-m", "adapters", test]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2, done.stdout
    assert "not run, under -m adapters" in done.stdout


@pytest.mark.parametrize("file", FILES)
def test_no_test_reads_a_clock_or_sleeps(file):
    """Waiting is for an event, a thread or a process; the time is what the test says (`clock` and `gate` in conftest.py)."""
    tree = ast.parse((HERE / file).read_text())
    assert set(clocks_of(tree)) & CLOCKS <= ALLOWED.get(file, set())
