"""Asks a server for its capacity: one run of the generator after the other, each kept before the next begins.

`capacity` decides what is run and what it means. Here the server is found, the generator is followed, the processor
time of a server on this machine is read at the edges of the window, and a person is shown what comes out.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iolab import capacity, listener, proc, runner, search
from iolab.agent import Host
from iolab.capacity import Found, Question, Record, Shot, Step
from iolab.contract import WORKLOADS, LoadReady, Measured, Measuring, Protocol, Report, one_line, percent
from iolab.engine import TrialFailed
from iolab.plan import PlanError
from iolab.search import rate_words, time_words
from iolab.terminal import duration, say
from iolab.trial import quantile_supported

# How long an address may take to accept before the next one of a name is tried.
CONNECT_S_MAX = 1.0
HTTP_PORT = 80
# How many runs a question takes, more or less, beside those of the curve.
SEARCH_RUNS = 11

# Whether a run held its limits, for the table.
WORDS: dict[search.Word, str] = {"holds": "yes", "breaks": "no", "generator": "no (generator)", "unjudged": "too few"}

Tell = Callable[[Found], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL stands for: the protocol and what it asks for, and one address."""

    protocol: Protocol
    workload: Mapping[str, Any]
    connect: str


def target(url: str, protocol: Protocol | None) -> Target:
    """Reads `http://host[:port][/path]`, `tcp://host:port` or `unix:/path` and resolves it; raises PlanError.

    Of several addresses of a name it is the first that accepts a connection.
    """
    if url.startswith("unix:") and not url.startswith("unix://"):
        path = url.removeprefix("unix:")
        if not path:
            raise PlanError(f"{url!r} has no path: write it as in unix:/tmp/server.sock")
        return Target(protocol or "echo", {"host": "localhost"} if protocol == "http" else {}, url)
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise PlanError(f"{url!r} is not complete: write http://{url} or tcp://{url}")
    if scheme not in ("http", "tcp"):
        raise PlanError(f"{scheme}:// is not spoken here: write http://, tcp:// or unix:/path")
    natural: Protocol = "http" if scheme == "http" else protocol or "echo"
    if (protocol or natural) != natural or (scheme == "tcp" and natural == "http"):
        raise PlanError(f"--protocol {protocol} and {scheme}:// do not fit: http goes with http://, others with tcp://")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise PlanError(f"{url!r} has no host and port: write it as in http://127.0.0.1:8080/")
    if scheme == "tcp" and (port is None or parts.path not in ("", "/")):
        raise PlanError(f"{url!r} is no address: write tcp://host:port")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"target": path, "host": parts.netloc} if scheme == "http" else {}
    return Target(natural, fields, _resolved(host, HTTP_PORT if port is None else port))


def headers(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Header lines as they are written by hand; raises PlanError for what is none."""
    parted = [line.partition(":") for line in given]
    for line, (name, colon, _) in zip(given, parted, strict=True):
        if not colon or not name.strip():
            raise PlanError(f"{line!r} is no header: write it as in 'Accept: text/plain'")
    return tuple((name.strip(), value.strip()) for name, _, value in parted)


def question(at: Target, workload: Mapping[str, Any], **asked: Any) -> Question:
    """The question with the settings that were given; raises PlanError with one line."""
    kind = WORKLOADS[at.protocol]
    alien = next((name for name in workload if name not in kind.model_fields), None)
    if alien is not None:
        raise PlanError(f"--{alien.replace('_', '-')}: is not a setting of {at.protocol}")
    try:
        return Question(workload=kind(**at.workload, **workload), connect=at.connect, **asked)
    except ValidationError as error:
        raise PlanError(one_line(error)) from None


def run(
    asked: Question,
    host: Host,
    runs: Path,
    tell: Tell,
    *,
    server_pid: int | None = None,
    fresh: bool = False,
    clocks: runner.Clocks = runner.CLOCKS,
) -> Path:
    """Runs what is left of a question and returns its folder; raises StoreError or TrialFailed, and then what is done
    is kept. `tell` is given what is known at first, and after each run.
    """
    machine = host.describe()
    folder = capacity.folder_of(asked, runs)
    if fresh or runner.is_of_another(folder, machine["identity"]):
        runner.move_aside(folder)
    with capacity.writing(asked, machine, runs) as writer:
        tell(found := capacity.follow(asked, writer.records))
        while found.next is not None:
            report, cpu_ns = _measured(host, asked, found.next, len(writer.records), server_pid)
            record = Record(step=found.next, started=clocks.wall(), report=report, server_cpu_ns=cpu_ns)
            with runner.signals_held():
                writer.append(record)
            tell(found := capacity.follow(asked, writer.records))
    return folder


def known(folder: Path) -> Found:
    """What is known of a stored question; raises StoreError."""
    return capacity.follow(capacity.read_question(folder), capacity.read_records(folder)[0])


def show_question(console: Console, asked: Question, server_pid: int | None) -> None:
    """Says before the first run what is asked, and about how long it takes."""
    runs = SEARCH_RUNS + len(capacity.CURVE)
    length_s = runs * (asked.warmup_ms + asked.settings.probe_ms) / 1_000
    length_s += (capacity.BEFORE + 1 + capacity.WATCHED) * asked.settings.probe_ms / 1_000
    say(console, f"{' and '.join(asked.limits)} at {asked.url}, {asked.connections} connections")
    say(console, f"about {runs} runs of {asked.settings.probe_ms / 1_000:g} s or more, {duration(length_s)} in all")
    if server_pid is not None:
        say(console, f"the server is process {server_pid} ({listener.name(server_pid)}): its processor time is read")


class Lines:
    """A listener for a question that is asked: a line for what is there already, and one for each run that ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = False

    def __call__(self, found: Found) -> None:
        """Shows what is new."""
        if self._begun:
            say(self._console, run_line(found))
        elif found.shots:
            there = f"{len(found.shots)} runs are there already" + (": --fresh asks anew" if found.next is None else "")
            say(self._console, there)
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
    cpu = "–" if cpu_ns is None else f"{cpu_ns / 1e3:.3g}"
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


def _measured(
    host: Host, asked: Question, step: Step, number: int, server_pid: int | None
) -> tuple[Report, int | None]:
    """One run, and what the server used in its window. The server's processes are looked for while it rests."""
    tree, readings = None, []
    with runner.running(host.load(capacity.load_spec(asked, step, number))) as load:
        for event in load.events(runner.TICK_S):
            if isinstance(event, LoadReady) and server_pid is not None:
                tree = proc.look(server_pid)
            elif isinstance(event, Measuring | Measured) and tree is not None:
                readings.append(proc.usage(tree))
            elif isinstance(event, Report):
                _refuse_mute(event)
                return event, _used(event, readings)
    raise TrialFailed("contract", "the load generator ended without a report", final=True)


def _refuse_mute(report: Report) -> None:
    """Raises TrialFailed where there is nothing to measure: then the question, or the server, is another than meant."""
    if report.interrupted:
        raise TrialFailed("interrupted", "the load generator was interrupted")
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
