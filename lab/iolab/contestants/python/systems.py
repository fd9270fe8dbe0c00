"""Systems 1, 2 and 4 of the note S2: threads that serve connections, with and without a cache of connections.

In system 1 a connection serves one call. In systems 2 and 4 connections are cached: one thread accepts them and waits
for those that are idle, and a pool of workers serves those that have a call. System 2 listens on one socket and system
4 on several, with one cache and one pool for all of them.
"""

from __future__ import annotations

import errno
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from selectors import EVENT_READ, BaseSelector, EpollSelector, PollSelector, SelectSelector
from threading import Thread
from typing import NoReturn

from transports import Connection

# Makes a connection of an accepted socket.
Open = Callable[[socket.socket], Connection]

BACKENDS: dict[str, type[BaseSelector]] = {"select": SelectSelector, "poll": PollSelector, "epoll": EpollSelector}
# The kernel's FD_SETSIZE: select takes only descriptors below it.
SELECT_DESCRIPTORS = 1_024
# How long accepting pauses when the process has no descriptor left.
PAUSE_S = 0.01
WAKE_BYTES = 4_096


def one_call_each(listener: socket.socket, open_: Open, workers: int) -> NoReturn:
    """System 1: each worker accepts a connection, serves one call, and closes the connection."""

    def work() -> NoReturn:
        while True:
            if (connection := accepted(listener, open_)) is not None:
                while not connection.is_over:
                    connection.serve()
                connection.close()

    # A signal just before sigwait would not end it unless it is blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for _ in range(workers):
        Thread(target=work, daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    sys.exit()


def accepted(listener: socket.socket, open_: Open) -> Connection | None:
    """The next connection; None if its client has gone, or the process cannot have another one."""
    try:
        return open_(listener.accept()[0])
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            time.sleep(PAUSE_S)
        return None


class WaitForAll:
    """Waits for listening sockets and idle connections in one syscall."""

    def __init__(self, backend: type[BaseSelector]) -> None:
        self._selector = backend()

    def listen(self, ready_to_read: socket.socket) -> None:
        """Adds a permanent socket."""
        self._selector.register(ready_to_read, EVENT_READ)

    def keep(self, connection: Connection) -> None:
        """Adds an idle connection."""
        self._selector.register(connection, EVENT_READ)

    def drop(self, connection: Connection) -> None:
        """Removes a connection."""
        self._selector.unregister(connection)

    def wait(self, timeout_s: float | None = None) -> list[object]:
        """Waits until something is readable, up to a time-out; returns the readable ones."""
        return [key.fileobj for key, _ in self._selector.select(timeout_s)]


class AskEach:
    """Polls each idle connection for a call separately, over and over, as published.

    Each poll uses its own selector, like Connection.poll of multiprocessing. So this never sleeps while a connection is
    idle, and a round takes longer the more there are: that is the comparison with WaitForAll.
    """

    def __init__(self, backend: type[BaseSelector]) -> None:
        self._backend = backend
        self._others = WaitForAll(backend)
        self._idle: dict[Connection, None] = {}
        self.listen = self._others.listen

    def keep(self, connection: Connection) -> None:
        """Adds an idle connection."""
        self._idle[connection] = None

    def drop(self, connection: Connection) -> None:
        """Removes a connection."""
        del self._idle[connection]

    def wait(self) -> list[object]:
        """Polls all once, and sleeps only if no connection is idle."""
        # Without this, the workers would have to force this thread off the interpreter.
        time.sleep(0)
        return self._others.wait(0 if self._idle else None) + [each for each in self._idle if self._has_call(each)]

    def _has_call(self, connection: Connection) -> bool:
        with self._backend() as selector:
            selector.register(connection, EVENT_READ)
            return bool(selector.select(0))


WAITS: dict[str, type[WaitForAll | AskEach]] = {"all": WaitForAll, "each": AskEach}


class CachedConnections:
    """Systems 2 and 4.

    A connection is in one place at a time: idle, in the queue of those with a call, with a worker, or among those
    coming back. So only one thread at a time uses it, and it needs no lock.
    """

    def __init__(self, open_: Open, select: str, wait: str, cached_max: int) -> None:
        self._open = open_
        self._waits = WAITS[select](BACKENDS[wait])
        self._descriptors_max = SELECT_DESCRIPTORS if wait == "select" else sys.maxsize
        self._cached_max = cached_max
        self._cached = 0
        self._has_warned = False
        self._with_call: SimpleQueue[Connection] = SimpleQueue()
        self._served: deque[Connection] = deque()
        self._wake, self._woken = socket.socketpair()

    def run(self, listeners: Sequence[socket.socket], workers: int) -> NoReturn:
        """Serves the connections of these sockets with `workers` threads."""
        for waited in (self._woken, *listeners):
            # If the client has gone, accept would block.
            waited.setblocking(False)
            self._waits.listen(waited)
        self._wake.setblocking(False)
        # A signal just before the wait ends the wait, too.
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for _ in range(workers):
            Thread(target=self._work, daemon=True).start()
        while True:
            for ready in self._waits.wait():
                if isinstance(ready, Connection):
                    self._waits.drop(ready)
                    self._with_call.put(ready)
                elif ready is self._woken:
                    self._take_back()
                elif isinstance(ready, socket.socket):
                    self._accept(ready)

    def _accept(self, listener: socket.socket) -> None:
        connection = accepted(listener, self._open)
        if connection is None:
            return
        if connection.fileno() >= self._descriptors_max:
            self._refuse(connection, "select takes descriptors below 1024: use wait=poll or wait=epoll")
        elif self._cached == self._cached_max:
            self._refuse(connection, f"{self._cached_max} are cached already: use a larger cached=N")
        else:
            self._cached += 1
            self._waits.keep(connection)

    def _refuse(self, connection: Connection, why: str) -> None:
        connection.close()
        if not self._has_warned:
            print(f"connections are refused: {why}", file=sys.stderr, flush=True)
        self._has_warned = True

    def _work(self) -> NoReturn:
        while True:
            connection = self._with_call.get()
            connection.serve()
            self._served.append(connection)
            # If the socket is full, the waiting thread has a wake-up pending.
            with suppress(BlockingIOError):
                self._wake.send(b"\0")

    def _take_back(self) -> None:
        # Received first: a connection that comes back after this wakes the thread once more.
        self._woken.recv(WAKE_BYTES)
        while self._served:
            connection = self._served.popleft()
            if connection.is_over:
                connection.close()
                self._cached -= 1
            else:
                self._waits.keep(connection)
