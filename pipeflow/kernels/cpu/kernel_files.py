"""Where compiled kernels are kept, so that a process compiles only what no process of this user has compiled before.

Compiled code is run as it is read. A folder is used only if this user owns it and nobody else can change it or any folder
above it; each file carries a digest of its content, so that a damaged one is compiled again; Numba's own setting
(NUMBA_CACHE_DIR) is not read. Files are written under another name and moved into place, so that processes which compile at
the same moment do not disturb each other. Where no folder of the user can be written, the processes of one start share a
temporary one, which the first of them removes when it ends.
"""

import atexit
import hashlib
import logging
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.serialize import dumps

log = logging.getLogger("pipeflow.kernels")

# Set by a process that keeps kernels in a temporary folder, for the processes it starts.
SHARED = "PIPEFLOW_SHARED_KERNELS"
_DIGEST_BYTES = 32


def refusal(folder: Path) -> str:
    """Why compiled code in this folder could be somebody else's; "" where it could not."""
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
        # In a folder with the sticky bit, like /tmp, others can add names but not replace ours.
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (level == resolved or not status.st_mode & stat.S_ISVTX):
            return f"{level} can be written by others"
    return ""


def usable(folder: Path) -> bool:
    """Creates the folder; true when it can be written and nobody else could have put files there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = refusal(folder)
        if reason:
            log.warning("compiled kernels are not kept in %s: %s", folder, reason)
            return False
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return False
    return True


def chosen_base() -> Path:
    """The folder that the user or the system has chosen for compiled kernels."""
    chosen = os.environ.get("PIPEFLOW_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "pipeflow"


@cache
def folder_for(name: str) -> Path | None:
    """The folder of that name for compiled code; None where none can be written, not even a temporary one."""
    base = chosen_base()
    folder = base / name
    if usable(folder):
        return folder
    shared = os.environ.get(SHARED)
    if shared and usable(Path(shared) / name):
        return Path(shared) / name
    temporary = _temporary_base()
    log.warning(
        "%s cannot be used for compiled kernels: they are %s; set PIPEFLOW_CACHE_DIR to a folder that only you can write",
        base,
        "compiled again by every start of the program" if temporary else "compiled again in every process",
    )
    if temporary is None:
        return None
    return temporary / name if usable(temporary / name) else None


@cache
def _temporary_base() -> Path | None:
    """A folder for this process and those it starts; removed when this process ends."""
    for parent in (None, "/dev/shm"):
        try:
            base = Path(tempfile.mkdtemp(prefix="pipeflow-kernels-", dir=parent))
        except OSError:
            continue
        os.environ[SHARED] = str(base)
        atexit.register(_remove, base, os.getpid())
        return base
    return None


def _remove(base: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        shutil.rmtree(base, ignore_errors=True)


class KernelFiles:
    """One file a specialisation, named by the digest of its key; the content follows its own digest.

    Numba's own cache numbers its files in an index that two processes may write at once, and then one process can read the
    other's code under its own signature.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def path(self, key: Any) -> Path:
        """The file of a key."""
        return self.folder / f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc"

    def load(self, key: Any) -> Any:
        """The stored specialisation, or None; a file that is damaged counts as absent."""
        path = self.path(key)
        try:
            content = _read_own(path)
            if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
                raise ValueError("its digest does not fit its content")
            return pickle.loads(content[_DIGEST_BYTES:])
        except FileNotFoundError:
            return None
        except Exception as error:
            log.debug("kernel %s cannot be read from the cache and is compiled again: %r", self.name, error)
            return None

    def save(self, key: Any, data: Any) -> None:
        """Stores a specialisation, whole or not at all."""
        path = self.path(key)
        content = dumps(data)
        temporary = ""
        try:
            # A name that cannot be foreseen, created by O_EXCL: nothing that is there already is written to.
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=path.name)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        except OSError as error:
            if temporary:
                Path(temporary).unlink(missing_ok=True)
            log.debug("kernel %s was not stored: %r", self.name, error)

    def flush(self) -> None:
        """Removes all specialisations."""
        for path in self.folder.glob(f"{self.name}-*.nbc"):
            path.unlink(missing_ok=True)


def _read_own(path: Path) -> bytes:
    """The content of a plain file of this user; a symbolic link is not followed."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
            raise PermissionError(f"{path} is not a file of this user")
        return file.read()


def cache_class(stamp: Callable[[], str], name: Callable[[], str]) -> type[caching.FunctionCache]:
    """A cache for Numba's dispatchers: files with this stamp in their names, in the folder of that name."""

    class Locator(caching._CacheLocator):
        """Tells Numba about the folder and the stamp."""

        def __init__(self, function: Callable[..., Any], folder: Path) -> None:
            self.folder = folder
            self.line = function.__code__.co_firstlineno

        def get_cache_path(self) -> str:
            return str(self.folder)

        def get_source_stamp(self) -> str:
            return stamp()

        def get_disambiguator(self) -> str:
            return str(self.line)

        @classmethod
        def from_function(cls, function: Callable[..., Any], _source: str) -> "Locator | None":
            folder = folder_for(name())
            return None if folder is None else cls(function, folder)

    class Files(caching.CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class Cache(caching.FunctionCache):
        _impl_class = Files

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__(function)
            self._cache_file = KernelFiles(Path(self._cache_path), f"{self._impl.filename_base}-{stamp()}")

    return Cache
