"""What the environment asks for: PIPEFLOW_TRACE=trace.json, and PIPEFLOW_METRICS_PORT=9100 for Prometheus."""

import atexit
import os
import socket
import threading
import warnings
import weakref
from typing import Any

from pipeflow.watching import PORT, TRACE
from pipeflow.watching.metrics import exposition
from pipeflow.watching.perfetto import write
from pipeflow.watching.trace import Trace

PATIENCE = 1.0  # seconds that a client may take to ask
HEAD = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {size}\r\n\r\n"

_traces: dict[str, Trace] = {}  # by the path they are written to
_servers: "dict[str, Server | None]" = {}  # by the port that was wanted; None: it could not be had


def watch(executor: Any) -> None:
    """Traces an executor and serves its metrics, where the environment asks for it."""
    path, port = os.environ.get(TRACE), os.environ.get(PORT)
    if path:
        if path not in _traces:
            _traces[path] = Trace()
            atexit.register(write, _traces[path], path)
        _traces[path].over(executor)
    if port:
        if port not in _servers:
            _servers[port] = _serve(port)
        server = _servers[port]
        if server is not None:
            server.add(executor)


def _serve(port: str) -> "Server | None":
    host, _, number = port.rpartition(":")
    try:
        return Server(host or "127.0.0.1", int(number))
    except (OSError, ValueError) as error:
        warnings.warn(f"{PORT}={port}: metrics are not served: {error}", stacklevel=2)
        return None


class Server:
    """Answers every request with the metrics of all executors that are still there."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_server((host, port))
        self.port: int = self._socket.getsockname()[1]
        self._executors: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._count = 0
        threading.Thread(target=self._listen, name="pipeflow-metrics", daemon=True).start()

    def add(self, executor: Any) -> None:
        """Serves one executor more, under the next number."""
        self._executors[str(self._count)] = executor
        self._count += 1

    def close(self) -> None:
        """Answers no more requests."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return  # it was closed
            try:
                with client:
                    client.settimeout(PATIENCE)
                    client.recv(4096)
                    text = exposition(sorted(self._executors.items())).encode()
                    client.sendall(HEAD.format(size=len(text)).encode() + text)
            except OSError:
                continue  # this client has gone
