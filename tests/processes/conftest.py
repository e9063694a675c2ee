"""Fixtures of the tests of worker processes."""

import os
import threading

import pytest
from helpers import LONG

from pipeflow.executor.workers import dispatcher
from pipeflow.executor.workers.dispatcher import Dispatcher


@pytest.fixture
def late(tmp_path, monkeypatch):
    """The name of a pipe: once a worker process opens it to read, which waits until then, the pools look who is late."""
    monkeypatch.setattr(dispatcher, "_STACK_WAIT", LONG)
    path = tmp_path / "line"
    os.mkfifo(path)
    opened = []

    def watch():
        opened.append(os.open(path, os.O_WRONLY))
        for thread in threading.enumerate():
            if isinstance(thread, Dispatcher):
                thread.ring()

    threading.Thread(target=watch, daemon=True).start()
    yield str(path)
    for descriptor in opened:
        os.close(descriptor)
