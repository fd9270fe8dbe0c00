"""The clients of the note S2, as a load: `clients.py --addresses A,B,… --services 20 --clients 20 --calls 1000`.

Each client is a process, forked from this one, or a thread. It has a thread for each service, which makes its calls to
that service one after the other. Once all clients have made their calls, they stay connected and idle for a while, and
disconnect together. It prints the seconds that each client took, as published, and finally a line of JSON for iolab.

`--reuse yes` keeps a connection to each socket of a service and uses them in turn. `bound` keeps one connection;
clients are assigned to sockets in turn. `no` opens one for each call; over `unix` it is closed as published, with a
message and its answer, which is a second round trip.

Over `unix`, replies are pickles, which can run code: see transports.py. They are read only from sockets in a folder
that belongs to this user alone.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from multiprocessing import connection as messages
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import urlencode

from protocol import LENGTH, Refused, frame
from transports import refuse_shared, unpickled
from work import compute

# Failures that end a client's calls to a service: the server is gone, or its answer is wrong.
FAILURES = (OSError, EOFError, HTTPException, ValueError, Refused)


class Channel(ABC):
    """An open connection to a service."""

    @abstractmethod
    def __init__(self, address: str) -> None: ...

    @abstractmethod
    def call(self, target: int, text: str) -> object:
        """The reply to a call; raises one of FAILURES."""

    @abstractmethod
    def close(self) -> None: ...


class Framed(Channel):
    """iolab's protocol `rpc` over TCP."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = self._socket.makefile("rb")

    def call(self, target: int, text: str) -> object:
        self._socket.sendall(frame(json.dumps({"target": target, "text": text})))
        (length,) = LENGTH.unpack(self._next(LENGTH.size))
        return json.loads(self._next(length))

    def _next(self, size: int) -> bytes:
        data = self._received.read(size)
        if len(data) < size:
            raise EOFError("the server closed the connection")
        return data

    def close(self) -> None:
        self._received.close()
        self._socket.close()


class Pickled(Channel):
    """S2's own transport: pickles over a Unix socket."""

    def __init__(self, address: str) -> None:
        path = address.removeprefix("unix:")
        refuse_shared(Path(path).parent)
        self._messages = messages.Client(path, family="AF_UNIX")

    def call(self, target: int, text: str) -> object:
        self._messages.send({"target": target, "text": text})
        return unpickled(self._messages.recv_bytes())

    def close(self) -> None:
        # A server of one call per connection has already closed it.
        with suppress(OSError, EOFError):
            self._messages.send("close")
            self._messages.recv_bytes()
        self._messages.close()


class Http(Channel):
    """Tornado's transport: a GET for each call."""

    def __init__(self, address: str) -> None:
        self._http = HTTPConnection(address)

    def call(self, target: int, text: str) -> object:
        self._http.request("GET", "/?" + urlencode({"target": target, "text": text}))
        return json.loads(self._http.getresponse().read())

    def close(self) -> None:
        self._http.close()


TRANSPORTS: dict[str, type[Channel]] = {"tcp": Framed, "unix": Pickled, "http": Http}


class Times(NamedTuple):
    """The report of a client: when it began and ended, by the monotonic clock, and its number of correctly answered
    calls.
    """

    client: int
    began_s: float
    ended_s: float
    done: int


# Waits until all clients have made their calls, and for their idle time.
Rest = Callable[[], object]
Run = Callable[[Rest], Times]
# Signals handled by the process that forks the clients.
SIGNALS = {signal.SIGTERM, signal.SIGCHLD}


class Unreported(Exception):
    """A client ended without its figures, so the figures of the others are incomplete."""


