"""Which changes of the code do the tests notice? `make mutate COUNT=600 SEED=1`

A mutant is the package with one change of `mutations.py`. For each mutant the tests that run the changed line are run
until one fails; tests of the most specific files come first. A failure counts if the same test passes without the
change. The lines that each test runs are recorded once (`--record`). The recording does not see lines of compiled
kernels, so for these all tests that use their file are run. The results of all mutants are kept in
build/mutate/results.jsonl, and a run that was stopped continues there. tools/mutants_reviewed.txt lists changes that
make no difference to a user, each with its reason.
"""

import argparse
import collections
import difflib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage
import pytest
from mutations import ROOT, Mutant, choose

WORK = ROOT / "build/mutate"
REVIEWED = ROOT / "tools/mutants_reviewed.txt"
NVRTC = os.environ.get("PIPEFLOW_NVRTC_PYTHON", str(ROOT / ".venvs/nvrtc/bin/python"))
COPIED = ("pipeflow", "tests", "tools", "examples", "docs", "benchmarks", "README.md", "setup.cfg", "pyproject.toml",
          "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")  # fmt: skip
FILES, EACH = 3, 25  # a mutant's first run: the number of test files, and of tests of each; one run of the rest follows
PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "--order-seed=0", "--tb=line")


# --- which tests run which lines -------------------------------------------------------------------------------------


class Recorder:
    """A plugin of pytest that notes the lines every test runs, and how long it takes."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(
            data_file=str(WORK / "lines"), source=[str(ROOT / "pipeflow")], config_file=False
        )
        self.coverage.set_option("run:relative_files", True)
        self.seconds: dict[str, float] = {}
        sources = {x.relative_to(ROOT).as_posix(): x.read_text() for x in (ROOT / "pipeflow").rglob("*.py")}
        (WORK / "sources.json").write_text(json.dumps(sources))
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Records the lines that run from here on under the name of the test."""
        self.coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report):
        """Adds set-up, call and end."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = 1e9  # it fails without a change, so it cannot judge mutants

        if report.when == "teardown" and len(self.seconds) % 500 == 0:
            self.save()  # so that a run that is stopped has recorded something

    def save(self):
        """Writes down what has been recorded."""
        self.coverage.save()
        (WORK / "seconds.json").write_text(json.dumps(self.seconds))

    def pytest_unconfigure(self):
        """The last test has run."""
        self.coverage.stop()
        self.save()


def record(arguments: list[str]) -> int:
    """Runs the suite once under coverage."""
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("lines*"):
        old.unlink()
    return pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[Recorder()])


class Lines:
    """The recorded lines; lines of files that have changed since then are found by their text."""

    def __init__(self) -> None:
        self.data = coverage.CoverageData(str(WORK / "lines"))
        self.data.read()
        self.seconds = json.loads((WORK / "seconds.json").read_text())
        self.sources = json.loads((WORK / "sources.json").read_text())
        self.tests_of = collections.Counter(test.partition("::")[0] for test in self.seconds)
        self.lock = threading.Lock()

    @functools.cache  # noqa: B019  (one object a process)
    def contexts(self, file: str) -> dict[int, list[str]]:
        """The tests by line of the file as it was recorded."""
        return self.data.contexts_by_lineno(file)

    @functools.cache  # noqa: B019
    def places(self, file: str) -> dict[int, int]:
        """Line of the present file -> line of the recorded file."""
        now, then = (ROOT / file).read_text().splitlines(), self.sources.get(file, "").splitlines()
        blocks = difflib.SequenceMatcher(None, then, now, autojunk=False).get_matching_blocks()
        return {b + k + 1: a + k + 1 for a, b, size in blocks for k in range(size)}

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run the line, else a line near it, else any line of the file; most specific files first."""
        with self.lock:
            if mutant.file not in self.sources:
                return []
            known, places = self.contexts(mutant.file), self.places(mutant.file)
        here = places.get(mutant.line)
        found: set[str] = set()
        for reach in (0, 2, 10**9):
            for line, tests in known.items():
                if here is None or abs(line - here) <= reach:
                    found.update(test for test in tests if test)
            if found:
                break
        usable = [test for test in found if self.seconds.get(test, 1.0) < 1e6]
        files = collections.Counter(test.partition("::")[0] for test in usable)
        shares = {file: count / self.tests_of[file] for file, count in files.items()}  # 1: all its tests run the line
        return sorted(
            usable, key=lambda x: (-shares[x.partition("::")[0]], x.partition("::")[0], self.seconds.get(x, 1.0))
        )


# --- running ---------------------------------------------------------------------------------------------------------


