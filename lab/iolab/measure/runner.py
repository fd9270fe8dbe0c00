"""Runs a plan: every trial in its order with a fresh server, one line in the store for each, and resumable at any time.

The runner decides nothing about figures. It takes the counters at the edges of the window the generator names, hands
the trial to the rules of `trial`, and asks `plan.remaining` what is left, which is also how void blocks come again.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from iolab.contract.types import Frozen, HttpWorkload, LoadReady, LoadSpec, Measured, Measuring, Report, ServeReady
from iolab.errors import BadInput, IolabError
from iolab.judge import trial
from iolab.machine import proc
from iolab.machine.cpus import Cpu, choose_cpus
from iolab.machine.noise import noise
from iolab.measure import programs
from iolab.measure.agent import Calls, Host, RunningLoad, RunningServer, Sample
from iolab.measure.contestants import Building
from iolab.measure.engine import LoadEvent, TrialFailed
from iolab.measure.protocol_probe import Mismatch
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import Cell
from iolab.results import layout, store
from iolab.results.records import DOUBTS, CostCount, Failure, Result, ServerUsage
from iolab.results.remaining import given_up, remaining, uncounted

# The signals that end the lab.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Memory is sampled this often, and a dead server is noticed this soon.
TICK_S = 0.1
# Why an earlier run has its folder again.
NOTHING_MEASURED = "nothing was measured"
# A first look at every contestant before the first block: so many requests, all verified, over so few connections.
CHECK_REQUESTS = 64
CHECK_CONNECTIONS = 4
CHECK_TIMEOUT_MS = 3_000
# A contestant that fails its first look is looked at once more: a port may have been taken in between. So it is with
# a count, for which the lab may have come too late.
CHECKS_MAX = 2
SEEN_ONCE = frozenset({"cannot_start", "wrong_address", "hung", "silent"})
COUNTS_MAX = 3
# How much of its window a count spans. The rest is for a lab that is late.
COUNTED_SHARE = 0.5
# How long after a failure of the generator a server may take to be seen dead.
DEATH_S_MAX = 0.5
# The run prints a warning if none of its first blocks, this many, has a usable trial.
FIRST_BLOCKS = 3
# Failures of a contestant that are the fault of its command.
BAD_COMMANDS = frozenset({"cannot_start", "wrong_address"})
# How an engine begins to say that the kernel does not let it count.
UNCOUNTED = "system calls cannot be counted"
# Soon after the window the server idles, so it is a late first reading that loses processor time. Up to this share of
# the window it is made up for by the server's own rate; beyond it the trial is lost.
LATE_SHARE_MAX = 0.15


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan is about to be run; `why` says in words how its processors were chosen."""

    plan: Plan
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """The run's folder is open. `done` of `planned` trials are there already; `faults` are lines it lost.

    An earlier run that this one does not go on with is `set_aside` under a new name; `changed` says what differs from
    it, empty where nothing does. `ended` is when a run that has nothing left to do came to its end.
    """

    folder: Path
    plan: Plan
    done: int
    planned: int
    faults: tuple[str, ...]
    set_aside: Path | None
    changed: str
    ended: str | None


@dataclass(frozen=True, slots=True)
class PutBack:
    """The new run ended before its first trial, so the earlier one has its folder again."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Checked:
    """A contestant was looked at before the first block: the size of its replies, or why it is not compared."""

    contestant: str
    reply_bytes: int | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A contestant takes no part in a comparison: it cannot, and `why` says why in a word or a line."""

    contestant: str
    comparison: str
    why: str


@dataclass(frozen=True, slots=True)
class CanTakePart:
    """Contestants were left out when the run began, and could take part now: only a fresh run would measure them."""

    contestants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Crowded:
    """Others use much of the machine before the first trial; `why` says what, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class NothingUsable:
    """The first `blocks` blocks are over, and no trial of them can be used; `why` says what most of them failed for."""

    blocks: int
    why: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The system calls of a contestant were counted, or could not be."""

    contestant: str
    comparison: str
    count: CostCount


