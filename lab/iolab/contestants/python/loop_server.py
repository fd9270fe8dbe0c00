"""A server of iolab's protocol `rpc` on one event loop, for asyncio and for uvloop."""

from __future__ import annotations

import asyncio
import signal
from typing import cast

from interpreter import announce
from protocol import Compute, Session
from transports import BACKLOG


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self, compute: Compute) -> None:
        self._session = Session(compute)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if replies := self._session.receive(data):
            self._transport.write(replies)
        if self._session.is_over:
            self._transport.close()

    def pause_writing(self) -> None:
        # Replies that a client does not read must not pile up here.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()


async def serve(compute: Compute, host: str, port: str) -> None:
    """Listens, says so, and serves until SIGTERM."""
    loop = asyncio.get_running_loop()
    is_to_end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, is_to_end.set)
    server = await loop.create_server(lambda: Server(compute), host, int(port), backlog=BACKLOG)
    announce(["{}:{}".format(*listener.getsockname()) for listener in server.sockets])
    await is_to_end.wait()
