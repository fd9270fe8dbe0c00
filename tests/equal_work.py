"""Checks that a registered server does the engine's work: the same bytes in each of its protocols, and a clean end.

It shares no code with the load generator, so the two cannot share a bug.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from conftest import PATIENCE_S, wait_until
from iolab.measure import contestants, pythons, registered
from iolab.measure.registered import Absent, Registered
from iolab.plan import registry
from iolab.plan.registry import Listed, Registry
from iolab.plan.settings import Cell
from iolab.work import compute

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNKNOWN = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOT_HTTP = b"hello\r\n\r\n"
# The engine's head has 116 bytes. docs/protocols.md: a reply a third longer is not equal work.
HEAD_BYTES_MAX = 116 * 4 // 3
# What a web server may lack if its library does.
KEEP_ALIVE, PATHS, REFUSAL = "keep-alive", "paths", "refusal"

MESSAGE_BYTES_MAX = LINE_BYTES_MAX = 4_096
CALLS = 1_000


class Reply(NamedTuple):
    """An HTTP reply; field names in lower case."""

    status: int
    fields: dict[str, str]
    body: bytes
    head_bytes: int


class Client:
    """A connection, and bytes received ahead of need."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._socket.sendall(piece)

    def exactly(self, length: int) -> bytes:
        """The next bytes; fewer at the end of the stream."""
        while len(self._received) < length and (received := self._socket.recv(1 << 16)):
            self._received += received
        found, self._received = self._received[:length], self._received[length:]
        return found

    def has_ended(self) -> bool:
        """Whether the server closes the connection without sending more."""
        return self.exactly(1) == b""

    def reply(self, *, has_body: bool = True) -> Reply:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.exactly(1)
            assert byte, f"the connection ended within a head: {head!r}"
            head += byte
        status, *lines = head.decode().split("\r\n")[:-2]
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = self.exactly(int(fields.get("content-length", 0))) if has_body else b""
        return Reply(int(status.split()[1]), fields, body, len(head))


def pieces(message: bytes, random: Random) -> list[bytes]:
    """The message, cut at up to four random places."""
    cuts = sorted(random.randrange(len(message) + 1) for _ in range(random.randrange(5)))
    return [message[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(message)], strict=True)]


def check_http(address: str, reply_bytes: int, lacks: Set[str]) -> None:
    with Client(address) as client:
        for _ in range(1 if KEEP_ALIVE in lacks else 3):
            client.send(*pieces(GET, Random(reply_bytes)))
            check_page(client.reply(), reply_bytes)
        if KEEP_ALIVE in lacks:
            assert client.has_ended()
            return
        client.send(GET * 3)
        for _ in range(3):
            check_page(client.reply(), reply_bytes)
        client.send(HEAD)
        reply = client.reply(has_body=False)
        assert (reply.status, reply.fields.get("content-length")) == (200, str(reply_bytes))
        if PATHS not in lacks:
            client.send(UNKNOWN)
            assert client.reply().status == 404
        # Nothing of the earlier replies is left on the connection.
        client.send(GET)
        check_page(client.reply(), reply_bytes)
    if REFUSAL not in lacks:
        with Client(address) as client:
            client.send(NOT_HTTP)
            assert client.reply().status == 400


def check_page(reply: Reply, reply_bytes: int) -> None:
    assert (reply.status, reply.body) == (200, b"x" * reply_bytes)
    assert {"server", "date"} <= set(reply.fields)
    assert (reply.fields.get("content-type"), reply.fields.get("content-length")) == ("text/plain", str(reply_bytes))
    assert reply.head_bytes <= HEAD_BYTES_MAX


def check_echo(address: str) -> None:
    random = Random(1)
    with Client(address) as client, Client(address) as other:
        for length in (1, 64, MESSAGE_BYTES_MAX, *(random.randrange(1, MESSAGE_BYTES_MAX) for _ in range(20))):
            messages = [random.randbytes(length), random.randbytes(length)]
            client.send(*pieces(messages[0], random))
            other.send(*pieces(messages[1], random))
            assert [client.exactly(length), other.exactly(length)] == messages


def check_line(address: str) -> None:
    random = Random(2)
    with Client(address) as client:
        for _ in range(20):
            lengths = (1, 2, 12, LINE_BYTES_MAX, random.randrange(1, LINE_BYTES_MAX))
            lines = b"".join(random.randbytes(length - 1).replace(b"\n", b"\r") + b"\n" for length in lengths)
            client.send(*pieces(lines, random))
            assert client.exactly(len(lines)) == lines
        client.send(b"before\n" + b"y" * LINE_BYTES_MAX)
        refusal = b"before\nerror: a line has at most 4096 bytes\n"
        assert client.exactly(len(refusal)) == refusal
        assert client.has_ended()


def check_rpc(address: str) -> None:
    random = Random(3)
    with Client(address) as client:
        for _ in range(CALLS):
            target, length = random.randrange(2_000), random.choice((0, 11, random.randrange(200)))
            text = "".join(random.choices("abcXYZ019-_", k=length))
            client.send(*pieces(frame(f'{{"target": {target}, "text": "{text}"}}'.encode()), random))
            expected = frame(f'{{"answer": {compute(target)}, "text": "{text}"}}'.encode())
            assert client.exactly(len(expected)) == expected
    for sent, why in REFUSED_CALLS:
        with Client(address) as client:
            client.send(sent)
            refusal = frame(f'{{"error": "{why}"}}'.encode())
            assert client.exactly(len(refusal)) == refusal, sent[:60]
            assert client.has_ended()


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload


