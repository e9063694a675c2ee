"""What the tests of worker processes share: scripts in processes of their own, and who is still alive."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[2]


def python(program, *arguments, stdin=None, timeout=40, script=None):
    """Runs a program as a script of its own and returns the finished process."""
    command = [sys.executable, script or "-c", *([] if script else [program]), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, env=environment())


def start(program, *arguments):
    """Starts a program in a session of its own, its standard output readable line by line."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def environment():
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def gone(pids, within=5.0):
    """The processes of a list that still live after some time at most."""
    end = time.monotonic() + within
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.005)
    return left


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants(pid):
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def shared_memory_files():
    # other programs of the machine may come and go meanwhile: torch's workers put files there
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith("torch_"))
