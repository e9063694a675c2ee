"""The first run on a machine with a GPU: what works, what is wrong, what it costs.

    make first-gpu-run                                   # CUDA=12 where the driver is older than 580
    python tests/gpu/first_run.py --parts operators      # one part alone; --seconds 300 leaves out what begins later

Every check prints its line as it ends, so that a run which is cut off is still of use. At the end there are two tables in
Markdown: one for the README, and one of everything that failed. The operators are those of the registry, with the examples of
their declarations: a new one is in this run by itself.
"""

import argparse
import datetime
import faulthandler
import platform
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE.parents[1] / folder) for folder in (".", "tools", "benchmarks", "tests", "tests/gpu", "tests/nvrtc")
]

import device_cases  # noqa: E402
import first_run_hazards  # noqa: E402

from pipeflow import backends  # noqa: E402
from pipeflow.kernels import gpu as kernels  # noqa: E402

PARTS = ("kernels", "operators", "hazards", "speed")


class LeftOut(Exception):
    """A check that cannot be made here; the reason."""


@dataclass
class Line:
    """What one check found."""

    part: str
    name: str
    verdict: str  # fine, WRONG, left out
    detail: str
    seconds: float


@dataclass
class Report:
    """The checks that were made, and those that are left out because the time is over."""

    limit: float
    clock: Callable[[], float] = time.perf_counter
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def check(self, part: str, name: str, function: Callable[[], Any]) -> None:
        """Makes one check: a text is its finding, an exception its failure."""
        begun = self.clock()
        if begun - self.begun > self.limit:
            self._add(part, name, "left out", "there is no time left", 0)
            return
        try:
            verdict, detail = "fine", str(function() or "")
        except (LeftOut, first_run_hazards.NotHere) as reason:
            verdict, detail = "left out", str(reason)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = " | ".join(f"{type(error).__name__}: {error}".splitlines())
            verdict, detail = "WRONG", f"{text[:300]} [{Path(place.filename).name}:{place.lineno}]"
        self._add(part, name, verdict, detail, self.clock() - begun)

    def _add(self, part: str, name: str, verdict: str, detail: str, seconds: float) -> None:
        self.lines.append(Line(part, name, verdict, detail, seconds))
        print(f"{part:10}{verdict:9}{name:60.60} {detail} ({seconds:.1f} s)", flush=True)

    def of(self, part: str, verdict: str) -> list[Line]:
        """The checks of a part that ended so."""
        return [line for line in self.lines if (line.part, line.verdict) == (part, verdict)]

    def tables(self, machine: str, driver: str, today: str) -> str:
        """The rows for the README, and what failed."""
        rows = ["| operators | device | driver | last tried |", "|---|---|---|---|"]
        wrong = {operator_of(line.name) for line in self.of("operators", "WRONG")}
        known = {op.title for op, _ in device_cases.EXAMPLES}
        tried = {operator_of(line.name) for line in self.of("operators", "fine")} & known - wrong
        for names, result in (
            (sorted(tried), "as on the CPU"),
            (sorted(wrong), "WRONG"),
            (sorted(known - tried - wrong), "not tried"),
        ):
            if names:
                when = "never" if result == "not tried" else today
                shown = ", ".join(f"`{name}`" for name in names)
                rows.append(f"| {result}, {len(names)} of {len(known)}: {shown} | {machine} | {driver} | {when} |")
        failed = [line for line in self.lines if line.verdict == "WRONG"]
        if failed:
            rows += ["", "| part | check | what was wrong |", "|---|---|---|"]
            rows += [f"| {line.part} | {line.name} | {line.detail.replace('|', '/')} |" for line in failed]
        return "\n".join(rows)


def operator_of(name: str) -> str:
    """The operator that an example's line is about."""
    return name.partition(": ")[0]


# ---------------------------------------------------------------------------------------------------
# The parts


def all_kernels(report: Report) -> None:
    """Every file compiles with the options of the pipelines, every instance loads and can run 256 threads."""
    runtime = backends.gpu.open_device(0)
    files = kernels.files()
    report.check("kernels", "all files, compiled side by side", lambda: runtime.prepare(kernels.instances()))
    for file in files:

        def load(file: str = file) -> str:
            names = [f"{file}:{name}" for name in kernels.instances_of(file)]
            with runtime.active():
                threads = [backends.gpu.loaded(name, runtime.device[1]) for name in names]
            return f"{len(threads)} instances"

        report.check("kernels", file, load)


def all_operators(report: Report) -> None:
    """Every example of every operator with a GPU form gives what it gives on the CPU."""
    for op, text in device_cases.EXAMPLES:
        report.check("operators", f"{op.title}: {text}", lambda text=text: device_cases.compare_example(text))
    report.check("operators", "a graph of images", device_cases.compare_images)


def all_hazards(report: Report) -> None:
    """What no emulation can show: foreign streams, late kernels, memory, errors, several devices."""
    for check in first_run_hazards.CHECKS:
        report.check("hazards", check.__doc__.splitlines()[0].rstrip("."), check)


def speed(report: Report) -> None:
    """The operators of benchmarks/gpu_operators.py against the bandwidth of a copy."""
    import gpu_clock
    import gpu_operators

    runtime = backends.gpu.open_device(0)
    found: list[float] = []

    def copy() -> str:
        found.append(gpu_clock.copy_bandwidth(runtime, 256 << 20))
        return f"{found[0] / 1e9:.0f} GB/s read and written"

    report.check("speed", "a copy within the device", copy)
    for name, function in gpu_operators.CASES.items():

        def measure(name: str = name, function: Any = function) -> str:
            if not found:
                raise LeftOut("the copy could not be timed")
            with runtime.active():
                made = [gpu_operators.prepared(runtime, gpu_operators.call_of(function)) for _ in range(gpu_clock.SETS)]
                seconds = gpu_clock.queue_seconds(runtime, [memory.queue for memory, _ in made])
            moved = made[0][1]
            aim = gpu_operators.AIMS.get(name, 0.7)
            return f"{seconds * 1e6:.0f} us, {moved / seconds / found[0]:.2f} of the copy (aim {aim})"

        report.check("speed", name, measure)


RUN = {"kernels": all_kernels, "operators": all_operators, "hazards": all_hazards, "speed": speed}


def main() -> int:
    """Runs the parts and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--seconds", type=float, default=540.0, help="what has not begun by then is left out")
    options = parser.parse_args()
    reason = backends.gpu.why_not(0)
    if reason:
        print(f"first_run.py runs nothing here: {reason}")
        return 1
    faulthandler.dump_traceback_later(options.seconds + 120, exit=True)  # a hang ends with every stack printed
    cupy = backends.gpu.cupy
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    driver = str(cupy.cuda.runtime.driverGetVersion())
    print(f"{device}, CUDA {driver} of the driver, CuPy {cupy.__version__}, Python {platform.python_version()}")
    report = Report(options.seconds)
    for part in options.parts:
        report.check(part, "(the part itself)", lambda part=part: RUN[part](report))
    print("\n" + report.tables(device, driver, datetime.date.today().isoformat()))
    faulthandler.cancel_dump_traceback_later()
    return int(any(line.verdict == "WRONG" for line in report.lines))


if __name__ == "__main__":
    sys.exit(main())
