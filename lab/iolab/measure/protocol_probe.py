"""Detects the protocol of a server: a few plain requests over separate connections, each with a short deadline.

The result is for a message, not for a measurement. A server that answers the requested protocol gets one request. Any
other gets a request of every other protocol, so that the message can name the one it answers.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from iolab.contract.types import EchoWorkload, HttpWorkload, LineWorkload, Workload

# How long a reply to the requested protocol may take, how long one to another, and how long the first reply of a server
# that has just started.
ASKED_S, OTHER_S, PATIENCE_S = 1.0, 0.5, 3.0
# How much of a reply identifies it, and how much of it is shown.
ENOUGH_BYTES, SHOWN_BYTES = 64, 40
# Larger requests are not sent: a server that answers before it has read a whole request could deadlock with us.
REQUEST_BYTES_MAX = 65_536

# The name of each protocol, and the settings that request it, by the kind of the failure.
NAMES = {
    "speaks_http": ("HTTP", {"protocol": "http"}),
    "speaks_echo": ("echo", {"protocol": "echo"}),
    "speaks_line": ("line", {"protocol": "line"}),
    "speaks_crlf": ("echo with framing crlf", {"protocol": "echo", "framing": "crlf"}),
    "speaks_prefix": ("echo with framing prefix", {"protocol": "echo", "framing": "prefix"}),
    "speaks_rpc": ("rpc", {"protocol": "rpc"}),
    "speaks_tls": ("TLS", {}),
}
# Phrases in the 400 of nginx, Go, Apache and Tomcat to a plain request on a TLS port.
TLS_WANTED = (
    b"plain HTTP request was sent to HTTPS port",
    b"HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
    b"combination of host and port requires TLS",
)
CALL = b'{"target": 0, "text": "hello"}'
# A request of every protocol, in the order in which they are tried, and the failure kind that an answer shows.
OTHERS = (
    ("speaks_http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("speaks_echo", b"hello"),
    ("speaks_line", b"hello\n"),
    ("speaks_crlf", b"hello\r\n"),
    ("speaks_prefix", b"\0\5hello"),
    ("speaks_rpc", len(CALL).to_bytes(4) + CALL),
)

Exchange = Callable[[bytes, float], bytes | None]


class Mismatch(NamedTuple):
    """A server does not answer the requested protocol: a word for the record, and words that follow its name."""

    kind: str
    message: str


def mismatch(connect: str, workload: Workload) -> Mismatch | None:
    """How the server at an address fails to answer the workload's protocol.

    None if it answers it or cannot be reached, or if the workload is too large to try.
    """
    sent = request(workload)
    if len(sent) > REQUEST_BYTES_MAX:
        return None
    return judged(sent, workload, lambda sent, wait_s: exchange(connect, sent, wait_s))


def judged(request: bytes, workload: Workload, exchange: Exchange) -> Mismatch | None:
    """`mismatch` with `exchange`, which sends bytes over a new connection and returns the reply."""
    reply = exchange(request, ASKED_S)
    if reply == b"":
        reply = exchange(request, PATIENCE_S)
    if reply is None or _answers(workload, request, reply):
        return None
    asked_kind = _kind_of(workload)
    asked = NAMES[asked_kind][0]
    kind = _kind(request, reply) or _other(exchange)
    if kind == asked_kind:
        return None  # it was slow and has warmed up: the generator checks its replies
    if kind:
        return Mismatch(kind, f"speaks {NAMES[kind][0]}, not {asked}")
    greeting = exchange(b"", OTHER_S)
    if greeting:
        return Mismatch("speaks_first", f"sends {_shown(greeting)} before it is asked anything, which is not {asked}")
    if reply:
        return Mismatch("speaks_other", f"answers {_shown(reply)}, which is not {asked}")
    return Mismatch("silent", f"accepts connections, and did not answer one request of {asked} in {PATIENCE_S:g} s")


def remedy(kind: str, *, as_flags: bool) -> str:
    """The flags, or keys of an experiment, that request the protocol a server speaks; empty if there are none."""
    if kind == "speaks_tls":
        return ": start it without TLS, which servers are compared without"
    _, settings = NAMES.get(kind, ("", {}))
    if not settings:
        return ""
    words = [f"--{key} {value}" if as_flags else f'{key} = "{value}"' for key, value in settings.items()]
    return f": use {' '.join(words) if as_flags else ' and '.join(words)}"


def exchange(connect: str, sent: bytes, wait_s: float) -> bytes | None:
    """Sends bytes over a new connection and returns the beginning of the reply within `wait_s`.

    None if no connection could be made.
    """
    deadline = time.monotonic() + wait_s
    received = b""
    with socket.socket(_family(connect)) as connection, suppress(OSError):
        connection.settimeout(wait_s)
        if connection.connect_ex(_address(connect)):
            return None
        connection.sendall(sent)
        while len(received) < min(ENOUGH_BYTES, len(sent) or 1) and (left_s := deadline - time.monotonic()) > 0:
            connection.settimeout(left_s)
            chunk = connection.recv(4_096)
            if not chunk:
                break
            received += chunk
    return received


def _family(connect: str) -> socket.AddressFamily:
    if connect.startswith("unix:"):
        return socket.AF_UNIX
    return socket.AF_INET6 if connect.startswith("[") else socket.AF_INET


def _address(connect: str) -> str | tuple[str, int]:
    if connect.startswith("unix:"):
        return connect.removeprefix("unix:")
    host, _, port = connect.rpartition(":")
    return host.strip("[]"), int(port)


def _kind_of(workload: Workload) -> str:
    """The failure kind for the protocol of a workload."""
    framing = workload.framing if isinstance(workload, EchoWorkload) else "raw"
    return f"speaks_{workload.protocol if framing == 'raw' else framing}"


def _other(exchange: Exchange) -> str:
    """The known protocol that a server answers; empty if it answers none."""
    for kind, sent in (*OTHERS, ("speaks_tls", _client_hello())):
        reply = exchange(sent, OTHER_S) or b""
        seen = _kind(sent, reply)
        # A server that echoes the lines of HTTP may speak line or echo: the next requests show which.
        if seen and (seen, kind) != ("speaks_echo", "speaks_http"):
            return kind if seen == "speaks_echo" else seen
    return ""


def _kind(sent: bytes, reply: bytes) -> str:
    """What a reply to a request identifies; empty if nothing."""
    if reply.startswith(b"HTTP/"):
        is_refused = reply.split(b" ", 2)[1:2] == [b"400"] and any(phrase in reply for phrase in TLS_WANTED)
        return "speaks_tls" if is_refused else "speaks_http"
    if reply and sent.startswith(reply):
        return "speaks_echo"
    # An alert, or a record that begins with a ServerHello.
    if reply[:2] == b"\x15\x03" or (reply[:2] == b"\x16\x03" and reply[5:6] == b"\2"):
        return "speaks_tls"
    return "speaks_rpc" if b'"answer"' in reply else ""


def _answers(workload: Workload, sent: bytes, reply: bytes) -> bool:
    """Whether a reply is one of the protocol, right or wrong: the generator checks the rest."""
    if isinstance(workload, HttpWorkload):
        return _kind(sent, reply) == "speaks_http"
    if isinstance(workload, EchoWorkload | LineWorkload):
        return bool(reply) and sent.startswith(reply)
    return reply[:1] == b"\0" and not sent.startswith(reply)


def request(workload: Workload) -> bytes:
    """One request of a workload."""
    if isinstance(workload, HttpWorkload):
        fields = [("Host", workload.host or "localhost"), *workload.headers]
        body = workload.body.encode()
        if body:
            fields.append(("Content-Length", str(len(body))))
        head = [f"{workload.method} {workload.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        return "\r\n".join((*head, "", "")).encode() + body
    if isinstance(workload, LineWorkload):
        return b"x" * (workload.message_bytes - 1) + b"\n"
    if isinstance(workload, EchoWorkload):
        payload = b"x" * min(workload.message_bytes, REQUEST_BYTES_MAX + 1)
        frames = {"raw": payload, "crlf": payload + b"\r\n", "prefix": len(payload).to_bytes(4)[-2:] + payload}
        return frames[workload.framing]
    call = CALL.replace(b"hello", b"x" * workload.text_bytes)
    return len(call).to_bytes(4) + call


def _client_hello() -> bytes:
    """The ClientHello of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    return sent.read()


def _shown(reply: bytes) -> str:
    """The beginning of a reply, fit for one line."""
    return repr(reply[:SHOWN_BYTES].decode(errors="replace"))
