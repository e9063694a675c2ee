"""Fixtures of the tests of worker processes."""

import os
import threading

import pytest


@pytest.fixture
def late(tmp_path, clock):
    """The name of a pipe: once something is written into it, the time of whatever runs in a worker process is over."""
    path = tmp_path / "line"
    os.mkfifo(path)

    def watch():
        path.read_text()
        clock.advance(1000)

    threading.Thread(target=watch, daemon=True).start()
    return str(path)
