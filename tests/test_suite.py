"""What holds for every test of the suite."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

from helpers import LONG

HERE = Path(__file__).parent
# Reading a clock or sleeping makes a test depend on how busy the machine is. The one exception is the stamp that
# `helpers.SetClock` begins with, because worker processes compare it with their own.
CLOCKS = {"sleep", "time", "monotonic", "monotonic_ns", "perf_counter", "thread_time", "process_time", "time_ns"}
ALLOWED = {
    "helpers.py": {"monotonic_ns"},
    # The fuzzer measures how long a file takes; its own test gives it a clock.
    "fuzz/__main__.py": {"time", "sleep"},
    # A program for a machine with a GPU: its own test gives its report a clock.
    "gpu/first_run.py": {"perf_counter"},
    # Its functions are read, to find out what they use; those that are called sleep for no time.
    "functions/test_jit_auto.py": {"sleep", "time"},
    # Where the system has no descriptors of processes, only asking again tells that one has ended.
    "processes/process_helpers.py": {"monotonic"},
}
# Calls that wait, and the least number of seconds after which one may be given up: a busy machine is no failure.
WAITS = {"run", "communicate", "Barrier", "urlopen", "acquire", "get", "wait", "join", "check_output"}
LEAST = 60
FILES = [path.relative_to(HERE).as_posix() for path in sorted(HERE.rglob("*.py")) if path.name != Path(__file__).name]


@functools.cache
def tree_of(file):
    """The syntax tree of a file."""
    return ast.parse((HERE / file).read_text(encoding="utf-8"))


def clocks_of(tree):
    """The names of the module ``time`` that a file uses, and calls of ``sleep`` in programs that it writes as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            yield node.attr
        elif isinstance(node, ast.Constant) and "time.sleep(" in str(node.value):
            yield "sleep"


def short_waits(tree):
    """The lines of calls that wait for fewer seconds than a busy machine may need."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        limits = [word.value for word in node.keywords if word.arg == "timeout"] if name in WAITS else []
        limits += node.args if name in ("wait", "join") and len(node.args) == 1 else []
        for limit in limits:
            if isinstance(limit, ast.Constant) and isinstance(limit.value, (int, float)) and limit.value < LEAST:
                yield node.lineno


def test_adapters_without_their_library_fail():
    """`make test-adapters` does not pass by skipping: a library that is not there fails the run."""
    program = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    test = str(HERE / "adapters" / "test_differentiable.py")
    command = [sys.executable, "-c", program, "-q", "-m", "adapters", test]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 2, done.stdout
    assert "not run, under -m adapters" in done.stdout


def test_no_test_reads_a_clock_or_sleeps():
    """Waiting is for an event, a thread or a process; the time is what the test says (`clock` and `gate` in conftest.py)."""
    used = {file: sorted(set(clocks_of(tree_of(file))) & CLOCKS - ALLOWED.get(file, set())) for file in FILES}
    assert {file: clocks for file, clocks in used.items() if clocks} == {}


def test_what_is_waited_for_may_take_long():
    """A limit only ends a test that hangs: it is `LONG` of `helpers.py`."""
    assert [f"{file}:{line}" for file in FILES for line in short_waits(tree_of(file))] == []


def returns_without_a_check(tree):
    """(line, name) of tests that may return before they have checked anything."""
    for test in ast.walk(tree):
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            left = [
                node.lineno
                for node in ast.walk(test)
                if isinstance(node, ast.If) and isinstance(node.body[0], ast.Return) and node.body[0].value is None
            ]
            fails = isinstance(test.body[-1], ast.Expr) and ast.unparse(test.body[-1]).startswith("pytest.fail(")
            if not fails:
                yield from ((line, test.name) for line in left)


def test_no_test_passes_because_it_returns():
    """A test that does not fit a case is not run for it: `parametrize` has only cases that fit."""
    left = [f"{file}:{line} leaves {name}" for file in FILES for line, name in returns_without_a_check(tree_of(file))]
    assert left == []


def test_the_table_of_laws_names_tests_that_exist():
    """tests/README.md says where each law is tested."""
    words = re.findall(r"`([\w/:.]+)`", (HERE / "README.md").read_text(encoding="utf-8"))
    files = {word.partition("::")[0] for word in words if ".py" in word}
    named = {name for word in words if (name := word.rpartition("::")[2]).startswith("test_") and "." not in name}
    text = "".join(path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py"))
    assert {file for file in files if not list(HERE.rglob(file)) and not (HERE.parent / file).exists()} == set()
    assert {name for name in named if f"def {name}(" not in text} == set()
    assert named
