"""The results of a trial: its report, what the server used, how noisy the machine was, and every warning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pydantic import AliasChoices, Field

from iolab.contract.literals import Phase, Saw
from iolab.contract.ready import ReadyLine
from iolab.contract.types import Frozen, PathReport, Report, ServeReady
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import LONG_MS

# The topology is the same while the core-to-core latency stays below this multiple of its minimum. Migrated processors
# differ by a factor of three and more, the measurement itself by a tenth.
SAME_TOPOLOGY_MAX = 1.7
# Failures without a fault: the contestant cannot hold so many connections, or this machine lacks what it needs.
LEFT_OUT = frozenset({"holds", "unavailable"})


RanOut = Literal["descriptors", "processes", "threads", "memory", "backlog", "ports"]


class ProcessUsage(Frozen):
    """The use of one process of a server over the window, and its memory and connections at the end.

    `cpu_ns` is without its children. `anonymous_bytes` is memory that belongs to no file, and counts in full however
    many processes share it. Memory and connections are None if the kernel does not report them.
    """

    pid: int = Field(ge=1)
    cpu_ns: int = Field(ge=0)
    pss_bytes: int | None = Field(default=None, ge=0)
    anonymous_bytes: int | None = Field(default=None, ge=0)
    connections: int | None = Field(default=None, ge=0)


class Growth(Frozen):
    """A server along a trial, from before its load to the end of the window: samples, column by column.

    `times_ns` count from the first sample. Everything is summed over the processes. `zombies` have ended and were not
    waited for; `processes` includes them.
    """

    times_ns: tuple[int, ...]
    rss_bytes: tuple[int, ...]
    threads: tuple[int, ...]
    processes: tuple[int, ...]
    zombies: tuple[int, ...]
    descriptors: tuple[int, ...]


class Throttled(Frozen):
    """A CPU quota in the window: its periods, the exhausted ones, and how long tasks waited then."""

    periods: int = Field(ge=0)
    throttled: int = Field(ge=0)
    throttled_ns: int = Field(ge=0)


class ServerUsage(Frozen):
    """What the server's whole process tree used over exactly the measured window.

    `cpu_ns` is the figure to judge by; its split into user and system is sampled by the kernel's tick and only informs.
    Context switches and run delay are None for a server with so many tasks that reading them would slow it down.
    `rss_bytes_max` is the highest resident size, `rss_bytes_median` the median of samples, both summed over processes;
    `pss_bytes` counts shared pages once (None if the kernel does not report it). `connections_taken` is how many it had
    accepted when the window began (None for a command, which does not report it).

    `processes_each` has at most 256 of its processes. Of those alive at the end, `processes_serving` used more than 1 %
    of the processor time or, among many, more than a tenth of an equal share; `threads_serving` likewise.
    `thread_cpu_ns_max` is the processor time of the thread that used most, without the kernel threads that poll an
    io_uring ring. `polling_ns` is the time of all those threads, which `cpu_ns` includes; None if it was not read. Page
    faults are None for a server of many tasks. The network counters are those of the whole machine or network
    namespace, from before the load to the end of the window: connections lost because the queue of a listener was full,
    all connections lost at a listener, and SYN cookies sent instead.

    Memory is read at the end of the window, while all connections are open; with an external client, it is the maximum
    seen while the client ran. `private_bytes` are pages of no other process. Besides the server's memory there is that
    of the load's processes, and the growth of the machine's used memory since before the server started; None if
    unknown. The other figures of the `client` are those of iolab's generator in the window; None for an external
    client.
    """

    cpu_ns: int = Field(ge=0)
    wall_ns: int = Field(ge=1)
    user_ns: int = Field(ge=0)
    system_ns: int = Field(ge=0)
    rss_bytes_max: int = Field(ge=0)
    rss_bytes_median: int = Field(ge=0)
    pss_bytes: int | None = Field(default=None, ge=0)
    context_switches_voluntary: int | None = Field(default=None, ge=0)
    context_switches_involuntary: int | None = Field(default=None, ge=0)
    threads: int = Field(ge=0)
    processes: int = Field(ge=0)
    run_delay_ns: int | None = Field(default=None, ge=0)
    connections_taken: int | None = Field(default=None, ge=0)
    processes_each: tuple[ProcessUsage, ...] = ()
    processes_serving: int | None = Field(default=None, ge=0)
    threads_serving: int | None = Field(default=None, ge=0)
    thread_cpu_ns_max: int | None = Field(default=None, ge=0)
    polling_ns: int | None = Field(default=None, ge=0)
    faults_minor: int | None = Field(default=None, ge=0)
    faults_major: int | None = Field(default=None, ge=0)
    listen_overflows: int | None = Field(default=None, ge=0)
    listen_drops: int | None = Field(default=None, ge=0)
    syn_cookies_sent: int | None = Field(default=None, ge=0)
    throttled: Throttled | None = None
    growth: Growth | None = None
    private_bytes: int | None = Field(default=None, ge=0)
    client_rss_bytes: int | None = Field(default=None, ge=0)
    client_pss_bytes: int | None = Field(default=None, ge=0)
    client_private_bytes: int | None = Field(default=None, ge=0)
    client_user_ns: int | None = Field(default=None, ge=0)
    client_system_ns: int | None = Field(default=None, ge=0)
    client_switches_voluntary: int | None = Field(default=None, ge=0)
    client_switches_involuntary: int | None = Field(default=None, ge=0)
    client_faults_minor: int | None = Field(default=None, ge=0)
    client_faults_major: int | None = Field(default=None, ge=0)
    machine_bytes: int | None = None


class ClientRun(Frozen):
    """An external client's report of its run, and what it used from its start to its end.

    It reports how many `requests` were answered and how many `failed`, in how long, and how long each of its processes
    or threads took. `cpu_ns` covers all its processes. Memory, processes and threads are maxima over its run. `stdout`
    is the end of its output.
    """

    requests: int = Field(ge=0)
    failed: int = Field(default=0, ge=0)
    elapsed_s: float = Field(gt=0)
    clients_s: tuple[float, ...] = ()
    wall_ns: int = Field(ge=1)
    cpu_ns: int = Field(ge=0)
    rss_bytes_max: int = Field(ge=0)
    pss_bytes_max: int | None = Field(default=None, ge=0)
    private_bytes_max: int | None = Field(default=None, ge=0)
    processes_max: int = Field(ge=0)
    threads_max: int = Field(ge=0)
    stdout: str = ""

    @property
    def rate_per_s(self) -> float:
        """Requests answered per second, by its own clock."""
        return self.requests / self.elapsed_s


class MachineNoise(Frozen):
    """The load of other programs and the state of the machine during the window.

    `steal_share` is the share of all processor time that the hypervisor took (0 to 1). `foreign_cpu_cores` is the
    processor time of everything but the server, the generator and the lab, in cores (0.1: a tenth of one core), less an
    allowance for the ends of threads, which the kernel bills to no process. `run_delay_share` is the time the server's
    threads were runnable without a processor, over their run time; None if unknown. `core_to_core_ns` is the round trip
    of a cache line between the server's processor and the generator's, before and after the load; None if they share
    processors or are not pinned.
    """

    steal_share: float = Field(ge=0, le=1)
    foreign_cpu_cores: float = Field(ge=0)
    run_delay_share: float | None = Field(default=None, ge=0)
    core_to_core_ns: tuple[float, float] | None = Field(
        default=None, validation_alias=AliasChoices("core_to_core_ns", "apart_ns")
    )


class Break(Frozen):
    """How a server broke: the client's first failure, then findings from before the server was stopped.

    The failure has the number of the request and of its connection, from 1, its phase and kind; no request if none had
    begun. `ran_out` is the exhausted resource; None if none was found. `evidence` has the figures in words. `recovered`
    says whether it answered one request on a new connection once the load was gone.
    """

    request: int | None = Field(default=None, ge=1)
    connection: int | None = Field(default=None, ge=1)
    phase: Phase | None = None
    saw: Saw | None = None
    ran_out: RanOut | None = None
    evidence: tuple[str, ...] = ()
    recovered: bool | None = None


class Failure(Frozen):
    """A trial that failed. `kind` is a word (`address_in_use`, `died`), `message` one line for display.

    `final` says that a second try cannot help (the machine lacks io_uring, the option does not exist, a reply is
    wrong): the contestant is not started again in this comparison. `said` has the last lines of the failed process's
    standard error. `how` is present if a server broke under its load. Most failed trials have no report; one that
    counts requests has, and its `kind` is `errors`.
    """

    kind: str
    message: str
    final: bool = False
    said: tuple[str, ...] = ()
    how: Break | None = None

    @property
    def line(self) -> str:
        """One line: the message, and the last line of the process."""
        return f"{self.message}: {self.said[-1].strip()}" if self.said else self.message

    @property
    def of_the_server(self) -> bool:
        """Whether the server failed under its load and was examined; not the lab, the generator or the machine."""
        return self.how is not None and (self.kind in ("errors", "died") or self.how.phase is not None)

    @property
    def left_out(self) -> bool:
        """Whether the contestant was left out because it cannot do this at all, rather than failed."""
        return self.kind in LEFT_OUT


class WarningKind(NamedTuple):
    """A word's meaning: whether it discards the trial, and the advice to the reader in one sentence."""

    discards: bool
    advice: str


