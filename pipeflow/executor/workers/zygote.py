"""Starts worker processes and reports their exit status.

The default is a fork server of our own: a fresh interpreter, started once per process, that has one thread, never
imports the user's script and forks a worker in a few milliseconds. `"fork"` makes the same kind of server out of a copy
of this process, while it still has a single thread; `"spawn"` starts a fresh interpreter for every worker.
"""

import gc
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from pipeflow import system
from pipeflow.errors import InvalidState
from pipeflow.executor.workers import anonymous_files, worker
from pipeflow.saving.functions import in_copy, require_cloudpickle

_RECORD = struct.Struct("=iii")  # kind, process, wait status
_BORN, _ENDED = 1, 2
_PATIENCE = 60.0  # seconds for a fresh interpreter to come up on a busy machine
_KEEP_FROM_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Process:
    """A worker process: its number and, if the system has one, a descriptor that becomes readable when it ends.

    The descriptor is about the process itself. End-of-file on a pipe is not: children of the user's function may keep it open
    for longer.
    """

    def __init__(self, pid: int, descriptor: int | None, parent: "ForkServer | Spawner") -> None:
        self.pid = pid
        self.descriptor = descriptor
        self._parent = parent

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            if self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            else:
                os.kill(self.pid, number)

    def ended(self, timeout: float) -> bool:
        """True if the process ends within so many seconds; without a process descriptor it cannot wait for the end."""
        return self.descriptor is not None and bool(select.select([self.descriptor], [], [], timeout)[0])

    def exit_status(self, timeout: float) -> int | None:
        """The exit code, negative for a signal; None if it is not known in time."""
        return self._parent.exit_status(self, timeout)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class WorkerLauncher(Protocol):
    """Starts workers."""

    def launch(self, descriptors: tuple[int, ...]) -> Process: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Closes everything in a forked child, which does not use the workers."""


def make_launcher(
    start_method: str, inherited: dict[int, Callable[..., Any]], beside_threads: bool = False
) -> WorkerLauncher:
    """The launcher of a start method; `inherited` are the functions that "fork" passes on without pickling.

    `beside_threads` lets "fork" copy a process with several threads: locks that these hold stay locked in the copy.
    """
    if start_method == "fork" and system.HAS_FORK:
        if not beside_threads:
            check_fork()
        return ForkServer(_fork_template, inherited)
    if start_method == "spawn" or not system.HAS_FORK:
        return Spawner()
    return SharedForkServer()


# --- the interpreters ------------------------------------------------------------------------------------------------


def check_platform() -> None:
    """Raises an error if worker processes cannot be used on this system."""
    if worker.INSIDE in os.environ:
        raise InvalidState(
            "a worker process cannot start other worker processes: "
            'a pipeline inside a function must not use parallel="processes"'
        )
    if not anonymous_files.CAN_BE_PASSED:
        raise RuntimeError(
            "worker processes need a system on which a process can give another one open files, as Linux and macOS are: "
            'use parallel="threads" on this one'
        )
    require_cloudpickle()


def _interpreter(call: str, descriptors: tuple[int, ...]) -> subprocess.Popen:
    """A new Python with the search path and flags of this one, but without its script."""
    if not sys.executable:
        raise RuntimeError('this Python does not know its own executable: use py_start_method="fork"')
    code = f"import sys; sys.path[:] = {sys.path!r}; from pipeflow.executor.workers import zygote; zygote.{call}"
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code],
        env={**os.environ, **worker.THREAD_LIMITS},
        stdin=subprocess.DEVNULL,
        pass_fds=descriptors,
    )


class _Ends(NamedTuple):
    """The data for a new fork server: both ends of its socket, and the functions it passes on."""

    parent: socket.socket
    child: socket.socket
    inherited: dict[int, Callable[..., Any]]


def _interpreter_server(ends: _Ends) -> subprocess.Popen:
    return _interpreter(f"serve({ends.child.fileno()})", (ends.child.fileno(),))


class _Template:
    """A forked copy of this process that serves as fork server; offers what `ForkServer` needs of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            with suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        end = time.monotonic() + (timeout or 0)
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        return self.returncode

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def check_fork() -> None:
    """Raises an error for "fork" if a copy of this process could not work."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        raise RuntimeError(
            f'py_start_method="fork" needs a process with a single thread, and this one runs {", ".join(others)}: '
            'call start_py_workers() before anything starts threads, or use py_start_method="forkserver"'
        )
    with suppress(OSError):
        names = [os.readlink(f"/proc/self/fd/{x}") for x in os.listdir("/proc/self/fd") if x.isdigit()]
        if any(name.startswith("/dev/nvidia") for name in names):
            raise RuntimeError(
                'py_start_method="fork" cannot be used after CUDA has been initialised in this process: '
                'call start_py_workers() first, or use py_start_method="forkserver"'
            )


def _fork_template(ends: _Ends) -> _Template:
    with warnings.catch_warnings():  # Python counts threads of C libraries too, which have handlers of their own
        warnings.simplefilter("ignore", DeprecationWarning)
        worker.flush_output()  # else the worker would print the text in a buffer once more
        pid = os.fork()
    if pid:
        return _Template(pid)
    try:
        ends.parent.close()
        in_copy()
        serve(ends.child.detach(), ends.inherited)
    finally:
        os._exit(1)


# --- the server's side -----------------------------------------------------------------------------------------------


def serve(descriptor: int, inherited: dict[int, Callable[..., Any]] | None = None) -> None:
    """Forks a worker for every request on the socket, reports how workers end, and ends with the socket."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker.prepare()
    gc.freeze()  # a collection in a worker would write to every object, and so copy the shared pages
    bell, ringer = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(ringer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
    while True:
        ready = select.select([control.fileno(), bell], [], [])[0]
        if bell in ready:
            with suppress(BlockingIOError):
                os.read(bell, 4096)
            with suppress(ConnectionError):  # the parent has ended
                _report_ends(control)
        if control.fileno() in ready:
            try:
                request, descriptors, _, _ = socket.recv_fds(control, 1, 8, _KEEP_FROM_CHILDREN)
            except ConnectionResetError:  # the parent ended without reading the last record
                request = b""
            if not request:
                with suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
                os._exit(0)
            pid = os.fork()
            if not pid:
                control.close()
                os.close(bell)
                os.close(ringer)
                worker.main(list(descriptors), inherited or {})
            for inner in descriptors:
                os.close(inner)
            with suppress(ConnectionError):  # the parent has ended meanwhile
                _report_birth(control, pid)


def _report_birth(control: socket.socket, pid: int) -> None:
    record = _RECORD.pack(_BORN, pid, 0)
    if not system.HAS_PIDFD:
        control.sendall(record)
        return
    descriptor = os.pidfd_open(pid)  # here the process has not been reaped, so its number is not used by another one
    try:
        socket.send_fds(control, [record], [descriptor])
    finally:
        os.close(descriptor)


def _report_ends(control: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            control.sendall(_RECORD.pack(_ENDED, pid, status))


def spawned(*descriptors: int) -> None:
    """The entry of a worker that was started as a fresh interpreter."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    worker.prepare()
    worker.main(list(descriptors), {})


# --- this side -------------------------------------------------------------------------------------------------------


class ForkServer:
    """The end of a fork server in this process; requests and answers use one lock."""

    def __init__(
        self,
        start: Callable[[_Ends], Any] = _interpreter_server,
        inherited: dict[int, Callable[..., Any]] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._ends: dict[int, int] = {}
        self._control, child = socket.socketpair()
        try:
            with child:
                self._server = start(_Ends(self._control, child, inherited or {}))
        except BaseException:
            self._control.close()
            raise

    def launch(self, descriptors: tuple[int, ...]) -> Process:
        with self._lock:
            try:
                socket.send_fds(self._control, [b"w"], descriptors)
                return self._born()
            except (OSError, EOFError) as error:
                raise RuntimeError(
                    f"the fork server of the workers ended ({self._server.wait(1.0)}); its messages are on stderr"
                ) from error

    def exit_status(self, process: Process, timeout: float) -> int | None:
        end = time.monotonic() + timeout
        with self._lock, suppress(OSError, EOFError):
            self._read_until_ended(process.pid, end)
            return self._ends.pop(process.pid)
        return None

    def _born(self) -> Process:
        while True:
            born = self._read_record(time.monotonic() + _PATIENCE)
            if born is not None:
                return born

    def _read_until_ended(self, pid: int, end: float) -> None:
        while pid not in self._ends:
            self._read_record(end)

    def _read_record(self, end: float) -> Process | None:
        """Reads one record; returns the process if it reports a new one."""
        self._control.settimeout(max(0.0, end - time.monotonic()) or 0.001)
        data, descriptors, _, _ = socket.recv_fds(self._control, _RECORD.size, 1, _KEEP_FROM_CHILDREN)
        if not data:
            raise EOFError
        while len(data) < _RECORD.size:
            data += self._control.recv(_RECORD.size - len(data))
        kind, pid, status = _RECORD.unpack(data)
        if kind == _BORN:
            self._ends.pop(pid, None)  # of an earlier process with this number, whose end was not asked for
            return Process(pid, descriptors[0] if descriptors else None, self)
        self._ends[pid] = os.waitstatus_to_exitcode(status)
        return None

    @property
    def alive(self) -> bool:
        return self._server.poll() is None

    def close(self) -> None:
        self._control.close()
        if not self._ends_in(2.0):  # on a busy machine it may not have started yet
            self._server.kill()
            self._ends_in(2.0)

    def _ends_in(self, seconds: float) -> bool:
        try:
            return self._server.wait(seconds) is not None
        except subprocess.TimeoutExpired:
            return False

    def abandon(self) -> None:
        self._control.close()


class SharedForkServer:
    """The only fork server of this process, shared by all pools: the second pool starts in a few milliseconds."""

    _lock = threading.Lock()
    _server: ForkServer | None = None
    _users = 0

    def __init__(self) -> None:
        cls = SharedForkServer
        with cls._lock:
            if cls._server is None or not cls._server.alive:
                cls._server = ForkServer()
            cls._users += 1
            self._open = True

    def launch(self, descriptors: tuple[int, ...]) -> Process:
        server = self._living()
        try:
            return server.launch(descriptors)
        except RuntimeError:  # it may have been killed a moment ago
            return self._living(server).launch(descriptors)

    def _living(self, dead: ForkServer | None = None) -> ForkServer:
        """The fork server, or a new one if it was killed from outside; its workers continue without it."""
        cls = SharedForkServer
        with cls._lock:
            if cls._server is None or cls._server is dead or not cls._server.alive:
                if cls._server is not None:
                    cls._server.close()
                cls._server = ForkServer()
            return cls._server

    def close(self) -> None:
        cls = SharedForkServer
        with cls._lock:
            if self._open:
                self._open = False
                cls._users -= 1
                if not cls._users and cls._server is not None:
                    cls._server.close()
                    cls._server = None

    def abandon(self) -> None:
        cls = SharedForkServer
        if cls._server is not None:
            cls._server.abandon()
        cls._lock = threading.Lock()
        cls._server, cls._users, self._open = None, 0, False


class Spawner:
    """Starts a fresh interpreter for every worker."""

    def __init__(self) -> None:
        self._running: dict[int, subprocess.Popen] = {}

    def launch(self, descriptors: tuple[int, ...]) -> Process:
        process = _interpreter(f"spawned({', '.join(map(str, descriptors))})", descriptors)
        self._running[process.pid] = process
        return Process(process.pid, os.pidfd_open(process.pid) if system.HAS_PIDFD else None, self)

    def exit_status(self, process: Process, timeout: float) -> int | None:
        started = self._running.get(process.pid)
        try:
            status = started.wait(timeout) if started is not None else None
        except subprocess.TimeoutExpired:
            return None
        self._running.pop(process.pid, None)
        return status

    def close(self) -> None:
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(2.0)

    def abandon(self) -> None:
        for process in self._running.values():
            process.returncode = 0  # it is the child of another process: there is nothing to wait for
        self._running.clear()


# --- words -----------------------------------------------------------------------------------------------------------

_SIGNALS = {
    signal.SIGSEGV: "it crashed with a segmentation fault (SIGSEGV) in C code",
    signal.SIGBUS: "it crashed with a bus error (SIGBUS): memory behind a mapping is gone, often a truncated file",
    signal.SIGABRT: "it was aborted (SIGABRT) by C code",
    signal.SIGFPE: "it crashed with an arithmetic error (SIGFPE) in C code",
    signal.SIGILL: "it ran a machine instruction that this CPU does not have (SIGILL)",
    signal.SIGTERM: "another process ended it (SIGTERM)",
}


def oom_kills() -> int:
    """The number of processes that the kernel has killed for lack of memory so far; 0 if it does not say."""
    return sum(int(line.split()[1]) for line in system.lines_of("/proc/vmstat") if line.startswith("oom_kill "))


def how_it_ended(status: int | None, oom_before: int) -> str:
    """The end of a process as text."""
    if status is None:
        return "it ended, and the reason is not known because its fork server ended too"
    if status == worker.CONNECTION_LOST:
        return "its connection was closed, for example by os.closerange in a function"
    if status >= 0:
        return f"it left by os._exit({status}) or from C code" if status else "it left by os._exit(0)"
    if -status == signal.SIGKILL:
        if oom_kills() > oom_before:
            return "it was killed (SIGKILL), most likely by the kernel because memory ran out"
        return "it was killed from outside (SIGKILL), for example by kill -9 or a job manager"
    with suppress(ValueError):
        number = signal.Signals(-status)
        return _SIGNALS.get(number, f"it was killed by {number.name}")
    return f"it was killed by signal {-status}"
