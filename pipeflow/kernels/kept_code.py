"""The files of compiled code: a process compiles only code that no process of this user has compiled before.

Compiled code is run without a check of its meaning. So a folder is used only if this user owns it and no other user can change
it or any folder above it. Each file has a digest of its content, so that a damaged file is compiled again. Files are written
under another name and then renamed, so that processes that compile at the same time do not disturb each other. If several
processes need the same kernel, one compiles it, and the others wait for its file. If no folder of the user can be written, a
program and its worker processes share a temporary folder, which the program removes when it ends.

Numba is not loaded here: the CUDA kernels, which are kept in the same way, do not need it.
"""

import atexit
import hashlib
import logging
import os
import pickle
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pipeflow import system, timing
from pipeflow.kernels.cpu.kernel_folder import chosen_base

log = logging.getLogger("pipeflow.kernels")

# Set by a process that keeps kernels in a temporary folder, for the processes that it starts.
SHARED = "PIPEFLOW_SHARED_KERNELS"
_DIGEST_BYTES = 32
# Seconds for which a process waits for another one that compiles the same kernel, and seconds between two checks. The system
# releases the lock of a process that has ended; the limit is for a process that was stopped, and for disks with broken locks.
_LONGEST_WAIT = 60.0
_LOOK = 0.01


def refusal(folder: Path) -> str:
    """The reason why another user could have put code into this folder; "" if there is none."""
    if not hasattr(os, "getuid"):
        return ""
    user = os.getuid()
    if folder.is_symlink() or folder.parent.is_symlink():
        return f"{folder} is, or is in, a symbolic link"
    resolved = folder.resolve()
    for level in (resolved, *resolved.parents):
        status = level.stat()
        if status.st_uid not in (user, 0) or (level == resolved and status.st_uid != user):
            return f"{level} belongs to another user"
        # In a folder with the sticky bit, like /tmp, other users can add files but not replace files of this user.
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (level == resolved or not status.st_mode & stat.S_ISVTX):
            return f"{level} can be written by others"
    return ""