# All warnings. Their rules are in judge/trial.py; none of them looks at which contestant is ahead.
WARNINGS: dict[str, WarningKind] = {
    "generator_saturated": WarningKind(
        False, "The generator was the limit: throughput is a lower bound. Compare CPU per request."
    ),
    "too_short": WarningKind(
        False, "Too few requests in the window: make it longer (vs: --duration, experiment: trial.duration_ms)."
    ),
    "machine_noisy": WarningKind(
        False, "Other programs or the hypervisor used the machine: stop other programs, or run more blocks."
    ),
    "unequal_replies": WarningKind(
        False, "The contestants send replies of different length, so they do not do equal work."
    ),
    "steadiness_unseen": WarningKind(
        False,
        "The window is too short to see whether throughput had settled: "
        "run without --quick, or make it longer (vs: --duration, experiment: trial.duration_ms).",
    ),
    "not_steady": WarningKind(
        False,
        "Throughput drifted within the window: make warm-up and window longer "
        "(vs: --warmup, --duration; experiment: trial.warmup_ms, trial.duration_ms).",
    ),
    "p99_not_supported": WarningKind(
        False,
        "Too few requests for a p99: make the window longer "
        "(vs: --duration, experiment: trial.duration_ms), or read the p50.",
    ),
    "processor_shared": WarningKind(
        False,
        "The generator shared its processor with the server, as requested, or with the path: compare throughput and "
        "CPU, not latency.",
    ),
    "rate_missed": WarningKind(
        False, "The server did not keep up with the rate, so latency grows with the window: use a lower rate."
    ),
    "never_steady": WarningKind(
        True,
        "Throughput never settled: make the warm-up longer "
        "(vs: --warmup, experiment: trial.warmup_ms), or look at the server's log.",
    ),
    "replies_not_verified": WarningKind(
        False,
        "An external client made the load, so iolab did not verify the replies: compare such figures only with "
        "each other.",
    ),
    "path_dropped": WarningKind(
        False,
        "Packets were dropped at the queue of the path, and TCP sent them again: this is normal at the rate of the "
        "path; else raise path.queue_packets.",
    ),
    "interrupted": WarningKind(True, "The run was stopped before the window ended: start it again, it resumes."),
    "connections_missing": WarningKind(
        True, "Not all connections were open: raise the limit of open files, or use fewer connections."
    ),
    "connections_waiting": WarningKind(
        True,
        "The server had not accepted all connections when the window began: "
        "make the warm-up longer (vs: --warmup, experiment: trial.warmup_ms).",
    ),
    "wrong_replies": WarningKind(True, "Replies were wrong: correct the server before you compare it."),
    "errors": WarningKind(True, "More than 0.1 % of the requests failed: find the cause before you compare speeds."),
    "counts_open": WarningKind(True, "The generator's counts do not add up: report this as a bug of the generator."),
    "bytes_open": WarningKind(True, "The bytes do not match the replies: report this as a bug of the generator."),
    "littles_law": WarningKind(
        True, "Connections, throughput and latency contradict each other: report this as a bug."
    ),
    "generator_late": WarningKind(True, "The generator was away for too long: give it its own processor."),
    "generator_starved": WarningKind(True, "The generator had to wait for a processor: give it its own."),
    "path_full": WarningKind(
        True,
        "More packets were in transit than the path can hold, so it dropped some: "
        "lower path.rate_bits_per_s or path.delay_ms.",
    ),
    "path_late": WarningKind(
        True, "The path delivered packets late, so the delay was longer than requested: stop other programs."
    ),
    "machine_busy": WarningKind(
        True, "Other programs or the hypervisor used the machine: stop other programs, or measure elsewhere."
    ),
}
WarningWord = Literal[
    "generator_saturated",
    "too_short",
    "machine_noisy",
    "unequal_replies",
    "steadiness_unseen",
    "not_steady",
    "p99_not_supported",
    "processor_shared",
    "rate_missed",
    "replies_not_verified",
    "path_dropped",
    "never_steady",
    "interrupted",
    "connections_missing",
    "connections_waiting",
    "wrong_replies",
    "errors",
    "counts_open",
    "bytes_open",
    "littles_law",
    "generator_late",
    "generator_starved",
    "path_full",
    "path_late",
    "machine_busy",
]


