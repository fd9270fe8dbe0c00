"""The clients of the note S2 as a load: they make and check every call, and leave no process behind."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from conftest import PATIENCE_S, wait_until
from equal_work import frame
from iolab.machine import proc
from iolab.measure import contestants
from iolab.work import compute
from test_python_rpc import FOLDER, Contestant, received, running, system

CALL = frame(b'{"target": 7, "text": "hello world"}')
HTTP = Contestant("Tornado, HTTP", ("tornado_rpc.py", "http", "127.0.0.1", "0"), package="tornado")


def command(addresses: list[str], transport: str, *options: str) -> list[str]:
    program = str(FOLDER / "clients.py")
    return [sys.executable, program, f"--addresses={','.join(addresses)}", f"--transport={transport}", *options]


def check(contestant: Contestant, transport: str, *options: str, services: int = 1) -> dict[str, object]:
    """Runs three clients with ten calls to each service; returns the last line as a record."""
    with running(contestant) as server:
        asked = command(server.addresses, transport, f"--services={services}", "--clients=3", "--calls=10", *options)
        ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    *clients, last = ended.stdout.splitlines()
    assert sorted(line.partition(":")[0] for line in clients) == [f"client {number}" for number in range(3)]
    found: dict[str, object] = json.loads(last)
    assert list(found) == ["requests", "failed", "elapsed_s", "clients_s"]
    assert (found["requests"], found["failed"]) == (30 * services, 0)
    seconds = found["clients_s"]
    assert isinstance(seconds, list)
    assert len(seconds) == 3
    assert isinstance(found["elapsed_s"], float)
    assert 0 < max(seconds) <= found["elapsed_s"]
    return found


@pytest.mark.parametrize("reuse", ["yes", "no", "bound"])
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_clients_make_every_call_over_connections_of_each_kind(private: Path, transport: str, reuse: str) -> None:
    contestant = system(4, 2, "--sockets=2", f"--transport={transport}", f"--scratch={private}")
    check(contestant, transport, f"--reuse={reuse}")


def test_clients_call_each_service_at_its_own_sockets(private: Path) -> None:
    contestant = system(4, 2, "--sockets=4", "--transport=unix", f"--scratch={private}")
    check(contestant, "unix", services=2)


@pytest.mark.parametrize("option", ["--kind=threads", "--freeze=yes", "--text-bytes=110000", "--idle-s=0.01"])
def test_clients_make_every_call_with_each_option(private: Path, option: str) -> None:
    check(system(2, 2, "--transport=unix", f"--scratch={private}"), "unix", option)


def test_clients_of_a_server_that_serves_one_call_a_connection_make_every_call(private: Path) -> None:
    check(system(1, 2, "--transport=unix", f"--scratch={private}"), "unix", "--reuse=no")


@pytest.mark.parametrize("reuse", ["yes", "no"])
def test_clients_make_every_call_over_http(reuse: str) -> None:
    check(HTTP, "http", f"--reuse={reuse}")


def test_a_call_that_fails_is_counted_and_said() -> None:
    with running(system(1, 1)) as server:
        asked = command(server.addresses, "tcp", "--clients=2", "--calls=5")
        ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    figures = json.loads(ended.stdout.splitlines()[-1])
    # A connection serves only one call here, so each client's second call is the first to fail.
    assert (figures["requests"], figures["failed"]) == (2, 8)
    assert sorted(line.partition(":")[0] for line in ended.stderr.splitlines()) == ["client 0", "client 1"]


def test_clients_without_a_single_answer_have_no_figures() -> None:
    nowhere = f"127.0.0.1:{contestants.free_ports(1)[0]}"
    ended = subprocess.run(command([nowhere], "tcp"), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout.splitlines()[1:]) == (1, [])
    assert ended.stderr.splitlines()[1:] == ["clients.py: no call was answered"]


def test_a_client_that_dies_leaves_the_others_without_figures() -> None:
    with running(system(2, 1)) as server:
        asked = command(server.addresses, "tcp", "--clients=3", "--calls=1", "--idle-s=3600")
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: len(proc.look(process.pid).pids) == 4, "three clients")
                *_, last = sorted(proc.look(process.pid).pids)
                os.kill(last, signal.SIGKILL)
                said = process.communicate(timeout=PATIENCE_S)
                assert said == ("", "clients.py: client 2 ended by signal 9, without its figures\n")
                assert process.returncode == 1
            finally:
                process.kill()


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_clients_stay_connected_until_the_last_has_made_its_calls(kind: str) -> None:
    reply = frame(f'{{"answer": {compute(7)}, "text": "hello world"}}'.encode())
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        listener.settimeout(PATIENCE_S)
        address = "{}:{}".format(*listener.getsockname())
        asked = command([address], "tcp", "--clients=3", "--calls=1", "--target=7", f"--kind={kind}")
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
            try:
                clients = [stack.enter_context(listener.accept()[0]) for _ in range(3)]
                for client in clients[:2]:
                    assert received(client, len(CALL)) == CALL
                    client.sendall(reply)
                # Clients that do not wait exit within this time; those that do cannot fail here.
                assert select.select(clients[:2], [], [], 0.2)[0] == []
                clients[2].sendall(reply)
                assert json.loads(process.communicate(timeout=PATIENCE_S)[0].splitlines()[-1])["requests"] == 3
            finally:
                process.kill()


def test_clients_are_ended_with_the_process_that_forked_them() -> None:
    with running(system(2, 1)) as server:
        asked = command(server.addresses, "tcp", "--clients=3", "--calls=1", "--idle-s=3600")
        with subprocess.Popen(asked, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            wait_until(lambda: len(proc.look(process.pid).pids) == 4, "three clients")
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(PATIENCE_S) == 0
                with pytest.raises(ProcessLookupError):
                    os.killpg(process.pid, 0)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def test_addresses_that_services_cannot_share_are_refused() -> None:
    asked = command(["127.0.0.1:1", "127.0.0.1:2"], "tcp", "--services=3")
    ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("error: 2 addresses cannot be shared by 3 services")
