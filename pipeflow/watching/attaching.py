"""The sockets of running programs that ``pipeflow top`` reads: their paths, and the request for metrics."""

import os
import socket
import tempfile
from pathlib import Path

from pipeflow import system
from pipeflow.errors import InvalidState

PATIENCE = 5.0  # seconds


def folder() -> Path:
    """The folder of this user's sockets; an error if another user could have written to it."""
    return system.private_folder(Path(tempfile.gettempdir()) / f"pipeflow-top-{system.user()}")


def _file(process: int) -> Path:
    return folder() / f"{process}.sock"


def listening() -> socket.socket:
    """A socket of this process; ``ended`` removes its file."""
    path = _file(os.getpid())
    path.unlink(missing_ok=True)  # the file of an earlier process with this number
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(path))
    made.listen()
    return made


def ended() -> None:
    """Removes the file of this process's socket."""
    _file(os.getpid()).unlink(missing_ok=True)


def running() -> list[int]:
    """The numbers of the processes that can be queried; files of processes that have ended are removed."""
    found = []
    for path in sorted(folder().glob("*.sock")):
        try:
            connected(path).close()
        except ConnectionError:
            path.unlink(missing_ok=True)
        else:
            found.append(int(path.stem))
    return found


def connected(path: Path) -> socket.socket:
    """A connection to a socket."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(PATIENCE)
    try:
        made.connect(str(path))
    except OSError:
        made.close()
        raise
    return made


def metrics_of(process: int) -> str:
    """The metrics of a running program."""
    try:
        with connected(_file(process)) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    except (FileNotFoundError, ConnectionError):
        raise InvalidState(f"process {process} has ended, or was started without PIPEFLOW_TOP=1") from None
    return answer.partition(b"\r\n\r\n")[2].decode()