class LimitProbe(Frozen):
    """What trials beside the timed ones show of the limit of a cell.

    `gain` is the rate with twice as many requests in flight over the timed number, in short trials next to each other;
    the shares are those of the processors then. `ceiling_per_s` is the highest known rate of the generator under the
    same load, in this run or against the cheapest server. None for what was not measured.
    """

    gain: float | None = Field(default=None, gt=0)
    server_share: float | None = Field(default=None, ge=0)
    generator_share: float | None = Field(default=None, ge=0)
    ceiling_per_s: float | None = Field(default=None, gt=0)


class CostCount(Frozen):
    """What a request and a connection cost one contestant at one setting, measured in a short trial that is not timed.

    `comparison` and `slot` are indices into the plan, `cell` the key of the planned cell. `calls` are the server's
    syscalls for `requests`; None if they could not be counted, for the reason `why_not`. The server's own memory, in
    bytes, is read before the first connection and while all are at work; None if unknown. `limit` is what further
    trials showed of the cell's limit; None if the timed trials show it. All of it took `took_s`; None in counts of
    earlier versions.
    """

    comparison: int = Field(ge=0)
    slot: int = Field(ge=0)
    cell: str
    requests: int = Field(default=0, ge=0)
    calls: int | None = Field(default=None, ge=0)
    why_not: str | None = None
    own_bytes_before: int | None = Field(default=None, ge=0)
    own_bytes: int | None = Field(default=None, ge=0)
    limit: LimitProbe | None = None
    took_s: float | None = Field(default=None, ge=0)

    def is_of(self, plan: Plan) -> bool:
        """Whether a stored count belongs to this plan."""
        return (
            self.comparison < len(plan.comparisons)
            and self.slot < len(plan.comparisons[self.comparison].cells)
            and self.cell == plan.comparisons[self.comparison].cells[self.slot].key
        )

    @property
    def per_request(self) -> float | None:
        """Syscalls per request; None if they could not be counted."""
        return self.calls / self.requests if self.calls is not None and self.requests else None


