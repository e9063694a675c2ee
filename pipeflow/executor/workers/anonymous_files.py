"""Files without a name, in which processes share memory.

If the system has no memory without a file (memfd), such a file is a temporary file that is unlinked at once.
"""

import mmap
import os
import socket
import tempfile

from pipeflow.system import fcntl

HAS_MEMFD = hasattr(os, "memfd_create")
CAN_BE_PASSED = hasattr(socket, "send_fds")  # True if a process can pass an open file to another one


def anonymous_file(label: str) -> int:
    """A file of size zero without a name, which can be passed to other processes: memory, if the system has such files."""
    if HAS_MEMFD:
        return os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def forbid_shortening(descriptor: int) -> None:
    """Makes sure that no process can shorten an anonymous file while it is mapped."""
    if HAS_MEMFD and fcntl is not None:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)


def mapped(descriptor: int, size: int) -> mmap.mmap:
    """An anonymous file in the memory of this process. One call maps all its pages, if the system can do this: one by one, when
    they are first used, they take as long as a copy of their content.
    """
    if not hasattr(mmap, "MAP_POPULATE"):
        return mmap.mmap(descriptor, size)
    return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