@dataclass(frozen=True, slots=True)
class TrialBegan:
    """A trial begins. `left_s` is how long the rest of the plan should take, this trial included."""

    trial: Trial
    title: str
    comparison: str
    left_s: float


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is over and in the store. `done` counts trials, the ones run again too; so does `planned`."""

    result: Result
    title: str
    comparison: str
    done: int
    planned: int


Record = TypeVar("Record", bound=Frozen)
Process = TypeVar("Process", RunningServer, RunningLoad)
End = TypeVar("End")
Told = TypeVar("Told", LoadReady, Measuring, Measured, Report)
Event = (
    Planned
    | Opened
    | PutBack
    | LeftOut
    | CanTakePart
    | Crowded
    | Checked
    | TrialBegan
    | TrialEnded
    | NothingUsable
    | Counted
    | Building
)
Tell = Callable[[Event], None]
# The digests of the files of each command, by the command's text.
Executed = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks a run needs: intervals in seconds, and a label for people."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall: Callable[[], str] = field(default=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


CLOCKS = Clocks()


class ContestantFailed(IolabError):
    """A contestant that was to be compared failed, and nothing is measured without it; `failure` says why."""

    def __init__(self, contestant: str, failure: Failure) -> None:
        super().__init__(f"{contestant}: {failure.line}")
        self.contestant, self.failure = contestant, failure
        is_bad_input = failure.kind in BAD_COMMANDS or failure.kind.startswith("speaks_")
        self.code = BadInput.code if is_bad_input else IolabError.code


class Stopped(BaseException):
    """A signal asked the lab to end. `code` is the exit code a shell expects for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def run(
    plan: Plan,
    host: Host,
    runs: Path,
    tell: Tell,
    *,
    left_out: Mapping[tuple[int, int], Failure] | None = None,
    all_or_none: bool = False,
    repeat: bool = False,
    fresh: bool = False,
    clocks: Clocks = CLOCKS,
) -> Path:
    """Runs what is left of a plan and returns its folder; raises StoreError when results cannot be kept.

    `left_out` are the (comparison, slot) pairs that cannot take part. A run of another engine, another machine or
    other programs is set aside under a new name first; with `repeat` one that has ended too, and with `fresh` any. With
    `all_or_none` a contestant that fails its first look, or dies, ends the run: ContestantFailed.
    """
    machine = host.describe()
    folder = store.folder_of(plan, runs)
    executed = _executed(plan, host, folder)
    if executed:
        machine["identity"]["programs"] = executed
    changed, ended = earlier(folder, machine["identity"], store.ended)
    is_old = fresh or bool(changed) or (repeat and ended is not None)
    with (
        moved_aside(folder, is_old=is_old, put_back=lambda: tell(PutBack(folder))) as set_aside,
        store.writing(plan, machine, runs) as writer,
    ):
        progress = _Progress(plan, writer, tell, clocks, all_or_none=all_or_none)
        done, planned = len(progress.results), progress.planned
        ended = ended if done == planned else None
        tell(Opened(folder, plan, done, planned, writer.trials.faults, set_aside, changed, ended))
        if progress.rest() and (why := trial.crowded(host.noise())):
            tell(Crowded(why))
        _leave_out(progress, left_out or {})
        _check_contestants(progress, host)
        if executed:
            executed = _settled(executed, host.programs(plan))
            machine["identity"]["programs"] = executed
            store.write_machine(folder, machine)
        # Asked anew after each trial: a void one of many is run again in its own block.
        while rest := progress.rest():
            _refuse_changed(plan, host, executed)
            progress.look_back(rest[0])
            _run_trial(progress, host, rest[0])
        left = uncounted(plan, progress.results, writer.trials.counts)
        _refuse_changed(plan, host, executed)
        are_counted = [_count(progress, host, comparison, slot) for comparison, slot in left]
        if all(are_counted):
            writer.end(ended or clocks.wall())
    return folder


