"""Stored trials as tables for other tools: a row each, in plain units that the column names state."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from iolab.metrics import METRICS, QUANTILES, Row, value_of
from iolab.plan.plan import Comparison, Plan
from iolab.plan.settings import Cell, settings_of
from iolab.results.records import Result

LATENCIES = ("min", "mean", *QUANTILES, "max")

SqlType = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"]
Record = TypeVar("Record")


class Column(NamedTuple, Generic[Record]):
    """A column of a table: its name with the unit last, its SQL type, its meaning, and how to read it from a record.

    A TIMESTAMP is read as ISO 8601. A value that a record lacks is None.
    """

    name: str
    type: SqlType
    about: str
    read: Callable[[Record], Any]


class Table(NamedTuple):
    """Rows under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """The table of rows that all have the columns of the first."""
        return cls(list(rows[0]) if rows else [], [list(row.values()) for row in rows])


@dataclass(frozen=True)
class StoredTrial:
    """A trial and its plan. `processors` are those of its machine, None if unknown."""

    plan: Plan
    result: Result
    processors: int | None = None

    @property
    def comparison(self) -> Comparison:
        return self.plan.comparisons[self.result.trial.comparison]

    @property
    def contestant(self) -> str:
        return self.comparison.titles[self.result.trial.slot]

    @cached_property
    def cell(self) -> Cell:
        """The cell of the trial."""
        return self.plan.cell(self.result.trial)

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """All settings of the trial by dotted names."""
        return settings_of(self.cell)


def _discarded(trial: StoredTrial) -> str:
    words: list[str] = [warning.word for warning in trial.result.warnings if warning.discards]
    return " ".join(words if trial.result.failure is None else [*words, trial.result.failure.kind])


def _requests(result: Result) -> int | None:
    if result.report is not None:
        return result.report.requests.correct
    return None if result.client is None else result.client.requests


def _failed(result: Result) -> int | None:
    if result.report is not None:
        return result.report.requests.failed
    return None if result.client is None else result.client.failed


def _window_ns(result: Result) -> int | None:
    if result.report is not None:
        return result.report.end_ns - result.report.begin_ns
    return None if result.server is None else result.server.wall_ns


def _rate_per_s(result: Result) -> float | None:
    measured = result.report or result.client
    return None if measured is None else measured.rate_per_s


def _cpu_per_request_ns(result: Result) -> float | None:
    """The server's processor time per answered request, whichever client counted the requests."""
    requests = _requests(result)
    return result.server.cpu_ns / requests if result.server is not None and requests else None


def _generator_cpu_ns(result: Result) -> int | None:
    if result.report is not None:
        return result.report.generator.cpu_ns
    return None if result.client is None else result.client.cpu_ns


def _of_result(name: str, kind: SqlType, about: str, get: Callable[[Result], Any]) -> Column[StoredTrial]:
    return Column(name, kind, about, lambda trial: get(trial.result))


def _latency(name: str) -> Column[StoredTrial]:
    title = name.replace("_", ".")
    return _of_result(
        f"latency_{name}_ns",
        "DOUBLE" if name == "mean" else "BIGINT",
        f"{title} latency, however few requests there were",
        lambda result: result.report and getattr(result.report.latency_ns, name),
    )


def _of_server(name: str, about: str, field: str) -> Column[StoredTrial]:
    return _of_result(name, "BIGINT", about, lambda result: result.server and getattr(result.server, field))


def _metric(row: Row) -> Column[StoredTrial]:
    about = row.title[0].lower() + row.title[1:] if row.title[1:2].islower() else row.title
    return Column(
        row.column, "DOUBLE", about, lambda trial: value_of(trial.result, row.key, processors=trial.processors)
    )


