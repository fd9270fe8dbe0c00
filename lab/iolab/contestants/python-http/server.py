"""A web server on Python's http.server with one answer: `server.py HOST PORT single|threading BACKLOG REPLY_BYTES`.

Like `python3 -m http.server`, it speaks HTTP/1.0 and closes each connection after its reply. It has no folder listing
and no line of log for each request, so that its work equals that of the other servers.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

SERVERS = {"single": HTTPServer, "threading": ThreadingHTTPServer}


def main(host: str, port: str, serve: str, backlog: str, reply_bytes: str) -> None:
    body = b"x" * int(reply_bytes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Prints nothing: a line for each request would be measured too."""

    class Server(SERVERS[serve]):  # type: ignore[misc]
        request_queue_size = int(backlog)

        def server_bind(self) -> None:
            """Binds without looking up this machine's name, which may take seconds."""
            super(HTTPServer, self).server_bind()
            self.server_name, self.server_port = self.server_address[:2]

    Server((host, int(port)), Handler).serve_forever()


main(*sys.argv[1:])