def placed(plan: Plan, topology: Sequence[Cpu]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with a server's and a generator's processors chosen wherever a cell names none, and why, in words."""
    words: dict[str, None] = {}

    def place(cell: Cell) -> Cell:
        if cell.server_cpus or cell.load_cpus:
            words["as given"] = None
            return cell
        sets = choose_cpus(topology, cell.workers, cell.threads)
        words[sets.why] = None
        return _with(cell, server_cpus=sets.server, load_cpus=sets.load)

    return _with_cells(plan, place), tuple(words)


def with_cpus(plan: Plan, server_cpus: tuple[int, ...], load_cpus: tuple[int, ...]) -> Plan:
    """The plan with these processors for every cell; an empty set leaves that side as it is."""
    given = {"server_cpus": server_cpus, "load_cpus": load_cpus}
    changes = {name: cpus for name, cpus in given.items() if cpus}
    return _with_cells(plan, lambda cell: _with(cell, **changes))


def measure(host: Host, cell: Cell, scheduled: Trial, clocks: Clocks = CLOCKS) -> Result:
    """One trial: a fresh server, one run of the generator, and what both used. A failure is a result too."""
    result = Result(trial=scheduled, started=clocks.wall())
    try:
        ready, report, server, seen = _measure(host, cell)
    except TrialFailed as failed:
        return result.model_copy(update={"failure": failed.failure})
    before, after = seen.before, seen.after
    wall_ns = after.server.read_ns - before.server.read_ns
    cpu_ns = max(0, after.server.cpu_ns - before.server.cpu_ns)
    lab_ns = after.lab_cpu_ns - before.lab_cpu_ns
    return result.model_copy(
        update={
            "ready": ready,
            "report": report,
            "server": server,
            "noise": noise(
                before.machine,
                after.machine,
                ours_ns=cpu_ns + report.generator.cpu_ns + lab_ns,
                wall_ns=wall_ns,
                cpu_ns=cpu_ns,
                run_delay_ns=server.run_delay_ns,
                apart_ns=seen.apart_ns,
            ),
        }
    )


class _Progress:
    """A run as far as it has come: its results, and how fast it goes compared with what its plan expects."""

    def __init__(self, plan: Plan, writer: store.Writer, tell: Tell, clocks: Clocks, *, all_or_none: bool) -> None:
        self.plan, self.tell, self.clocks, self.all_or_none = plan, tell, clocks, all_or_none
        self.results = list(writer.trials.results)
        self._writer = writer
        self._expected_s, self._spent_s = 0.0, 0.0
        self._rest_known: tuple[Trial, ...] = ()
        self._rest_after = -1
        self._has_looked_back = False

    @property
    def planned(self) -> int:
        """How many results there will be when nothing more has to be run again."""
        return len(self.results) + len(self.rest())

    def is_wanted(self, scheduled: Trial) -> bool:
        """Whether its contestant is still in its comparison: a final failure puts it out."""
        gone = given_up({result.trial.place: result for result in self.results})
        return (scheduled.comparison, scheduled.slot) not in gone

    def left_s(self) -> float:
        """How long the rest should take at the pace so far."""
        pace = self._spent_s / self._expected_s if self._expected_s else 1.0
        return pace * sum(self.plan.cell(rest).trial_ms for rest in self.rest()) / 1_000

    def rest(self) -> tuple[Trial, ...]:
        """What is still to be run, worked out once after each result: of many contestants that takes milliseconds."""
        if self._rest_after != len(self.results):
            self._rest_known, self._rest_after = remaining(self.plan, self.results), len(self.results)
        return self._rest_known

    def names(self, scheduled: Trial) -> tuple[str, str]:
        """The title of its contestant and the name of its comparison."""
        comparison = self.plan.comparisons[scheduled.comparison]
        return comparison.titles[scheduled.slot], comparison.name

    def keep(self, result: Result, spent_s: float = 0.0) -> None:
        """Stores a result, whatever signal comes meanwhile, and tells of it."""
        with signals_held():
            self._writer.append(result)
        self.results.append(result)
        title, comparison = self.names(result.trial)
        if result.failure is not None and result.failure.left_out:
            self.tell(LeftOut(title, comparison, result.failure.message))
            return
        if spent_s and result.failure is None:
            self._spent_s += spent_s
            self._expected_s += self.plan.cell(result.trial).trial_ms / 1_000
        self.tell(TrialEnded(result, title, comparison, len(self.results), self.planned))

    def look_back(self, upcoming: Trial) -> None:
        """Tells, once the first blocks are over, that no trial can be used so far: the rest will hardly be better."""
        if self._has_looked_back or upcoming.block < FIRST_BLOCKS:
            return
        self._has_looked_back = True
        if why := _why_unusable(self.results):
            self.tell(NothingUsable(FIRST_BLOCKS, why))

    def keep_count(self, count: CostCount, *, passing: bool) -> None:
        """Stores a count of system calls as a result is stored, and tells of it.

        What only failed in `passing` is told and not stored, so that the run counts it when it is resumed.
        """
        if not passing:
            with signals_held():
                self._writer.append(count)
        comparison = self.plan.comparisons[count.comparison]
        self.tell(Counted(comparison.titles[count.slot], comparison.name, count))


def _why_unusable(results: Sequence[Result]) -> str:
    """What most trials were discarded for, or failed with; empty where one can be used."""
    if not all(result.void for result in results):
        return ""
    words = Counter(doubt.word for result in results for doubt in result.doubts if doubt.voids)
    if words:
        word, trials = words.most_common(1)[0]
        return f"{word.replace('_', ' ')} ({trials} of {len(results)} trials): {DOUBTS[word].advice}"
    failures = Counter(result.failure.message for result in results if result.failure is not None)
    return "".join(message for message, _ in failures.most_common(1))


def _executed(plan: Plan, host: Host, folder: Path) -> Executed:
    """The programs of a plan, with the files marked that servers of an earlier run in this folder wrote."""
    known: Mapping[str, Any] = {}
    with suppress(store.StoreError):
        known = store.read_machine(folder).get("identity", {}).get("programs", {})
    return {
        command: programs.with_known(files, known.get(command, {})) for command, files in host.programs(plan).items()
    }


def _settled(executed: Executed, now: Executed) -> Executed:
    """The programs of a plan after the first look, with the files marked that its servers have written."""
    return {command: programs.settled(files, now[command]) for command, files in executed.items()}


def _refuse_changed(plan: Plan, host: Host, executed: Executed) -> None:
    """Raises StoreError where a program has changed since the run began: it would be another server."""
    if changed := programs.changes({"programs": executed}, {"programs": host.programs(plan)}):
        raise store.StoreError(f"{changed} since this run began: start it again to measure anew; its trials are kept")


def _run_trial(progress: _Progress, host: Host, scheduled: Trial) -> None:
    begin_s = progress.clocks.monotonic_s()
    progress.tell(TrialBegan(scheduled, *progress.names(scheduled), progress.left_s()))
    cell = progress.plan.cell(scheduled)
    result = trial.judged(cell, measure(host, cell, scheduled, progress.clocks))
    progress.keep(result, progress.clocks.monotonic_s() - begin_s)
    failure = result.failure
    if progress.all_or_none and failure is not None and (failure.final or failure.kind == "died"):
        # Its last lines were printed when the trial ended.
        raise ContestantFailed(progress.names(scheduled)[0], failure.model_copy(update={"said": ()}))


def _leave_out(progress: _Progress, left_out: Mapping[tuple[int, int], Failure]) -> None:
    """Keeps, for each contestant that cannot take part, one result that says why: it is never started.

    Who was left out for what its machine lacked, and is not any more, is named.
    """
    able = {
        progress.names(result.trial)[0]: None
        for result in progress.results
        if progress.plan.holds(result.trial)
        and result.failure is not None
        and result.failure.kind == "unavailable"
        and (result.trial.comparison, result.trial.slot) not in left_out
    }
    if able:
        progress.tell(CanTakePart(tuple(able)))
    for scheduled in remaining(progress.plan, progress.results):
        failure = left_out.get((scheduled.comparison, scheduled.slot))
        if failure is not None and progress.is_wanted(scheduled):
            progress.keep(Result(trial=scheduled, started=progress.clocks.wall(), failure=failure))


def _check_contestants(progress: _Progress, host: Host) -> None:
    """Looks at each contestant with each workload before the first block.

    One that fails takes no part, or ends the run where all of them are to be compared.
    """
    seen: dict[str, Failure | None] = {}
    for scheduled in remaining(progress.plan, progress.results):
        if not progress.is_wanted(scheduled):
            continue
        cell = progress.plan.cell(scheduled)
        kind = f"{cell.contestant.text} {cell.workload.model_dump_json()}"
        if kind not in seen:
            checked = _check(host, cell, progress.names(scheduled)[0])
            if progress.all_or_none and checked.failure is not None:
                raise ContestantFailed(checked.contestant, checked.failure)
            progress.tell(checked)
            seen[kind] = checked.failure
        failure = seen[kind]
        if failure is not None:
            progress.keep(Result(trial=scheduled, started=progress.clocks.wall(), failure=failure))


def _check(host: Host, cell: Cell, title: str) -> Checked:
    failure = None
    for _ in range(CHECKS_MAX):
        try:
            return Checked(title, _reply_bytes(host, cell), None)
        except TrialFailed as failed:
            is_final, failure = failed.failure.final, failed.failure.model_copy(update={"final": True})
            # Trying again helps against a port that another process took, and nothing that takes long to see.
            if is_final and (failure.kind in SEEN_ONCE or failure.kind.startswith("speaks_")):
                break
    return Checked(title, None, failure)


def _reply_bytes(host: Host, cell: Cell) -> int:
    """The size of one reply, after a short run in which every reply was verified; raises TrialFailed."""
    with running(host.start(cell)) as server, _death_first(server):
        if server.ready is None:
            _refuse_mismatch(host.mismatch(server.addresses[0], cell.workload))
        spec = _load_spec(
            cell,
            server.addresses,
            connections=min(cell.connections, CHECK_CONNECTIONS),
            threads=1,
            warmup_ms=0,
            duration_ms=None,
            requests=CHECK_REQUESTS,
            timeout_ms=min(cell.timeout_ms, CHECK_TIMEOUT_MS),
        )
        with running(host.load(spec)) as load:
            report = next(event for event in load.events(TICK_S) if isinstance(event, Report))
    _refuse_faulty(report)
    return round(report.bytes.received / report.requests.correct)


def _refuse_mismatch(mismatch: Mismatch | None) -> None:
    """Raises TrialFailed where a server does not answer the protocol that it is asked for."""
    if mismatch is not None:
        raise TrialFailed(*mismatch, final=True)


def _refuse_faulty(report: Report) -> None:
    """Raises TrialFailed unless every request of a first look was answered, and rightly."""
    requests = report.requests
    if requests.correct == CHECK_REQUESTS and not requests.wrong and not requests.failed:
        return
    first = f" ({report.first_error})" if report.first_error else ""
    seen = (
        f"{requests.correct} of {CHECK_REQUESTS} requests over {report.connections} connections were answered rightly"
    )
    if report.errors.timeout:
        raise TrialFailed("silent", f"{seen}{first}: it may serve fewer connections at once, so use fewer", final=True)
    raise TrialFailed("wrong_replies" if requests.wrong else "errors", f"{seen}{first}: it is not compared", final=True)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a server in a trial: its processes before and after, the samples at the edges of the window, and
    its memory. The proportional size is read once, at the end.
    """

    first: proc.Tree
    before: Sample
    after: Sample
    last: proc.Tree
    memory: tuple[proc.Memory, ...]
    pss_bytes: int | None
    connections_taken: int | None
    apart_ns: tuple[float, float] | None


def _measure(host: Host, cell: Cell) -> tuple[ServeReady | None, Report, ServerUsage, _Seen]:
    with (
        running(host.start(cell)) as server,
        _death_first(server),
        running(host.load(_load_spec(cell, server.addresses))) as load,
    ):
        report, seen = _window(server, load, lambda: host.apart_ns(cell))
    return server.ready, report, _usage(report, seen), seen


def _window(server: RunningServer, load: RunningLoad, apart_ns: Callable[[], float | None]) -> tuple[Report, _Seen]:
    """Follows the generator to its report. It waits while it is ready and when it has measured, so what is read there
    takes no time from the window.
    """
    events = load.events(TICK_S)
    memory = []
    _next(events, LoadReady, server.check)
    first, apart_before_ns = server.look(), apart_ns()
    _next(events, Measuring, server.check)
    # What is looked at quickly is looked at again: in the warm-up it may have started more.
    first = server.look() if first.is_small else first
    before = server.sample(first)
    # Answered as soon as the server comes to it, and read when the window is over, so as to wait for nothing.
    server.ask()

    def tick() -> None:
        server.check()
        if first.is_small:
            memory.append(server.memory(first))

    _next(events, Measured, tick)
    # The clocks first: requests that were in flight at the end are still being served.
    after = server.sample(first)
    last = server.look()
    if not set(last.pids) <= set(first.pids):
        after = server.sample(last)
    memory.append(server.memory(last))
    apart_after_ns = apart_ns()
    seen = _Seen(
        first,
        before,
        after,
        last,
        tuple(memory),
        server.pss_bytes(last),
        _taken(server),
        None if apart_before_ns is None or apart_after_ns is None else (apart_before_ns, apart_after_ns),
    )
    report = _next(events, Report, server.check)
    server.check()
    return report, seen


def _next(events: Iterator[LoadEvent | None], kind: type[Told], tick: Callable[[], None]) -> Told:
    """The next event, which is to be of this kind; `tick` is called whenever there has been none for a while."""
    for event in events:
        if isinstance(event, kind):
            return event
        if event is not None:
            raise TrialFailed(
                "contract", f"the load generator said {event.event} where {kind.__name__.lower()} was due", final=True
            )
        tick()
    raise TrialFailed("contract", "the load generator ended without a report", final=True)


def _taken(server: RunningServer) -> int | None:
    """How many connections a server that was asked has accepted; None of one that does not say."""
    said = server.served()
    return None if said is None else sum(worker.connections for worker in said.workers)


def _usage(report: Report, seen: _Seen) -> ServerUsage:
    begin, end = seen.before.server, seen.after.server
    cpu_ns = round(_made_up(report, begin.read_ns) * max(0, end.cpu_ns - begin.cpu_ns))
    # The kernel's split is as coarse as its tick.
    user_ns = max(0, seen.last.user_ns - seen.first.user_ns)
    system_ns = max(0, seen.last.system_ns - seen.first.system_ns)
    user_share = user_ns / max(1, user_ns + system_ns)
    delay_ns = _grown(begin.run_delay_ns, end.run_delay_ns)
    voluntary = _grown(begin.switches_voluntary, end.switches_voluntary)
    involuntary = _grown(begin.switches_involuntary, end.switches_involuntary)
    return ServerUsage(
        cpu_ns=cpu_ns,
        wall_ns=max(1, report.end_ns - report.begin_ns),
        user_ns=round(user_share * cpu_ns),
        system_ns=cpu_ns - round(user_share * cpu_ns),
        rss_bytes_max=max(memory.rss_bytes_max for memory in seen.memory),
        rss_bytes_median=round(statistics.median(memory.rss_bytes for memory in seen.memory)),
        pss_bytes=seen.pss_bytes,
        connections_taken=seen.connections_taken,
        context_switches_voluntary=None if voluntary is None else max(0, voluntary),
        context_switches_involuntary=None if involuntary is None else max(0, involuntary),
        threads=seen.last.threads,
        processes=len(seen.last.pids),
        # The delay of tasks that ended in between is gone with them: then it is unknown.
        run_delay_ns=delay_ns if delay_ns is not None and delay_ns >= 0 else None,
    )


def _grown(before: int | None, after: int | None) -> int | None:
    """By how much a counter has grown; None where it was not read at both edges."""
    return None if before is None or after is None else after - before


def _made_up(report: Report, read_ns: int) -> float:
    """By what to multiply what was counted from a late first reading on; raises TrialFailed when it is too late."""
    wall_ns = max(1, report.end_ns - report.begin_ns)
    late_ns = max(0, read_ns - report.begin_ns)
    if late_ns > LATE_SHARE_MAX * wall_ns:
        raise TrialFailed(
            "lab_late", f"the lab got no processor for {late_ns / 1e6:.0f} ms: close what uses the machine"
        )
    return wall_ns / (wall_ns - late_ns)


def _count(progress: _Progress, host: Host, comparison: int, slot: int) -> bool:
    """Keeps what a contestant costs at a setting, seen in a trial of its own; why not, where that cannot be seen.

    False where it only failed in passing, so that it has to be counted yet.
    """
    cell = progress.plan.counting_cell(comparison, slot)
    passing = False
    for _ in range(COUNTS_MAX):
        try:
            seen, passing = _costs(host, cell), False
        except TrialFailed as failed:
            seen, passing = {"why_not": failed.failure.message}, not failed.failure.final
        if not passing:
            break
    key = progress.plan.comparisons[comparison].cells[slot].key
    progress.keep_count(CostCount(comparison=comparison, slot=slot, cell=key, **seen), passing=passing)
    return not passing


def _costs(host: Host, cell: Cell) -> dict[str, Any]:
    """The fields of a count that were seen in one trial; raises TrialFailed.

    Memory is read when the window is over and the server rests. Calls are counted within it, and the requests between
    the two readings are those of the generator's intervals.
    """
    before: Calls | None = None
    after: Calls | None = None
    own_bytes = None
    with running(host.start(cell, count_calls=True)) as server, _death_first(server):
        own_bytes_before = server.own_bytes(server.look())
        with running(host.load(_load_spec(cell, server.addresses))) as load:
            for event in load.events(COUNTED_SHARE * cell.duration_ms / 1_000):
                if isinstance(event, Measuring):
                    before = server.calls()
                elif event is None and before is not None and after is None:
                    after = server.calls()
                elif isinstance(event, Measured):
                    own_bytes = server.own_bytes(server.look())
                elif isinstance(event, Report):
                    report = event
        why_not = _why_uncounted(server.ready)
    if before is None or after is None or after.read_ns > report.end_ns:
        raise TrialFailed("lab_late", "the lab came too late to see what it costs: close what uses the machine")
    memory = {"own_bytes_before": own_bytes_before, "own_bytes": own_bytes}
    if before.calls is None or after.calls is None:
        return {"why_not": why_not, **memory}
    requests = _completed(report, before.read_ns, after.read_ns)
    return {"requests": requests, "calls": max(0, after.calls - before.calls), **memory}


def _completed(report: Report, begin_ns: int, end_ns: int) -> int:
    """How many requests were answered between two instants, by the generator's intervals and parts of them."""
    series = report.intervals
    completed = 0.0
    for number, count in enumerate(series.completed):
        slice_ns = series.begin_ns + number * series.length_ns
        inside_ns = min(end_ns, slice_ns + series.length_ns) - max(begin_ns, slice_ns)
        completed += count * max(0, inside_ns) / series.length_ns
    return round(completed)


def _why_uncounted(ready: ServeReady | None) -> str:
    """What the server said that the kernel keeps it from."""
    if ready is None:
        return "only servers of the engine count them"
    said = next((lack for lack in ready.lacks if lack.startswith(UNCOUNTED)), "")
    return said.removeprefix(f"{UNCOUNTED}: ") or "the server did not say why"


def _load_spec(cell: Cell, addresses: tuple[str, ...], **changes: object) -> LoadSpec:
    workload = cell.workload
    if isinstance(workload, HttpWorkload) and workload.host is None:
        workload = _with(workload, host=addresses[0])
    spec = LoadSpec(
        driver=cell.driver,
        workload=workload,
        connect=addresses,
        connections=cell.connections,
        threads=cell.threads,
        cpus=cell.load_cpus,
        warmup_ms=cell.warmup_ms,
        duration_ms=cell.duration_ms,
        timeout_ms=cell.timeout_ms,
        interval_ms=cell.interval_ms,
    )
    return _with(spec, **changes)


def earlier(folder: Path, identity: Mapping[str, Any], ended: Callable[[Path], End]) -> tuple[str, End | None]:
    """What differs now from the earlier run of a folder, empty where nothing does, and how it `ended`.

    A run that cannot be read differs: it cannot be gone on with.
    """
    is_there = (folder / layout.MACHINE).exists()
    try:
        changed = programs.changes(store.read_machine(folder).get("identity"), identity) if is_there else ""
        return changed, ended(folder)
    except store.StoreError:
        return "the earlier run cannot be read", None


@contextmanager
def moved_aside(folder: Path, *, is_old: bool, put_back: Callable[[], None]) -> Iterator[Path | None]:
    """Gives an old run another name, and its own again where the new one leaves nothing: then `put_back` is called."""
    aside = _move_aside(folder) if is_old else None
    try:
        yield aside
    except BaseException:
        if aside is not None and not folder.exists():
            aside.rename(folder)
            put_back()
        raise


def _move_aside(folder: Path) -> Path | None:
    """Gives an old run another name, and keeps it: results are never deleted here."""
    if not folder.exists():
        return None
    number = next(n for n in range(1, 1_000_000) if not folder.with_name(f"{folder.name}.{n}").exists())
    return folder.rename(folder.with_name(f"{folder.name}.{number}"))


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Whatever happens, the process is stopped."""
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def _death_first(server: RunningServer) -> Iterator[None]:
    """Reports the death of the server rather than the generator's failure, which follows from it.

    A connection is reset before its process is seen to be dead: hence the wait.
    """
    try:
        yield
    except TrialFailed as failed:
        if failed.failure.kind != "died":
            server.check(DEATH_S_MAX)
        raise


@contextmanager
def stopping_on(signals: Iterable[signal.Signals] = ENDING) -> Iterator[None]:
    """Turns these signals into `Stopped`, so that children are ended and what is finished is kept."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Holds back the signals that end the lab, so that a result is stored whole or not at all.

    Blocking them would not do: a thread of a numerical library would take them, and the lab would stop all the same.
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for held in came:
            signal.raise_signal(held)


def _with_cells(plan: Plan, change: Callable[[Cell], Cell]) -> Plan:
    comparisons = tuple(
        _with(comparison, cells=tuple(change(cell) for cell in comparison.cells)) for comparison in plan.comparisons
    )
    return _with(plan, comparisons=comparisons)


def _with(record: Record, **changes: object) -> Record:
    """A copy with other values, validated again."""
    values = {name: getattr(record, name) for name in type(record).model_fields}
    return type(record)(**(values | changes))