# The columns that identify a trial within its run.
NAMES: tuple[Column[StoredTrial], ...] = (
    Column("comparison", "VARCHAR", "name of the comparison, from the axes", lambda trial: trial.comparison.name),
    Column("contestant", "VARCHAR", "name of the contestant", lambda trial: trial.contestant),
)
_RECORDED: tuple[Column[StoredTrial], ...] = (
    _of_result("block", "BIGINT", "number of its block, from 0", lambda result: result.trial.block),
    _of_result("attempt", "BIGINT", "0, or which rerun of a discarded trial", lambda result: result.trial.attempt),
    _of_result("position", "BIGINT", "place in the order of its block, from 0", lambda result: result.trial.position),
    _of_result("started", "TIMESTAMP", "begin, in UTC", lambda result: result.started),
    Column("discarded", "VARCHAR", "why the trial is discarded, in words; empty if it counts", _discarded),
    _of_result(
        "warnings",
        "VARCHAR",
        "warnings that do not discard it, in words",
        lambda result: " ".join(warning.word for warning in result.warnings if not warning.discards),
    ),
    _of_result("requests", "BIGINT", "correct replies in the window", _requests),
    _of_result("wrong", "BIGINT", "wrong replies", lambda result: result.report and result.report.requests.wrong),
    _of_result("failed", "BIGINT", "requests without a reply", _failed),
    _of_result("window_ns", "BIGINT", "length of the measured window", _window_ns),
    _of_result("rate_per_s", "DOUBLE", "throughput: requests answered per second", _rate_per_s),
    *map(_latency, LATENCIES),
    _of_result("cpu_per_request_ns", "DOUBLE", "CPU time of the server per request", _cpu_per_request_ns),
    _of_server("server_cpu_ns", "CPU time of the server", "cpu_ns"),
    _of_result("generator_cpu_ns", "BIGINT", "CPU time of the load generator", _generator_cpu_ns),
    _of_server("rss_median_bytes", "resident memory of the server, median of samples", "rss_bytes_median"),
    _of_server("rss_max_bytes", "largest resident memory of the server", "rss_bytes_max"),
    _of_server("pss_bytes", "proportional memory of the server", "pss_bytes"),
    _of_server("threads", "threads of the server", "threads"),
    _of_server("processes", "processes of the server", "processes"),
    _of_result(
        "steal_share",
        "DOUBLE",
        "share of CPU time that the hypervisor took",
        lambda result: result.noise and result.noise.steal_share,
    ),
    _of_result(
        "foreign_cpu_cores",
        "DOUBLE",
        "CPU time of other programs, in cores",
        lambda result: result.noise and result.noise.foreign_cpu_cores,
    ),
    _of_result(
        "core_to_core_ns",
        "DOUBLE",
        "core-to-core latency between server and generator, the longer of before and after",
        lambda result: result.noise and result.noise.core_to_core_ns and max(result.noise.core_to_core_ns),
    ),
)
# Leaves out metrics that already have a column from the record.
FIGURES: tuple[Column[StoredTrial], ...] = (
    *_RECORDED,
    *(_metric(row) for row in METRICS.values() if row.column not in {column.name for column in _RECORDED}),
)


def trial_rows(plan: Plan, results: Iterable[Result], processors: int | None = None) -> list[dict[str, Any]]:
    """One row for each trial, discarded ones too, with a reason. A value that a trial did not measure is None."""
    axes = list(dict.fromkeys(axis for comparison in plan.comparisons for axis in comparison.setting))
    trials = (StoredTrial(plan, result, processors) for result in results if plan.holds(result.trial))
    return [
        {column.name: column.read(trial) for column in NAMES}
        | {axis: trial.comparison.setting.get(axis) for axis in axes}
        | {column.name: column.read(trial) for column in FIGURES}
        for trial in trials
    ]


def csv_of(table: Table) -> str:
    """A header and the rows in the format of RFC 4180, but with line feeds alone. None is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(map(cell_text, row) for row in table.rows)
    return text.getvalue()


def json_of(table: Table) -> str:
    """A JSON array with one object for each row, each on its own line."""
    rows = (dict(zip(table.columns, map(_plain, row), strict=True)) for row in table.rows)
    return "[" + ",".join(f"\n{json.dumps(row, ensure_ascii=False)}" for row in rows) + "\n]\n"


def cell_text(value: Any) -> Any:
    """A value for a field of text: booleans, lists and the like are written as in JSON."""
    plain = value if isinstance(value, float) else _plain(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain


def _plain(value: Any) -> Any:
    """An SQL value as a JSON one. Numbers that JSON lacks, such as infinity, become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
