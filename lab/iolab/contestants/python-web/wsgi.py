"""The page as a WSGI application for gunicorn. The variable REPLY_BYTES is the length of its body."""

import os

BODY = b"x" * int(os.environ["REPLY_BYTES"])


def application(environ, start_response):
    found = environ["PATH_INFO"] == "/"
    body = BODY if found else b""
    head = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK" if found else "404 Not Found", head)
    return [body] if environ["REQUEST_METHOD"] != "HEAD" else []
