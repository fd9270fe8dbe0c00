"""The views: each type of record of the stored runs as one flat table, whose column names have units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, NamedTuple

from iolab.capacity import export as capacity_export
from iolab.capacity.records import read_records
from iolab.judge.asymmetries import Asymmetry
from iolab.judge.bottleneck import Limit
from iolab.judge.claims import ClaimVerdict
from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.relations.verdicts import TestVerdict
from iolab.judge.scaling import Scaling
from iolab.judge.usl import End
from iolab.metrics import METRICS, QUANTILES
from iolab.plan.plan import Plan
from iolab.results import store
from iolab.results.export import FIGURES, NAMES, Column, Record, SqlType, StoredTrial, Table
from iolab.results.records import CostCount, Minute, TrialWarning
from iolab.tables import settings
from iolab.tables.stored import Stored


@dataclass(frozen=True)
class View(Generic[Record]):
    """One table over all runs: its name, the meaning of a row, its columns, and a run's records for it.

    Each row begins with the name of its run.
    """

    name: str
    about: str
    columns: tuple[Column[Record], ...]
    records: Callable[[Stored], Iterable[Record]]

    @property
    def schema(self) -> tuple[Column[Any], ...]:
        """All columns, that of the run first."""
        return (RUN, *self.columns)

    def table(self, runs: Iterable[Stored]) -> Table:
        """The rows of these runs, each value of its column's type; raises StoreError if a run cannot be read."""
        rows = [
            (RUN.read(run), *(_typed(column.read(record), column.type) for column in self.columns))
            for run in runs
            for record in self.records(run)
        ]
        return Table([column.name for column in self.schema], rows)


RUN: Column[Stored] = Column("run", "VARCHAR", "name of the run's folder", lambda run: run.name)


def _typed(value: Any, kind: SqlType) -> Any:
    """A value as SQL has it: a number with a fraction, a time in UTC."""
    if value is None:
        return None
    if kind == "TIMESTAMP":
        return datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)
    return float(value) if kind == "DOUBLE" else value


class Warned(NamedTuple):
    """A warning and its trial."""

    trial: StoredTrial
    warning: TrialWarning


class Counted(NamedTuple):
    """A count of syscalls, and its plan."""

    plan: Plan
    cost: CostCount


class Past(NamedTuple):
    """A minute of a long trial, and the plan of the trial."""

    plan: Plan
    minute: Minute


class Leveled(NamedTuple):
    """The level of a contestant, and the name of its comparison."""

    comparison: str
    level: Level


class Limited(NamedTuple):
    """The limit of a contestant, and the name of its comparison."""

    comparison: str
    contestant: str
    limit: Limit


class Unequal(NamedTuple):
    """A difference between contestants that should be equal, and the name of their comparison."""

    comparison: str
    contestant: str
    had: str
    asymmetry: Asymmetry


class Compared(NamedTuple):
    """The ratio of two contestants, and the name of their comparison."""

    comparison: str
    estimate: Estimate


class Tested(NamedTuple):
    """A test of a claim, and its number."""

    claim: str
    number: int
    verdict: TestVerdict


def _text(name: str, about: str, read: Callable[[Record], Any]) -> Column[Record]:
    return Column(name, "VARCHAR", about, read)


def _count(name: str, about: str, read: Callable[[Record], Any]) -> Column[Record]:
    return Column(name, "BIGINT", about, read)


def _number(name: str, about: str, read: Callable[[Record], Any]) -> Column[Record]:
    return Column(name, "DOUBLE", about, read)


def _truth(name: str, about: str, read: Callable[[Record], Any]) -> Column[Record]:
    return Column(name, "BOOLEAN", about, read)


def _time(name: str, about: str, read: Callable[[Record], Any]) -> Column[Record]:
    return Column(name, "TIMESTAMP", about, read)


def _of_plan(get: Callable[[Plan], Any]) -> Callable[[Stored], Any]:
    """A value from the plan; None for a capacity search, which has no plan."""
    return lambda run: None if run.is_capacity else get(run.plan)


