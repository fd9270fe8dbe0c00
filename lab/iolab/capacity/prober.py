"""Asks a server for its capacity: one run of the generator after the other, each kept before the next begins.

`capacity` decides what is run and what it means. Here the server is found, the generator is followed, the processor
time of a server on this machine is read at the edges of its window.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import ValidationError

from iolab.capacity import state
from iolab.capacity.state import Found, Question, Record, Step
from iolab.contract.literals import Protocol
from iolab.contract.types import WORKLOADS, Interval, LoadReady, Measured, Measuring, Report, Tls
from iolab.errors import PlanError
from iolab.machine import proc
from iolab.measure import programs, protocol_probe, runner
from iolab.measure.agent import Host
from iolab.measure.engine import TrialFailed
from iolab.plan import mistakes
from iolab.results import layout, store

# How long an address may take to accept before the next one of a name is tried.
CONNECT_S_MAX = 1.0
# The schemes of addresses with a host, and the port that is meant where none is written.
PORTS = {"http": 80, "https": 443, "tcp": None, "tls": None}


Tell = Callable[[Found], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL stands for: the protocol and what it asks for, one address, and how TLS is spoken there, if it is."""

    protocol: Protocol
    workload: Mapping[str, Any]
    connect: str
    tls: Tls | None = None


def target(url: str, protocol: Protocol | None) -> Target:
    """Reads `http://host[:port][/path]`, `tcp://host:port`, the same in TLS (`https://`, `tls://`) or `unix:/path`, and
    resolves it; raises PlanError. Of several addresses of a name it is the first that accepts a connection.
    """
    if url.startswith("unix:") and not url.startswith("unix://"):
        if url == "unix:":
            raise PlanError(f"{url!r} has no path: write it as in unix:/tmp/server.sock")
        return Target(protocol or "echo", {"host": "localhost"} if protocol == "http" else {}, url)
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise PlanError(f"{url!r} is not complete: write http://{url} or tcp://{url}")
    if scheme not in PORTS:
        raise PlanError(f"{scheme}:// is not spoken here: write http://, https://, tcp://, tls:// or unix:/path")
    is_http = scheme in ("http", "https")
    if protocol is not None and (protocol == "http") != is_http:
        fit = "http goes with http:// and https://, others with tcp:// and tls://"
        raise PlanError(f"--protocol {protocol} and {scheme}:// do not fit: {fit}")
    parts, host, port = _split(url, scheme)
    if not is_http and parts.path not in ("", "/"):
        raise PlanError(f"{url!r} is no address: write {scheme}://host:port")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"target": path, "host": parts.netloc} if is_http else {}
    tls = Tls(server_name=host) if scheme in ("https", "tls") else None
    return Target("http" if is_http else protocol or "echo", fields, _resolved(host, port), tls)


def secured(at: Target, *, server_name: str | None, cacert: Path | None, insecure: bool) -> Target:
    """The same target, with TLS spoken as the flags say; raises PlanError with one line."""
    flags = {"--server-name": server_name, "--cacert": cacert, "--insecure": insecure}
    given = next((flag for flag, value in flags.items() if value), None)
    if at.tls is None:
        if given is not None:
            raise PlanError(f"{given} goes with https:// or tls://: write one of them, or leave it out")
        return at
    if cacert is not None and insecure:
        raise PlanError("--cacert and --insecure do not fit: leave out --insecure to have the certificate checked")
    if cacert is not None and not cacert.is_file():
        raise PlanError(f"there is no file {str(cacert)!r}: name one in PEM with the authorities that are trusted")
    # A question means the same wherever it is asked again.
    authorities = None if cacert is None else str(cacert.absolute())
    return replace(at, tls=Tls(server_name=server_name or at.tls.server_name, cacert=authorities, insecure=insecure))


