"""The chosen folder of compiled kernels, and the digest of their sources, without loading Numba."""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_CPU_INFORMATION = Path("/proc/cpuinfo")


def chosen_base() -> Path:
    """The folder that the user or the system has chosen for compiled kernels."""
    chosen = os.environ.get("PIPEFLOW_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "pipeflow"


@cache
def stamp() -> str:
    """Digest of all kernel sources and of the compiler's version."""
    digest = hashlib.sha256(sys.version.encode())
    numba = find_spec("numba")
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    if numba is not None and numba.origin is not None:
        sources.append(Path(numba.origin).with_name("_version.py"))
    for source in sources:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


class KeptMark:
    """A file that marks that the kernels of some work are kept for this kind of processor.

    It only saves time: if a kernel is missing although the mark exists, the kernel is compiled when it is loaded.
    """

    def __init__(self, work: bytes) -> None:
        words = (stamp(), _processor(), *(os.environ.get(f"NUMBA_CPU_{name}", "") for name in ("NAME", "FEATURES")))
        digest = hashlib.sha256("\n".join(words).encode() + work).hexdigest()[:20]
        self._path = chosen_base() / "marks" / digest

    def exists(self) -> bool:
        """True if a process of this user has kept the kernels."""
        return self._path.exists()

    def possible(self) -> bool:
        """True if the mark can probably be written."""
        folder = self._path.parent
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return os.access(folder, os.W_OK)

    def write(self) -> None:
        """Writes the mark."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
        except OSError:
            pass


@cache
def _processor() -> str:
    """A text that differs between processors with different instructions."""
    try:
        with _CPU_INFORMATION.open(encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 14).splitlines()
    except OSError:
        lines = []
    names = ("model name", "flags", "Features")
    found = {line.partition("\t")[0].strip(): line for line in reversed(lines) if line.startswith(names)}
    return "\n".join([platform.machine(), platform.processor(), *found.values()])
