"""Servers on asyncio's streams: `asyncio_server.py http|echo|line HOST PORT WORKERS REPLY_BYTES`.

asyncio has no HTTP server, so this file has a small one: one page, and a proper error for everything else.
"""

import asyncio
import re
import sys
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import partial

from workers import spread

BACKLOG = 4096
RECEIVE_BYTES = 65_536
LINE_BYTES_MAX = 4_096
HEAD_BYTES_MAX = 16_384
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 501: "Not Implemented"}
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST = re.compile(rb"(" + TOKEN + rb") (\S+) HTTP/1\.([01])\r\n((?:" + TOKEN + rb":[^\r\n]*\r\n)*)\r\n")
HOST = re.compile(rb"^host:", re.IGNORECASE | re.MULTILINE)
CODING = re.compile(rb"^transfer-encoding:", re.IGNORECASE | re.MULTILINE)
LENGTH = re.compile(rb"^content-length:[ \t]*(\S*)", re.IGNORECASE | re.MULTILINE)
NUMBER = re.compile(rb"\d{1,18}")
CLOSE = re.compile(rb"^connection:[ \t]*close", re.IGNORECASE | re.MULTILINE)

Converse = Callable[[StreamReader, StreamWriter], Awaitable[None]]


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    while received := await reader.read(RECEIVE_BYTES):
        writer.write(received)
        await writer.drain()


async def line(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while True:
            writer.write(await reader.readuntil(b"\n"))
            await writer.drain()
    except LimitOverrunError:
        writer.write(b"error: a line has at most %d bytes\n" % LINE_BYTES_MAX)


async def http(body: bytes, reader: StreamReader, writer: StreamWriter) -> None:
    is_last = False
    while not is_last:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except LimitOverrunError:
            head = b""
        status, body_bytes, is_last = judged(head)
        while body_bytes and (dropped := await reader.read(body_bytes)):
            body_bytes -= len(dropped)
        content = body if status == 200 else b""
        reply = reply_head(status, len(content), is_last=is_last)
        writer.write(reply if head.startswith(b"HEAD ") else reply + content)
        await writer.drain()


def judged(head: bytes) -> tuple[int, int, bool]:
    """The status that answers a request, the length of the request's body, and whether the connection ends."""
    request = REQUEST.fullmatch(head)
    if request is None:
        return 400, 0, True
    _, target, minor, fields = request.groups()
    length = LENGTH.search(fields)
    if (minor == b"1" and not HOST.search(fields)) or (length and not NUMBER.fullmatch(length[1])):
        return 400, 0, True
    if CODING.search(fields):
        return 501, 0, True
    is_last = minor == b"0" or CLOSE.search(fields) is not None
    return 200 if target == b"/" else 404, int(length[1]) if length else 0, is_last


def reply_head(status: int, length: int, *, is_last: bool) -> bytes:
    """The head has the fields that the engine's servers send."""
    fields = (
        f"HTTP/1.1 {status} {REASONS[status]}",
        "Server: asyncio",
        f"Date: {formatdate(usegmt=True)}",
        "Content-Type: text/plain",
        f"Content-Length: {length}",
        *(["Connection: close"] if is_last else []),
    )
    return "\r\n".join((*fields, "", "")).encode()


async def converse(hold: Converse, reader: StreamReader, writer: StreamWriter) -> None:
    """Serves a connection to its end. A closed connection affects no other."""
    try:
        await hold(reader, writer)
    except (ConnectionError, IncompleteReadError):
        pass
    finally:
        writer.close()


async def serve(host: str, port: int, hold: Converse, limit: int) -> None:
    listener = await asyncio.start_server(
        partial(converse, hold), host, port, limit=limit, backlog=BACKLOG, reuse_port=True
    )
    await listener.serve_forever()


def main(protocol: str, host: str, port: str, workers: str, reply_bytes: str) -> None:
    holds: dict[str, Converse] = {"echo": echo, "line": line, "http": partial(http, b"x" * int(reply_bytes))}
    limit = {"echo": RECEIVE_BYTES, "line": LINE_BYTES_MAX - 1, "http": HEAD_BYTES_MAX}[protocol]
    spread(int(workers), lambda: asyncio.run(serve(host, int(port), holds[protocol], limit)))


main(*sys.argv[1:])