class Client:
    """A client, which calls every service with a thread for each."""

    def __init__(self, asked: argparse.Namespace, number: int) -> None:
        self._asked = asked
        self._number = number
        self._text = ("hello world" * (asked.text_bytes // 11 + 1))[: asked.text_bytes]
        self._due = {"answer": asked.answer, "text": self._text}

    def run(self, rest: Rest) -> Times:
        """Makes all its calls, and keeps its connections until the others have made theirs."""
        began_s = time.monotonic()
        with ExitStack() as connected:
            call = partial(self._call_service, connected)
            with ThreadPoolExecutor(self._asked.threads) as threads:
                ended_s, done = zip(*threads.map(call, self._asked.services), strict=True)
            rest()
        return Times(self._number, began_s, max(ended_s), sum(done))

    def _call_service(self, connected: ExitStack, addresses: Sequence[str]) -> tuple[float, int]:
        """The end of its calls to a service, and how many were answered. It stops at the first failure."""
        done, ended_s = 0, time.monotonic()
        try:
            channels = connected.enter_context(closing(self._channels(addresses)))
            for channel in itertools.islice(channels, self._asked.calls):
                if channel.call(self._asked.target, self._text) != self._due:
                    raise ValueError("a wrong reply")
                done, ended_s = done + 1, time.monotonic()
        except FAILURES as why:
            # In one write: other clients write there, too.
            os.write(sys.stderr.fileno(), f"client {self._number}: {why or type(why).__name__}\n".encode())
        return ended_s, done

    def _channels(self, addresses: Sequence[str]) -> Generator[Channel, None, None]:
        """Yields a channel for each call and closes all of them."""
        open_ = TRANSPORTS[self._asked.transport]
        if self._asked.reuse == "no":
            for address in itertools.cycle(addresses):
                with closing(open_(address)) as channel:
                    yield channel
        if self._asked.reuse == "bound":
            addresses = [addresses[self._number % len(addresses)]]
        channels = [open_(address) for address in addresses]
        try:
            yield from itertools.cycle(channels)
        finally:
            for channel in channels:
                channel.close()


def main() -> None:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    runs = [Client(asked, number).run for number in range(asked.clients)]
    began_s = time.monotonic()
    reports = []
    try:
        for times in (in_processes if asked.kind == "processes" else in_threads)(runs, asked.idle_s):
            print(f"client {times.client}: {times.ended_s - times.began_s:.6f} s", flush=True)
            reports.append(times)
    except Unreported as why:
        sys.exit(f"clients.py: {why}")
    done = sum(times.done for times in reports)
    if done == 0:
        sys.exit("clients.py: no call was answered")
    figures = {
        "requests": done,
        "failed": asked.clients * len(asked.services) * asked.calls - done,
        "elapsed_s": round(max(times.ended_s for times in reports) - began_s, 6),
        "clients_s": [round(times.ended_s - times.began_s, 6) for times in sorted(reports)],
    }
    print(json.dumps(figures), flush=True)


def in_threads(runs: Sequence[Run], idle_s: float) -> Iterator[Times]:
    """Runs each client in a thread."""
    all_idle = threading.Barrier(len(runs), action=lambda: time.sleep(idle_s))
    with ThreadPoolExecutor(len(runs)) as threads:
        yield from threads.map(lambda run: run(all_idle.wait), runs)


def in_processes(runs: Sequence[Run], idle_s: float) -> Iterator[Times]:
    """Runs each client in a process forked from this one, as published; raises Unreported. Ends all of them."""
    reports, idle, leaving = os.pipe(), os.pipe(), os.pipe()
    forked: list[int] = []
    # The clients wait for each other, so one that ends early would leave the others waiting.
    signal.signal(signal.SIGCHLD, partial(raise_unreported, forked))
    try:
        for run in runs:
            # A signal that reached a child before it has its own handlers would be lost.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            if (pid := os.fork()) == 0:
                in_child(run, reports[1], idle[1], leaving)
            forked.append(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        waited_for = len(runs)
        while waited_for:
            waited_for -= len(os.read(idle[0], waited_for))
        time.sleep(idle_s)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(leaving[1])
        os.close(reports[1])
        with open(reports[0]) as lines:
            found = [Times(*json.loads(line)) for line in lines]
        if len(found) < len(runs):
            raise Unreported(f"{len(runs) - len(found)} of {len(runs)} clients ended without their figures")
        yield from found
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in forked:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def raise_unreported(forked: Sequence[int], *_: object) -> NoReturn:
    """Raises Unreported with the client that has ended."""
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    assert ended is not None, "one has"
    how = f"with code {ended.si_status}" if ended.si_code == os.CLD_EXITED else f"by signal {ended.si_status}"
    raise Unreported(f"client {list(forked).index(ended.si_pid)} ended {how}, without its figures")


def in_child(run: Run, reports: int, idle: int, leaving: tuple[int, int]) -> NoReturn:
    """Runs a client, writes its report, and ends the process."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.close(leaving[1])

    def rest() -> None:
        os.write(idle, b".")
        # Returns at the end of the pipe: nothing is ever written to it.
        os.read(leaving[0], 1)

    code = 1
    try:
        # The kernel writes so short a line atomically.
        os.write(reports, f"{json.dumps(run(rest))}\n".encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def arguments() -> argparse.Namespace:
    """The arguments. `services` becomes a list of each service's addresses, and `answer` the expected answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--addresses", required=True, help="of all services, with commas between them")
    parser.add_argument("--services", type=count, default=1, help="how many services share the addresses, in order")
    parser.add_argument("--clients", type=count, default=1)
    parser.add_argument("--calls", type=count, default=1_000, help="calls of each client to each service")
    parser.add_argument("--threads", type=count, default=25, help="threads of each client at most")
    parser.add_argument("--kind", choices=("processes", "threads"), default="processes", help="what a client is")
    parser.add_argument("--reuse", choices=("yes", "no", "bound"), default="yes", help="of connections: see above")
    parser.add_argument("--transport", choices=tuple(TRANSPORTS), default="unix")
    parser.add_argument("--target", type=int, default=1_000, help="steps of work of each call")
    parser.add_argument("--text-bytes", type=int, default=11, help="length of the text of each call")
    parser.add_argument("--idle-s", type=float, default=0.0, help="how long all stay, idle, after their calls")
    parser.add_argument("--freeze", choices=("yes", "no"), default="no", help="gc.freeze() before the forks")
    asked = parser.parse_args()
    addresses = asked.addresses.split(",")
    sockets, left = divmod(len(addresses), asked.services)
    if left or not sockets:
        parser.error(f"{len(addresses)} addresses cannot be shared by {asked.services} services")
    asked.services = [addresses[first : first + sockets] for first in range(0, len(addresses), sockets)]
    asked.answer = compute(asked.target)
    if asked.freeze == "yes":
        gc.freeze()
    return asked


def count(text: str) -> int:
    """A whole number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: use 1 or more")
    return number


if __name__ == "__main__":
    main()
