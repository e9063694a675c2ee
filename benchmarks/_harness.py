"""The common code of the benchmarks: it measures sides in turn, each in its own process, and prints tables.

A *side* is one library that does the work of a *case*. Every side, ours too, runs in its own process with its own
environment, and the process lives until the case is finished. The parent lets each side run one repetition in turn, so
that a disturbance of the machine affects all sides in the same way. A repetition returns named seconds; the tables show
medians over the repetitions. A side that is not installed is named as missing and never left out silently.
"""

from __future__ import annotations

import ast
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ENVIRONMENTS = Path(os.environ.get("PIPEFLOW_ENVIRONMENTS", ROOT / ".venvs"))

# Libraries have thread pools of their own; a figure "with one thread" is right only if these pools have one thread too.
ONE_THREAD_EACH = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
}

# The packages whose versions are recorded with the figures, for every side that has them.
PACKAGES = (
    "pipeflow-data", "numpy", "numba", "opencv-python-headless", "pillow", "simplejpeg", "soundfile", "nvidia-dali-cuda120",
    "torch", "torchvision", "albumentations", "kornia", "tensorflow-cpu", "spdl", "ray", "scipy", "soxr", "cupy-cuda13x",
)  # fmt: skip
VERSIONS: dict[str, dict[str, str]] = {}  # of each side that was measured

Measures = dict[str, float]
Prepare = Callable[[str], Callable[[], Measures]]


@dataclass
class Side:
    """One library: the Python that has it, and how to prepare a case there (None: it has no such case)."""

    name: str
    prepare: Prepare
    environment: str | None = None  # a folder of .venvs/; None: the Python that runs the benchmark
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        if self.environment is None:
            return Path(sys.executable)
        return ENVIRONMENTS / self.environment / "bin" / "python"

    @property
    def installed(self) -> bool:
        return self.python.exists()