def headers(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Header lines as they are written by hand; raises PlanError for what is none."""
    parted = [line.partition(":") for line in given]
    for line, (name, colon, _) in zip(given, parted, strict=True):
        if not colon or not name.strip():
            raise PlanError(f"{line!r} is no header: write it as in 'Accept: text/plain'")
    return tuple((name.strip(), value.strip()) for name, _, value in parted)


def question(at: Target, workload: Mapping[str, Any], **asked: Any) -> Question:
    """The question with the settings that were given; raises PlanError with one line.

    Headers are as `headers` reads them, and what has a body is posted.
    """
    kind = WORKLOADS[at.protocol]
    alien = next((name for name in workload if name not in kind.model_fields), None)
    if alien is not None:
        raise PlanError(f"--{alien.replace('_', '-')}: is not a setting of {at.protocol}")
    fields = dict(workload)
    if "headers" in fields:
        fields["headers"] = headers(fields["headers"])
    if "body" in fields:
        fields.setdefault("method", "POST")
    try:
        return Question(workload=kind(**at.workload, **fields), connect=at.connect, tls=at.tls, **asked)
    except ValidationError as error:
        raise PlanError(mistakes.of_settings(error)) from None


def refuse_mismatch(asked: Question, host: Host) -> None:
    """Raises PlanError where the server speaks another protocol than it is to be asked, with the address to write."""
    if asked.tls is not None or (seen := host.mismatch(asked.connect, asked.workload)) is None:
        return
    place = asked.url.partition("://")[2].partition("/")[0]
    is_http = asked.workload.protocol == "http"
    schemes = {"speaks_http": f"http://{place}/", "speaks_tls": f"{'https' if is_http else 'tls'}://{place}"}
    flags = protocol_probe.remedy(seen.kind, as_flags=True).removeprefix(": use ")
    if asked.connect.startswith("unix:"):
        write = flags
    else:
        write = schemes.get(seen.kind) or (f"tcp://{place} {flags}" if flags else "")
    # Without a sign of another protocol it may just be slow, or not well: the runs will tell.
    if write:
        raise PlanError(f"the server at {asked.connect} {seen.message}: write {write}")


def run(
    asked: Question,
    host: Host,
    runs: Path,
    tell: Tell,
    *,
    server_pid: int | None = None,
    fresh: bool = False,
    tell_aside: Callable[[str, Path], None] = lambda changed, folder: None,
    clocks: runner.Clocks = runner.CLOCKS,
) -> Path:
    """Runs what is left of a question and returns its folder; raises StoreError or TrialFailed, and then what is done
    is kept. `tell` is given what is known at first, and after each run.

    A question that is answered is asked anew, and so is one that was asked of another server, as far as the process
    behind the address is known; with `fresh` any is. The earlier run is kept under a new name, which `tell_aside` gets.
    """
    machine = host.describe()
    machine["identity"]["server"] = None if server_pid is None else programs.of_process(server_pid)
    folder = state.folder_of(asked, runs)
    changed, is_answered = runner.earlier(folder, machine["identity"], _is_answered)
    with (
        runner.moved_aside(
            folder,
            is_old=fresh or bool(changed) or bool(is_answered),
            put_back=lambda: tell_aside(runner.NOTHING_MEASURED, folder),
        ) as set_aside,
        state.writing(asked, machine, runs) as writer,
    ):
        if set_aside is not None:
            tell_aside(changed, set_aside)
        tell(found := state.follow(asked, writer.records))
        is_settled = server_pid is None
        while found.next is not None:
            _refuse_another(machine["identity"]["server"])
            record = _measured(host, asked, found.next, len(writer.records), server_pid, clocks.wall())
            with runner.signals_held():
                writer.append(record)
            if not is_settled:
                _settle(folder, machine)
                is_settled = True
            tell(found := state.follow(asked, writer.records))
    return folder


def _refuse_another(server: Mapping[str, Any] | None) -> None:
    """Raises TrialFailed where a server, if its process is known, is not the one that was asked before."""
    if server is None:
        return
    if changed := programs.changes({"server": server}, {"server": programs.of_process(server["pid"])}):
        raise TrialFailed("changed", f"{changed}: run the same command again, which asks the server there is then")


def _settle(folder: Path, machine: Mapping[str, Any]) -> None:
    """Marks, after a run, the files named by the server's command that it writes: they no longer count."""
    server = machine["identity"]["server"]
    server["files"] = programs.settled(server["files"], programs.of_process(server["pid"])["files"])
    store.write_machine(folder, machine)


def _is_answered(folder: Path) -> bool:
    return (folder / layout.QUESTION).is_file() and state.known(folder).next is None


def _measured(host: Host, asked: Question, step: Step, number: int, server_pid: int | None, started: str) -> Record:
    """One run, and what the server used in its window. The server's processes are looked for while it rests."""
    tree, readings, slices = None, list[proc.Usage](), list[Interval]()
    with runner.running(host.load(state.load_spec(asked, step, number))) as load:
        for event in load.events(runner.TICK_S):
            if isinstance(event, LoadReady) and server_pid is not None:
                tree = proc.look(server_pid)
            elif isinstance(event, Measuring | Measured) and tree is not None:
                readings.append(proc.usage(tree))
            elif isinstance(event, Interval):
                slices.append(event)
            elif isinstance(event, Report):
                _refuse(event)
                cpu_ns = _used(event, readings)
                return Record(step=step, started=started, report=event, slices=tuple(slices), server_cpu_ns=cpu_ns)
    raise TrialFailed("contract", "the load generator ended without a report", final=True)


def _refuse(report: Report) -> None:
    """Raises TrialFailed where there was nothing to measure, or no longer: such a run says nothing of the server."""
    if report.interrupted:
        raise TrialFailed("interrupted", "the load generator was interrupted")
    if report.gone:
        first = f" ({report.first_error})" if report.first_error else ""
        raise TrialFailed("gone", f"the server went away{first}: start it again, and run the same command")
    if report.requests.correct == 0 and report.schedule is None:
        first = f" ({report.first_error})" if report.first_error else ""
        raise TrialFailed("errors", f"no request was answered rightly{first}: ask for what the server has", final=True)


def _used(report: Report, readings: list[proc.Usage]) -> int | None:
    """What was used between two readings, by the length of the window: they are never taken quite at its edges."""
    if len(readings) != 2:
        return None
    before, after = readings
    share = (report.end_ns - report.begin_ns) / max(1, after.read_ns - before.read_ns)
    return round(share * max(0, after.cpu_ns - before.cpu_ns))


def _split(url: str, scheme: str) -> tuple[SplitResult, str, int]:
    """The parts of a URL, with its host and port; raises PlanError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, PORTS[scheme] if parts.port is None else parts.port
    except ValueError:
        parts, host, port = SplitResult(scheme, "", "", "", ""), None, 0
    if "@" in parts.netloc:
        raise PlanError("a user name in the address is not supported: leave out what is before the @")
    if not host or port == 0:
        raise PlanError(f"{url!r} has no host and port: write it as in {scheme}://127.0.0.1:8080")
    if port is None:
        raise PlanError(f"{url!r} is no address: write {scheme}://host:port")
    return parts, host, port


def _resolved(host: str, port: int) -> str:
    """One address as the contract writes it; raises PlanError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlanError(f"cannot find {host!r}: {reason}: check the name, or write an address as 127.0.0.1") from None
    addresses = [(family, address[0], port) for family, _, _, _, address in found]
    chosen = next((each for each in addresses if len(addresses) == 1 or _accepts(*each)), addresses[0])
    family, address, port = chosen
    return f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"


def _accepts(family: int, address: str | int, port: int) -> bool:
    with socket.socket(family) as probe:
        probe.settimeout(CONNECT_S_MAX)
        return probe.connect_ex((address, port)) == 0
