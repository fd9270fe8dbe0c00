"""The engine of this environment: finding and checking it, and communication with its processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from iolab.contract.types import (
    ContractError,
    Description,
    Failed,
    FirstFailure,
    Frozen,
    Interval,
    LoadReady,
    LoadSpec,
    Measured,
    Measuring,
    ModelAbout,
    PathReady,
    PathReport,
    PathSpec,
    Report,
    Served,
    ServeReady,
    ServeSpec,
    one_line,
    parse_load_event,
    parse_path_event,
    parse_serve_event,
)
from iolab.errors import PlanError
from iolab.machine import proc
from iolab.measure import binary
from iolab.measure.binary import EngineError
from iolab.measure.child import Child, Ended
from iolab.plan.contestant import Contestant
from iolab.results.records import Failure

Event = TypeVar("Event")
Document = TypeVar("Document", bound=Frozen)
LoadEvent = LoadReady | Measuring | Interval | Measured | Report

# How long a step may take before it fails. Each is far longer than a loaded machine needs.
DESCRIBE_S_MAX = 10.0
READY_S_MAX = 15.0
DISTANCE_S_MAX = 2.0
SERVED_S_MAX = 2.0
EXIT_S_MAX = 2.0
# The time of a generator beyond warm-up, window and time-out: to connect, drain and merge histograms.
LOAD_SLACK_S = 15.0

# Exit codes that a second try cannot change: a wrong spec, and a machine that lacks a feature.
BAD_SPEC = 2
FINAL_CODES = (BAD_SPEC, 78)


NOTHING: Mapping[str, str] = {}


class TrialFailed(Exception):
    """A process of a trial could not do its work; `failure` is the entry for the record.

    `first` is the first failure of a generator that could not open its connections.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        final: bool = False,
        said: Sequence[str] = (),
        first: FirstFailure | None = None,
    ) -> None:
        self.first = first
        self.failure = Failure(kind=kind, message=message, final=final, said=tuple(said))
        super().__init__(self.failure.line)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that was found and checked. `digest` is the SHA-256 of its file."""

    path: Path
    digest: str
    description: Description


def open_engine() -> Engine:
    """Finds and checks the engine of this environment; raises EngineError with one line."""
    path = Path(binary.find())
    description = describe(path)
    binary.verify(str(path), description.build)
    return Engine(path, binary.digest(str(path)), description)


def describe(path: Path) -> Description:
    """The output of `iolab-engine describe`; raises EngineError with one line."""
    return _described(path, [], Description)


def variant(engine: Engine, contestant: Contestant) -> ModelAbout:
    """The engine's description of a model with these options; raises PlanError for invalid ones, or EngineError."""
    words = [word for name, value in contestant.options.items() for word in ("-o", f"{name}={value}")]
    return _described(engine.path, ["--model", contestant.name, *words], ModelAbout)