def _of_trials(get: Callable[[Sequence[StoredTrial]], Any]) -> Callable[[Stored], Any]:
    """A value from the trials; None for a capacity search, which has none."""
    return lambda run: None if run.is_capacity else get(_trials(run))


def _of_machine(*keys: str) -> Callable[[Stored], Any]:
    return lambda run: run.of_machine(*keys)


def _question(run: Stored) -> str:
    return f"capacity of {run.state.spec.url}?" if run.is_capacity else run.plan.question


def _began(run: Stored) -> str | None:
    records = read_records(run.folder)[0] if run.is_capacity else run.record.results
    return min((each.started for each in records), default=None)


def _memory_bytes(run: Stored) -> int | None:
    """A size as Linux writes it; its kB are KiB."""
    size, _, unit = str(run.of_machine("memory", "total")).partition(" ")
    return int(size) * 1024 if unit == "kB" else None


def _trials(run: Stored) -> list[StoredTrial]:
    return [] if run.is_capacity else list(run.trials)


RUNS: View[Stored] = View(
    "runs",
    "A stored run, and the machine it was measured on.",
    (
        _text(
            "experiment",
            "`vs`, `soak`, `capacity`, or the name of an experiment",
            lambda run: "capacity" if run.is_capacity else run.plan.name,
        ),
        _text("question", "what was asked", _question),
        _time("began", "begin of the first trial, in UTC", _began),
        _time(
            "ended",
            "end, in UTC; NULL while trials are left, and of a search for a capacity",
            lambda run: None if run.is_capacity else store.ended(run.folder),
        ),
        _truth("is_quick", "whether `--quick` shortened it", _of_plan(lambda plan: plan.is_quick)),
        _count("blocks", "planned blocks", _of_plan(lambda plan: plan.blocks)),
        _count("seed", "seed of the order of trials", _of_plan(lambda plan: plan.seed)),
        _count("comparisons", "planned comparisons", _of_plan(lambda plan: len(plan.comparisons))),
        _count("trials", "stored trials, discarded ones too", _of_trials(len)),
        _count(
            "trials_discarded", "discarded trials", _of_trials(lambda trials: sum(t.result.discarded for t in trials))
        ),
        _text("host", "name of the machine", _of_machine("identity", "host")),
        _text("kernel", "release of the kernel", _of_machine("identity", "kernel")),
        _text("architecture", "architecture of the kernel", _of_machine("system", "architecture")),
        _text("cpu_model", "model of the processor", _of_machine("cpu", "model")),
        _count("processors", "logical processors", _of_machine("cpu", "logical")),
        _count("cores", "cores", _of_machine("cpu", "cores")),
        _text("governor", "frequency governor", _of_machine("cpu", "governor")),
        _truth("is_virtual", "whether it is a virtual machine", _of_machine("cpu", "hypervisor")),
        _count("memory_bytes", "memory of the machine", _memory_bytes),
        _text("engine_version", "version of the engine", _of_machine("engine", "version")),
        _text("engine_build", "digest of the engine's sources", _of_machine("identity", "engine")),
        _text("engine_sha256", "digest of the engine's file", _of_machine("engine", "sha256")),
        _text("python_version", "version of Python that ran the lab", _of_machine("versions", "python")),
    ),
    lambda run: [run],
)
TRIALS: View[StoredTrial] = View(
    "trials",
    "A trial, discarded ones too.",
    (
        *NAMES,
        _text("server", "what was typed for the contestant", lambda trial: trial.cell.contestant.text),
        *settings.columns(),
        *FIGURES,
        _text("failure", "why it failed, in one line", lambda t: t.result.failure and t.result.failure.line),
    ),
    _trials,
)


def _warnings(run: Stored) -> Iterator[Warned]:
    return (Warned(trial, warning) for trial in _trials(run) for warning in trial.result.warnings)


WARNINGS: View[Warned] = View(
    "warnings",
    "A warning of a trial.",
    (
        _text("comparison", "name of the comparison", lambda warned: warned.trial.comparison.name),
        _text("contestant", "name of the contestant", lambda warned: warned.trial.contestant),
        _count("block", "number of the block, from 0", lambda warned: warned.trial.result.trial.block),
        _count("attempt", "0, or which rerun it was", lambda warned: warned.trial.result.trial.attempt),
        _text("warning", "the warning's word", lambda warned: warned.warning.word),
        _truth("discards", "whether it discards the trial", lambda warned: warned.warning.discards),
        _text("detail", "the figures, in one sentence", lambda warned: warned.warning.detail),
    ),
    _warnings,
)


