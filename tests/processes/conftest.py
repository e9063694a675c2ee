"""Fixtures of the tests of worker processes."""

import os
import threading

import pytest

from pipeflow.executor.workers.dispatcher import Dispatcher


@pytest.fixture
def late(tmp_path):
    """The name of a pipe for `say_late`: once something is written into it, the pools look who is late."""
    path = tmp_path / "line"
    os.mkfifo(path)

    def watch():
        path.read_text()
        for thread in threading.enumerate():
            if isinstance(thread, Dispatcher):
                thread.ring()

    threading.Thread(target=watch, daemon=True).start()
    return str(path)
