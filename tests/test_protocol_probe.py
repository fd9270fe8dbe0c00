"""The protocol of a server: the requested one, another one, or none that is known."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from iolab.contract.types import WORKLOADS, Workload
from iolab.measure import protocol_probe

Answer = Callable[[bytes], bytes]


def http(sent: bytes) -> bytes:
    """Replies to a complete head, and to nothing less."""
    if b"\r\n\r\n" not in sent:
        return b""
    return b"HTTP/1.1 200 OK\r\n\r\n" if sent.startswith(b"GET ") else b"HTTP/1.1 400 Bad Request\r\n\r\n"


def echo(sent: bytes) -> bytes:
    return sent


def line(sent: bytes) -> bytes:
    return sent[: sent.rfind(b"\n") + 1]


def crlf(sent: bytes) -> bytes:
    return sent[: sent.rfind(b"\r\n") + 2] if b"\r\n" in sent else b""


def prefix(sent: bytes) -> bytes:
    whole = len(sent) >= 2 and len(sent) - 2 >= int.from_bytes(sent[:2])
    return sent[: 2 + int.from_bytes(sent[:2])] if whole else b""


def rpc(sent: bytes) -> bytes:
    frame = b'{"answer": 0, "text": "hello"}' if b'"target"' in sent else b'{"error": "what?"}'
    return len(frame).to_bytes(4) + frame if sent[:1] == b"\0" and len(sent) > 8 else b""


def tls(sent: bytes) -> bytes:
    return b"\x16\x03\x03\0\x50\2" if sent[:1] == b"\x16" else b"\x15\x03\x01\0\2\2\x16" if sent else b""


def https(sent: bytes) -> bytes:
    """Replies as Go does."""
    if sent[:1] == b"\x16":
        return b"\x16\x03\x03\0\x50\2"
    return b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n" if http(sent) else b""


def nginx_tls(sent: bytes) -> bytes:
    page = (
        b"<center><h1>400 Bad Request</h1></center>\r\n<center>The plain HTTP request was sent to HTTPS port</center>"
    )
    return b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n" + page if http(sent) else tls(sent)


def apache(sent: bytes) -> bytes:
    """Plain HTTP, with TLS mentioned in the head and the page."""
    head = b"HTTP/1.1 200 OK\r\nServer: Apache/2.4 (Unix) OpenSSL/3.0\r\n\r\n"
    return head + b"How to send an HTTP request to an HTTPS server" if http(sent) else b""


def mail(sent: bytes) -> bytes:
    return b"220 mail ready\r\n"


def shout(sent: bytes) -> bytes:
    return sent.upper()


def silent(sent: bytes) -> bytes:
    return b""


def workload(protocol: str, **settings: Any) -> Workload:
    return WORKLOADS[protocol](**settings)


@pytest.mark.parametrize(
    ("server", "asked", "kind", "message", "flags"),
    [
        (http, workload("echo"), "speaks_http", "speaks HTTP, not echo", ": use --protocol http"),
        (http, workload("line"), "speaks_http", "speaks HTTP, not line", ": use --protocol http"),
        (http, workload("rpc"), "speaks_http", "speaks HTTP, not rpc", ": use --protocol http"),
        (echo, workload("http"), "speaks_echo", "speaks echo, not HTTP", ": use --protocol echo"),
        (echo, workload("rpc"), "speaks_echo", "speaks echo, not rpc", ": use --protocol echo"),
        (line, workload("echo"), "speaks_line", "speaks line, not echo", ": use --protocol line"),
        (
            crlf,
            workload("echo"),
            "speaks_crlf",
            "speaks echo with framing crlf, not echo",
            ": use --protocol echo --framing crlf",
        ),
        (
            prefix,
            workload("echo", framing="crlf"),
            "speaks_prefix",
            "speaks echo with framing prefix, not echo with framing crlf",
            ": use --protocol echo --framing prefix",
        ),
        (rpc, workload("http"), "speaks_rpc", "speaks rpc, not HTTP", ": use --protocol rpc"),
        (tls, workload("http"), "speaks_tls", "speaks TLS, not HTTP", ": start it without TLS, "),
        (https, workload("http"), "speaks_tls", "speaks TLS, not HTTP", ": start it without TLS, "),
        (nginx_tls, workload("http"), "speaks_tls", "speaks TLS, not HTTP", ": start it without TLS, "),
        (https, workload("echo"), "speaks_tls", "speaks TLS, not echo", ": start it without TLS, "),
        (mail, workload("http"), "speaks_first", "sends '220 mail ready\\r\\n' before it is asked", ""),
        (shout, workload("echo", message_bytes=2), "speaks_other", "answers 'XX', which is not echo", ""),
        (silent, workload("http"), "silent", "did not answer one request of HTTP in 3 s", ""),
    ],
)
def test_a_server_that_speaks_another_protocol_is_known_by_its_answers(
    server: Answer, asked: Workload, kind: str, message: str, flags: str
) -> None:
    waits: list[float] = []

    def exchange(sent: bytes, wait_s: float) -> bytes:
        waits.append(wait_s)
        return server(sent)

    seen = protocol_probe.judged(protocol_probe.request(asked), asked, exchange)
    assert seen is not None
    assert seen.kind == kind
    assert message in seen.message
    assert protocol_probe.remedy(kind, as_flags=True).startswith(flags)
    assert sum(waits) <= 8.5, "it takes seconds at most, whatever the server does"


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        (http, workload("http")),
        (apache, workload("http")),
        (http, workload("http", method="POST", body="x", target="/a", headers=(("A", "b"),))),
        (echo, workload("echo")),
        (echo, workload("line")),
        (line, workload("line")),
        (crlf, workload("echo", framing="crlf")),
        (prefix, workload("echo", framing="prefix")),
        (rpc, workload("rpc")),
        # Slower than any probe: left to the generator, which waits longer.
        (lambda sent: None, workload("http")),
    ],
)
def test_a_server_that_answers_as_it_is_asked_gets_one_request(server: Answer, asked: Workload) -> None:
    sent: list[bytes] = []

    def exchange(request: bytes, wait_s: float) -> bytes | None:
        sent.append(request)
        return server(request)

    assert protocol_probe.judged(protocol_probe.request(asked), asked, exchange) is None
    assert sent == [protocol_probe.request(asked)]


@pytest.mark.parametrize(
    ("server", "asked"), [(http, workload("http")), (line, workload("line")), (echo, workload("echo"))]
)
@pytest.mark.parametrize(
    ("unanswered", "requests"),
    # The second request waits long enough. If even that is too short, the requested protocol is found among all probes,
    # so there is no mismatch.
    [(1, 2), (2, None)],
)
def test_a_server_that_is_slow_to_answer_at_first_is_no_mismatch(
    server: Answer, asked: Workload, unanswered: int, requests: int | None
) -> None:
    waits: list[float] = []

    def exchange(sent: bytes, wait_s: float) -> bytes:
        waits.append(wait_s)
        return server(sent) if len(waits) > unanswered else b""

    assert protocol_probe.judged(protocol_probe.request(asked), asked, exchange) is None
    assert waits[:2] == [protocol_probe.ASKED_S, protocol_probe.PATIENCE_S]
    assert requests in (None, len(waits))


def test_a_message_too_large_to_try_is_left_to_the_generator() -> None:
    assert protocol_probe.mismatch("127.0.0.1:1", workload("echo", message_bytes=1 << 24)) is None


def test_a_key_of_an_experiment_is_written_as_toml() -> None:
    assert protocol_probe.remedy("speaks_crlf", as_flags=False) == ': use protocol = "echo" and framing = "crlf"'


@contextmanager
def listening(answer: Answer, at: socket.socket) -> Iterator[None]:
    """A server that replies once per connection."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = at.accept()
                with connection, suppress(OSError):
                    connection.sendall(answer(connection.recv(1 << 16)))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        at.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_it_is_asked_over_every_kind_of_address(tmp_path: Path) -> None:
    path = tmp_path / "s"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    unix.listen()
    tcp = socket.create_server(("127.0.0.1", 0))
    for at, connect in ((unix, f"unix:{path}"), (tcp, f"127.0.0.1:{tcp.getsockname()[1]}")):
        with at, listening(http, at):
            # No timeout matters here: every reply and every close comes at once.
            assert protocol_probe.exchange(connect, b"GET / HTTP/1.1\r\n\r\n", 30) == b"HTTP/1.1 200 OK\r\n\r\n"
            assert protocol_probe.mismatch(connect, workload("http")) is None
            seen = protocol_probe.mismatch(connect, workload("echo"))
            assert seen is not None
            assert seen.kind == "speaks_http"
        assert protocol_probe.exchange(connect, b"x", 0.1) is None, "no one listens any more"
