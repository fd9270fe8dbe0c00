"""A web server on Tornado: `tornado_server.py HOST PORT WORKERS REPLY_BYTES`."""

import asyncio
import logging
import sys

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from workers import spread

BACKLOG = 4096


class Page(RequestHandler):
    def initialize(self, body: bytes) -> None:
        self.body = body

    def set_default_headers(self) -> None:
        self.set_header("Server", "tornado")
        self.set_header("Content-Type", "text/plain")

    def get(self) -> None:
        self.finish(self.body)

    def head(self) -> None:
        self.set_header("Content-Length", len(self.body))

    def compute_etag(self) -> None:
        """Sends no ETag: a digest of each body would be work that the other servers do not do."""


async def serve(host: str, port: int, body: bytes) -> None:
    # A line of log for each request would be measured too.
    logging.getLogger("tornado.access").disabled = True
    server = HTTPServer(Application([("/", Page, {"body": body})]))
    server.add_sockets(bind_sockets(port, host, backlog=BACKLOG, reuse_port=True))
    await asyncio.Event().wait()


def main(host: str, port: str, workers: str, reply_bytes: str) -> None:
    spread(int(workers), lambda: asyncio.run(serve(host, int(port), b"x" * int(reply_bytes))))


main(*sys.argv[1:])
