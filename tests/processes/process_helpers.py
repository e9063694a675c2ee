"""What the tests of worker processes share: scripts in processes of their own, and who is still alive."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
from helpers import LONG

from pipeflow import system

REPOSITORY = Path(__file__).parents[2]


def python(program, *arguments, stdin=None, timeout=LONG, script=None):
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


def gone(pids):
    """The processes of a list that do not end."""
    left = []
    for pid in pids:
        if not system.HAS_PIDFD:
            with suppress(ProcessLookupError):
                end = time.monotonic() + LONG / 2
                while time.monotonic() < end:
                    os.kill(pid, 0)
                    os.sched_yield()
                left.append(pid)
            continue
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([descriptor], [], [], LONG / 2)  # readable once the process has ended
        os.close(descriptor)
        if not ended:
            left.append(pid)
    return left


class Meeting:
    """A place where functions in several processes meet: `meet(path)` returns once as many as expected are there."""

    def __init__(self, path, count):
        self.path, self.over = str(path), threading.Event()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen()
        threading.Thread(target=self._serve, args=(count,), daemon=True).start()

    def _serve(self, count):
        with self._server:
            guests = [self._server.accept()[0] for _ in range(count)]
        for guest in guests:
            guest.sendall(b"!")
            guest.close()
        self.over.set()


def meet(path):
    """Waits until the others have come; a second time in one process returns at once."""
    if path not in MET:
        MET.add(path)
        with socket.socket(socket.AF_UNIX) as guest:
            guest.connect(path)
            guest.recv(1)


MET = set()


def begin_long_ago():
    """In a worker process: makes the call that is running one that began eleven days ago."""
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("self"), "status"):
        frame = frame.f_back
    frame.f_locals["self"].status[2] -= 10**15


def say_late(line):
    """Begins long ago, and has the pools look who is late; `line` is that of the fixture `late`."""
    begin_long_ago()
    os.close(os.open(line, os.O_RDONLY))


def stand_still():
    """Waits for ever."""
    os.read(os.pipe()[0], 1)


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
