"""Hides what only Linux has from every Python that has this folder on its path: ``make test-portable``.

Python imports ``sitecustomize`` when it starts, so worker processes and programs that tests start lack the same.
"""

import builtins
import os
import signal
import sys
from pathlib import Path

HIDDEN = (
    (os, "memfd_create"),
    (os, "pidfd_open"),
    (os, "sched_getaffinity"),
    (os, "sched_setaffinity"),
    (os, "posix_fallocate"),
    (os, "fork"),
    (os, "register_at_fork"),
    (signal, "pidfd_send_signal"),
)


def hide():
    """Takes the names out of the modules of this process and lets nothing under /proc and /sys be found."""
    sys.modules["fcntl"] = None  # so that importing it fails
    for module, name in HIDDEN:
        if hasattr(module, name):
            delattr(module, name)
    for module, name in ((builtins, "open"), (os, "open"), (os, "listdir"), (os, "readlink")):
        setattr(module, name, without_proc(getattr(module, name)))
    Path.open = without_proc(Path.open, 0)


def without_proc(function, place=0):
    """The function, for which there is no /proc and no /sys."""

    def found(*arguments, **options):
        path = arguments[place] if len(arguments) > place else None
        if isinstance(path, (str, Path)) and str(path).startswith(("/proc", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return function(*arguments, **options)

    return found


hide()
