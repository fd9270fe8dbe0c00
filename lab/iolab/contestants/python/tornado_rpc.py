"""System 3 of the note S2, Tornado: `tornado_rpc.py tcp|http HOST PORT`.

`tcp` is iolab's protocol `rpc`: the work of the other systems, with Tornado's streams. `http` works as published: a GET
for each call, with the call in its query, and JSON in the reply.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress

from interpreter import announce
from protocol import RECEIVE_BYTES, Refused, Session, checked
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.tcpserver import TCPServer
from tornado.web import Application, RequestHandler
from transports import BACKLOG


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it. work.py says why it is in this file, too."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


class Framed(TCPServer):
    """Frames of JSON over TCP."""

    async def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        stream.set_nodelay(True)
        session = Session(compute)
        with suppress(StreamClosedError):
            while not session.is_over:
                if replies := session.receive(await stream.read_bytes(RECEIVE_BYTES, partial=True)):
                    await stream.write(replies)
        stream.close()


class Call(RequestHandler):
    """`GET /?target=1000&text=hello`: the answer and the text as JSON, or the status 400 and the error."""

    async def get(self) -> None:
        digits, text = self.get_query_argument("target", ""), self.get_query_argument("text", None, strip=False)
        try:
            target = checked(int(digits) if digits.isdecimal() else None, text)
        except Refused as why:
            self.set_status(400)
            self.finish(json.dumps({"error": str(why)}))
        else:
            self.finish(json.dumps({"answer": compute(target), "text": text}))


async def main(transport: str, host: str, port: str) -> None:
    is_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_to_end.set)
    listeners = bind_sockets(int(port), host, backlog=BACKLOG)
    server = HTTPServer(Application([("/", Call)])) if transport == "http" else Framed()
    server.add_sockets(listeners)
    announce(["{}:{}".format(*listener.getsockname()) for listener in listeners])
    await is_to_end.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
