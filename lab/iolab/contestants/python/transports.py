"""Two transports of calls to a server with threads: frames over TCP, and the pickles of S2 over Unix sockets.

A pickle can run any code in the process that reads it. So pickles are read only from sockets that this program created,
in a folder that only its user can enter, and only if they hold plain values: a pickle that names a class or a function
is rejected. Do not serve other users this way.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import stat
from abc import ABC, abstractmethod
from multiprocessing import connection as messages
from pathlib import Path

from protocol import BAD_REQUEST, PAYLOAD_BYTES_MAX, RECEIVE_BYTES, Compute, Refused, Session, checked

# The listen backlog, the same as that of the engine's servers.
BACKLOG = 4_096
# The reply to "close", which a published client waits for before it closes a connection.
CLOSED = "closed"


class Connection(ABC):
    """A source of calls, served by one thread at a time and closed once it `is_over`."""

    def __init__(self, peer: socket.socket | messages.Connection) -> None:
        self.is_over = False
        self._peer = peer

    def fileno(self) -> int:
        return self._peer.fileno()

    def close(self) -> None:
        self._peer.close()

    @abstractmethod
    def serve(self) -> None:
        """Reads what has arrived, and answers it."""


class Framed(Connection):
    """Frames of JSON over TCP: iolab's protocol `rpc`."""

    def __init__(self, accepted: socket.socket, compute: Compute, calls_max: int | None) -> None:
        super().__init__(accepted)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = accepted
        self._session = Session(compute, calls_max)

    def serve(self) -> None:
        """Makes one receive, which may be less than a whole call: a client that stops within one holds up no thread."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
            if replies := self._session.receive(data):
                self._socket.sendall(replies)
        except OSError:
            data = b""
        self.is_over = not data or self._session.is_over


class Pickled(Connection):
    """Messages of multiprocessing over a Unix socket, as published: calls and replies are dicts.

    The server blocks until a message is complete. A call that it cannot answer gets the reason, as over TCP.
    """

    def __init__(self, accepted: socket.socket, compute: Compute, calls_max: int | None) -> None:
        self._messages = messages.Connection(accepted.detach())
        super().__init__(self._messages)
        self._compute = compute
        self._calls_max = calls_max
        self._calls = 0

    def serve(self) -> None:
        """Reads a message, and answers it."""
        try:
            self._messages.send(self._reply(self._messages.recv_bytes(PAYLOAD_BYTES_MAX)))
        except (OSError, EOFError):
            self.is_over = True

    def _reply(self, message: bytes) -> object:
        try:
            match unpickled(message):
                case {"target": target, "text": text, **others} if not others:
                    self._calls += 1
                    self.is_over = self._calls == self._calls_max
                    return {"answer": self._compute(checked(target, text)), "text": text}
                case "close":
                    self.is_over = True
                    return CLOSED
                case _:
                    raise Refused(BAD_REQUEST)
        except Refused as why:
            self.is_over = True
            return {"error": str(why)}


class PlainValues(pickle.Unpickler):
    """Reads numbers, strings, lists and dicts. Any other object in a pickle needs a name, which is rejected."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def unpickled(message: bytes) -> object:
    """The value of a message; raises Refused. The module's docstring says which messages are safe."""
    try:
        return PlainValues(io.BytesIO(message)).load()
    except Exception:
        # Bytes that are no pickle can raise almost any exception.
        raise Refused(BAD_REQUEST) from None


def listen_tcp(host: str, count: int) -> dict[str, socket.socket]:
    """Opens `count` listening sockets and returns them by address. The kernel chooses the ports: many servers start at
    once, and none may take a port that was meant for another.
    """
    found = {}
    for _ in range(count):
        listener = socket.create_server((host, 0), backlog=BACKLOG)
        found["{}:{}".format(*listener.getsockname())] = listener
    return found


def listen_unix(folder: Path, count: int) -> dict[str, socket.socket]:
    """Opens `count` listening Unix sockets in a private folder and returns them by address; raises OSError."""
    refuse_shared(folder)
    found = {}
    for number in range(count):
        path = folder / f"rpc{number}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(BACKLOG)
        found[f"unix:{path}"] = listener
    return found


def refuse_shared(folder: Path) -> None:
    """Raises PermissionError for a folder that other users can enter."""
    found = os.stat(folder)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise PermissionError(0, f"{folder} must belong to this user and have mode 0700, because pickles can run code")
