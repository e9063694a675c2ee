"""A server of files on this machine, which fails when a test says so."""

import base64
import contextlib
import hashlib
import http.server
import socket
from urllib.parse import urlsplit

FAULTS = ["reset", "short", 500, 502, 503, 504, 429, 408]


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives the files of its server, and the faults that wait there first."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for headers and body

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        server = self.server
        path = urlsplit(self.path).path
        server.requests.append((path, "HEAD"))
        if not server.heads or path not in server.files:
            self._reply(405, b"", {})
            return
        data = server.files[path]
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"'} if server.versions else {}
        self._reply(200, data, headers, 0)

    def do_GET(self):
        server = self.server
        path = urlsplit(self.path).path
        server.requests.append((path, self.headers.get("Range")))
        fault = server.faults.pop(0) if server.faults else None
        if server.meeting is not None:
            server.meeting.wait()
        if fault == "reset":
            self._hang_up()
            return
        if isinstance(fault, int):
            self._reply(fault, b"no", {})
            return
        if path.startswith("/moved/"):
            self._reply(302, b"", {"Location": "/" + path[7:]})
            return
        if path not in server.files:
            self._reply(404, b"", {})
            return
        data = server.files[path]
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"'} if server.versions else {}
        status, part = 200, data
        wanted = self.headers.get("Range")
        if wanted and server.gives_parts:
            first, last = map(int, wanted[6:].split("-"))
            if first >= len(data):
                self._reply(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
                return
            status, part = 206, data[first : last + 1]
            headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        if server.sums:
            headers["Content-MD5"] = base64.b64encode(hashlib.md5(part).digest()).decode()
        if fault == "wrong":
            part = bytes(x ^ 1 for x in part)
        if fault == "slow":
            self._reply(status, part, headers, len(part) // 2, slow=True)
            return
        self._reply(status, part, headers, len(part) // 2 if fault == "short" else None)

    def _reply(self, status, body, headers, sent=None, slow=False):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if sent is None else body[:sent])
        if sent is not None and self.command == "GET":
            self.wfile.flush()
            if slow:  # the rest never comes; what does come is the end of the connection
                self.server.closed.put(self.connection.recv(1))
            self._hang_up()

    def _hang_up(self):
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client may have closed it
            self.connection.shutdown(socket.SHUT_RDWR)


class Quiet(http.server.ThreadingHTTPServer):
    request_queue_size = 1024  # connections that wait to be accepted

    def handle_error(self, *_):
        pass