BAD_LENGTH = "a request has 1 to 1048576 bytes"
BAD_REQUEST = "a request is an object of target, a whole number, and text, a string"
BAD_TARGET = "target is 10000000 at most"
# Calls that every server refuses, with the error of each.
REFUSED_CALLS = (
    (b"\0\0\0\0", BAD_LENGTH),
    (b"\0\x10\0\1", BAD_LENGTH),
    (b"\xff\xff\xff\xff", BAD_LENGTH),
    (frame(b"{"), BAD_REQUEST),
    (frame(b"[]"), BAD_REQUEST),
    (frame(b"7"), BAD_REQUEST),
    (frame(b'[["target", 1], ["text", "a"]]'), BAD_REQUEST),
    (frame(b"[" * 100_000), BAD_REQUEST),
    (frame(b'{"target": 1, "text": "\xff"}'), BAD_REQUEST),
    (frame(b'{"target": 1, "text": "\n"}'), BAD_REQUEST),
    (frame('{"target": 1, "text": "a"}'.encode("utf-16")), BAD_REQUEST),
    (frame(b'{"target": 1}'), BAD_REQUEST),
    (frame(b'{"target": 1, "text": "a", "more": 2}'), BAD_REQUEST),
    (frame(b'{"target": 1, "text": "a", "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 1, "target": 1, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": "1", "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": true, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 1.0, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 1e1, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": -1, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": -0, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": NaN, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 4294967296, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 1, "text": 1}'), BAD_REQUEST),
    (frame(b'{"Target": 1, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": null, "target": 1, "text": "a"}'), BAD_REQUEST),
    (frame(b'{"target": 1, "text": "a"} {}'), BAD_REQUEST),
    (frame(b'{"target": 10000001, "text": "a"}'), BAD_TARGET),
)


def settings_of(listed: Listed, protocol: str, **workload: int) -> Iterator[dict[str, Any]]:
    """The workloads to test a server with."""
    sizes = (1, 161, 4_000) if protocol == "http" and "reply_bytes" in listed.entry.settings else (None,)
    for size in sizes:
        yield {"protocol": protocol} | workload | ({} if size is None else {"reply_bytes": size})


def check(text: str, known: Registry, lacks: Set[str] = frozenset()) -> None:
    """Checks that a contestant replies as the engine does in all its protocols, and ends with its children."""
    server = prepared(known[text.partition("[")[0]])
    checks: dict[str, Callable[[str], None]] = {"echo": check_echo, "line": check_line, "rpc": check_rpc}
    for protocol in server.listed.entry.protocols:
        for workload in settings_of(server.listed, protocol):
            with running(text, server, workload) as address:
                if protocol == "http":
                    check_http(address, workload.get("reply_bytes", 1), lacks)
                else:
                    checks[protocol](address)
    check_end(text, server)


def prepared(listed: Listed) -> Registered:
    """The server, ready to start; skips the test if it is not installed."""
    name, entry = listed.name, listed.entry
    if entry.build[:1] == ("cargo",) and registered.must_be_built(listed):
        pytest.skip(f"{name} takes minutes to build: iolab vs epoll {name} --protocol {entry.protocols[0]} builds it")
    if why := pythons.why_not(None, entry.packages, entry.install):
        pytest.skip(f"{name}: {why}")
    try:
        return registered.prepare(listed)
    except Absent as absent:
        pytest.skip(f"{name}: {absent}")


@contextlib.contextmanager
def running(text: str, server: Registered, workload: dict[str, Any]) -> Iterator[str]:
    """Runs a contestant as the lab does; yields its address."""
    cell = Cell.model_validate({"contestant": text, "workload": workload, "trial": {"start_ms": 120_000}})
    assert registry.refusal(server.listed, cell) == ""
    started = contestants.start(cell, None, {server.listed.name: server})
    try:
        yield started.addresses[0]
    finally:
        started.stop()


def check_end(text: str, server: Registered) -> None:
    """Checks that SIGTERM to the first process ends it and its workers, without a supervisor."""
    takes = server.listed.entry.settings
    workers = {"workers": 2} if "workers" in takes else {}
    kind = {"worker_kind": "process"} if "worker_kind" in takes else {}
    workload = {"protocol": server.listed.entry.protocols[0]}
    cell = Cell.model_validate({"contestant": text, "workload": workload, "server": workers | kind})
    assert registry.refusal(server.listed, cell) == ""
    (port,) = contestants.free_ports(1)
    with tempfile.TemporaryDirectory() as scratch:
        command = server.command(cell, "127.0.0.1", port, Path(scratch))
        process = subprocess.Popen(
            command.argv,
            env=os.environ | command.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until(lambda: accepts(port), f"{text} accepts a connection")
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            wait_until(lambda: not session(process.pid), f"all processes of {text} end")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)


def accepts(port: int) -> bool:
    """Whether the port accepts a connection."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
        return True
    return False


def session(leader: int) -> list[int]:
    """The running processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of, *_ = path.read_text().rpartition(")")[2].split()
            if int(of) == leader and state not in "ZX":
                found.append(int(path.parent.name))
    return found
