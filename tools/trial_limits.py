"""When a trial of a mutant has to end: it hangs, or takes the memory of the machine."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

LEAST_MEMORY = 0.3


def memory_left() -> float:
    """The share of the machine's memory that is available: a change may take all of it."""
    known = dict(re.findall(r"(MemTotal|MemAvailable): +(\d+)", Path("/proc/meminfo").read_text()))
    return int(known["MemAvailable"]) / int(known["MemTotal"])


def session(leader: int) -> Iterator[tuple[int, float]]:
    """The processes of a session and the processor time of each, in seconds."""
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if process.name.isdigit() and os.getsid(int(process.name)) == leader:
                times = (process / "stat").read_text().rpartition(")")[2].split()[11:15]
                yield int(process.name), sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def end_session(leader: int) -> None:
    """Ends the processes of a session."""
    for process, _ in session(leader):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


class Patience:
    """Tells when a run has to be ended. Limits are in processor time, so that a busy machine ends none."""

    def __init__(self, leader: int, compiling: float, patience: float) -> None:
        self.leader, self.busy, self.idle = leader, 8 * compiling, 45 * patience
        self.began = self.looked = self.moved = time.monotonic()
        self.now, self.used, self.since = "", 0.0, 0.0

    def young(self) -> bool:
        """The run has just begun."""
        return time.monotonic() - self.began < 5

    def reason(self, now: str, expected: float) -> str:
        """Why the run has to end; "" if it need not. ``now`` changes with each test."""
        moment = time.monotonic()
        if moment - self.looked < 1:
            return ""
        self.looked = moment
        used = sum(seconds for _, seconds in session(self.leader))
        if now != self.now:
            self.now, self.since = now, used
        if abs(used - self.used) > 0.02:
            self.used, self.moved = used, moment
        if used - self.since > self.busy + 20 * expected or moment - self.moved > self.idle + 20 * expected:
            return "hangs"
        return "takes all memory" if memory_left() < LEAST_MEMORY else ""