def _costs(run: Stored) -> Iterable[Counted]:
    return () if run.is_capacity else (Counted(run.plan, cost) for cost in run.record.counts)


COSTS: View[Counted] = View(
    "costs",
    "A count of syscalls, in a short trial that is not timed.",
    (
        _text("comparison", "name of the comparison", lambda c: c.plan.comparisons[c.cost.comparison].name),
        _text(
            "contestant",
            "name of the contestant",
            lambda c: c.plan.comparisons[c.cost.comparison].titles[c.cost.slot],
        ),
        _count("requests", "requests in which they were counted", lambda counted: counted.cost.requests),
        _count("syscalls", "syscalls of the server; NULL if they could not be counted", lambda c: c.cost.calls),
        _number("syscalls_per_request", "syscalls per request", lambda counted: counted.cost.per_request),
        _text("why_not", "why they could not be counted", lambda counted: counted.cost.why_not),
        _count("own_before_bytes", "the server's own memory before the load", lambda c: c.cost.own_bytes_before),
        _count("own_bytes", "the same while all connections are at work", lambda counted: counted.cost.own_bytes),
    ),
    _costs,
)


def _minutes(run: Stored) -> Iterable[Past]:
    return () if run.is_capacity else (Past(run.plan, minute) for minute in run.record.minutes)


def _of_minute(name: str, about: str, field: str) -> Column[Past]:
    return _count(name, about, lambda past: getattr(past.minute, field))


MINUTES: View[Past] = View(
    "minutes",
    "A minute of a trial of five minutes or more (`iolab soak`).",
    (
        _text("comparison", "name of the comparison", lambda p: p.plan.comparisons[p.minute.trial.comparison].name),
        _text(
            "contestant",
            "name of the contestant",
            lambda p: p.plan.comparisons[p.minute.trial.comparison].titles[p.minute.trial.slot],
        ),
        _time("started", "begin of its trial, in UTC", lambda past: past.minute.started),
        _of_minute("minute", "number of the minute in its trial, from 1", "number"),
        _number("length_s", "how long it was", lambda past: past.minute.seconds),
        _number("rate_per_s", "requests answered per second", lambda past: past.minute.correct / past.minute.seconds),
        _of_minute("requests", "correct replies", "correct"),
        _of_minute("wrong", "wrong replies", "wrong"),
        _of_minute("failed", "requests without a reply", "failed"),
        *(_of_minute(f"latency_{name}_ns", f"{name} latency", f"{name}_ns") for name in ("p50", "p99", "max")),
        _of_minute("rss_bytes", "resident memory of the server at its end", "rss_bytes"),
        _of_minute("threads", "threads of the server", "threads"),
        _of_minute("processes", "processes of the server", "processes"),
        _of_minute("zombies", "processes that were not waited for", "zombies"),
        _of_minute("descriptors", "open descriptors of the server", "descriptors"),
        _of_minute("generator_rss_bytes", "resident memory of the load generator", "generator_rss_bytes"),
        _of_minute("lab_rss_bytes", "resident memory of the lab", "lab_rss_bytes"),
    ),
    _minutes,
)


def _levels(run: Stored) -> Iterator[Leveled]:
    for verdict in () if run.is_capacity else run.results.verdicts:
        yield from (Leveled(verdict.name, level) for level in verdict.levels)


LEVELS: View[Leveled] = View(
    "levels",
    "The median of a metric over the trials that count, as in the report.",
    (
        _text("comparison", "name of the comparison", lambda leveled: leveled.comparison),
        _text("contestant", "name of the contestant", lambda leveled: leveled.level.contestant),
        _text("metric", "its column in `trials`, unit last", lambda leveled: METRICS[leveled.level.metric].column),
        _number("median", "median", lambda leveled: leveled.level.median),
        _number("low", "lower end of its 95 % interval", lambda leveled: leveled.level.low),
        _number("high", "upper end", lambda leveled: leveled.level.high),
        _text(
            "bound",
            "`exact`, or which bound: the server was not the limit",
            lambda leveled: leveled.level.bound,
        ),
    ),
    _levels,
)


