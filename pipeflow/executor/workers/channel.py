"""Small messages, some with descriptors, over one socket between this process and a worker.

Messages are plain tuples. The senders keep them small (large ones go into shared memory), and no more
than a few are sent to one worker at a time. So a send never blocks, and the two sides cannot wait for each other.
"""

import pickle
import socket
import struct
from collections import deque
from typing import Any

_HEADER = struct.Struct("=II")  # length of the message, number of descriptors that came with it
_ROOM = socket.CMSG_SPACE(32 * 4) if hasattr(socket, "CMSG_SPACE") else 0  # for up to 32 descriptors
_READ = 1 << 16
_KEEP_FROM_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Channel:
    """One end of the socket; `receive` waits for bytes and returns the complete messages."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: tuple[Any, ...], descriptors: tuple[int, ...] = ()) -> None:
        data = pickle.dumps(tuple(message), pickle.HIGHEST_PROTOCOL)  # a named tuple would name its class each time
        data = _HEADER.pack(len(data), len(descriptors)) + data
        sent = socket.send_fds(self.socket, [data], descriptors) if descriptors else self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def receive(self) -> list[tuple[tuple[Any, ...], list[int]]] | None:
        """The messages that arrived, each with its descriptors; None if the other side has ended."""
        try:
            data, extra, _, _ = self.socket.recvmsg(_READ, _ROOM, _KEEP_FROM_CHILDREN)
        except ConnectionResetError:
            return None
        for _, _, descriptors in extra:
            self._descriptors.extend(memoryview(descriptors).cast("i"))
        if not data:
            return None
        self._buffer += data
        messages = []
        while len(self._buffer) >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if len(self._buffer) < end:
                break
            message = pickle.loads(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            messages.append((message, [self._descriptors.popleft() for _ in range(count)]))
        return messages

    def close(self) -> None:
        self.socket.close()