class Worker:
    """A side's process: it reads each request as one JSON line and answers with one JSON line."""

    def __init__(self, side: Side, script: str, settings: dict[str, Any]) -> None:
        environment = {**os.environ, **ONE_THREAD_EACH, "PYTHONPATH": str(ROOT), **side.variables}
        self.name = side.name
        self.process = subprocess.Popen(
            [side.python, script, "--side", side.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        VERSIONS[side.name] = self.ask({"settings": settings})

    def ask(self, message: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the {self.name} side ended with status {self.process.wait()} on {message}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def serve(side: Side, settings: dict[str, Any]) -> None:
    """The loop of a side's process; the answers go to stdout, and everything that the library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    repetition = None
    for line in sys.stdin:
        message = json.loads(line)
        answer: Any = None
        if "settings" in message:
            settings.update(message["settings"])
            answer = versions()
        elif "case" in message:
            repetition = None  # the pipelines of the last case end before the next ones are built
            repetition = side.prepare(message["case"])
            answer = repetition is not None
        else:
            assert repetition is not None
            answer = repetition()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def versions() -> dict[str, str]:
    """The versions of this process's packages."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """A description of the machine, to distinguish figures of different days."""
    model = platform.processor() or "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def settle(longest: float = 1.0, share: float = 0.1) -> None:
    """Waits until the machine is idle: a pipeline that still makes batches would disturb the turn of the next side."""
    begun = perf_counter()
    while perf_counter() - begun < longest:
        before = _busy_seconds()
        if before is None:
            return
        sleep(0.1)
        after = _busy_seconds()
        if after is None or after - before <= share * 0.1:
            return


def _busy_seconds() -> float | None:
    """Seconds that all processors together have been busy; None if the system does not report them."""
    try:
        fields = [int(number) for number in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except (OSError, IndexError, ValueError):
        return None
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def chosen(cases: Iterable[str]) -> list[str]:
    """The cases that the command line names by a part of their names, such as "val, 1"; all without such words."""
    words = sys.argv[1:]
    found = [case for case in cases if not words or any(word in case for word in words)]
    if not found:
        raise SystemExit(f"no case has {' or '.join(words)} in its name; the cases: {'; '.join(cases)}")
    return found


def with_earlier(name: str, reading: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """The results, and those of other cases that were measured on the same day, machine and versions, by the same benchmark.

    So a benchmark can be run case by case: the sides of a case always take turns in one run.
    """
    path, script = RESULTS / f"{name}.json", ROOT / "benchmarks" / f"{name}.py"
    if not path.exists() or path.stat().st_mtime < script.stat().st_mtime:
        return results
    earlier = json.loads(path.read_text())
    where = [
        {key: value for key, value in one.items() if key != "load before"} for one in (earlier["machine"], reading)
    ]
    same = earlier["date"] == today() and where[0] == where[1]
    if not same or any(earlier["versions"].get(side, known) != known for side, known in VERSIONS.items()):
        return results
    VERSIONS.update({**earlier["versions"], **VERSIONS})
    reading["load before"] = max(reading["load before"], earlier["machine"]["load before"])
    return {**earlier["results"], **results}


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def measure(
    script: str,
    sides: Sequence[Side],
    cases: Iterable[str],
    settings: dict[str, Any],
    repetitions: int = 7,
    seconds: float | None = None,
) -> dict[str, dict[str, list[Measures]]]:
    """Returns {case: {side: measures of every repetition}}; within a case the sides take turns.

    With ``seconds`` the turns follow one another at once, and go on for so long, for sides that do nothing between two turns.
    """
    present = [side for side in sides if side.installed]
    for side in sides:
        if side not in present:
            print(f"not installed, left out: {side.name} (make bench sets it up in {side.python.parents[1]})")
    workers = [Worker(side, script, settings) for side in present]
    results: dict[str, dict[str, list[Measures]]] = {}
    try:
        for case in cases:
            ready = [worker for worker in workers if worker.ask({"case": case})]
            rows: dict[str, list[Measures]] = {worker.name: [] for worker in ready}
            for worker in ready:
                worker.ask({"run": case})  # warm-up: compiles, fills queues and caches
            begun, done = perf_counter(), 0
            while done < repetitions or (seconds is not None and perf_counter() - begun < seconds):
                for worker in ready:
                    if seconds is None:
                        settle()
                    rows[worker.name].append(worker.ask({"run": case}))
                done += 1
            results[case] = rows
    finally:
        for worker in workers:
            worker.close()
    return results


def processor_seconds(pipe: Any, batches: int) -> float:
    """The processor time that a pipeline needs for so many batches."""
    begin = process_time()
    for _ in range(batches):
        pipe.run()
    return process_time() - begin


def median(rows: list[Measures], value: Callable[[Measures], float]) -> float:
    return statistics.median(value(row) for row in rows)


def spread(rows: list[Measures], value: Callable[[Measures], float]) -> tuple[float, float, float]:
    """(median, smallest, largest)"""
    values = [value(row) for row in rows]
    return statistics.median(values), min(values), max(values)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table, numbers to the right."""
    cells = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    print(f"\n{title}")
    for line in [list(header), ["-" * width for width in widths], *cells]:
        print("  ".join([line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:])]).rstrip())


@dataclass
class Target:
    """A figure to reach: `reached` is compared with `limit` in the direction of `at_most`."""

    what: str
    reached: float
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.reached <= self.limit if self.at_most else self.reached >= self.limit


def verdicts(targets: Sequence[Target]) -> None:
    table(
        "Figures to reach",
        ["figure", "reached", "aim", ""],
        [
            (t.what, t.reached, f"{'<=' if t.at_most else '>='} {t.limit:g}", "met" if t.met else "MISSED")
            for t in targets
        ],
    )


def save(name: str, reading: dict[str, Any], results: object, targets: Sequence[Target] = ()) -> None:
    """Writes benchmarks/results/NAME.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        "question": question(name),
        "date": today(),
        "machine": reading,
        "versions": VERSIONS or {"pipeflow": versions()},
        "results": results,
        "targets": [{"what": t.what, "reached": t.reached, "limit": t.limit, "met": t.met} for t in targets],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1))
    print(f"\nwritten: {path.relative_to(ROOT)}")


def question(name: str) -> str:
    """The question of a benchmark: the first sentence of its file."""
    words = ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))) or name
    return words.partition("\n\n")[0].replace("\n", " ")


def start(sides: Sequence[Side], settings: dict[str, Any]) -> bool:
    """True in the parent. In a side's process it serves until the parent closes the connection, and returns False."""
    if "--side" not in sys.argv:
        return True
    name = sys.argv[sys.argv.index("--side") + 1]
    serve(next(side for side in sides if side.name == name), settings)
    return False


def header(question: str) -> dict[str, Any]:
    reading = machine()
    print(question)
    print(", ".join(f"{name}: {value}" for name, value in reading.items()))
    return reading
