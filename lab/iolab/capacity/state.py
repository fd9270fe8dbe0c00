"""A question about the capacity of a server: what is asked of it, what was seen, and what follows.

    runs/capacity-<digest>/  question.json  machine.json  probes.jsonl  report.html

First the search (`search`) finds the highest rate that holds the limits. Then the curve is run, at rates on both sides
of that knee, and at last one run that overloads the server for a while and then gives it half of its capacity, to see
how long it takes to recover. Which run comes next follows from the records alone, by pure functions; so a stopped
question goes on where it was, and a report needs no engine. Each line of probes.jsonl is one run, sealed as those of
trials.jsonl are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from iolab.capacity import search
from iolab.capacity.search import Done, Judged, Limit, Measurement, Probe, Settings, rate_words, time_words
from iolab.contract.literals import Arrivals, Driver
from iolab.contract.types import Frozen, Interval, Latency, LoadSpec, Report, Requests, Tls, Workload, one_line, percent
from iolab.errors import StoreError
from iolab.judge.trial import BATCH
from iolab.results import journal, layout, store
from iolab.results.files import make_folder, remove_folder, unread, write_file
from iolab.results.journal import Journal, Stored

# The rates of the curve as shares of the capacity, closer together where it bends.
CURVE = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
# The overload that is looked at, and what the server gets afterwards, as shares of the capacity.
OVERLOAD, AFTERWARDS = 1.5, 0.5
# How long it is loaded lightly before the overload, and watched after it, as multiples of the overload. One that keeps
# its capacity is back after one multiple: what came too much is then as much as is left over.
BEFORE, WATCHED = 0.5, 4.0
# How long a run is warmed up: this, or twice the longest time that is allowed, so that as many requests are in flight
# when the window begins as when it ends. A probe is ten times as long again.
WARMUP_MS, WARMUP_LIMITS, PROBE_LIMITS = 500, 2, 20
# How many standard errors of the rate that random arrivals make fit into the precision.
ARRIVALS_ERRORS = 3.0
# Intervals in a report, and how short they may be.
INTERVALS, INTERVAL_MS_MIN = 250, 20
# Slices of a recovery: how many requests one has at least, which is what a median takes; how short one may be; and how
# many there are after the overload, should those requests take too long.
SLICE_REQUESTS, SLICE_MS_MIN, SLICES_MIN = 20, 100, 2 * BATCH
# An overload is not shorter than this: in shorter ones there would be too few slices.
OVERLOAD_MS_MIN = 500

Purpose = Literal["closed loop", "search", "curve", "recovery"]


class Question(Frozen):
    """Everything that decides what is measured; the same question comes back to the same folder."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    url: str
    workload: Workload
    connect: str
    tls: Tls | None = None
    limits: tuple[str, ...] = Field(min_length=1)
    connections: int = Field(default=50, ge=1)
    threads: int = Field(default=1, ge=1)
    driver: Driver = "epoll"
    cpus: tuple[int, ...] = ()
    arrivals: Arrivals = "poisson"
    seed: int = Field(default=1, ge=0, lt=1 << 32)
    precision: float = Field(default=0.05, ge=0.005, le=0.25)
    probe_ms: int = Field(default=3_000, ge=100, le=600_000)
    timeout_ms: int = Field(default=10_000, ge=1)

    @model_validator(mode="after")
    def _limits_are_limits(self) -> Self:
        for text in self.limits:
            search.parse_limit(text)
        return self

    @property
    def digest(self) -> str:
        """What tells this question from others."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @property
    def parsed(self) -> tuple[Limit, ...]:
        """The limits as figures."""
        return tuple(search.parse_limit(text) for text in self.limits)

    @property
    def longest_ms(self) -> float:
        """The longest time a request may take by any limit, 0 where none speaks of time."""
        return max((limit.below for limit in self.parsed if limit.metric != search.ERRORS), default=0.0) / 1e6

    @property
    def warmup_ms(self) -> int:
        """How long each run is warmed up."""
        return max(WARMUP_MS, math.ceil(WARMUP_LIMITS * self.longest_ms))

    @property
    def settings(self) -> Settings:
        """What the search needs of it."""
        probe_ms = max(self.probe_ms, math.ceil(PROBE_LIMITS * self.longest_ms))
        # The number of random arrivals in a probe has a standard deviation of its root: the rate is as far off.
        requests_min = (ARRIVALS_ERRORS / self.precision) ** 2 if self.arrivals == "poisson" else 1
        return Settings(self.parsed, self.precision, probe_ms, round(requests_min))


class Step(Frozen):
    """One run that is asked for: why, at which rate (None: a closed loop), and for how long.

    Of a recovery `rate_per_s` is that of the overload and `duration_ms` how long it lasts.
    """

    purpose: Purpose
    rate_per_s: float | None
    duration_ms: int


class Record(Frozen):
    """One run as it is stored. `server_cpu_ns` is what the server used in the window, where its process is known.

    A recovery has the `slices` of its window besides; what was stored before they were told has none.
    """

    step: Step
    started: str
    report: Report
    slices: tuple[Interval, ...] = ()
    server_cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Shot:
    """One run and what it says."""

    step: Step
    seen: Measurement
    judged: Judged
    cpu_per_request_ns: float | None


@dataclass(frozen=True, slots=True)
class Slice:
    """A short time of a recovery, in seconds from the beginning of the window, and whether the limits held in it.

    What it asked for is what ended in it, in whatever way.
    """

    begin_s: float
    end_s: float
    seen: Measurement
    holds: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """What an overload left behind. `back_s` is how long after it the server was back within its limits, or None.

    `generator` says why the generator was the limit, empty if it was not.
    """

    overload_per_s: float
    afterwards_per_s: float
    begin_s: float
    end_s: float
    watched_s: float
    goodput_per_s: float
    back_s: float | None
    generator: str
    slices: tuple[Slice, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What is known so far. `next` is the run that comes next, None when all is done; `done` ends the search."""

    question: Question
    shots: tuple[Shot, ...]
    done: Done | None = None
    recovery: Recovery | None = None
    next: Step | None = None

    @property
    def curve(self) -> tuple[Shot, ...]:
        """Every run in an open loop of one rate, the slowest first."""
        steady = [shot for shot in self.shots if shot.step.purpose in ("search", "curve")]
        return tuple(sorted(steady, key=lambda shot: shot.step.rate_per_s or 0.0))

    @property
    def overload(self) -> Shot | None:
        """The run of the curve at OVERLOAD times the capacity."""
        wanted = None if self.done is None else _curve_rate(self.done, OVERLOAD)
        return next((s for s in self.shots if s.step.purpose == "curve" and s.step.rate_per_s == wanted), None)


