"""The PHP clients of the note S3: what they send and report, and that none of their processes is left behind."""

from __future__ import annotations

import json
import shutil
import signal
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import iolab
from conftest import PATIENCE_S, is_alive, wait_until
from iolab.machine import proc
from iolab.measure import contestants

PROGRAM = Path(iolab.__file__).parent / "contestants/php/line_client.php"
LINE = b"hello world\n"
# Real time, because the client stops by itself. It sends its first line at once, so any machine is fast enough.
BRIEFLY = "--duration-ms=300"

pytestmark = pytest.mark.skipif(shutil.which("php") is None, reason="php is not installed: apt-get install php-cli")
# The reply to a line, from its number on the connection; None closes the connection.
Answer = Callable[[bytes, int], bytes | None]


class Server(NamedTuple):
    """A line server in this process, and the lines received over each connection."""

    address: str
    lines: list[list[bytes]]


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    seen: list[list[bytes]] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines: list[bytes] = []
            seen.append(lines)
            for line in self.rfile:
                lines.append(line)
                if (reply := answer(line, len(lines))) is None:
                    return
                self.wfile.write(reply)

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 100

    with Threads(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Server("{}:{}".format(*server.server_address), seen)
        finally:
            server.shutdown()
            thread.join()


def command(address: str, *flags: str) -> list[str]:
    words = [word for flag in flags for word in flag.split("=")]
    return ["php", str(PROGRAM), "--address", address, *words]


def ran(address: str, *flags: str) -> subprocess.CompletedProcess[str]:
    asked = command(address, *flags)
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def echo(line: bytes, number: int) -> bytes | None:
    return line


def figures(ended: subprocess.CompletedProcess[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    assert list(found) == ["requests", "failed", "elapsed_s", "clients_s"]
    assert isinstance(found["elapsed_s"], float)
    assert found["elapsed_s"] > 0
    return found


def test_two_processes_connect_send_so_many_lines_and_begin_again() -> None:
    with serving(echo) as server:
        ended = ran(server.address, "--connections=2", "--processes=2", "--requests-per-connection=3", BRIEFLY)
    assert (ended.returncode, ended.stderr) == (0, "")
    # The time ends during the last connection of each process.
    assert sum(len(lines) != 3 for lines in server.lines) <= 2
    assert {line for lines in server.lines for line in lines} == {LINE}
    found = figures(ended)
    assert (found["requests"], found["failed"]) == (sum(map(len, server.lines)), 0)
    assert isinstance(found["clients_s"], list)
    assert len(found["clients_s"]) == 2
    said = [line.split()[:3] for line in ended.stdout.splitlines()[:-1]]
    assert [words[:2] for words in said] == [["client", "0:"], ["client", "1:"]]
    assert sum(int(words[2]) for words in said) == len(server.lines)


def test_one_process_sends_a_line_over_each_connection_in_turn() -> None:
    with serving(echo) as server:
        ended = ran(server.address, "--connections=5", "--message-bytes=30", BRIEFLY)
    assert (ended.returncode, ended.stderr) == (0, "")
    counts = [len(lines) for lines in server.lines]
    assert len(counts) == 5
    assert max(counts) - min(counts) <= 1
    assert figures(ended)["requests"] == sum(counts)
    assert {line for lines in server.lines for line in lines} == {b"hello worldhello worldhello w\n"}


@pytest.mark.parametrize(
    ("third", "why"),
    [
        (None, "receive: the server closed"),
        (b"hello there\n", "receive: a wrong reply"),
    ],
)
def test_the_first_error_ends_a_process_as_a_failed_request(third: bytes | None, why: str) -> None:
    with serving(lambda line, number: line if number < 3 else third) as server:
        ended = ran(server.address, "--duration-ms=3600000")
    assert (ended.returncode, ended.stderr) == (0, f"client 0: {why}\n")
    assert (figures(ended)["requests"], figures(ended)["failed"]) == (2, 1)


def test_a_client_without_a_single_answer_has_no_figures() -> None:
    address = f"127.0.0.1:{contestants.free_ports(1)[0]}"
    ended = ran(address)
    assert ended.returncode == 1
    first, last = ended.stderr.splitlines()
    assert first == f"client 0: connect to {address}: Connection refused"
    assert last == "line_client.php: no line was answered"


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--conections=2"], "there is no flag --conections: use --address, --connections, --processes, "),
        (["--connections=two"], "--connections: use a whole number, not 'two'"),
        (["--connections=-1"], "--connections: use a whole number, not '-1'"),
        (["--connections"], "--connections: use a whole number, not ''"),
        (["--processes=2"], "--processes: use 1 to as many as there are connections"),
        (["--message-bytes=0"], "--message-bytes: use 1 or more, with the line feed"),
        (["--address="], "--address is missing: use --address HOST:PORT"),
    ],
)
def test_a_flag_that_cannot_be_is_one_line(flags: list[str], why: str) -> None:
    ended = ran("127.0.0.1:1", *flags)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"line_client.php: {why}")
    assert len(ended.stderr.splitlines()) == 1


def test_its_processes_end_with_it() -> None:
    with serving(echo) as server:
        asked = command(server.address, "--connections=2", "--processes=2", "--duration-ms=3600000")
        with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                wait_until(lambda: len(proc.look(process.pid).pids) == 3, "two clients")
                children = set(proc.look(process.pid).pids) - {process.pid}
                process.send_signal(signal.SIGTERM)
                assert process.communicate(timeout=PATIENCE_S)[1] == "line_client.php: ended by SIGTERM\n"
                wait_until(lambda: not any(map(is_alive, children)), "they end")
            finally:
                process.kill()
