"""Every installed HTTP client works with every model: clients that people have, not only this project's.

Each client runs for about a second against the real engine and must see no error. A missing client is skipped by name;
Python's own is always there.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
PLACES = (ROOT / ".venv/bin/iolab-engine", ROOT / "target/release/iolab-engine")

# Each client needs a second or a few hundred requests, so one that takes longer than this hangs.
CLIENT_S_MAX = PATIENCE_S

BODY = b"x"


@dataclass(frozen=True)
class Client:
    """A program: its arguments, a pattern that its output must match, and one that it must not match."""

    program: str
    arguments: str
    right: str
    wrong: str | None = None
    # A model that serves one connection at a time gets one.
    connections: int = 10


CLIENTS = (
    Client("wrk", "-t1 -c{connections} -d1s {url}", r"[1-9]\d* requests in", r"Socket errors|Non-2xx"),
    Client(
        "ab",
        "-q -k -c {connections} -n 500 {url}",
        r"Complete requests:\s+500\nFailed requests:\s+0\n",
        r"Non-2xx|Exceptions",
    ),
    Client("hey", "-n 500 -c {connections} {url}", r"\[200\]\s+500 responses", r"Error distribution"),
    Client(
        "oha",
        "--no-tui --output-format json -n 500 -c {connections} {url}",
        r'"statusCodeDistribution":\s*\{\s*"200":\s*500\s*\}',
        r'"errorDistribution":\s*\{\s*"',
    ),
    Client("curl", "--silent --show-error --fail --max-time 60 {url} {url} {url}", r"^x{3}$"),
)


def engine() -> Path | None:
    """The engine in IOLAB_ENGINE, or the one that make built."""
    named = os.environ.get("IOLAB_ENGINE")
    places = (Path(named),) if named else PLACES
    return next((place for place in places if os.access(place, os.X_OK)), None)


def described() -> list[dict[str, Any]]:
    """The models of the engine; empty without an engine."""
    path = engine()
    if path is None:
        return []
    output = subprocess.run([path, "describe"], capture_output=True, check=True, timeout=CLIENT_S_MAX).stdout
    models: list[dict[str, Any]] = json.loads(output)["models"]
    return models


MODELS = described()


@dataclass(frozen=True)
class Server:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/"


@pytest.fixture(params=[model["name"] for model in MODELS] or ["any model"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server]]:
    """A running server of each model, with the model's name."""
    path = engine()
    if path is None:
        pytest.skip("the engine is not built: run make")
    name = request.param
    model = next(model for model in MODELS if model["name"] == name)
    if not model["available"]:
        pytest.skip(f"{name} cannot run here: {model['why_not']}")
    if "http" not in model["protocols"]:
        pytest.skip(f"{name} does not speak HTTP")
    spec = {"schema": 1, "role": "serve", "model": name, "workload": {"protocol": "http"}, "listen": ["127.0.0.1:0"]}
    command = [str(path), "serve", "--spec", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(spec) + "\n")
        process.stdin.flush()
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready", ready
        host, _, port = ready["listen"][0].rpartition(":")
        try:
            yield name, Server(host, int(port))
            assert process.poll() is None, f"the server has died with {process.returncode}"
        finally:
            process.kill()


def check(model: str, server: Server, client: Client) -> None:
    """Runs a client against a server and checks its output."""
    program = shutil.which(client.program)
    if program is None:
        pytest.skip(f"{client.program} is not installed")
    connections = 1 if model == "blocking" else client.connections
    words = [word.format(url=server.url, connections=connections) for word in client.arguments.split()]
    run = subprocess.run([program, *words], capture_output=True, text=True, timeout=CLIENT_S_MAX, check=False)
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    assert re.search(client.right, output), output
    assert client.wrong is None or not re.search(client.wrong, output), output


@pytest.mark.engine
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.program)
def test_a_client_program_sees_no_error(server: tuple[str, Server], client: Client) -> None:
    check(*server, client)


def keeps_asking(server: Server) -> None:
    """Requests over one connection; http.client reopens it if the server has closed it."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=CLIENT_S_MAX)
    for method, target, status, body in EXCHANGES * 50:
        connection.request(method, target, body=b"some content" if method == "POST" else None)
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (status, body)
    connection.close()


def opens_for_each(server: Server) -> None:
    """A connection for each request."""
    for method, target, status, body in EXCHANGES * 10:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=CLIENT_S_MAX)
        connection.request(method, target, headers={"Connection": "close"})
        reply = connection.getresponse()
        assert (reply.status, reply.read(), reply.will_close) == (status, body, True)
        connection.close()


EXCHANGES = (
    ("GET", "/", 200, BODY),
    ("HEAD", "/", 200, b""),
    ("POST", "/", 200, BODY),
    ("GET", "/plaintext", 200, b"Hello, World!"),
    ("GET", "/json", 200, b'{"message":"Hello, World!"}'),
    ("GET", "/absent", 404, b""),
)


@pytest.mark.engine
@pytest.mark.parametrize("asks", [keeps_asking, opens_for_each])
def test_http_client_of_python_sees_no_error(server: tuple[str, Server], asks: Callable[[Server], None]) -> None:
    _, running = server
    asks(running)