class TrialWarning(Frozen):
    """A reason to trust a trial less. `detail` gives the figures in one sentence."""

    word: WarningWord
    detail: str

    @property
    def discards(self) -> bool:
        """Whether the trial is discarded: kept in the record, used for nothing."""
        return WARNINGS[self.word].discards

    @property
    def advice(self) -> str:
        """What the reader can do, in one sentence."""
        return WARNINGS[self.word].advice


class Minute(Frozen):
    """A minute of a long trial, stored when it is over, so that an interrupted trial keeps its figures.

    `started` is that of its trial, and `number` counts its minutes from 1. The sizes are those at its end: of the
    server, of the generator, and of the lab itself; neither of the last two may grow.
    """

    trial: Trial
    started: str
    number: int = Field(ge=1)
    seconds: float = Field(gt=0)
    correct: int = Field(ge=0)
    wrong: int = Field(ge=0)
    failed: int = Field(ge=0)
    p50_ns: int = Field(ge=0)
    p99_ns: int = Field(ge=0)
    max_ns: int = Field(ge=0)
    rss_bytes: int = Field(ge=0)
    threads: int = Field(ge=0)
    processes: int = Field(ge=0)
    zombies: int = Field(ge=0)
    descriptors: int = Field(ge=0)
    generator_rss_bytes: int = Field(ge=0)
    lab_rss_bytes: int = Field(ge=0)