def core_to_core_ns(engine: Engine, one: int, other: int) -> float | None:
    """The round trip of a cache line between two processors, in ns; None if it cannot be measured."""
    command = [str(engine.path), "distance", str(one), str(other)]
    try:
        ran = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=DISTANCE_S_MAX, check=False
        )
        return float(ran.stdout) if ran.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def _described(path: Path, arguments: list[str], document: type[Document]) -> Document:
    try:
        ran = subprocess.run(
            [str(path), "describe", *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=DESCRIBE_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{path} cannot be run: {error}") from None
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        if arguments and ran.returncode == BAD_SPEC:
            raise PlanError(said[-1].removeprefix("error: "))
        raise EngineError(f"{path} describe ended with {ran.returncode}: {said[-1]}")
    try:
        return document.model_validate_json(ran.stdout)
    except ValidationError as error:
        raise EngineError(f"{path} describe broke the contract: {one_line(error)}: run: make build") from None


def command(engine: Engine, role: str) -> list[str]:
    """The argument list of a supervised engine process, which reads its spec from standard input."""
    return [str(engine.path), role, "--spec", "-"]


def serve(
    engine: Engine, spec: ServeSpec, environment: Mapping[str, str] = NOTHING, before: Sequence[str] = ()
) -> tuple[Child, ServeReady]:
    """Starts a server and waits until it accepts; raises TrialFailed. The caller stops the child.

    `environment` is added to the lab's. The program that `before` names becomes the command (exec), so the process id
    stays.
    """
    child = _start([*before, *with_environment(environment, command(engine, "serve"))], spec)
    try:
        line = _line(child, READY_S_MAX, "the server")
        event = _parsed(parse_serve_event, line)
        if isinstance(event, Failed):
            raise _failed(child, event)
        if isinstance(event, Served):
            raise TrialFailed("contract", "the server said what it served before it was ready", final=True)
        return child, event
    except BaseException:
        child.stop()
        raise


def ask_served(child: Child) -> None:
    """Requests the counters of a server. A busy server takes its time to answer: see `served`."""
    child.send(b"")


def served(child: Child) -> Served:
    """The answer of a server to `ask_served`; raises TrialFailed."""
    event = _parsed(parse_serve_event, _line(child, SERVED_S_MAX, "the server", "did not say what it served"))
    if not isinstance(event, Served):
        raise TrialFailed("contract", f"the server said {event.event} when it was asked what it served", final=True)
    return event


def path(engine: Engine, spec: PathSpec) -> tuple[Child, PathReady]:
    """Starts a path and waits until it carries packets; raises TrialFailed. The caller stops the child."""
    child = _start(command(engine, "path"), spec)
    try:
        event = _parsed(parse_path_event, _line(child, READY_S_MAX, "the path"))
        if isinstance(event, Failed):
            raise _failed(child, event)
        if isinstance(event, PathReport):
            raise TrialFailed("contract", "the path reported before it was ready", final=True)
        return child, event
    except BaseException:
        child.stop()
        raise


def carried(child: Child) -> PathReport:
    """What a path has carried since the last call; raises TrialFailed."""
    child.send(b"")
    event = _parsed(parse_path_event, _line(child, SERVED_S_MAX, "the path", "did not say what it carried"))
    if not isinstance(event, PathReport):
        raise TrialFailed("contract", f"the path said {event.event} when it was asked what it carried", final=True)
    return event


class Load:
    """A running load generator; `events` yields its events as they happen.

    It waits at `ready` and at `measured` until the next event is requested.
    """

    def __init__(self, engine: Engine, spec: LoadSpec) -> None:
        self._spec = spec.model_copy(update={"held": True})
        self._child = _start(command(engine, "load"), self._spec)

    @property
    def pid(self) -> int:
        """The process id of the generator."""
        return self._child.pid

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        """Yields each event, and None after every `tick_s` without one; the last event is the report.

        Raises TrialFailed if the generator fails, dies, breaks the contract or takes too long.
        """
        seconds = load_s_max(self._spec)
        deadline, what = time.monotonic() + seconds, f"open its {self._spec.connections:,} connections"
        while True:
            try:
                line = self._child.line(tick_s)
            except Ended as ended:
                raise _died(self._child, ended, "the load generator") from None
            if line is None:
                if time.monotonic() > deadline:
                    raise TrialFailed("hung", f"the load generator did not {what} within {seconds:.0f} s")
                yield None
                continue
            event = _parsed(parse_load_event, line)
            if isinstance(event, Failed):
                raise _failed(self._child, event)
            yield event
            if isinstance(event, Report):
                return
            if isinstance(event, LoadReady):
                what = "finish"
            if isinstance(event, LoadReady | Measured):
                self._child.send(b"")

    def rss_bytes(self) -> int:
        """The resident memory of all its processes now."""
        return proc.size(self.pid).rss_bytes

    def spent(self) -> proc.Spent:
        """What all its processes have used so far."""
        return proc.spent(self.pid)

    def memory(self) -> proc.Memory | None:
        """The memory of all its processes now, while it is idle; None if the kernel does not report it."""
        return proc.together(proc.memory_each(proc.look(self.pid).pids).values())

    def stop(self) -> None:
        """Ends the generator, at any point of its run."""
        self._child.stop()


def load_s_max(spec: LoadSpec) -> float:
    """How long a generator may take in all. A count of requests has no fixed length: it gets one more time-out."""
    duration_ms = spec.duration_ms if spec.duration_ms is not None else spec.timeout_ms
    return ((spec.warmup_ms or 0) + duration_ms + spec.timeout_ms) / 1_000 + LOAD_SLACK_S


def with_environment(environment: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """A command with additional environment variables. `env` sets them and becomes the command itself."""
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *argv] if environment else [*argv]


def _start(argv: list[str], spec: Frozen) -> Child:
    try:
        return Child(argv, spec.model_dump_json(exclude_none=True).encode())
    except OSError as error:
        raise TrialFailed("cannot_start", f"{argv[0]} cannot be started: {error}", final=True) from None


def _line(child: Child, timeout_s: float, who: str, what: str = "was not ready") -> bytes:
    try:
        line = child.line(timeout_s)
    except Ended as ended:
        raise _died(child, ended, who) from None
    if line is None:
        raise TrialFailed("hung", f"{who} {what} within {timeout_s:.0f} s")
    return line


def _parsed(parse: Callable[[bytes], Event], line: bytes) -> Event:
    try:
        return parse(line)
    except ContractError as error:
        raise TrialFailed("contract", str(error), final=True) from None


def _failed(child: Child, event: Failed) -> TrialFailed:
    """The failure in a `failed` event: its exit code says whether a second try can help."""
    code = child.wait(EXIT_S_MAX)
    return TrialFailed(event.kind, event.message, final=code in FINAL_CODES, first=event.first_failure)


def _died(child: Child, ended: Ended, who: str) -> TrialFailed:
    kind = "died" if who == "the server" else "load_died"
    return TrialFailed(kind, f"{who} {ended}", final=ended.code in FINAL_CODES, said=child.last_words())
