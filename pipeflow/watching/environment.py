"""The environment variables PIPEFLOW_TRACE=trace.json, PIPEFLOW_METRICS_PORT=9100, PIPEFLOW_TOP=1, and that of OpenTelemetry."""

import atexit
import os
import socket
import threading
import warnings
from typing import Any

from pipeflow.executor.trace import Trace
from pipeflow.watching import PORT, TELEMETRY, TOP, TRACE, attaching
from pipeflow.watching.metrics import Numbered, exposition
from pipeflow.watching.perfetto import write
from pipeflow.watching.telemetry import Instruments, instruments

PATIENCE = 1.0  # the most seconds in which a client must send its request
HEAD = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {size}\r\n\r\n"

_traces: dict[str, Trace] = {}  # by the path they are written to
_servers: "dict[tuple[str, str], Server | None]" = {}  # by variable and value; None: the address was in use
_telemetry: "dict[str, Instruments | None]" = {}  # by address; None: OpenTelemetry is not installed


def watch(executor: Any) -> None:
    """Traces an executor and serves its metrics, if the environment has the variables for it."""
    path = os.environ.get(TRACE)
    if path:
        if path not in _traces:
            _traces[path] = Trace()
            atexit.register(write, _traces[path], path)
        _traces[path].over(executor)
    address = os.environ.get(TELEMETRY)
    if address:
        if address not in _telemetry:
            _telemetry[address] = instruments()
        found = _telemetry[address]
        if found is not None:
            found.add(executor)
    for variable, opened in ((PORT, _at_port), (TOP, _at_file)):
        value = os.environ.get(variable)
        if not value:
            continue
        if (variable, value) not in _servers:
            try:
                _servers[variable, value] = Server(opened(value))
            except (OSError, ValueError) as error:
                warnings.warn(f"{variable}={value}: metrics are not served: {error}", stacklevel=2)
                _servers[variable, value] = None
        server = _servers[variable, value]
        if server is not None:
            server.add(executor)


def _at_port(port: str) -> socket.socket:
    host, _, number = port.rpartition(":")
    return socket.create_server((host or "127.0.0.1", int(number)))


def _at_file(_value: str) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no sockets in files; use PIPEFLOW_METRICS_PORT")
    atexit.register(attaching.ended)
    return attaching.listening()


class Server:
    """Answers every request with the metrics of all executors that still exist."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._executors = Numbered()
        threading.Thread(target=self._listen, name="pipeflow-metrics", daemon=True).start()

    def add(self, executor: Any) -> None:
        """Serves one more executor, under the next number."""
        self._executors.add(executor)

    @property
    def port(self) -> int:
        """The port of the server."""
        number: int = self._socket.getsockname()[1]
        return number

    def close(self) -> None:
        """Stops answering requests."""
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
                    text = exposition(self._executors.items()).encode()
                    client.sendall(HEAD.format(size=len(text)).encode() + text)
            except OSError:
                continue  # this client has closed the connection
