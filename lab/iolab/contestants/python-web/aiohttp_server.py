"""A web server on aiohttp: `aiohttp_server.py HOST PORT WORKERS REPLY_BYTES`."""

import sys

from aiohttp import web
from workers import spread

BACKLOG = 4096
KEEP_ALIVE_S = 3_600


def serve(host: str, port: int, body: bytes) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/plain", headers={"Server": "aiohttp"})

    application = web.Application()
    application.router.add_get("/", page)
    web.run_app(
        application,
        host=host,
        port=port,
        backlog=BACKLOG,
        reuse_port=True,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=0,
        access_log=None,
        print=None,
    )


def main(host: str, port: str, workers: str, reply_bytes: str) -> None:
    spread(int(workers), lambda: serve(host, int(port), b"x" * int(reply_bytes)))


main(*sys.argv[1:])
