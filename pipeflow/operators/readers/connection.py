"""A connection to an HTTP server: sends one request after another, and reads each body directly into an array.

The standard library's client takes a third of a millisecond of processor time for each answer, and copies its body three times.
"""

import socket
import struct
import sys
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np

from pipeflow.errors import optional

_LONGEST_HEAD = 1 << 16  # bytes of the headers of an answer
# All printable characters: only spaces, control characters and letters beyond ASCII are quoted.
_SAFE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PORTS = {"http": 80, "https": 443}
# With a time limit in the kernel the socket blocks, and one call reads a whole body; without it Python waits before each part.
_WHOLE = socket.MSG_WAITALL if sys.platform == "linux" else 0


class BrokenAnswer(Exception):
    """An answer that is incomplete or is not HTTP."""


class Answer(NamedTuple):
    """An answer of a server; the names of its headers are in small letters."""

    status: int
    reason: str
    headers: dict[str, str]
    body: np.ndarray


class Connection:
    """A connection to a server, which is opened with the first request."""

    def __init__(self, scheme: str, host: str, timeout: float) -> None:
        self.sock: Any = None
        self.reusable = False  # True if another request may follow
        self._scheme, self._host, self._timeout = scheme, host, timeout
        self._head = bytearray(1 << 12)
        self._whole = 0

    def connect(self) -> None:
        """Opens the connection."""
        place = urlsplit(f"//{self._host}")
        address = (place.hostname or "", place.port or _PORTS[self._scheme])
        sock = socket.create_connection(address, self._timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._scheme == "https":
            sock = _encryption().wrap_socket(sock, server_hostname=place.hostname)
        elif _WHOLE:
            limit = struct.pack("@ll", *divmod(int(1e6 * self._timeout), 1_000_000))
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._whole = _WHOLE
        self.sock = sock

    def close(self) -> None:
        """Closes the connection; the next request opens it again."""
        self.reusable = False
        sock, self.sock = self.sock, None
        if sock is not None:
            sock.close()

    def get(self, target: str, part: str | None = None, method: str = "GET") -> Answer:
        """Requests a path of the server, whole or a range of its bytes. With the method HEAD it gets only the headers."""
        head = _request(self._host, target, method)
        try:
            self.sock.sendall(head + (b"\r\n" if part is None else f"Range: {part}\r\n\r\n".encode("ascii")))
            return self._answer(method == "HEAD")
        except BlockingIOError:
            raise TimeoutError(f"no answer within {self._timeout:g} s") from None

    def _answer(self, bare: bool) -> Answer:
        filled = 0
        while True:
            end, filled = self._read_head(filled)
            line, *lines = self._head[:end].decode("latin-1").split("\r\n")
            rest = bytes(self._head[end + 4 : filled])
            version, _, status = line.partition(" ")
            if not version.startswith("HTTP/1.") or not status[:3].isdigit():
                raise BrokenAnswer(f"the server answers {line[:80]!r}, which is not http")
            code = int(status[:3])
            if code >= 200:
                break
            filled = len(rest)  # bytes before the answer
            self._head[:filled] = rest
        headers: dict[str, str] = {}
        for text in lines:
            name, _, value = text.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.reusable = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        return Answer(code, status[4:], headers, np.empty(0, np.uint8) if bare else self._body(code, headers, rest))

    def _read_head(self, filled: int) -> tuple[int, int]:
        """The place where the headers end, and the number of bytes that have come."""
        end = self._head.find(b"\r\n\r\n", 0, filled)
        while end < 0:
            if filled == len(self._head):
                if filled == _LONGEST_HEAD:
                    raise BrokenAnswer(f"the headers of the answer are longer than {_LONGEST_HEAD} bytes")
                self._head += bytes(filled)
            with memoryview(self._head) as view:
                count = self.sock.recv_into(view[filled:])
            if not count:
                raise BrokenAnswer("the server closed the connection before its answer was complete")
            end = self._head.find(b"\r\n\r\n", max(0, filled - 3), filled + count)
            filled += count
        return end, filled

    def _body(self, code: int, headers: dict[str, str], rest: bytes) -> np.ndarray:
        if code in (204, 304):
            return np.empty(0, np.uint8)
        if headers.get("transfer-encoding", "identity").lower() != "identity":
            return np.frombuffer(self._in_chunks(bytearray(rest)), np.uint8)
        if "content-length" not in headers:  # the body ends with the connection
            self.reusable = False
            body = bytearray(rest)
            while data := self.sock.recv(1 << 16):
                body += data
            return np.frombuffer(body, np.uint8)
        return self._of_length(headers["content-length"], rest)

    def _of_length(self, stated: str, rest: bytes) -> np.ndarray:
        """A body whose length is stated before it."""
        if not stated.isdigit() or not stated.isascii() or len(stated) > 15 or int(stated) < len(rest):
            raise BrokenAnswer(f"the server states a length of {stated[:40]!r} and has sent {len(rest)} bytes")
        length = int(stated)
        try:
            body = np.empty(length, np.uint8)
        except MemoryError:
            raise BrokenAnswer(f"the server announces {length} bytes, for which there is no memory") from None
        done = len(rest)
        view = memoryview(body.data)
        view[:done] = rest
        while done < length:
            count = (
                self.sock.recv_into(view[done:], 0, self._whole) if self._whole else self.sock.recv_into(view[done:])
            )
            if not count:
                raise BrokenAnswer(f"the body ended after {done} of {length} bytes")
            done += count
        return body

    def _in_chunks(self, data: bytearray) -> bytearray:
        """A body in parts, each after a line with its length."""
        body = bytearray()
        while True:
            line = self._line(data).partition(b";")[0].strip()
            try:
                length = int(line, 16) if line[:1] not in b"+-" else -1
            except ValueError:
                length = -1
            if not 0 <= length < 1 << 40:
                raise BrokenAnswer(f"a part of the body has a length of {bytes(line[:40])!r}")
            if not length:
                while self._line(data):
                    pass  # headers after the body
                return body
            while len(data) < length + 2:
                self._more(data)
            body += data[:length]
            del data[: length + 2]

    def _line(self, data: bytearray) -> bytearray:
        while (end := data.find(b"\r\n")) < 0:
            if len(data) > _LONGEST_HEAD:
                raise BrokenAnswer("a line between the parts of the body does not end")
            self._more(data)
        line = data[:end]
        del data[: end + 2]
        return line

    def _more(self, data: bytearray) -> None:
        found = self.sock.recv(1 << 16)
        if not found:
            raise BrokenAnswer("the body ended before its last part")
        data += found


@lru_cache(maxsize=1024)
def _request(host: str, target: str, method: str) -> bytes:
    """A request of a path, up to the headers that differ from one request to the next."""
    path = quote(target, _SAFE)
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: pipeflow\r\nAccept-Encoding: identity\r\n"
    return head.encode("ascii")


@lru_cache(maxsize=1)
def _encryption() -> Any:
    """The settings of encrypted connections: reading the certificates of the system takes some milliseconds."""
    return optional("ssl:create_default_context", "reading https URLs", "python")()
