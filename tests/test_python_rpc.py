"""The rpc servers in Python: they send the same bytes as the engine, and leave nothing behind.

Each runs as in the registry and is called over a socket. One whose package is missing is skipped.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import connection as messages
from pathlib import Path
from typing import NamedTuple

import pytest

import iolab
from conftest import PATIENCE_S
from equal_work import BAD_REQUEST, REFUSED_CALLS, frame
from iolab.measure import contestants, registered
from iolab.plan import registry
from iolab.plan.settings import Cell
from iolab.work import compute

FOLDER = Path(iolab.__file__).parent / "contestants/python"


@dataclass(frozen=True)
class Contestant:
    """A server: its program and arguments, its package, and whether a connection serves only one call."""

    name: str
    command: tuple[str, ...]
    package: str = ""
    takes_one_call: bool = False


def system(number: int, workers: int, *options: str) -> Contestant:
    name = " ".join(("system", str(number), *options, f"with {workers} workers"))
    command = ("rpc.py", f"--system={number}", f"--workers={workers}", *options)
    return Contestant(name, command, takes_one_call=number == 1)


LOOPS = (
    Contestant("asyncio", ("loop_rpc.py", "asyncio", "127.0.0.1", "0")),
    Contestant("uvloop", ("loop_rpc.py", "uvloop", "127.0.0.1", "0"), package="uvloop"),
    Contestant("Tornado", ("tornado_rpc.py", "tcp", "127.0.0.1", "0"), package="tornado"),
)
SYSTEMS = tuple(system(number, workers) for number in (1, 2, 4) for workers in (1, 25))
ALL = (
    *SYSTEMS,
    system(2, 25, "--select=each"),
    system(2, 2, "--wait=poll"),
    system(2, 2, "--wait=epoll"),
    system(4, 2, "--sockets=3", "--select=each", "--wait=epoll"),
    system(2, 2, "--work=imported"),
    *LOOPS,
)
each_contestant = pytest.mark.parametrize("contestant", ALL, ids=lambda contestant: contestant.name)


class Running(NamedTuple):
    """A listening server, and its ready line."""

    process: subprocess.Popen[str]
    ready: dict[str, object]

    @property
    def addresses(self) -> list[str]:
        found = self.ready["listen"]
        assert isinstance(found, list)
        return found


@contextmanager
def running(contestant: Contestant, *before: str) -> Iterator[Running]:
    """Runs a server; then stops it and expects exit code 0 and no process left."""
    if contestant.package and find_spec(contestant.package) is None:
        pytest.skip(f"{contestant.package} is not installed: run pip install {contestant.package}")
    program, *arguments = contestant.command
    with subprocess.Popen(
        [sys.executable, *before, str(FOLDER / program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # A test that waits for the server without a limit ends when the server is killed.
        watchdog = threading.Timer(5 * PATIENCE_S, lambda: os.killpg(process.pid, signal.SIGKILL))
        watchdog.daemon = True
        watchdog.start()
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield Running(process, json.loads(line))
        finally:
            process.terminate()
            try:
                code = process.wait(PATIENCE_S)
            finally:
                watchdog.cancel()
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            assert (code, process.stdout.read()) == (0, ""), process.stderr.read()
            with pytest.raises(ProcessLookupError):
                os.killpg(process.pid, 0)


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def received(connection: socket.socket, size: int) -> bytes:
    """This many bytes; fewer if the connection ends."""
    data = bytearray()
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return bytes(data)


class Call(NamedTuple):
    """A request and the expected reply, in bytes."""

    request: bytes
    reply: bytes


# Parts of a text as written in JSON. A server returns them unchanged.
PARTS = ("hello world", "é", "😀", "{", ":", "\x7f", r"\n", r"\"", r"\\", r"\/", r"\u00e9", r"\ud83d\ude00", r"\udead")


def call(target: int, text: str, request: str) -> Call:
    return Call(frame(request.encode()), frame(f'{{"answer": {compute(target)}, "text": {text}}}'.encode()))


@cache
def calls() -> Sequence[Call]:
    """A thousand calls in various JSON spellings, with the replies of the lab's own implementation."""
    chance, found = random.Random(12), list[Call]()
    for _ in range(1_000):
        target, text = chance.randint(0, 2_000), '"' + "".join(chance.choices(PARTS, k=chance.randint(0, 9))) + '"'
        space = chance.choice(("", " ", "\n\t"))
        members = [f'"target"{space}:{space}{target}', f'{space}"text":{space}{text}']
        chance.shuffle(members)
        found.append(call(target, text, f"{space}{{{','.join(members)}}}{space}"))
    return found


def one_by_one(connection: socket.socket, asked: Sequence[Call]) -> None:
    for each in asked:
        connection.sendall(each.request)
        assert received(connection, len(each.reply)) == each.reply


