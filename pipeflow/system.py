"""Functions that some operating systems do not have, and their replacements. Only this module and
``executor/workers/anonymous_files.py`` depend on the system.

| if the system lacks                   | then                                                                  |
|---------------------------------------|-----------------------------------------------------------------------|
| locks on files (``fcntl``)            | two processes are not kept from one journal, or compile the same twice |
| descriptors of processes (pidfd)      | processes are known by their numbers                                   |
| ``fork``                              | every worker process is a fresh interpreter, as with ``"spawn"``       |
| signals for descriptors (``F_SETSIG``)| a thread of the worker waits for the end of its parent                 |
| choice of processors                  | ``set_affinity`` has no effect                                         |
| ``/proc``                             | its information is not available                                       |
| limits of freed memory (``mallopt``)  | the C library decides how much freed memory a process keeps            |
"""

import ctypes
import errno
import math
import os
import signal
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:
    fcntl = None  # type: ignore[assignment]

try:
    import resource
except ModuleNotFoundError:
    resource = None  # type: ignore[assignment]

HAS_PIDFD = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")
HAS_FORK = hasattr(os, "fork")


def lock(descriptor: int) -> bool:
    """Locks a file for this process as long as it is open; False if another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_shared(descriptor: int) -> None:
    """Prevents other processes from locking a file for themselves, as long as it is open here."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def wait_for_lock(descriptor: int) -> None:
    """Waits until no other process has locked a file, then locks it for this process."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Releases the lock of a file, also for forked children that have the descriptor."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def user() -> str:
    """A number or name for the user that runs this process."""
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def private_folder(path: Path) -> Path:
    """Makes a folder that only this user can open. A link, or a folder that another user could have written to, is an error."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = path.lstat()
    own = not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & 0o077)
    if not stat.S_ISDIR(state.st_mode) or not own:
        raise PermissionError(f"{path} must be a folder of yours that no other user can open: remove it")
    return path


def lock_place(descriptor: int, place: int) -> bool:
    """Locks one place of a file for this process; False if another process has locked it.

    The system releases such a lock when the process ends, for whatever reason; a forked child does not have the lock.
    The system also releases it when the process closes any descriptor of the file.
    """
    if fcntl is None:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock_place(descriptor: int, place: int) -> None:
    """Releases the lock of one place of a file."""
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)


def killed_by_end_of(descriptor: int) -> bool:
    """True if from now on the kernel kills this process when the other end of a pipe is closed.

    The kernel uses a signal, so this also works while C code holds the interpreter. The process that gets the signal
    is a property of the open file, so each process needs a pipe of its own.
    """
    if fcntl is None or not hasattr(fcntl, "F_SETSIG"):
        return False
    os.set_blocking(descriptor, False)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    return True


def processors() -> list[int]:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_processors() -> int:
    """The number of processors that this process may use at the same time: those it is bound to, or its container's share."""
    share = _share_of_container()
    return len(processors()) if share is None else max(1, min(len(processors()), math.ceil(share - 0.01)))


@cache
def _share_of_container() -> float | None:
    """The processors that control groups allow this process, the least of all groups it is in; None without a limit.

    The files are read once in a process: each of them takes as long as a tenth of a small pipeline's build().
    """
    shares = []
    for line in lines_of("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            shares += [_share(f"/sys/fs/cgroup{folder}/cpu.max", None) for folder in _folders(path)]
        elif "cpu" in controllers.split(","):
            base = "/sys/fs/cgroup/cpu"
            shares += [
                _share(f"{base}{folder}/cpu.cfs_quota_us", f"{base}{folder}/cpu.cfs_period_us")
                for folder in _folders(path)
            ]
    return min((share for share in shares if share is not None), default=None)


def _folders(path: str) -> list[str]:
    """The folder of a control group and all above it."""
    parts = [part for part in path.split("/") if part]
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts) + 1)]


def _share(quota: str, period: str | None) -> float | None:
    words = " ".join([*lines_of(quota), *(lines_of(period) if period else [])]).split()
    try:
        return int(words[0]) / int(words[1]) if int(words[0]) > 0 else None
    except (IndexError, ValueError, ZeroDivisionError):  # "max", or no such file
        return None


def busy_seconds() -> float | None:
    """Seconds in which the processors of this process were busy, for any program; None if the system does not count them."""
    wanted = {f"cpu{number}" for number in processors()}
    ticks, found = 0, False
    for line in lines_of("/proc/stat"):
        name, *numbers = line.split()
        if name in wanted:
            counts = [int(number) for number in numbers[:8]]
            ticks += sum(counts[:3]) + sum(counts[5:])  # not idle, and not waiting for a disk
            found = True
    return ticks / os.sysconf("SC_CLK_TCK") if found else None


def processor_seconds(process: int) -> float:
    """Seconds that the first thread of a process has been on a processor; 0 if the system does not count them."""
    for line in lines_of(f"/proc/{process}/schedstat"):
        return int(line.split()[0]) / 1e9
    return 0.0


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt in glibc
KEPT = 16 << 20  # bytes of freed memory that a process keeps


@cache
def keep_freed_memory() -> None:
    """Lets the C library keep up to KEPT freed bytes, if it has such a limit and the user has not set one.

    Else the memory of arrays of 100 KB and more is returned to the system whenever a function's array or the items of a batch
    are freed, and the next ones need new pages: this doubles the time of a function that makes a picture of floats.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    with suppress(AttributeError, OSError, TypeError):  # another C library, or it cannot be found
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((_TRIM_THRESHOLD, KEPT), (_MMAP_THRESHOLD, KEPT), (_TOP_PAD, KEPT // 16)):
            mallopt(parameter, value)


def keep_to(processor: int) -> None:
    """Makes the calling thread run on one processor only."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processor})


def limits_reached(error: BaseException) -> list[str]:
    """Advice about a limit of the system or the machine, if an error is about one."""
    cause = error.__cause__ or error
    number = cause.errno if isinstance(cause, OSError) else None
    if number in (errno.EMFILE, errno.ENFILE):
        most = "" if resource is None else f" ({resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
        return [
            f"the process has as many files open as it may{most}: raise the limit (ulimit -n), or use fewer workers"
        ]
    if number == errno.EFBIG:
        return ["the process may not make files or shared memory of that size: raise the limit (ulimit -f)"]
    if number == errno.ENOSPC:
        return ["the disk is full: make room, or choose another folder"]
    return []


def lines_of(path: "str | Path") -> list[str]:
    """The lines of a file in which Linux gives information; none if there is no such file."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
