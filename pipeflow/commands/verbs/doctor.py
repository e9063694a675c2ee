"""Checks this machine and installation, and says what to fix."""

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import NamedTuple

from pipeflow.commands.result import BROKEN, FINE, FOUND, Line, Result, Tone
from pipeflow.executor.settings import available_cpus
from pipeflow.kernels import cpu as kernels
from pipeflow.reporting.units import size
from pipeflow.version import VERSION

try:
    import resource
except ImportError:  # it is part of Unix only
    resource = None  # type: ignore[assignment]

# Imported name -> (name of the library to install, what is missing without it).
NEEDED = {"numpy": "numpy", "numba": "numba"}
USEFUL = {
    "cv2": ("opencv-python-headless", "image operators"),
    "PIL": ("pillow", "pictures, and images that are neither JPEG nor PNG"),
    "simplejpeg": ("simplejpeg", "JPEG files that the compiled decoder leaves"),
    "soundfile": ("soundfile", "compressed sound"),
    "soxr": ("soxr", "resampling of sound"),
    "scipy": ("scipy", "filters of sound"),
    "cloudpickle": ("cloudpickle", "lambdas in worker processes and saved graphs"),
    "tqdm": ("tqdm", "progress bars"),
}
FRAMEWORKS = {"torch": "torch", "jax": "jax", "cupy": "cupy-cuda13x", "ray": "ray"}
SHARED = "/dev/shm"
ROOM = 512_000_000  # bytes of shared memory that worker processes are comfortable with
FILES = 256


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    state: str
    text: str
    fix: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(given: argparse.Namespace) -> Result:
    del given
    findings = list(examined())
    broken = [finding for finding in findings if finding.state == "broken"]
    warned = [finding for finding in findings if finding.state == "warning"]
    if broken:
        first, status = Line(f"broken: {broken[0].what}: {broken[0].text}", "bad"), BROKEN
    elif warned:
        first, status = Line(f"works, with {len(warned)} thing{'s' * (len(warned) != 1)} to look at", "warn"), FOUND
    else:
        first, status = Line("everything is fine", "good"), FINE
    lines = [first]
    tones: dict[str, Tone] = {"broken": "bad", "warning": "warn", "ok": ""}
    for finding in findings:
        lines.append(Line(f"{finding.what:<14} {finding.text}", tones[finding.state]))
        if finding.fix and finding.state != "ok":
            lines.append(Line(f"fix: {finding.fix}", tones[finding.state], indent=15))
    return Result(lines, {"findings": [finding._asdict() for finding in findings]}, status)


def examined() -> Iterator[Finding]:
    """All checks."""
    version = platform.python_version()
    fine = sys.version_info >= (3, 11)
    yield Finding("pipeflow", "ok", f"{VERSION} in {Path(__file__).parents[3]}")
    yield Finding(
        "python",
        "ok" if fine else "broken",
        f"{version} on {platform.system()} {platform.machine()}",
        "Python 3.11 or later",
    )
    yield from processors()
    yield from libraries()
    yield from memory()
    folder = kernels.jit.cache_folder() if util.find_spec("numba") else None
    yield Finding(
        "kernel cache",
        "ok" if folder else "warning",
        f"{folder}" if folder else "no folder can be written: every process compiles its kernels again",
        "set PIPEFLOW_CACHE_DIR to a folder that can be written; pipeflow warmup fills it",
    )


def processors() -> Iterator[Finding]:
    """How many there are, how many may be used, and who else starts threads."""
    there, usable = os.cpu_count() or 1, available_cpus()
    limit = "" if usable == there else f", {usable} of them for this process"
    yield Finding("processors", "ok", f"{there}{limit}")
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads and threads.isdigit() and int(threads) > usable:
        yield Finding(
            "OpenMP", "warning", f"OMP_NUM_THREADS={threads} on {usable} processors", f"OMP_NUM_THREADS={usable}"
        )


def libraries() -> Iterator[Finding]:
    """The libraries that are installed, needed, or useful."""
    for module, library in NEEDED.items():
        there = util.find_spec(module) is not None
        text = _version(module, library) if there else "is not installed"
        yield Finding(library, "ok" if there else "broken", text, f"pip install {library}")
    found = [
        f"{library} {_version(module, library)}" for module, (library, _) in USEFUL.items() if util.find_spec(module)
    ]
    yield Finding("libraries", "ok", ", ".join(found) or "none of those that are optional")
    for module, (library, use) in USEFUL.items():
        if util.find_spec(module) is None:
            yield Finding(library, "warning", f"is not installed: no {use}", f"pip install {library}")
    present = [f"{name} {_version(name, library)}" for name, library in FRAMEWORKS.items() if util.find_spec(name)]
    yield Finding("frameworks", "ok", ", ".join(present) or "none")
    yield Finding(
        "GPU",
        "ok",
        "a driver of NVIDIA is installed" if shutil.which("nvidia-smi") else "none: pipelines run on the CPU",
    )


def _version(module: str, library: str) -> str:
    for name in (library, module):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def memory() -> Iterator[Finding]:
    """Shared memory for worker processes, and how many files may be open."""
    if os.path.isdir(SHARED):
        free = shutil.disk_usage(SHARED).free
        state = "ok" if free >= ROOM else "warning"
        fix = "in a container: docker run --shm-size=2g"
        yield Finding("shared memory", state, f"{size(free)} free in {SHARED}, for worker processes", fix)
    if resource is None:
        return
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield Finding("open files", "ok" if files >= FILES else "warning", f"{files} at most", "ulimit -n 1024")