def why_not(folder: Path) -> str:
    """Creates the folder. Returns "" if it can be written and no other user could have put files there, else the reason."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = refusal(folder)
        if not reason:
            descriptor, path = _new_file(folder, "probe-")
            os.close(descriptor)
            path.unlink()
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return reason


@cache
def folder_for(name: str) -> Path | None:
    """The folder with this name for compiled code; None if no folder can be written, not even a temporary one.

    If several users share the chosen folder, the first gets this name, and each other user a name with their number.
    """
    base = chosen_base()
    reasons = []
    folders = [base / name, *([base / f"{name}-user-{os.getuid()}"] if hasattr(os, "getuid") else [])]
    folders += [Path(os.environ[SHARED]) / name] if os.environ.get(SHARED) else []
    for folder in folders:
        reason = why_not(folder)
        if not reason:
            return folder
        reasons.append(reason)
    temporary = _temporary_base()
    log.warning(
        "%s cannot be used for compiled kernels (%s): they are %s; set PIPEFLOW_CACHE_DIR to a folder that only you can write",
        base,
        reasons[0],
        "compiled again by every start of the program" if temporary else "compiled again in every process",
    )
    if temporary is None:
        return None
    return None if why_not(temporary / name) else temporary / name


@cache
def _temporary_base() -> Path | None:
    """A folder for this process and the processes that it starts; it is removed when this process ends."""
    for parent in (None, "/dev/shm"):
        try:
            # Loaded only here and in `_remove`: it takes a while, and hardly any process needs it.
            base = Path(resolve_name("tempfile:mkdtemp")(prefix="pipeflow-kernels-", dir=parent))
        except OSError:
            continue
        os.environ[SHARED] = str(base)
        atexit.register(_remove, base, os.getpid())
        return base
    return None


def _remove(base: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        resolve_name("shutil:rmtree")(base, ignore_errors=True)


def _new_file(folder: Path, prefix: str) -> tuple[int, Path]:
    """Creates a file with a random name, and opens it: (descriptor, path). No existing file is written to."""
    path = folder / f"{prefix}{os.urandom(8).hex()}"
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600), path


class KernelFiles:
    """A file for each specialisation, named by the digest of its key. It begins with a digest of its content.

    Numba's own cache numbers its files in an index. If two processes write it at the same time, one process may read the code of
    the other under its own signature.
    """

    def __init__(self, folder: Path, name: str, dumps: Callable[[Any], bytes] = pickle.dumps) -> None:
        self.folder = folder
        self.name = name
        self._dumps = dumps

    def path(self, key: Any) -> Path:
        """The file of a key."""
        return self.folder / f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc"

    def load(self, key: Any) -> Any:
        """The stored specialisation; None if there is none, or if its file is damaged."""
        path = self.path(key)
        try:
            content = read_own(path)
            if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
                raise ValueError("its digest is wrong")
            return pickle.loads(content[_DIGEST_BYTES:])
        except FileNotFoundError:
            return None
        except Exception as error:
            log.debug("kernel %s cannot be read from the cache and is compiled again: %r", self.name, error)
            return None

    def save(self, key: Any, data: Any) -> None:
        """Stores a specialisation completely or not at all."""
        path = self.path(key)
        content = self._dumps(data)
        temporary = None
        try:
            descriptor, temporary = _new_file(self.folder, path.name)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        except OSError as error:
            if temporary:
                temporary.unlink(missing_ok=True)
            log.debug("kernel %s was not stored: %r", self.name, error)

    def flush(self) -> None:
        """Removes all specialisations."""
        for path in self.folder.glob(f"{self.name}-*.nbc"):
            path.unlink(missing_ok=True)


class Locks:
    """Locks with names; a lock can be held once. All are in one empty file of the folder: a name is a place in this file.

    If the system or the disk has no locks, every process gets every lock: locks only save work, and no result depends on them.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "locks"
        self._guard = threading.Lock()
        self._descriptor = -1
        self._held: set[str] = set()  # the file stays open for these: to close it would release the locks

    def take(self, name: str) -> bool:
        """Takes a lock; False if it is held already."""
        with self._guard:
            if name in self._held:
                return False
            try:
                if not self._held:
                    self._descriptor = _open_own(self._path, os.O_RDWR | os.O_CREAT)
                taken = system.lock_place(self._descriptor, _place(name))
            except OSError as error:
                log.debug("there are no locks in %s: %r", self._path.parent, error)
                taken = True
            if taken:
                self._held.add(name)
            elif not self._held:
                self._close()
            return taken

    def give(self, name: str) -> None:
        """Releases a lock."""
        with self._guard:
            self._held.discard(name)
            try:
                if not self._held:
                    self._close()
                elif self._descriptor >= 0:
                    system.unlock_place(self._descriptor, _place(name))
            except OSError as error:
                log.debug("a lock in %s was lost: %r", self._path.parent, error)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _place(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 2


@cache
def locks_of(folder: Path) -> Locks:
    """The locks in a folder of compiled code."""
    return Locks(folder)


class Turns:
    """Lets one process compile a kernel while the others wait for its file."""

    def __init__(self, folder: Path) -> None:
        self._locks = locks_of(folder)
        self._taken: list[str] = []

    def wait(self, path: Path) -> bool:
        """Waits until the file exists (returns True), or until it is the turn of this process to make it (returns False)."""
        end = timing.wall() + _LONGEST_WAIT
        while path.name not in self._taken and not path.exists():
            if self._locks.take(path.name):
                self._taken.append(path.name)
                break
            if timing.wall() > end:
                log.info("another process has been compiling %s for a minute: this one compiles it too", path.name)
                break
            time.sleep(_LOOK)
        return path.exists()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """A context that ends the turns that begin inside it; turns of kernels that are compiled meanwhile end by themselves."""
        before = len(self._taken)
        try:
            yield
        finally:
            while len(self._taken) > before:
                self._locks.give(self._taken.pop())


def _open_own(path: Path, flags: int) -> int:
    """Opens a plain file of this user; a symbolic link is not followed."""
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        os.close(descriptor)
        raise PermissionError(f"{path} is not a file of this user")
    return descriptor


def read_own(path: Path) -> bytes:
    """The content of a plain file of this user; a symbolic link is not followed."""
    with os.fdopen(_open_own(path, os.O_RDONLY), "rb") as file:
        return file.read()
