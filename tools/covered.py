"""Which tests run which lines of the package: recorded once by `tools/mutate.py --record`, looked up for every mutant."""

import ast
import collections
import difflib
import functools
import json
import mmap
import os
import re
import sys

import numpy as np
import pytest
from mutations import ROOT, Mutant

WORK = ROOT / "build/mutate"


class Recorder:
    """A plugin of pytest that notes the lines every test runs, in forked processes as well, and how long it takes."""

    def __init__(self, name: str) -> None:
        self.name, self.tests, self.seconds = name, [], collections.Counter()
        self.begin, self.sources, count = {}, {}, 0
        for path in sorted((ROOT / "pipeflow").rglob("*.py")):
            self.sources[path.relative_to(ROOT).as_posix()] = source = path.read_text()
            self.begin[str(path)] = count
            count += source.count("\n") + 2
        self.table = mmap.mmap(-1, count)  # one byte a line; forked processes write into the same memory
        self.rows = []
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "covered")
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self.line)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)

    def line(self, code, number):
        """A line runs for the first time in this test."""
        begin = self.begin.get(code.co_filename)
        if begin is not None:
            self.table[begin + number] = 1
        return sys.monitoring.DISABLE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Notes the lines that run from here on for this test."""
        self.table[:] = bytes(len(self.table))
        sys.monitoring.restart_events()
        result = yield
        self.tests.append(item.nodeid)
        self.rows.append(np.packbits(np.frombuffer(self.table, np.uint8)))
        if len(self.rows) % 1000 == 0:
            self.save()  # so that a run that is stopped has recorded something
        return result

    def pytest_runtest_logreport(self, report):
        """Adds set-up, call and end."""
        self.seconds[report.nodeid] += 1e9 if report.failed else report.duration  # a failing test cannot judge mutants

    def save(self):
        """Writes down what has been recorded."""
        WORK.mkdir(parents=True, exist_ok=True)
        np.save(WORK / f"lines-{self.name}.npy", np.array(self.rows))
        known = {"tests": self.tests, "seconds": self.seconds, "sources": self.sources}
        (WORK / f"lines-{self.name}.json").write_text(json.dumps(known))

    def pytest_unconfigure(self):
        """The last test has run."""
        self.save()


def record(arguments: list[str]) -> int:
    """Runs tests and records their lines, beside what earlier calls have recorded of others."""
    return pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[Recorder(str(os.getpid()))])


class Lines:
    """The recorded lines; lines of files that have changed since then are found by their text."""

    def __init__(self) -> None:
        self.records = []
        self.seconds: dict[str, float] = {}
        for path in sorted(WORK.glob("lines-*.json"), key=lambda path: path.stat().st_mtime):
            known = json.loads(path.read_text())
            self.seconds.update(known["seconds"])
            begin, count = {}, 0
            for file, source in known["sources"].items():
                begin[file] = count
                count += source.count("\n") + 2
            self.records.append((known, np.load(path.with_suffix(".npy")), begin))
        self.seconds = {test: seconds for test, seconds in self.seconds.items() if seconds < 1e6}
        self.tests_of = collections.Counter(test.partition("::")[0] for test in self.seconds)

    @functools.cache  # noqa: B019  (one object a process)
    def place(self, record: int, file: str) -> dict[int, int]:
        """Line of the present file -> line of the recorded file."""
        now, then = (ROOT / file).read_text().splitlines(), self.records[record][0]["sources"][file].splitlines()
        blocks = difflib.SequenceMatcher(None, then, now, autojunk=False).get_matching_blocks()
        return {b + k + 1: a + k + 1 for a, b, size in blocks for k in range(size)}

    def of_lines(self, file: str, lines: range) -> set[str]:
        """The tests that run one of these lines."""
        found: set[str] = set()
        for number, (known, rows, begin) in enumerate(self.records):
            if file in begin:
                places = self.place(number, file)
                columns = [begin[file] + places[line] for line in lines if line in places]
                ran = np.zeros(len(rows), bool)
                for column in columns:
                    ran |= (rows[:, column >> 3] & (128 >> (column & 7))) > 0
                found.update(test for test, yes in zip(known["tests"], ran) if yes)
        return found & self.seconds.keys()

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run the line, or a line of its function, or one that names the function, or any of its file.

        Compiled kernels run unseen, hence the third. The most specific files come first, and in a file first one case of each
        test.
        """
        if not mutant.file.endswith(".py"):
            return []
        found: set[str] = set()
        inside = function_around(mutant.file, mutant.line)
        if inside:
            name, begin, end = inside
            if mutant.line >= begin:
                found = self.of_lines(mutant.file, range(mutant.line, mutant.line + 1))
            found = found or self.of_lines(mutant.file, range(begin, end + 1)) or self.of_callers({name}, 4)
        else:
            name = re.match(r"(\w+)\b.* = ", mutant.text)
            found = self.of_callers({name[1]}, 4) if name else set()
        if not found:
            found = self.of_lines(mutant.file, range(1, 10**5))
        if (
            "/workers/" in mutant.file
        ):  # worker processes run unseen: those that have any are seen in the process that asks
            found |= self.of_lines("pipeflow/executor/workers/dispatcher.py", range(1, 10**5))
        files = collections.Counter(test.partition("::")[0] for test in found)
        shares = {file: count / self.tests_of[file] for file, count in files.items()}  # 1: all its tests run the line
        cases, ranked = collections.Counter(), []
        for test in sorted(found, key=lambda test: self.seconds[test]):
            function = test.partition("[")[0]
            ranked.append((-shares[test.partition("::")[0]], test.partition("::")[0], cases[function], test))
            cases[function] += 1
        return [test for *_, test in sorted(ranked, key=lambda x: x[:3])]

    def of_callers(self, names: set[str], depth: int) -> set[str]:
        """The tests that run a line in which one of these names occurs, or else a name of a function around such a line."""
        pattern = re.compile(r"\b(?<!def )(?:" + "|".join(map(re.escape, sorted(names))) + r")\b")
        found: set[str] = set()
        around: set[str] = set()
        for file, source in sources().items():
            for match in pattern.finditer(source) if any(name in source for name in names) else ():
                line = source.count("\n", 0, match.start()) + 1
                inside = function_around(file, line)
                if inside:
                    found |= self.of_lines(file, range(line, line + 1))
                    around.add(inside[0])
        return found or (self.of_callers(around - names, depth - 1) if depth and around - names else set())


@functools.cache
def sources() -> dict[str, str]:
    """All files of the package."""
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "pipeflow").rglob("*.py"))}


@functools.cache
def functions(file: str) -> list[tuple[str, int, int, int]]:
    """Name, line of `def`, first and last line of the body of the functions of a file, inner ones last."""
    found = [x for x in ast.walk(ast.parse(sources()[file])) if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(x.name, x.lineno, x.body[0].lineno, x.end_lineno) for x in sorted(found, key=lambda x: x.lineno)]


def function_around(file: str, line: int) -> tuple[str, int, int] | None:
    """Name, first and last line of the body of the innermost function around this line; None for lines that run at import."""
    return next(((name, *body) for name, begin, *body in reversed(functions(file)) if begin <= line <= body[1]), None)
