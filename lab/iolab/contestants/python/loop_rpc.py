"""A server of iolab's protocol `rpc` on one event loop: `loop_rpc.py asyncio|uvloop HOST PORT`."""

from __future__ import annotations

import asyncio
import signal
import sys
from importlib import import_module
from typing import cast

from interpreter import announce
from protocol import Session
from transports import BACKLOG


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it. work.py says why it is in this file, too."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._session = Session(compute)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if replies := self._session.receive(data):
            self._transport.write(replies)
        if self._session.is_over:
            self._transport.close()

    def pause_writing(self) -> None:
        # Unread replies must not pile up here.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()


async def serve(host: str, port: str) -> None:
    """Listens, prints the ready line, and serves until SIGTERM."""
    loop = asyncio.get_running_loop()
    is_to_end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, is_to_end.set)
    server = await loop.create_server(Server, host, int(port), backlog=BACKLOG)
    announce(["{}:{}".format(*listener.getsockname()) for listener in server.sockets])
    await is_to_end.wait()


if __name__ == "__main__":
    _, library, *where = sys.argv
    import_module(library).run(serve(*where))
