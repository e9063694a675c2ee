"""Trials of mutants: a copy of the repository with one change, and the tests that should notice it.

Tests run in a process that is forked from one which has imported the heavy libraries, those of the most specific files
first, until one fails. A failure counts if the same test passes without the change. A test that hangs or crashes is run
alone, without the change and with it, before it counts: the machine may have been busy.
"""

import collections
import contextlib
import importlib
import mmap
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from covered import WORK, Lines
from mutations import ROOT, Mutant
from trial_limits import Patience, end_session

NVRTC = os.environ.get("PIPEFLOW_NVRTC_PYTHON", str(ROOT / ".venvs/nvrtc/bin/python"))
KERNELS = ROOT / "pipeflow/kernels/cpu"
COPIED = ("pipeflow", "tests", "tools", "examples", "docs", "benchmarks", "README.md", "setup.cfg", "pyproject.toml",
          "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile")  # fmt: skip
# A mutant's first run: the number of test files, of tests of each, and the seconds of all; one run of the rest follows.
FILES, EACH, FIRST = 4, 12, 3
# Tests with processes, threads and limits of time: on a busy machine they may fail by themselves.
MAY_WAIT = re.compile(
    r"tests/(?:processes|loading|commands|gpu|fuzz)/|interrupt|limit|thread|watch|close|clos|kill|hang|wait|serial"
)
ARGUMENTS = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "--order-seed=0", "--tb=line")


class Chosen:
    """A plugin of pytest: runs the chosen tests in their order, and tells the process outside which one runs."""

    def __init__(self, tests: list[str], told: mmap.mmap, mutant: Mutant | None) -> None:
        self.place, self.told, self.mutant = {test: k for k, test in enumerate(tests)}, told, mutant

    def at(self, nodeid: str) -> int | None:
        """The place of a test among the chosen ones, or of its file; None for others."""
        return self.place.get(nodeid, self.place.get(nodeid.partition("::")[0]))

    def tell(self, text: str) -> None:
        """Writes for the process outside; "!" marks a failure."""
        self.told[:] = text.encode()[: len(self.told)].ljust(len(self.told), b"\0")

    def pytest_collectstart(self) -> None:
        """The settings of the suite are loaded, no test file is."""
        if self.mutant and not kernels_kept(self.mutant):
            keep_other_kernels(self.mutant)

    def pytest_collection_modifyitems(self, items):
        """Only the chosen tests, in their order; those that hold for every operator are marked by the suite itself."""
        items[:] = sorted((x for x in items if self.at(x.nodeid) is not None), key=lambda x: self.at(x.nodeid))

    def pytest_runtest_logstart(self, nodeid):
        """A test begins."""
        self.tell(f"{self.at(nodeid)}")

    def pytest_runtest_logreport(self, report):
        """A test has failed."""
        if report.failed:
            self.tell(f"!{report.nodeid}")

    def pytest_collectreport(self, report):
        """A test file cannot be imported."""
        if report.failed:
            self.tell(f"!{report.nodeid or 'collecting the tests'}")


def kernels_kept(mutant: Mutant) -> bool:
    """Compiled kernels of the unchanged package serve this mutant too."""
    return not mutant.file.startswith("pipeflow/kernels/cpu/")


def keep_other_kernels(mutant: Mutant) -> None:
    """Kernels that do not use the changed module are taken from those of the unchanged package: compiling takes long."""
    jit = importlib.import_module("pipeflow.kernels.cpu.jit")
    files = importlib.import_module("pipeflow.kernels.kept_code")
    used = {path: set(re.findall(r"^from pipeflow\.kernels\.cpu(?:\.simd)?(?:\.(\w+))? import (.*)", path.read_text(), re.M))
            for path in KERNELS.rglob("*.py")}  # fmt: skip
    uses = {path.stem: {name for module, names in found for name in (module, *re.split(r"[,\s()]+", names))}
            for path, found in used.items()}  # fmt: skip
    changed, before = {Path(mutant.file).stem}, set()
    while changed != before:
        before = set(changed)
        changed |= {module for module, names in uses.items() if names & changed}
    stamp, keep = os.environ["UNCHANGED_KERNELS"], jit.keep

    def keep_each(compiled, kept):
        keep(compiled, kept)
        if compiled.py_func.__module__.rpartition(".")[2] not in changed and "jit" not in changed:
            folder = files.folder_for(f"kernels-{stamp}")
            compiled._cache._cache_file = files.KernelFiles(
                folder, f"{compiled._cache._impl.filename_base}-{stamp}", compiled._cache._cache_file._dumps
            )
            compiled._cache.turns = files.Turns(folder)

    jit.keep = keep_each