def _limits(run: Stored) -> Iterator[Limited]:
    for verdict in () if run.is_capacity else run.results.verdicts:
        yield from (Limited(verdict.name, contestant, limit) for contestant, limit in verdict.limits.items())


LIMITS: View[Limited] = View(
    "limits",
    "What limited a contestant at a setting ([methodology](../METHODOLOGY.md#what-limited-the-throughput)).",
    (
        _text("comparison", "name of the comparison", lambda limited: limited.comparison),
        _text("contestant", "name of the contestant", lambda limited: limited.contestant),
        _text(
            "limited_by",
            "`server`, `generator`, `both`, `shared`, `latency`, `rate`, `resource` or `invalid`",
            lambda limited: str(limited.limit.kind),
        ),
        _text("resource", "of `resource`: what had run out", lambda limited: limited.limit.resource or None),
        _truth(
            "is_ranked", "whether its throughput is its own, and no bound", lambda limited: limited.limit.kind.is_ranked
        ),
        _text("reason", "the figures that prove it", lambda limited: limited.limit.reason),
    ),
    _limits,
)


def _ratios(run: Stored) -> Iterator[Compared]:
    for verdict in () if run.is_capacity else run.results.verdicts:
        yield from (Compared(verdict.name, estimate) for estimate in verdict.estimates)


def _of_estimate(name: str, kind: SqlType, about: str, field: str) -> Column[Compared]:
    return Column(name, kind, about, lambda compared: getattr(compared.estimate, field))


RATIOS: View[Compared] = View(
    "ratios",
    "The ratio of a metric of two contestants, paired over blocks, as in the report.",
    (
        _text("comparison", "name of the comparison", lambda compared: compared.comparison),
        _of_estimate("contestant", "VARCHAR", "name of the contestant", "contestant"),
        _of_estimate("reference", "VARCHAR", "name of the contestant that it is compared with", "reference"),
        _text("metric", "its column in `trials`, unit last", lambda c: METRICS[c.estimate.metric].column),
        _of_estimate("ratio", "DOUBLE", "contestant / reference", "ratio"),
        _of_estimate("low", "DOUBLE", "lower end of its 95 % interval", "low"),
        _of_estimate("high", "DOUBLE", "upper end", "high"),
        _of_estimate("word", "VARCHAR", "`differs`, `same` or `not decided`", "word"),
        _of_estimate("bound", "VARCHAR", "`exact`, or what a limit elsewhere leaves of it", "bound"),
        _of_estimate(
            "p_bh",
            "DOUBLE",
            "p-value, adjusted over all ratios that can be decided (Benjamini-Hochberg); NULL of others",
            "p_bh",
        ),
        _of_estimate(
            "p_holm",
            "DOUBLE",
            "p-value, adjusted so that all differences hold together (Holm); NULL of others",
            "p_holm",
        ),
        _of_estimate("blocks", "BIGINT", "blocks that count", "blocks"),
        _of_estimate("blocks_more", "BIGINT", "blocks that would decide, if it is not decided", "blocks_more"),
        _of_estimate("effect_min", "DOUBLE", "smallest relative effect that would have been found", "effect_min"),
    ),
    _ratios,
)


def _asymmetries(run: Stored) -> Iterator[Unequal]:
    for verdict in () if run.is_capacity else run.results.verdicts:
        for each in verdict.asymmetries:
            yield from (Unequal(verdict.name, contestant, had, each) for contestant, had in each.had.items())


