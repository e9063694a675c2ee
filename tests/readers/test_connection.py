"""A connection to a server of http: every form of an answer, and every way in which it may be broken."""

import socket
import threading

import pytest

from pipeflow.operators.readers.connection import BrokenAnswer, Connection

OK = b"HTTP/1.1 200 OK\r\n"
FORMS = {
    "with its length": (OK + b"Content-Length: 3\r\n\r\nabc", b"abc", True),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b"", True),
    "up to the end": (OK + b"\r\nabc", b"abc", False),
    "and closed": (OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc", b"abc", False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", False),
    "in chunks": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nB;x=y\r\ncdefghijklm\r\n0\r\nx: y\r\n\r\n",
        b"abcdefghijklm",
        True,
    ),
    "after another": (b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc", b"abc", True),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
    "with long headers": (OK + b"x: " + b"y" * 30_000 + b"\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
}
BROKEN = {
    "nothing": (b"", "closed the connection before its answer was complete"),
    "half of the headers": (OK + b"Content-Le", "closed the connection before"),
    "something else": (b"220 mail server\r\n\r\n", "'220 mail server', which is not http"),
    "half of the body": (OK + b"Content-Length: 5\r\n\r\nabc", "ended after 3 of 5 bytes"),
    "more than the body": (OK + b"Content-Length: 2\r\n\r\nabc", "a length of '2' and has sent 3 bytes"),
    "no number": (OK + b"Content-Length: -1\r\n\r\nabc", "a length of '-1'"),
    "a number without end": (OK + b"Content-Length: " + b"9" * 99 + b"\r\n\r\n", "a length of '9999"),
    "more than the memory": (OK + b"Content-Length: 999999999999999\r\n\r\n", "for which there is no memory"),
    "headers without end": (OK + b"x: " + b"y" * 70_000, "longer than 65536 bytes"),
    "chunks that end early": (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", "before its last part"),
    "chunks without lengths": (OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "a length of b'xyz'"),
    "chunks of less than nothing": (OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", "a length of b'-5'"),
}


def answered(data, pieces=1, target="/a"):
    """A connection, its answer, and the request, for a server that sends these bytes and closes."""
    here, there = socket.socketpair()
    connection = Connection("http", "host:81", 5)
    connection.sock = here

    def serve():
        requests.append(there.recv(10_000))
        for number in range(pieces):
            there.sendall(data[len(data) * number // pieces : len(data) * (number + 1) // pieces])
        there.close()

    requests = []
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return connection, connection.get(target, "bytes=0-1"), requests
    finally:
        thread.join()
        here.close()


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_answer(form, pieces):
    """The same body, however it comes; the connection is kept where another answer may follow."""
    data, body, reusable = FORMS[form]
    connection, answer, requests = answered(data, pieces)
    assert bytes(answer.body) == body
    assert connection.reusable == reusable
    assert requests[0].startswith(b"GET /a HTTP/1.1\r\nHost: host:81\r\n")
    assert b"\r\nRange: bytes=0-1\r\n" in requests[0]


@pytest.mark.parametrize("broken", BROKEN)
def test_every_broken_answer_is_named(broken):
    """None is taken for a body."""
    data, message = BROKEN[broken]
    with pytest.raises(BrokenAnswer, match=message):
        answered(data)


def test_a_path_cannot_add_headers():
    """Spaces, line ends and letters beyond ASCII are quoted."""
    _, _, requests = answered(FORMS["empty"][0], target="/a b\r\nX: y/\u00e9%20?q=1")
    assert requests[0].split(b"\r\n")[0] == b"GET /a%20b%0D%0AX:%20y/%C3%A9%20?q=1 HTTP/1.1"


def test_headers_of_the_same_name_are_joined():
    """As if they were one, in small letters."""
    _, answer, _ = answered(OK + b"X-Goog-Hash: crc32c=a\r\nx-goog-hash: md5=b\r\nContent-Length: 0\r\n\r\n")
    assert answer.headers["x-goog-hash"] == "crc32c=a, md5=b"
    assert (answer.status, answer.reason) == (200, "OK")


def test_a_server_that_says_nothing_is_an_error_in_time():
    """After the time limit of the connection, which the kernel keeps."""
    listening = socket.create_server(("127.0.0.1", 0))
    connection = Connection("http", f"127.0.0.1:{listening.getsockname()[1]}", 0.05)
    connection.connect()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s|timed out"):
        connection.get("/a")
    connection.close()
    listening.close()