class Piece(Frozen):
    """The part of a trial measured before it was cut off; a further trial continued it."""

    started: str
    seconds: float = Field(gt=0)
    correct: int = Field(ge=0)
    wrong: int = Field(ge=0)
    failed: int = Field(ge=0)


def pieces(minutes: Iterable[Minute]) -> tuple[Piece, ...]:
    """The interrupted trials behind these minutes, in order."""
    of_trial: dict[str, list[Minute]] = {}
    for minute in minutes:
        of_trial.setdefault(minute.started, []).append(minute)
    return tuple(
        Piece(
            started=started,
            seconds=sum(each.seconds for each in found),
            correct=sum(each.correct for each in found),
            wrong=sum(each.wrong for each in found),
            failed=sum(each.failed for each in found),
        )
        for started, found in of_trial.items()
    )


class Result(Frozen):
    """A finished trial, good or bad. A failed one has a `failure` and may lack the rest.

    `started` is wall time as ISO 8601, a label only; no interval is ever computed from it. `took_s` is the time since
    the end of the previous trial; None if the trial was not run, or an earlier version ran it. `ready` is the ready
    event of an engine server, `ready_line` that of another. `report` is the generator's; a trial with an external
    client has `client` instead, and one without a load neither. A long trial that was cut off has `pieces`: they add to
    its requests and replies, and to no other figure.
    """

    trial: Trial
    started: str
    took_s: float | None = Field(default=None, ge=0)
    ready: ServeReady | None = None
    ready_line: ReadyLine | None = None
    report: Report | None = None
    client: ClientRun | None = None
    server: ServerUsage | None = None
    noise: MachineNoise | None = None
    path: PathReport | None = None
    warnings: tuple[TrialWarning, ...] = Field(default=(), validation_alias=AliasChoices("warnings", "doubts"))
    failure: Failure | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether it has figures: of the generator, of an external client, or of a server without a load."""
        return self.report is not None or self.server is not None

    @property
    def answered(self) -> int:
        """How many requests were answered correctly, those of earlier pieces included."""
        ours = 0 if self.report is None else self.report.requests.correct
        return ours + sum(piece.correct for piece in self.pieces)

    @property
    def unanswered(self) -> int:
        """How many requests failed or were answered wrongly, those of earlier pieces included."""
        ours = 0 if self.report is None else self.report.requests.wrong + self.report.requests.failed
        return ours + sum(piece.wrong + piece.failed for piece in self.pieces)

    @property
    def discarded(self) -> bool:
        """Whether the trial counts for nothing, by rules that do not depend on which contestant is ahead."""
        return self.failure is not None or not self.is_measured or any(each.discards for each in self.warnings)

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether it may be run again. A trial that counts requests and broke may not, because that is its result.

        Nor may a long one, which would take as long again.
        """
        if self.report is None:
            return self.discarded and not self.pieces
        is_long = self.report.end_ns - self.report.begin_ns >= LONG_MS * 1_000_000
        return self.discarded and self.failure is None and not is_long and not self.pieces