ASYMMETRIES: View[Unequal] = View(
    "asymmetries",
    "What a contestant had that was not the same for all, besides what is compared"
    " ([methodology](../METHODOLOGY.md#discarded-trials-and-warnings)).",
    (
        _text("comparison", "name of the comparison", lambda unequal: unequal.comparison),
        _text("contestant", "name of the contestant", lambda unequal: unequal.contestant),
        _text(
            "aspect",
            "full name of a setting, or `backlog`, `parser`, `moves_connections`, `cores_used`, `tasks`, "
            "`missing_features` or `known_defects`",
            lambda unequal: unequal.asymmetry.aspect,
        ),
        _text("had", "what the contestant had, in words", lambda unequal: unequal.had),
        _truth("warns", "whether iolab warns of it", lambda unequal: unequal.asymmetry.warns),
        _text("sentence", "what all contestants had, in one sentence", lambda unequal: unequal.asymmetry.text),
    ),
    _asymmetries,
)


def _scalings(run: Stored) -> Sequence[Scaling]:
    return () if run.is_capacity else run.results.scalings


def _of_law(field: str, name: str, unit: str, about: str) -> tuple[Column[Scaling], ...]:
    """A coefficient of the fit and the ends of its interval; NULL without a fit."""

    def end(read: Callable[[End], float]) -> Callable[[Scaling], float | None]:
        return lambda scaling: None if scaling.law is None else read(getattr(scaling.law, field))

    return (
        _number(f"{name}_{unit}", about, end(lambda each: each.value)),
        _number(f"{name}_low_{unit}", "lower end of its 95 % interval", end(lambda each: each.low)),
        _number(f"{name}_high_{unit}", "upper end", end(lambda each: each.high)),
    )


SCALINGS: View[Scaling] = View(
    "scalings",
    "How the throughput of a contestant grows with its workers, by the Universal Scalability Law"
    " ([methodology](../METHODOLOGY.md#scaling)).",
    (
        _text("setting", "values of the other axes; empty if there is none", lambda scaling: scaling.heading),
        _text("contestant", "name of the contestant", lambda scaling: scaling.contestant),
        *_of_law("per_worker_per_s", "per_worker", "per_s", "requests per second of one worker alone"),
        *_of_law("contention", "contention", "share", "share of the work that workers do one after the other"),
        *_of_law("coherence", "coherence", "share", "what each pair of workers costs both"),
        _number("peak_workers", "workers that serve most; NULL if unknown", lambda scaling: scaling.peak_workers),
        _number("r_squared", "R² of the fit", lambda scaling: scaling.r_squared),
        _number("residual_max_share", "largest distance of a median from the law", lambda s: s.residual_max),
        _text(
            "workers",
            "counts of workers that are used, as `1,2,4`",
            lambda scaling: ",".join(str(count.workers) for count in scaling.counts),
        ),
        _count("blocks", "blocks that are used", lambda scaling: scaling.blocks),
        _text("why_not", "why nothing is fitted", lambda scaling: scaling.why_not or None),
    ),
    _scalings,
)


def _claims(run: Stored) -> Sequence[ClaimVerdict]:
    return () if run.is_capacity else run.results.claims


CLAIMS: View[ClaimVerdict] = View(
    "claims",
    "The verdict on a published claim.",
    (
        _text("claim", "id of the claim", lambda found: found.claim.id),
        _text("text", "what was published, in one sentence", lambda found: found.claim.text),
        _text("source", "where", lambda found: found.claim.source),
        _text("verdict", "`confirmed`, `contradicted` … ([claims](claims.md))", lambda found: found.judgement),
        _text("reason", "why, in one sentence", lambda found: found.reason),
    ),
    _claims,
)


def _tests(run: Stored) -> Iterator[Tested]:
    for found in _claims(run):
        yield from (Tested(found.claim.id, number, test) for number, test in enumerate(found.tests, start=1))


def _of_test(name: str, kind: SqlType, about: str, field: str) -> Column[Tested]:
    return Column(name, kind, about, lambda tested: getattr(tested.verdict, field))


