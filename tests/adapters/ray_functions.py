"""Functions that travel to Ray's workers by import path."""

import os
import signal
from pathlib import Path

import numpy as np


def double(x):
    """Twice the number."""
    return x * 2


def die_once(x):
    """The number; the first worker that comes to 13 kills itself."""
    mark = Path(os.environ["PIPEFLOW_TEST_FOLDER"]) / "killed"
    if int(x) == 13 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return np.asarray(x)


def fail_twice(x):
    """The number; the first two calls with 13, in whatever process, fail as storage does that is away for a moment."""
    folder = Path(os.environ["PIPEFLOW_TEST_FOLDER"])
    if int(x) == 13:
        for mark in (folder / "failed once", folder / "failed twice"):
            if not mark.exists():
                mark.touch()
                raise OSError("the storage is away")
    return np.asarray(x)