class Tree:
    """A copy of the repository in which the mutants are tried one after another."""

    def __init__(self, number: int, limit: float) -> None:
        self.root, self.limit = WORK / f"tree{number}", limit
        shutil.rmtree(self.root, ignore_errors=True)
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            self.root.mkdir(parents=True, exist_ok=True)
            copy(source, self.root / name)

    def run(self, tests: list[str], seconds: float, python: str = sys.executable, extra: tuple[str, ...] = ()) -> str:
        """ "" when all pass; else the test that failed, or "it hangs" or "it crashes"."""
        listed = self.root / "tests.txt"
        while tests:
            listed.write_text("\n".join(tests))
            environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [python, *PYTEST, *extra, f"@{listed}"]
            process = subprocess.Popen(command, cwd=self.root, env=environment, text=True, start_new_session=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
            try:
                out = process.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "it hangs"
            gone = set(re.findall(r"^ERROR: (?:not found: |file or directory not found: )(\S.*)$", out, re.MULTILINE))
            gone = {test for test in tests for name in gone if name.endswith(test) or test.startswith(name)}
            if process.returncode == 4 and gone:
                tests = [test for test in tests if test not in gone]
                continue
            if process.returncode in (0, 5):
                return ""
            failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?|\S+\.py)(?: - .*)?$", out, re.MULTILINE)
            return failed[1] if failed else "it crashes"
        return ""

    def judge(self, mutant: Mutant, lines: Lines) -> dict[str, object]:
        """Tries one mutant."""
        path, began = self.root / mutant.file, time.monotonic()
        original = path.read_bytes()
        tests, tried, noticed = lines.tests(mutant), 0, ""
        cuda = mutant.area in ("CUDA", "operators on GPU")
        first = [test for file in list(dict.fromkeys(test.partition("::")[0] for test in tests))[:FILES]
                 for test in [test for test in tests if test.partition("::")[0] == file][:EACH]]  # fmt: skip
        rounds = [(sys.executable, (), part) for part in (first, [x for x in tests if x not in set(first)]) if part]
        if cuda:
            rounds.append((NVRTC, ("-m", "nvrtc", "--timeout=300"), self.host_tests(mutant)))
        changed = original[: mutant.begin] + mutant.new.encode() + original[mutant.end :]
        for python, extra, part in rounds:
            while part and not noticed:
                left = self.limit - (time.monotonic() - began)
                # tests that are slow alone run last, and only until the time limit
                expected = sum(lines.seconds.get(test, 1.0) for test in part)
                if tried and not cuda and expected > left:
                    part = [test for test in part if lines.seconds.get(test, 1.0) < 5][
                        : max(1, int(len(part) * left / expected))
                    ]
                try:
                    path.write_bytes(changed)
                    noticed = self.run(part, 60 + 8 * expected + (600 if cuda else 0), python, extra)
                finally:
                    path.write_bytes(original)
                if "::" in noticed and self.run([noticed], 600, python, extra):
                    part = [test for test in part if test != noticed]  # it fails without the change as well
                    noticed = ""
                    continue
                tried += len(part)
                break
            if noticed or time.monotonic() - began > self.limit:
                break
        return {"key": mutant.key, "area": mutant.area, "file": mutant.file, "line": mutant.line, "what": mutant.what,
                "text": mutant.text, "noticed": noticed, "tried": tried, "tests": tests[:5], "of": len(tests),
                "seconds": round(time.monotonic() - began)}  # fmt: skip

    def host_tests(self, mutant: Mutant) -> list[str]:
        """The tests that run a CUDA kernel on the CPU: those that name its file, or else all."""
        stem = Path(mutant.file).stem
        found = sorted((self.root / "tests/nvrtc").glob("test_host_*.py"))
        near = [x for x in found if stem.partition("_")[0] in x.stem or f'"{stem}"' in x.read_text()]
        return [x.relative_to(self.root).as_posix() for x in near or found]


# --- the report ------------------------------------------------------------------------------------------------------


def reviewed() -> dict[str, str]:
    """Key -> reason of the changes that make no difference."""
    lines = REVIEWED.read_text().splitlines() if REVIEWED.exists() else []
    entries = [line.rpartition(" | ") for line in lines if line.strip() and not line.startswith("#")]
    return {key: reason for key, _, reason in entries}


def report(results: list[dict], reasons: dict[str, str]) -> str:
    """A table by area, and every mutant that no test noticed, with the tests that were tried."""
    areas = collections.defaultdict(lambda: [0, 0, 0])
    survivors = []
    for result in results:
        row = areas[result["area"]]
        if result["key"] in reasons and not result["noticed"]:
            row[2] += 1
            continue
        row[0] += 1
        row[1] += bool(result["noticed"])
        if not result["noticed"]:
            survivors.append(result)
    areas["all"] = [sum(column) for column in zip(*areas.values())] if areas else [0, 0, 0]
    text = ["| area | mutants | noticed | share | without effect |", "|---|---|---|---|---|"]
    text += [f"| {a} | {n} | {k} | {k / max(1, n):.0%} | {e} |" for a, (n, k, e) in areas.items()]
    for x in survivors:
        old, new = x["what"].split(" -> ", 1)
        text.append(f"\n{x['file']}:{x['line']}: {x['text']}\n- {old}\n+ {new}\n  {x['tried']} of {x['of']} tests passed, "
                    f"among them {', '.join(x['tests'][:3])}")  # fmt: skip
    return "\n".join(text)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--record", action="store_true", help="note which tests run which lines; further arguments go to pytest"
    )
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants that are tried at the same time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one mutant")
    parser.add_argument("--only", default="", help="paths below pipeflow/ that begin so")
    parser.add_argument("--again", action="store_true", help="try the survivors again, after tests were written")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    options, rest = parser.parse_known_args()
    if options.record:
        return record(rest)
    file = WORK / "results.jsonl"
    known = {x["key"]: x for x in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
    mutants = choose(options.count, options.seed, options.only)
    if not options.report:
        reasons, lines = reviewed(), Lines()
        again = {key for key, x in known.items() if options.again and not x["noticed"]}
        left = [x for x in mutants if (x.key not in known or x.key in again) and x.key not in reasons]
        trees = [Tree(number, options.limit) for number in range(options.jobs)]
        free, lock = collections.deque(trees), threading.Lock()

        def judge(mutant: Mutant) -> None:
            tree = free.pop()
            result = tree.judge(mutant, lines)
            free.append(tree)
            with lock, file.open("a") as out:
                known[mutant.key] = result
                out.write(json.dumps(result) + "\n")
                print(f"{result['noticed'] or 'SURVIVED':60.60} {mutant.file}:{mutant.line} {mutant.what}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(judge, left))
    text = report([known[x.key] for x in mutants if x.key in known], reviewed())
    (WORK / "report.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