def follow(question: Question, records: Sequence[Record]) -> Found:
    """What stored runs say, and which comes next; raises StoreError when they are of another procedure."""
    shots: list[Shot] = []
    state = search.State(question.settings)
    while isinstance(probe := search.next_step(state), Probe):
        step = _step("closed loop" if probe.rate_per_s is None else "search", probe)
        if len(shots) == len(records):
            return Found(question, tuple(shots), next=step)
        shots.append(_shot(question, records[len(shots)], step))
        state = search.observe(state, shots[-1].seen)
    recovered = None
    for step in _steps_after(question, probe):
        if len(shots) == len(records):
            return Found(question, tuple(shots), probe, next=step)
        record = records[len(shots)]
        shots.append(_shot(question, record, step))
        if step.purpose == "recovery" and record.slices:
            recovered = recovery(question, record)
    return Found(question, tuple(shots), probe, recovered)


def load_spec(question: Question, step: Step, number: int) -> LoadSpec:
    """What the generator is told for one run. Every run has arrivals of its own, drawn from the seed and its number."""
    stages = [{"from_per_s": step.rate_per_s, "to_per_s": step.rate_per_s, "duration_ms": None}]
    arrivals, duration_ms = question.arrivals, step.duration_ms
    if step.purpose == "recovery":
        # Even arrivals: then no slice is empty, or crowded, by chance.
        arrivals, stages = "even", _stages(step)
        duration_ms = round((BEFORE + 1 + WATCHED) * step.duration_ms)
    open_loop = {"loop": "open", "arrivals": arrivals, "seed": question.seed + number, "stages": stages}
    return LoadSpec.model_validate(
        {
            "driver": question.driver,
            "workload": question.workload,
            "connect": (question.connect,),
            "tls": question.tls,
            "connections": question.connections,
            "threads": question.threads,
            "cpus": question.cpus,
            "warmup_ms": question.warmup_ms,
            "duration_ms": duration_ms,
            "timeout_ms": question.timeout_ms,
            "interval_ms": max(INTERVAL_MS_MIN, duration_ms // INTERVALS),
            "slice_ms": _slice_ms(step) if step.purpose == "recovery" else None,
            "pace": {"loop": "closed"} if step.rate_per_s is None else open_loop,
        }
    )


def measurement(report: Report) -> Measurement:
    """What a report says of the server, and whether it was the server that it saw."""
    requests, window_s = report.requests, (report.end_ns - report.begin_ns) / 1e9
    return Measurement(
        # A generator that gets no processor for so long sees the begin and the end of its window at one time.
        asked_per_s=None if report.schedule is None or window_s == 0 else report.schedule.due / window_s,
        achieved_per_s=report.rate_per_s,
        replies=requests.correct + requests.wrong,
        errors_share=_errors_share(requests),
        times_ns=_times(report.latency_ns),
        late_ns={} if report.views is None else _times(report.views.lateness_ns),
        generator=report.bound.why if report.bound is not None and report.bound.by == "generator" else "",
        window_s=window_s,
    )


def recovery(question: Question, record: Record) -> Recovery:
    """How long after an overload the server took until it was within its limits again; the record has slices.

    It is back at the end of the first slice from which on the limits hold to the end of the run, for `BATCH` slices at
    least. Each slice counts as most of the `BATCH` around it do, so neither one slow slice nor one lucky one decides.
    """
    step, first = record.step, record.slices[0]
    light_per_s, overload_per_s = _rates(step)
    begin_s, end_s = BEFORE * step.duration_ms / 1_000, (BEFORE + 1) * step.duration_ms / 1_000
    # The window may end within a slice, which has then too little in it.
    whole = [each for each in record.slices if each.end_ns - each.begin_ns >= first.end_ns - first.begin_ns]
    slices = [_slice(question, each, first.begin_ns) for each in whole]
    back = [each for each in _held_to_the_end(slices) if each.begin_s >= end_s]
    overloaded = [each.seen.achieved_per_s for each in slices if begin_s <= each.begin_s and each.end_s <= end_s]
    return Recovery(
        overload_per_s=overload_per_s,
        afterwards_per_s=light_per_s,
        begin_s=begin_s,
        end_s=end_s,
        watched_s=WATCHED * step.duration_ms / 1_000,
        goodput_per_s=fmean(overloaded) if overloaded else 0.0,
        back_s=back[0].end_s - end_s if len(back) >= BATCH else None,
        generator=measurement(record.report).generator,
        slices=tuple(slices),
    )


def sentences(found: Found) -> tuple[str, ...]:
    """The verdict, and what is known of an overload; each one sentence."""
    return tuple(filter(None, (verdict(found), overload_sentence(found), recovery_sentence(found))))


def verdict(found: Found) -> str:
    """The capacity in one sentence, or what is known instead of one."""
    limits, done = " and ".join(found.question.limits), found.done
    if done is None:
        return f"Not finished: {_bracket(found)}."
    if done.kind == "never":
        return f"{limits} does not hold at any rate: {done.why}."
    if done.kind == "capacity" and done.rate_per_s is not None:
        return f"The capacity under {limits} is {rate_words(done.rate_per_s)}: {done.why}."
    if done.kind == "at least" and done.rate_per_s is not None:
        return f"The capacity under {limits} is at least {rate_words(done.rate_per_s)}: {done.why}."
    sure = "" if done.rate_per_s is None else f"; {rate_words(done.rate_per_s)} held in two of three trials"
    return f"The capacity under {limits} is not known ({_bracket(found)}{sure}): {done.why}."


def overload_sentence(found: Found) -> str:
    """What becomes of the server at OVERLOAD times its capacity; empty while that is not known."""
    shot, done = found.overload, found.done
    if shot is None or done is None or done.rate_per_s is None:
        return ""
    achieved, kept = rate_words(shot.seen.achieved_per_s), percent(shot.seen.achieved_per_s / done.rate_per_s)
    p99, seconds = time_words(shot.seen.times_ns["p99"]), f"{shot.step.duration_ms / 1_000:.2g} s"
    failed = f", and {percent(shot.seen.errors_share, 1)} failed" if shot.seen.errors_share else ""
    generator = _generator_words(shot.seen.generator)
    said = f"it answers {achieved}, {kept} of its capacity, with a p99 of {p99} after {seconds}"
    return f"At {OVERLOAD:g} times that {said}{failed}{generator}."


def recovery_sentence(found: Found) -> str:
    """How long the server takes to recover from an overload; empty while that is not known."""
    seen = found.recovery
    if seen is None:
        return ""
    length, generator = f"{seen.end_s - seen.begin_s:g} s of that", _generator_words(seen.generator)
    was_back = f"not back within {seen.watched_s:g} s" if seen.back_s is None else f"back within {seen.back_s:.1f} s"
    return f"After {length} and then {AFTERWARDS:g} times the capacity it was {was_back}{generator}."


def document(found: Found) -> dict[str, Any]:
    """All of it as one JSON document. Times are in nanoseconds, shares are fractions."""
    done, seen = found.done, found.recovery
    return {
        "schema": 1,
        "question": found.question.model_dump(mode="json"),
        "finished": found.next is None,
        "kind": None if done is None else done.kind,
        "capacity_per_s": None if done is None else done.rate_per_s,
        "sentences": list(sentences(found)),
        "runs": [_shot_document(shot) for shot in found.shots],
        "recovery": None
        if seen is None
        else {
            "overload_per_s": seen.overload_per_s,
            "overload_s": seen.end_s - seen.begin_s,
            "afterwards_per_s": seen.afterwards_per_s,
            "goodput_per_s": seen.goodput_per_s,
            "back_s": seen.back_s,
            "watched_s": seen.watched_s,
        },
    }


def rows(found: Found) -> list[dict[str, Any]]:
    """One row a run of a search for a capacity, in the order in which they ran."""
    table = []
    for run in document(found)["runs"]:
        times = {f"latency_{name.replace('.', '_')}_ns": time for name, time in run["times_ns"].items()}
        table.append({key: value for key, value in run.items() if key != "times_ns"} | times)
    return table


def folder_of(question: Question, runs: Path) -> Path:
    """The folder of a question."""
    return runs / f"capacity-{question.digest}"


def read_question(folder: Path) -> Question:
    """The question of a stored run; raises StoreError."""
    path = folder / layout.QUESTION
    try:
        return Question.model_validate_json(path.read_bytes())
    except OSError as error:
        raise unread(path, error) from error
    except ValidationError as error:
        raise StoreError(f"{path}: {one_line(error)}: ask again with --fresh") from None


def read_records(folder: Path) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All whole runs up to the first line that is torn or altered, and a line on each that was lost."""
    stored, faults = _stored(folder)
    return tuple(record for record, _, _ in stored), faults


def known(folder: Path) -> Found:
    """What is known of a stored question; raises StoreError."""
    return follow(read_question(folder), read_records(folder)[0])


@dataclass(slots=True)
class Writer:
    """An open, locked run. Get one from `writing`; it appends records."""

    folder: Path
    records: list[Record]
    faults: tuple[str, ...]
    _journal: Journal

    def append(self, record: Record) -> None:
        """Adds one run and syncs it to the disk; raises StoreError, and then nothing was added."""
        self._journal.append(record)
        self.records.append(record)


@contextmanager
def writing(question: Question, machine: Mapping[str, Any], runs: Path) -> Iterator[Writer]:
    """Opens the folder of a question for writing, made or gone on with; raises StoreError."""
    folder = folder_of(question, runs)
    make_folder(folder)
    with journal.opened(folder / layout.PROBES) as file:
        stored, faults = _stored(folder)
        # A torn line, and what follows a damaged one, makes room for runs that are asked for again.
        file.cut(stored[-1].end if stored else 0)
        write_file(folder / layout.QUESTION, question.model_dump_json(indent=2) + "\n")
        store.write_machine(folder, machine)
        writer = Writer(folder, [record for record, _, _ in stored], faults, file)
        try:
            yield writer
        finally:
            if not writer.records:
                # A question without a run leaves nothing behind.
                remove_folder(folder, (layout.QUESTION, layout.MACHINE, layout.PROBES))


def _stored(folder: Path) -> tuple[list[Stored[Record]], tuple[str, ...]]:
    faults: list[str] = []
    stored: list[Stored[Record]] = []
    for each in journal.read(folder / layout.PROBES, Record, faults):
        # What follows a lost run was asked for because of it: it is asked for again.
        if each.line != len(stored) + 1:
            break
        stored.append(each)
    return stored, tuple(faults)


def _step(purpose: Purpose, probe: Probe) -> Step:
    return Step(purpose=purpose, rate_per_s=probe.rate_per_s, duration_ms=probe.duration_ms)


def _steps_after(question: Question, done: Done) -> Iterator[Step]:
    """What is run once the search is over: the curve and the recovery, as far as the generator can go."""
    if done.rate_per_s is None or done.kind not in ("capacity", "at least"):
        return
    for share in CURVE:
        if share <= 1 or done.kind == "capacity":
            rate_per_s = _curve_rate(done, share)
            assert rate_per_s is not None, "there is a capacity"
            yield _step("curve", Probe(rate_per_s, search.probe_duration_ms(question.settings, rate_per_s)))
    if done.kind == "capacity":
        overload_ms = max(OVERLOAD_MS_MIN, question.settings.probe_ms)
        yield _step("recovery", Probe(_curve_rate(done, OVERLOAD), overload_ms))


def _curve_rate(done: Done, share: float) -> float | None:
    return None if done.rate_per_s is None else search.rounded(share * done.rate_per_s)


def _rates(step: Step) -> tuple[float, float]:
    """The light rate and the overload of a recovery."""
    assert step.rate_per_s is not None, "a recovery has a rate"
    return step.rate_per_s * AFTERWARDS / OVERLOAD, step.rate_per_s


def _stages(step: Step) -> list[dict[str, Any]]:
    """Light load, overload, and light load again, which goes on for ever."""
    light_per_s, overload_per_s = _rates(step)
    stages = ((light_per_s, round(BEFORE * step.duration_ms)), (overload_per_s, step.duration_ms), (light_per_s, None))
    return [{"from_per_s": rate, "to_per_s": rate, "duration_ms": length} for rate, length in stages]


def _slice_ms(step: Step) -> int:
    """How long a slice of a recovery is: it has requests enough at the light rate, if that leaves slices enough."""
    light_per_s, _ = _rates(step)
    enough_ms = min(1_000 * SLICE_REQUESTS / light_per_s, WATCHED * step.duration_ms / SLICES_MIN)
    return max(SLICE_MS_MIN, math.ceil(enough_ms), math.ceil(WATCHED * step.duration_ms / INTERVALS))


def _slice(question: Question, told: Interval, begin_ns: int) -> Slice:
    """A slice, judged as a run is: the limits must hold, and what ended in it must have been answered rightly.

    However few its replies are, their median is judged.
    """
    length_s, replies = (told.end_ns - told.begin_ns) / 1e9, told.correct + told.wrong
    seen = Measurement(
        asked_per_s=(replies + told.failed) / length_s,
        achieved_per_s=told.correct / length_s,
        replies=replies,
        errors_share=_errors_share(told),
        times_ns=_times(told.latency_ns),
    )
    judged = search.judge(question.parsed, replace(seen, replies=max(SLICE_REQUESTS, replies) if replies else 0))
    return Slice((told.begin_ns - begin_ns) / 1e9, (told.end_ns - begin_ns) / 1e9, seen, judged.word != "breaks")


def _held_to_the_end(slices: Sequence[Slice]) -> Sequence[Slice]:
    """The last slices, from the first on from which each holds by the vote of those around it."""
    first = len(slices)
    while first > 0:
        around = [each.holds for each in slices[max(0, first - 1 - BATCH // 2) : first + BATCH // 2]]
        if 2 * sum(around) < len(around):
            break
        first -= 1
    return slices[first:]


def _errors_share(counts: Requests | Interval) -> float:
    """The share of what ended that was not answered, or not rightly."""
    ended = counts.correct + counts.wrong + counts.failed
    return (counts.wrong + counts.failed) / ended if ended else 0.0


def _generator_words(why: str) -> str:
    """That the generator was the limit, in brackets, without the advice that follows a colon."""
    return f" ({why.partition(':')[0]})" if why else ""


def _times(latency: Latency) -> dict[str, float]:
    """A distribution by the names that limits have. A quantile that is not told is as long as the longest time."""
    times = {name: getattr(latency, name.replace(".", "_")) for name in search.TIMES}
    return {name: float(latency.max if time_ns is None else time_ns) for name, time_ns in times.items()}


def _shot(question: Question, record: Record, step: Step) -> Shot:
    if record.step != step:
        raise StoreError("the stored runs are of another version of the search: ask again with --fresh")
    seen = measurement(record.report)
    is_known = record.server_cpu_ns is not None and record.report.requests.correct > 0
    cpu_ns = (record.server_cpu_ns or 0) / record.report.requests.correct if is_known else None
    return Shot(step, seen, search.judge(question.parsed, seen), cpu_ns)


def _bracket(found: Found) -> str:
    """Between which rates the runs so far have it. One that showed the generator alone says nothing of that."""
    searched = [shot for shot in found.curve if shot.step.purpose == "search"]
    held = max((shot.step.rate_per_s or 0.0 for shot in searched if shot.judged.word == "holds"), default=None)
    broke = min((shot.step.rate_per_s or 0.0 for shot in searched if shot.judged.word == "breaks"), default=None)
    words = [] if held is None else [f"it held at {rate_words(held)}"]
    words += [] if broke is None else [f"it did not hold at {rate_words(broke)}"]
    return " and ".join(words) or "nothing is known yet"


def _shot_document(shot: Shot) -> dict[str, Any]:
    return {
        "purpose": shot.step.purpose,
        "rate_per_s": shot.step.rate_per_s,
        "duration_ms": shot.step.duration_ms,
        "asked_per_s": shot.seen.asked_per_s,
        "achieved_per_s": shot.seen.achieved_per_s,
        "replies": shot.seen.replies,
        "errors_share": shot.seen.errors_share,
        "times_ns": dict(shot.seen.times_ns),
        "cpu_per_request_ns": shot.cpu_per_request_ns,
        "word": shot.judged.word,
        "why": shot.judged.why or None,
    }
