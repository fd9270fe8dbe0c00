"""Asks a server for its capacity: one run of the generator after the other, each kept before the next begins.

`capacity` decides what is run and what it means. Here the server is found, the generator is followed, the processor
time of a server on this machine is read at the edges of the window, and a person is shown what comes out.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iolab import capacity, layout, listener, mistakes, proc, programs, protocol_probe, runner, search, store
from iolab.agent import Host
from iolab.capacity import Found, Question, Record, Shot, Step
from iolab.contract import (
    WORKLOADS,
    Interval,
    LoadReady,
    Measured,
    Measuring,
    Report,
    Tls,
    percent,
)
from iolab.engine import TrialFailed
from iolab.literals import Protocol
from iolab.plan import PlanError
from iolab.search import rate_words, time_words
from iolab.terminal import NOTHING_MEASURED, aside, duration, say
from iolab.trial import quantile_supported

# How long an address may take to accept before the next one of a name is tried.
CONNECT_S_MAX = 1.0
# The schemes of addresses with a host, and the port that is meant where none is written.
PORTS = {"http": 80, "https": 443, "tcp": None, "tls": None}
# How many runs a question takes, more or less, beside those of the curve.
SEARCH_RUNS = 11

# Whether a run held its limits, for the table.
WORDS: dict[search.Word, str] = {"holds": "yes", "breaks": "no", "generator": "no (generator)", "unjudged": "too few"}

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
    folder = capacity.folder_of(asked, runs)
    changed, is_answered = runner.earlier(folder, machine["identity"], _is_answered)
    with (
        runner.moved_aside(
            folder,
            is_old=fresh or bool(changed) or bool(is_answered),
            put_back=lambda: tell_aside(NOTHING_MEASURED, folder),
        ) as set_aside,
        capacity.writing(asked, machine, runs) as writer,
    ):
        if set_aside is not None:
            tell_aside(changed, set_aside)
        tell(found := capacity.follow(asked, writer.records))
        is_settled = server_pid is None
        while found.next is not None:
            _refuse_another(machine["identity"]["server"])
            record = _measured(host, asked, found.next, len(writer.records), server_pid, clocks.wall())
            with runner.signals_held():
                writer.append(record)
            if not is_settled:
                _settle(folder, machine)
                is_settled = True
            tell(found := capacity.follow(asked, writer.records))
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
    return (folder / layout.QUESTION).is_file() and capacity.known(folder).next is None


def show_question(console: Console, asked: Question, server_pid: int | None) -> None:
    """Says before the first run what is asked, and how long it takes where the search goes straight."""
    runs = SEARCH_RUNS + len(capacity.CURVE)
    length_s = runs * (asked.warmup_ms + asked.settings.probe_ms) / 1_000
    length_s += (capacity.BEFORE + 1 + capacity.WATCHED) * asked.settings.probe_ms / 1_000
    say(console, f"{' and '.join(asked.limits)} at {asked.url}, {asked.connections} connections")
    say(
        console,
        f"{runs} to {2 * runs} runs of {asked.settings.probe_ms / 1_000:g} s or more, {duration(length_s)} or more",
    )
    if server_pid is not None:
        say(console, f"the server is process {server_pid} ({listener.name(server_pid)}): its processor time is read")


class Lines:
    """A listener for a question that is asked: a line for what is there already, and one for each run that ends.

    `knows_server`: whether the process behind the address is known, so that another one would be noticed.
    """

    def __init__(self, console: Console, *, knows_server: bool) -> None:
        self._console, self._knows_server = console, knows_server
        self._begun = False

    def aside(self, changed: str, folder: Path) -> None:
        """Says that an earlier run is kept, and why it is not gone on with."""
        say(self._console, aside(changed, folder))

    def __call__(self, found: Found) -> None:
        """Shows what is new."""
        if self._begun:
            say(self._console, run_line(found))
        elif found.shots:
            unsure = "" if self._knows_server else ", as far as it is known of the same server"
            say(self._console, f"{len(found.shots)} runs are there already{unsure}: --fresh asks anew")
        self._begun = True


def run_line(found: Found) -> str:
    """The run that has just ended, in one line."""
    shot = found.shots[-1]
    rate = "" if shot.step.rate_per_s is None else f" {rate_words(shot.step.rate_per_s)}"
    what = f"{len(found.shots):>3} {shot.step.purpose}{rate}"
    if shot.step.purpose == "recovery":
        return f"{what}: {capacity.recovery_sentence(found)}"
    achieved = f"{rate_words(shot.seen.achieved_per_s)}, p99 {_time(shot, 'p99')}"
    if shot.step.rate_per_s is None:
        return f"{what}: {achieved}"
    # The advice that follows a colon is told once, at the end.
    why = shot.judged.why.partition(":")[0]
    return f"{what}: {achieved}: {shot.judged.word}" + (f" ({why})" if why else "")


def show_found(console: Console, found: Found) -> None:
    """The table of all runs, the slowest first, and what follows from them."""
    knows_cpu = any(shot.cpu_per_request_ns is not None for shot in found.shots)
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    headings = ("asked/s", "achieved/s", "p50", "p99", "p99.9", "errors", *(["CPU µs"] if knows_cpu else []))
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("holds?", overflow="fold")
    closed = [shot for shot in found.shots if shot.step.purpose == "closed loop"]
    for shot in (*closed, *found.curve):
        shown.add_row(*_row(shot, knows_cpu=knows_cpu))
    if found.shots:
        console.print(shown)
    for sentence in capacity.sentences(found):
        say(console, sentence)


def _row(shot: Shot, *, knows_cpu: bool) -> tuple[str, ...]:
    asked, cpu_ns = shot.step.rate_per_s, shot.cpu_per_request_ns
    cpu = "–" if cpu_ns is None else f"{cpu_ns / 1e3:,.0f}" if cpu_ns >= 1e6 else f"{cpu_ns / 1e3:.3g}"
    return (
        "closed loop" if asked is None else rate_words(asked).removesuffix("/s"),
        rate_words(shot.seen.achieved_per_s).removesuffix("/s"),
        *(_time(shot, name) for name in ("p50", "p99", "p99.9")),
        percent(shot.seen.errors_share, 2) if shot.seen.errors_share else "0",
        *([cpu] if knows_cpu else []),
        "" if asked is None else WORDS[shot.judged.word],
    )


def _time(shot: Shot, name: str) -> str:
    """A quantile, where there were requests enough for it."""
    is_carried = quantile_supported(shot.seen.replies, search.QUANTILES[name])
    return time_words(shot.seen.times_ns[name]) if is_carried else "–"


def _measured(host: Host, asked: Question, step: Step, number: int, server_pid: int | None, started: str) -> Record:
    """One run, and what the server used in its window. The server's processes are looked for while it rests."""
    tree, readings, slices = None, list[proc.Usage](), list[Interval]()
    with runner.running(host.load(capacity.load_spec(asked, step, number))) as load:
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
