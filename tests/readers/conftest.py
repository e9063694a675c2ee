"""A server of files for tests of readers."""

import queue
import threading

import pytest
from readers.file_server import Handler, Quiet

from pipeflow.operators.readers import remote
from pipeflow.operators.readers.hedges import Hedges
from pipeflow.operators.readers.view import OUTSIDE


@pytest.fixture
def server(monkeypatch):
    """A server of files on this machine."""
    made = Quiet(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.meeting, made.closed = None, queue.Queue()
    made.files, made.faults, made.requests, made.gives_parts, made.sums = {}, [], [], True, False
    made.heads, made.versions = True, True
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setattr(remote, "PAUSE", 0)
    monkeypatch.setattr(OUTSIDE, "known", {})
    monkeypatch.setattr(remote, "_hedges", Hedges())
    yield made
    remote.close_connections()
    made.shutdown()
    thread.join()
    made.server_close()