class Tree:
    """A copy of the repository in which mutants are tried one after another."""

    def __init__(self, number: int, lines: Lines, most: float, host: bool = True) -> None:
        self.root, self.lines, self.most, self.host = WORK / f"tree{number}", lines, most, host
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / name, self.root / name)
        self.told = mmap.mmap(-1, 600)
        self.sound: dict[str, bool] = {}  # tests that pass (or not) without a change
        sys.path[:] = [str(self.root), *(x for x in sys.path if Path(x or ".").resolve() not in (ROOT, ROOT / "tools"))]
        os.environ |= {"PYTHONPATH": str(self.root), "PIPEFLOW_CACHE_DIR": str(WORK / f"kernels{number}")}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.fill_kernels()

    def fill_kernels(self) -> None:
        """Compiled kernels of the unchanged package, for this tree alone: a mutant may write what is wrong."""
        ask = "from pipeflow.kernels.cpu import jit; print(jit.stamp())"
        stamp = subprocess.run(
            [sys.executable, "-c", ask], cwd=self.root, capture_output=True, text=True, check=True
        ).stdout
        os.environ["UNCHANGED_KERNELS"] = stamp.strip()
        own, folder = Path(os.environ["PIPEFLOW_CACHE_DIR"]), f"kernels-{stamp.strip()}"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(mode=0o700)
        base = Path(os.environ.get("MUTATE_KERNELS", Path.home() / ".cache/pipeflow"))
        if (base / folder).exists():
            shutil.copytree(base / folder, own / folder)

    @contextlib.contextmanager
    def changed(self, mutant: Mutant | None):
        """The mutant is in place."""
        if mutant is None:
            yield
            return
        path = self.root / mutant.file
        original = path.read_bytes()
        compiled = path.parent / "__pycache__"
        try:
            path.write_bytes(original[: mutant.begin] + mutant.new.encode() + original[mutant.end :])
            for old in compiled.glob(f"{path.stem}.*.pyc"):
                old.unlink()
            yield
        finally:
            path.write_bytes(original)
            for old in compiled.glob(f"{path.stem}.*.pyc"):
                old.unlink()
            if not kernels_kept(mutant):
                if path.stem in ("kernel_files", "jit", "user_functions"):
                    self.fill_kernels()
                own = Path(os.environ["PIPEFLOW_CACHE_DIR"])
                for folder in own.glob("kernels-*"):
                    if folder.name != f"kernels-{os.environ['UNCHANGED_KERNELS']}":
                        shutil.rmtree(folder)

    def run(self, tests: list[str], mutant: Mutant | None, patience: float = 1.0) -> tuple[str, str]:
        """The test that ended the run and how: ("", "passes"), (test, "fails"), (test, "hangs"), ..."""
        self.told[:] = bytes(len(self.told))
        with self.changed(mutant):
            child = os.fork()
            if not child:
                self.child(tests, mutant)
            watch, status = Patience(child, 8 if mutant and not kernels_kept(mutant) else 1, patience), None
            while status is None:
                time.sleep(0.02 if watch.young() else 0.2)
                ended, code = os.waitpid(child, os.WNOHANG)
                now = bytes(self.told).rstrip(b"\0").decode(errors="replace")
                test = tests[int(now)] if now.isdigit() else "starting the tests"
                if ended:
                    status = os.waitstatus_to_exitcode(code)
                elif reason := watch.reason(now, self.lines.seconds.get(test, 1)):
                    end_session(child)
                    os.waitpid(child, 0)
                    return test, reason
            end_session(child)  # what the tests have left behind
        if now.startswith("!"):
            return now[1:], "fails"
        if status in (0, 5):
            return "", "passes"
        return test, "crashes"

    def child(self, tests: list[str], mutant: Mutant | None) -> None:
        """The forked process: pytest, as if it had been started in the tree."""
        code = 70
        try:
            os.setsid()
            os.chdir(self.root)
            with contextlib.suppress(OSError):  # if memory ends, the system is to end this process and no other
                Path("/proc/self/oom_score_adj").write_text("1000")
            sys.dont_write_bytecode = False  # only the changed module is compiled
            out = os.open(self.root.parent / f"{self.root.name}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(out, 2)
            for name in ("covered", "mutations"):
                sys.modules.pop(name, None)
            warnings.resetwarnings()
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            code = pytest.main(
                [*ARGUMENTS, "--timeout=0", "-p", "no:xdist", *files], plugins=[Chosen(tests, self.told, mutant)]
            )
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(int(code))

    def rounds(self, mutant: Mutant, passed: Collection[str]) -> list[list[str]]:
        """The tests of the two runs: the most specific ones, and as many of the others as take `most` seconds."""
        tests, seconds = [x for x in self.lines.tests(mutant) if x not in passed], self.lines.seconds
        places, first, rest = collections.Counter(), [], []
        for test in tests:
            file = test.partition("::")[0]
            specific = file in places or len(places) < FILES
            if specific and places[file] < EACH and sum(seconds[x] for x in first) + seconds[test] < FIRST:
                places[file] += 1
                first.append(test)
            else:
                rest.append(test)
        chosen, left, seen = [], self.most, set()
        for test in sorted(rest, key=lambda x: seconds[x] > 5):
            file = test.partition("::")[0]
            left -= seconds[test] + (0.3 if file not in seen else 0.005)
            if left < 0:
                break
            seen.add(file)
            chosen.append(test)
        return [part for part in (first, chosen) if part]

    def judge(self, mutant: Mutant, passed: list[str], tests: Sequence[str] = ()) -> dict[str, object]:
        """Tries one mutant, which earlier trials of these tests have passed; with ``tests`` by these tests or files."""
        began, noticed, tried = time.monotonic(), ("", "passes"), [*passed]
        parts = [list(tests)] if tests else self.rounds(mutant, set(passed))
        for part in parts:
            while part:
                test, how = self.run(part, mutant)
                if how == "passes":
                    tried += part
                    break
                one = (
                    test if test in part else part[0]
                )  # part[0]: the package cannot be imported, or a file not collected
                if self.sure(one, how, mutant):
                    noticed = test, how
                    break
                part = [x for x in part if x != one]
            if noticed[0]:
                break
        if not noticed[0] and self.host and not tests and mutant.area in ("CUDA", "operators on GPU"):
            noticed = self.on_host(mutant)
        return {"key": mutant.key, "area": mutant.area, "file": mutant.file, "line": mutant.line, "what": mutant.what,
                "text": mutant.text, "noticed": noticed[0], "how": noticed[1],
                "passed": [] if noticed[0] else tried, "of": len(self.lines.tests(mutant)),
                "seconds": round(time.monotonic() - began, 1)}  # fmt: skip

    def sure(self, test: str, how: str, mutant: Mutant) -> bool:
        """True if the test passes without the change. One that may depend on time has to fail twice."""
        if (how != "fails" or MAY_WAIT.search(test)) and self.run([test], mutant, 2)[1] == "passes":
            return False
        if test not in self.sound:
            self.sound[test] = self.run([test], None, 2)[1] == "passes"
        return self.sound[test]

    def on_host(self, mutant: Mutant) -> tuple[str, str]:
        """Runs the tests of CUDA kernels on the CPU: those that name the file, or else all."""
        stem = Path(mutant.file).stem
        found = sorted((self.root / "tests/nvrtc").glob("test_host_*.py"))
        near = [x for x in found if stem.partition("_")[0] in x.stem] or [x for x in found if stem in x.read_text()]
        failed = self.host_run([x.relative_to(self.root).as_posix() for x in near or found], mutant)
        return (failed, "fails") if failed and not self.host_run([failed], None) else ("", "passes")

    def host_run(self, tests: list[str], mutant: Mutant | None) -> str:
        """The test that failed, or its file."""
        command = [NVRTC, "-m", "pytest", *ARGUMENTS, "-m", "nvrtc", "-k", "test", "--timeout=900", *tests]
        with self.changed(mutant):
            done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        if done.returncode in (0, 5):
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?|\S+\.py)(?: - .*)?$", done.stdout, re.MULTILINE)
        return failed[1] if failed else tests[0]
