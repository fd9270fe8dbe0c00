"""The page as an ASGI application for uvicorn. The variable REPLY_BYTES is the length of its body."""

import os

BODY = b"x" * int(os.environ["REPLY_BYTES"])
HEAD = [(b"content-type", b"text/plain"), (b"content-length", str(len(BODY)).encode())]
NO_CONTENT = [(b"content-type", b"text/plain"), (b"content-length", b"0")]


async def application(scope, receive, send):
    found = scope["path"] == "/"
    status, head = (200, HEAD) if found else (404, NO_CONTENT)
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": BODY if found and scope["method"] != "HEAD" else b""})
