"""The servers that `make bench-peers` measures, ours and those of others: how each is built, started and ended.

A peer is a row of PEERS: what it speaks, and a function that makes it ready to listen on a port. Those that have no
program of their own to install are under contestants/, as their good users would write them, and are built when a scene
asks for them; whatever cannot be built or started is skipped, and the reason is printed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iolab.plan.contestant import Contestant

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "contestants"
BUILT = ROOT / "target/contestants"

# What a process may take beyond the time it was asked to run: to connect, to drain and to print.
SLACK_S = 20.0


class Skipped(Exception):
    """A contender cannot run here; the text says why."""


@dataclass(frozen=True)
class Server:
    """A running server: its first process, the port where it listens, and what it is, with its version."""

    pid: int
    port: int
    about: str


@dataclass(frozen=True)
class Program:
    """A peer that is ready to be started: its command, and what it is, with its version."""

    command: list[str]
    about: str


# Makes a peer ready: it gets a folder of its own, which goes when the server does, and the port.
Prepare = Callable[[Path, int], Program]


@dataclass(frozen=True)
class Peer:
    """A server of others: the protocol it speaks, and how it is made ready."""

    protocol: str
    prepare: Prepare


@contextlib.contextmanager
def start_server(name: str, workload: dict[str, Any], engine: str, cpu: int) -> Iterator[Server]:
    """Starts a peer, or that one of our models, on one processor; and ends it."""
    with tempfile.TemporaryDirectory() as folder:
        if peer := PEERS.get(name):
            process, server = start_peer(name, peer, workload, cpu, Path(folder))
        else:
            process, server = start_model(name, workload, engine, cpu)
        try:
            yield server
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a server; one that does not end when it is asked to is killed, so that the others can still be measured."""
    process.terminate()
    try:
        process.communicate(timeout=SLACK_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


Started = tuple["subprocess.Popen[str]", Server]


def start_model(name: str, workload: dict[str, Any], engine: str, cpu: int) -> Started:
    model = Contestant.parse(name)
    spec = {
        "schema": 1,
        "role": "serve",
        "model": model.name,
        "options": model.options,
        "workload": workload,
        "listen": ["127.0.0.1:0"],
    }
    command = pinned(cpu, [engine, "serve", "--spec", "-"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(spec) + "\n")
    process.stdin.flush()
    event = json.loads(process.stdout.readline() or '{"event": "failed", "message": "the engine said nothing"}')
    if event["event"] != "ready":
        end(process)
        raise Skipped(event["message"])
    port = int(event["listen"][0].rpartition(":")[2])
    without = f", without {', '.join(event['lacks'])}" if event["lacks"] else ""
    return process, Server(process.pid, port, f"ours, build {event['build']}{without}")


def start_peer(name: str, peer: Peer, workload: dict[str, Any], cpu: int, folder: Path) -> Started:
    if workload["protocol"] != peer.protocol:
        raise Skipped(f"it speaks {peer.protocol} only")
    port = free_port()
    program = peer.prepare(folder, port)
    # A file takes all it says; a pipe that nobody reads would fill, and hold it up.
    errors = folder / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(pinned(cpu, program.command), stderr=file, text=True)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process, Server(process.pid, port, program.about)
        except OSError:
            time.sleep(0.02)
    end(process)
    raise Skipped(f"{name} does not start: {last_line(errors.read_text(errors='replace'))}")


NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "x"; }} }}
}}
"""


def nginx(folder: Path, port: int) -> Program:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise Skipped("nginx is not installed")
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port))
    about = output_of([program, "-v"]).removeprefix("nginx version: ")
    return Program([program, "-p", str(folder), "-c", str(config), "-e", "stderr"], about)


def libevent(_folder: Path, port: int) -> Program:
    """The one peer in C; it says itself which libevent it runs with."""
    program = str(BUILT / "libevent")
    BUILT.mkdir(parents=True, exist_ok=True)
    source = str(SOURCES / "raw-libevent/server.c")
    build(["cc", "-std=c11", "-D_GNU_SOURCE", "-O3", "-o", program, source, "-levent_core"])
    return Program([program, str(port)], output_of([program]))


def crate(package: str, *crates: str, settings: str = "") -> Prepare:
    """A package of the workspace under contestants/. It is told by the versions of the crates that make it what it is,
    and by the settings that its source chooses."""

    def prepare(_folder: Path, port: int) -> Program:
        manifest = ["--manifest-path", str(SOURCES / "Cargo.toml"), "--target-dir", str(BUILT)]
        build(["cargo", "build", "--quiet", "--release", "--locked", *manifest, "--package", package])
        lock = tomllib.loads((SOURCES / "Cargo.lock").read_text())
        versions = {locked["name"]: locked["version"] for locked in lock["package"]}
        about = " on ".join(f"{name} {versions[name]}" for name in crates)
        return Program([str(BUILT / "release" / package), str(port)], about + settings)

    return prepare


# They are called raw to tell them from our models of the same names.
PEERS = {
    "nginx": Peer("http", nginx),
    "may_minihttp": Peer("http", crate("may_minihttp-server", "may_minihttp", "may")),
    "raw hyper": Peer("http", crate("raw-hyper", "hyper", "tokio")),
    "raw libevent": Peer("echo", libevent),
    "raw monoio": Peer(
        "echo", crate("raw-monoio", "monoio", settings=" with SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN")
    ),
    "raw tokio": Peer("echo", crate("raw-tokio", "tokio")),
}


def build(command: list[str]) -> None:
    """Builds a peer; nothing is done where nothing has changed."""
    if shutil.which(command[0]) is None:
        raise Skipped(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line.strip() for line in done.stderr.splitlines() if "error" in line]
        raise Skipped(f"it cannot be built: {errors[0] if errors else last_line(done.stderr)}")


def output_of(command: list[str]) -> str:
    """The last line of what a command says, to either stream."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return last_line(done.stdout)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def pinned(cpu: int, command: list[str]) -> list[str]:
    taskset = shutil.which("taskset")
    return [taskset, "--cpu-list", str(cpu), *command] if taskset else command


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