def byte_by_byte(connection: socket.socket, asked: Sequence[Call]) -> None:
    for each in asked:
        for byte in each.request:
            connection.sendall(bytes([byte]))
        assert received(connection, len(each.reply)) == each.reply


def at_random_splits(connection: socket.socket, asked: Sequence[Call]) -> None:
    chance = random.Random(7)
    # As many as the socket buffers hold: nothing is read while they are sent.
    for first in range(0, len(asked), 100):
        batch = asked[first : first + 100]
        rest = b"".join(each.request for each in batch)
        while rest:
            size = chance.randint(1, 300)
            connection.sendall(rest[:size])
            rest = rest[size:]
        due = b"".join(each.reply for each in batch)
        assert received(connection, len(due)) == due


Way = Callable[[socket.socket, Sequence[Call]], None]


def check(contestant: Contestant, address: str, way: Way, asked: Sequence[Call]) -> None:
    """Checks the replies to these calls, over as many connections as the server needs."""
    at_once = 1 if contestant.takes_one_call else len(asked)
    for first in range(0, len(asked), at_once):
        with connected(address) as connection:
            way(connection, asked[first : first + at_once])
            if contestant.takes_one_call:
                assert connection.recv(1) == b"", "a connection serves one call"


# Each byte costs a syscall on both sides: a hundred calls have some thousands of bytes.
@pytest.mark.parametrize(("way", "count"), [(one_by_one, 1_000), (at_random_splits, 1_000), (byte_by_byte, 100)])
@each_contestant
def test_a_server_gives_the_engines_answers(contestant: Contestant, way: Way, count: int) -> None:
    with running(contestant) as server:
        for address in server.addresses:
            check(contestant, address, way, calls()[:count])


@pytest.mark.parametrize("contestant", SYSTEMS, ids=lambda contestant: contestant.name)
def test_clients_at_the_same_time_get_each_its_own_answers(contestant: Contestant) -> None:
    with running(contestant) as server, ExitStack() as stack:
        connections = [stack.enter_context(connected(server.addresses[0])) for _ in range(40)]
        for connection, each in zip(connections, calls(), strict=False):
            connection.sendall(each.request)
        for connection, each in zip(connections, calls(), strict=False):
            assert received(connection, len(each.reply)) == each.reply


@each_contestant
def test_a_bad_request_gets_the_reason_after_the_replies_to_those_before_it(contestant: Contestant) -> None:
    before = () if contestant.takes_one_call else calls()[:3]
    with running(contestant) as server:
        for sent, error in REFUSED_CALLS:
            due = b"".join(each.reply for each in before) + frame(f'{{"error": "{error}"}}'.encode())
            with connected(server.addresses[0]) as connection:
                connection.sendall(b"".join(each.request for each in before) + sent)
                assert received(connection, len(due) + 1) == due, sent[:60]


@each_contestant
def test_a_client_that_vanishes_within_a_request_harms_no_other(contestant: Contestant) -> None:
    half = calls()[0].request[:-3]
    with running(contestant) as server, ExitStack() as stack:
        for resets in (0, 1) * 15:
            with connected(server.addresses[0]) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", resets, 0))
                connection.sendall(half)
        if not contestant.takes_one_call:
            # In system 1 a worker stays with its connection. Elsewhere a stalled client must not block a worker.
            stalled = stack.enter_context(connected(server.addresses[0]))
            stalled.sendall(half)
        check(contestant, server.addresses[0], one_by_one, calls()[:20])


@each_contestant
def test_a_server_that_works_stops(contestant: Contestant) -> None:
    with running(contestant) as server, ExitStack() as stack:
        for _ in range(4):
            connection = stack.enter_context(connected(server.addresses[0]))
            connection.sendall(frame(b'{"target": 1000000, "text": ""}'))


@each_contestant
def test_a_server_says_where_it_listens_and_what_runs_it(contestant: Contestant) -> None:
    with running(contestant) as server:
        assert server.ready["event"] == "ready"
        assert len(set(server.addresses)) == (3 if "--sockets=3" in contestant.command else 1)
        found = server.ready["interpreter"]
        assert isinstance(found, dict)
        assert list(found) == ["version", "flags", "gil_built", "gil", "extensions"]
        assert found["version"] == sys.version
        extensions = {"uvloop": {"uvloop.loop"}, "tornado": {"tornado.speedups"}}
        assert set(found["extensions"]) == extensions.get(contestant.package, set())