CLAIM_TESTS: View[Tested] = View(
    "claim_tests",
    "The verdict on a test of a claim.",
    (
        _text("claim", "id of the claim", lambda tested: tested.claim),
        _count("test", "number of the test in its claim, from 1", lambda tested: tested.number),
        _text("relation", "what is tested", lambda tested: tested.verdict.test.relation),
        _of_test("verdict", "VARCHAR", "`confirmed`, `contradicted` …", "judgement"),
        _of_test("reason", "VARCHAR", "why, in one sentence", "reason"),
        _of_test("published", "DOUBLE", "published figure", "published"),
        _of_test("value", "DOUBLE", "measured figure, in the same unit", "value"),
        _of_test("low", "DOUBLE", "lower end of its interval", "low"),
        _of_test("high", "DOUBLE", "upper end", "high"),
        _of_test("blocks_more", "BIGINT", "blocks that would decide, where that is known", "blocks_more"),
    ),
    _tests,
)


def _capacities(run: Stored) -> Iterable[Mapping[str, Any]]:
    return (capacity_export.document(run.state),) if run.is_capacity else ()


def _of_key(name: str, kind: SqlType, about: str) -> Column[Mapping[str, Any]]:
    """A column that the export of a search has under the same name."""
    return Column(name, kind, about, lambda row: row.get(name))


def _end_of_interval(at: int, found: Mapping[str, Any]) -> float | None:
    interval_per_s = found["interval_per_s"]
    return None if interval_per_s is None else interval_per_s[at]


CAPACITIES: View[Mapping[str, Any]] = View(
    "capacities",
    "A search for a capacity, and what it found.",
    (
        _text("url", "what was asked", lambda found: found["question"]["url"]),
        _text("limits", "limits that must hold", lambda found: " and ".join(found["question"]["limits"])),
        _count("connections", "connections of the load", lambda found: found["question"]["connections"]),
        _truth("is_finished", "whether no run is left to make", lambda found: found["finished"]),
        _of_key("kind", "VARCHAR", "`capacity`, `at least` and others: what the rate is"),
        _of_key("capacity_per_s", "DOUBLE", "rate up to which the limits hold: at it, half of the runs hold"),
        _of_key(
            "bound", "VARCHAR", "`exact`, or which bound the rate is: `at least` where the generator was the limit"
        ),
        *(
            _number(f"{name}_per_s", f"{end} end of its interval; NULL beyond a bound", partial(_end_of_interval, at))
            for at, (name, end) in enumerate((("low", "lower"), ("high", "upper")))
        ),
        _text("found", "what was found, in words", lambda found: " ".join(found["sentences"])),
    ),
    _capacities,
)


def _probes(run: Stored) -> Sequence[Mapping[str, Any]]:
    return capacity_export.rows(run.state) if run.is_capacity else ()


PROBES: View[Mapping[str, Any]] = View(
    "probes",
    "A run of a search for a capacity.",
    (
        _of_key("purpose", "VARCHAR", "what it is for: the search, its curve, or the recovery"),
        _of_key("rate_per_s", "DOUBLE", "planned rate; NULL of a closed loop"),
        _of_key("duration_ms", "BIGINT", "planned length"),
        _of_key("asked_per_s", "DOUBLE", "rate that fell due"),
        _of_key("achieved_per_s", "DOUBLE", "rate that was answered"),
        _of_key("replies", "BIGINT", "replies in the window"),
        _of_key("errors_share", "DOUBLE", "share of failed requests"),
        *(
            _of_key(f"latency_{name}_ns", "DOUBLE", f"{name.replace('_', '.')} latency")
            for name in (*QUANTILES, "mean", "max")
        ),
        _of_key("cpu_per_request_ns", "DOUBLE", "CPU time of the server per request"),
        _of_key("cpus", "VARCHAR", "processors of the load generator; empty if it was not bound"),
        _of_key("core_to_core_ns", "DOUBLE", "core-to-core latency to the server, the longer of before and after"),
        _of_key("shares_cpu", "BOOLEAN", "whether the server ran on the generator's processors"),
        _of_key("word", "VARCHAR", "whether it held the limits"),
        _of_key("why", "VARCHAR", "why not"),
    ),
    _probes,
)

VIEWS: Mapping[str, View[Any]] = {
    view.name: view
    for view in (
        *(RUNS, TRIALS, WARNINGS, COSTS, MINUTES, LEVELS, RATIOS, LIMITS, ASYMMETRIES, SCALINGS, CLAIMS, CLAIM_TESTS),
        *(CAPACITIES, PROBES),
    )
}
