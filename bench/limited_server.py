"""An HTTP server with one known limit, for bench/limits_truth.py: a rate, a delay, work, or a fault."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time


class Server:
    """Answers each request as its options say; requests on one connection are served in order."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        body = b"x" * options.reply_bytes
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        self.reply = head.encode() + body
        self.answered = 0
        self.next_s = 0.0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection until it ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                await self.wait()
                if not self.answer(writer):
                    break
                await writer.drain()
        writer.close()

    async def wait(self) -> None:
        """Waits as long as the rate, the delay and the work of one request take."""
        options = self.options
        if options.per_second:
            now_s = time.monotonic()
            self.next_s = max(now_s, self.next_s + 1 / options.per_second)
            await asyncio.sleep(self.next_s - now_s)
        if options.delay_ms:
            await asyncio.sleep(options.delay_ms / 1e3)
        until_s = time.thread_time() + options.work_us / 1e6
        while options.work_us and time.thread_time() < until_s:
            pass

    def answer(self, writer: asyncio.StreamWriter) -> bool:
        """Writes a reply or does the fault; returns whether the connection stays open."""
        self.answered += 1
        fault = self.options.fault if self.answered > self.options.after else ""
        if fault == "exit":
            os._exit(3)
        if fault == "reset":
            writer.transport.abort()
        if fault in ("reset", "close"):
            return False
        wrong = {"wrong": self.reply[:-1] + b"y", "status": self.reply.replace(b"200 OK", b"503 Busy")}
        writer.write(wrong.get(fault, self.reply))
        return True


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--reply-bytes", type=int, default=2)
    parser.add_argument("--per-second", type=float, default=0.0, help="most requests served per second")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="answer each request after this time")
    parser.add_argument("--work-us", type=float, default=0.0, help="CPU time of each request")
    parser.add_argument("--fault", default="", choices=["", "wrong", "status", "reset", "close", "exit"])
    parser.add_argument("--after", type=int, default=0, help="requests answered before the fault begins")
    server = Server(parser.parse_args())
    listening = await asyncio.start_server(server.connection, "127.0.0.1", server.options.port, backlog=4_096)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