def refused(*arguments: str) -> tuple[int, list[str]]:
    """The exit code and errors of a server of S2's systems that cannot start."""
    ended = subprocess.run(
        [sys.executable, FOLDER / "rpc.py", *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    return ended.returncode, ended.stderr.splitlines()


def test_what_a_system_does_not_have_is_refused_in_one_line(tmp_path: Path) -> None:
    one_socket = "python-rpc: system 2 listens on one socket: use system=4"
    assert refused("--system=2", "--sockets=2") == (2, [one_socket])
    no_cache = "python-rpc: system 1 caches no connections: leave out select, wait and cached"
    assert refused("--system=1", "--select=each") == (2, [no_cache])
    tmp_path.chmod(0o755)
    shared = f"{tmp_path} must belong to this user and have mode 0700, because pickles can run code"
    assert refused("--transport=unix", f"--scratch={tmp_path}") == (2, [f"python-rpc: cannot listen: {shared}"])


def test_a_connection_beyond_those_that_are_cached_is_refused_until_there_is_room() -> None:
    contestant = system(2, 1, "--cached=2")
    with running(contestant) as server, ExitStack() as stack:
        first, second = (stack.enter_context(connected(server.addresses[0])) for _ in range(2))
        for connection in (first, second):
            one_by_one(connection, calls()[:1])
        with connected(server.addresses[0]) as third:
            assert third.recv(1) == b""
        first.shutdown(socket.SHUT_WR)
        assert first.recv(1) == b"", "it is closed, and so there is room"
        check(contestant, server.addresses[0], one_by_one, calls()[:1])
        server.process.terminate()
        assert server.process.stderr is not None
        said = "connections are refused: 2 are cached already: use a larger cached=N"
        assert server.process.stderr.read().splitlines() == [said]


# Opens descriptors until those of connections come near 1,024, then runs the given program.
NEAR_THE_LIMIT = """
import os, resource, runpy, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
while os.dup(0) < 1010: pass
sys.argv[:1] = []
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(("wait", "refuses"), [("select", True), ("poll", False), ("epoll", False)])
def test_a_descriptor_that_select_does_not_take_is_refused(wait: str, refuses: bool) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1_100:
        pytest.skip("this process may not have 1,100 descriptors")
    with running(system(2, 1, f"--wait={wait}"), "-c", NEAR_THE_LIMIT) as server, ExitStack() as stack:
        connections = [stack.enter_context(connected(server.addresses[0])) for _ in range(30)]
        one_by_one(connections[0], calls()[:1])
        if not refuses:
            one_by_one(connections[-1], calls()[:1])
            return
        assert connections[-1].recv(1) == b""
        server.process.terminate()
        assert server.process.stderr is not None
        said = "connections are refused: select takes descriptors below 1024: use wait=poll or wait=epoll"
        assert server.process.stderr.read().splitlines() == [said]


class Harm:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


def test_a_pickle_that_names_a_function_runs_nothing(private: Path) -> None:
    contestant = system(2, 1, "--transport=unix", f"--scratch={private}")
    with running(contestant) as server:
        path = server.addresses[0].removeprefix("unix:")
        for sent in (pickle.dumps(Harm(private / "harm")), b"no pickle", pickle.dumps({"target": 1})):
            with messages.Client(path, family="AF_UNIX") as client:
                client.send_bytes(sent)
                assert client.recv() == {"error": BAD_REQUEST}
                with pytest.raises(EOFError):
                    client.recv()
        assert not (private / "harm").exists()
        with messages.Client(path, family="AF_UNIX") as client:
            client.send({"target": 1_000, "text": "é"})
            assert client.recv() == {"answer": compute(1_000), "text": "é"}
            client.send("close")
            assert client.recv() == "closed"
            with pytest.raises(EOFError):
                client.recv()


STARTED: tuple[tuple[str, dict[str, int]], ...] = (
    ("python-rpc", {"workers": 2}),
    ("python-rpc[cached=50,select=each,system=4,wait=epoll,work=imported]", {"workers": 2, "sockets": 3}),
    ("tornado-rpc", {}),
    ("asyncio-rpc", {}),
    ("uvloop-rpc", {}),
)


@pytest.mark.parametrize(("text", "settings"), STARTED)
def test_the_lab_starts_a_server_by_its_name_in_the_registry(
    text: str, settings: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # python3 must be the interpreter with the packages of the tests.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    cell = Cell.model_validate(
        {"contestant": text, "workload": {"protocol": "rpc"}, "server": settings, "trial": {"start_ms": 120_000}}
    )
    name = cell.contestant.name
    for package in registry.load()[name].entry.packages:
        pytest.importorskip(package)
    try:
        prepared = registered.prepare(registry.load()[name])
    except registered.Absent as why:
        pytest.skip(f"{name}: {why}")
    server = contestants.start(cell, None, {name: prepared})
    try:
        assert len(server.addresses) == cell.server.sockets
        for address in server.addresses:
            with connected(address) as connection:
                one_by_one(connection, calls()[:20])
    finally:
        server.stop()
