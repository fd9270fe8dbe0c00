"""`iolab query` and `iolab export`: their answers, their refusals, and that docs/query.md describes the views.

`IOLAB_GOLDEN=1 pytest tests/test_query.py` rewrites the tables of docs/query.md after a change of the views.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

import iolab as package
from conftest import PATIENCE_S, iolab
from iolab.capacity.export import document
from iolab.capacity.progress import read_state
from iolab.cli import aligned
from iolab.judge.results import read
from iolab.metrics import METRICS
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.plan import Plan
from iolab.plan.settings import SETTINGS
from iolab.results import layout, store
from iolab.results.export import Table
from iolab.results.records import CostCount, MachineNoise, Minute, Result
from iolab.tables import database
from iolab.tables.views import RUN, VIEWS, View
from made import on_two_processors, result, results
from test_asymmetries import as_published
from test_asymmetries import run as run_of_unequal
from test_scaling import plan_on
from test_scaling import run as run_of_workers

STORED = Path(__file__).parent / "golden/stored"
PAGE = Path(__file__).parent.parent / "docs/query.md"
BEGIN, END = "<!-- views: made by tests/test_query.py -->\n", "<!-- end of views -->\n"
EXPERIMENT = b"""
name = "sizes"
question = "Does the size matter?"
contestants = ["epoll", "io_uring"]
blocks = 8
[fixed]
workload.protocol = "echo"
server.environment = { A = "1" }
[axes]
workload.message_bytes = [64, 512]
[[claims]]
id = "C1"
text = "io_uring serves more"
decide = { relation = "order", contestants = ["io_uring", "epoll"] }
"""
MACHINE = {"identity": {"host": "bench", "kernel": "6.12.0", "engine": "0123"}, "cpu": {"logical": 4}, "schema": 1}
# Views without rows here, which other tests cover: for long trials, unequal contestants and many workers.
RARE = {"minutes", "asymmetries", "scalings"}


def keep(plan: Plan, runs: Path, made: list[Result]) -> None:
    """Stores a run and its counts of syscalls."""
    with store.writing(plan, MACHINE, runs) as writer:
        for one in made:
            writer.append(one)
        writer.append(CostCount(comparison=0, slot=0, cell=plan.comparisons[0].cells[0].key, requests=10, calls=25))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: a comparison, an experiment with a claim, and a capacity search."""
    runs = tmp_path_factory.mktemp("stored")
    plan = on_two_processors(vs_plan(["epoll", "thread"], {"protocol": "http", "connections": 50}, blocks=6))
    keep(plan, runs, results(plan, lambda trial: 100_000.0 + 50_000 * trial.slot + 100 * trial.block))
    plan = on_two_processors(parse_experiment(EXPERIMENT))
    made = results(plan, lambda trial: 100_000.0 - 20_000 * trial.slot + 100 * trial.block)
    # One trial is discarded.
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    keep(plan, runs, [result(plan, made[0].trial, noise=busy), *made[1:]])
    (capacity,) = STORED.glob("capacity-*")
    shutil.copytree(capacity, runs / capacity.name)
    return runs


def check(stored: Path, question: str, *rows: tuple[object, ...]) -> None:
    """Expects these rows, in any order."""
    answer = package.query(question, out=stored)
    assert sorted(map(tuple, answer.rows), key=repr) == sorted(rows, key=repr)


def test_a_trial_has_its_settings_and_its_figures_under_the_names_of_the_documents(stored: Path) -> None:
    check(
        stored,
        "select contestant, load_connections, server_cpus, workload_protocol, round(median(rate_per_s)) "
        "from trials where run like 'vs-%' and discarded = '' group by all",
        ("epoll", 50, "0", "http", 100_250.0),
        ("thread", 50, "0", "http", 150_250.0),
    )
    check(stored, "select distinct workload_message_bytes from trials", (None,), (64,), (512,))
    check(stored, "select distinct server_environment from trials", ("{}",), ('{"A": "1"}',))


def test_verdicts_are_those_of_the_report(stored: Path) -> None:
    (folder,) = stored.glob("vs-*")
    (verdict,) = read(folder).verdicts
    expected = [(METRICS[e.metric].column, e.ratio, e.low, e.word) for e in verdict.estimates]
    check(stored, "select metric, ratio, low, word from ratios where run like 'vs-%'", *expected)
    levels = [(METRICS[each.metric].column, each.contestant, each.median) for each in verdict.levels]
    check(stored, "select metric, contestant, median from levels where run like 'vs-%'", *levels)
    check(stored, "select claim, verdict from claims", ("C1", "contradicted"))
    check(stored, "select claim, test, relation from claim_tests", ("C1", 1, "order"))


def test_a_run_has_its_machine(stored: Path) -> None:
    check(
        stored,
        "select experiment, host, processors, trials, blocks, is_quick from runs",
        ("vs", "bench", 4, 12, 6, False),
        ("sizes", "bench", 4, 32, 8, False),
        ("capacity", None, None, None, None, None),
    )


def test_counts_and_searches_are_views_too(stored: Path) -> None:
    check(stored, "select syscalls, syscalls_per_request from costs", (25, 2.5), (25, 2.5))
    check(stored, "select kind, connections, is_finished from capacities", ("capacity", 50, True))
    check(stored, "select low_per_s < capacity_per_s and capacity_per_s < high_per_s from capacities", (True,))
    check(stored, "select count(*), max(achieved_per_s) from probes where word = 'breaks'", (3, 10_000.0))


def test_what_limited_a_contestant_is_a_row(stored: Path) -> None:
    (folder,) = stored.glob("vs-*")
    (verdict,) = read(folder).verdicts
    expected = [(name, str(limit.kind), True, limit.reason) for name, limit in verdict.limits.items()]
    question = "select contestant, limited_by, is_ranked, reason from limits where run like 'vs-%'"
    check(stored, question, *expected)
    assert [limited_by for _, limited_by, _, _ in expected] == ["server", "server"]


def test_a_run_of_a_search_has_its_processors_and_their_latency(stored: Path) -> None:
    (folder,) = stored.glob("capacity-*")
    expected = [
        (run["cpus"], run["core_to_core_ns"], run["shares_cpu"]) for run in document(read_state(folder))["runs"]
    ]
    check(stored, "select cpus, core_to_core_ns, shares_cpu from probes", *expected)


def test_a_trial_has_the_core_to_core_latency_the_longer_of_before_and_after(stored: Path, tmp_path: Path) -> None:
    plan = on_two_processors(vs_plan(["epoll", "thread"], {"protocol": "echo"}, blocks=6))
    noise = MachineNoise(steal_share=0.0, foreign_cpu_cores=0.0, core_to_core_ns=(60.0, 62.5))
    keep(plan, tmp_path, results(plan, lambda trial: 100_000.0, noise=noise))
    check(tmp_path, "select distinct core_to_core_ns from trials", (62.5,))
    check(stored, "select distinct core_to_core_ns from trials", (None,))


def test_a_minute_of_a_long_trial_is_a_row(stored: Path, tmp_path: Path) -> None:
    plan = vs_plan(["epoll", "thread"], {"protocol": "echo"}, blocks=6)
    (made, *_) = results(plan, lambda trial: 100_000.0)
    figures = dict.fromkeys(set(Minute.model_fields) - {"trial", "started", "number", "seconds"}, 7)
    minute = Minute(trial=made.trial, started="2026-01-01T02:00:00+02:00", number=1, seconds=60.0, **figures)
    with store.writing(plan, MACHINE, tmp_path) as writer:
        writer.append(made)
        writer.append_minute(minute)
    question = "select contestant, started::varchar, minute, latency_p99_ns, rate_per_s, length_s from minutes"
    contestant = plan.comparisons[0].titles[made.trial.slot]
    check(tmp_path, question, (contestant, "2026-01-01 00:00:00", 1, 7, 7 / 60, 60.0))


def test_what_each_contestant_had_that_was_not_the_same_for_all_is_a_row(tmp_path: Path) -> None:
    found = run_of_unequal(as_published())
    keep(found.plan, tmp_path, list(found.trials))
    (verdict,) = found.verdicts
    rows = [(name, each.aspect, had, each.warns) for each in verdict.asymmetries for name, had in each.had.items()]
    check(tmp_path, "select contestant, aspect, had, warns from asymmetries", *rows)
    question = "select contestant, had from asymmetries where aspect = 'server.workers' and warns"
    check(tmp_path, question, ("hyper as published", "2"), ("monoio as published", "1"))
    check(tmp_path, "select distinct sentence from asymmetries", *{(each.text,) for each in verdict.asymmetries})


def test_contention_and_coherence_are_a_row_with_their_intervals_or_why_there_are_none(tmp_path: Path) -> None:
    found = run_of_workers(plan_on(24))
    keep(found.plan, tmp_path / "24", list(found.trials))
    expected = []
    for each in found.scalings:
        assert each.law is not None
        ends = [end for of in (each.law.contention, each.law.coherence) for end in (of.value, of.low, of.high)]
        expected.append((each.contestant, each.law.per_worker_per_s.value, *ends, each.peak_workers, None))
    columns = [f"{name}_{end}share" for name in ("contention", "coherence") for end in ("", "low_", "high_")]
    question = f"select contestant, per_worker_per_s, {', '.join(columns)}, peak_workers, why_not from scalings"
    check(tmp_path / "24", question, *expected)
    check(tmp_path / "24", "select distinct setting, workers, blocks from scalings", ("", "1,2,3,4,6,8", 8))
    few = run_of_workers(plan_on(2))
    keep(few.plan, tmp_path / "2", list(few.trials))
    question = "select contention_share, coherence_high_share, workers, blocks, why_not like '6 counts%' from scalings"
    check(tmp_path / "2", question, *2 * [(None, None, "", 0, True)])


def examples() -> list[str]:
    text = PAGE.read_text().partition("<!-- examples")[2].partition("<!-- end of examples")[0]
    return re.findall(r"```sql\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("question", examples())
def test_every_example_of_the_documents_runs(stored: Path, question: str) -> None:
    done = iolab("query", question, "--out", stored)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (done.stdout == "no rows\n") == any(f"FROM {view}" in question for view in RARE), done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_there_are_ten_examples() -> None:
    assert len(examples()) >= 10


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("select * from trialz", 'Catalog Error: Table with name trialz does not exist! Did you mean "trials"?'),
        ("selec 1", 'Parser Error: syntax error at or near "selec"'),
        ("", 'there are 0 statements: write one, as in "select * from runs"'),
        ("select 1; select 2", 'there are 2 statements: write one, as in "select * from runs"'),
        ("delete from trials", "DELETE is not possible: stored runs can only be read, as by SELECT"),
        ("create table mine as from trials", "CREATE is not possible: stored runs can only be read, as by SELECT"),
        ("set enable_external_access = true", "SET is not possible: stored runs can only be read, as by SELECT"),
        ("copy trials to 'trials.csv'", "COPY is not possible: stored runs can only be read, as by SELECT"),
        ("attach 'mine.db'", "ATTACH is not possible: stored runs can only be read, as by SELECT"),
        ("install httpfs", "LOAD is not possible: stored runs can only be read, as by SELECT"),
        ("select '\udcff'", "the question is not in UTF-8: write it anew"),
        ("select $name", "Invalid Input Error: Values were not provided for the following parameters: name"),
        (
            "select * from range(1000000000000)",
            "the answer has more than 1,000,000 rows: count or group them, or add LIMIT",
        ),
    ],
)
def test_a_question_that_cannot_be_answered_is_one_line(stored: Path, question: str, said: str) -> None:
    done = iolab("query", question, "--out", stored)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"iolab query: {said}\n")


def test_an_answer_of_many_columns_may_have_fewer_rows(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ANSWER_VALUES_MAX", 90)
    assert len(package.query("select n, n, n from range(30) as t(n)", out=stored).rows) == 30
    done = iolab("query", "select n, n, n from range(31) as t(n)", "--out", stored)
    assert done.stderr == "iolab query: the answer has more than 30 rows: count or group them, or add LIMIT\n"


@pytest.mark.parametrize("source", ["'{}'", "read_csv('{}')", "read_text('{}')", "read_blob('{}')", "glob('{}')"])
def test_a_question_reads_no_file(stored: Path, tmp_path: Path, source: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    done = iolab("query", f"select * from {source.format(secret)}", "--out", stored)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_question_and_an_export_write_nothing_into_the_store(stored: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    for view in VIEWS:
        assert iolab("query", f"select count(*) from {view}", "--out", stored).exit_code == 0
    assert iolab("export", "--csv", "-o", tmp_path / "tables", "--out", stored).exit_code == 0
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before


# Runs a query that takes hours, and interrupts it.
INTERRUPTED = """
import os, signal, sys, threading
from iolab import cli
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_question_ends_at_ctrl_c(stored: Path) -> None:
    question = "select count(*) from range(1000000000000) as a(n) where n % 7 = 3"
    arguments = [sys.executable, "-c", INTERRUPTED, "query", question, "--out", str(stored)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "iolab: interrupted\n")


class Told:
    """A database that reacts to the third interrupt, as DuckDB does if the first ones come between two statements."""

    def __init__(self) -> None:
        self.times = 0
        self.has_stopped = threading.Event()

    def interrupt(self) -> None:
        self.times += 1
        if self.times == 3:
            self.has_stopped.set()


def test_a_question_that_takes_no_notice_at_first_is_told_until_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()

    def answer(_database: object, _question: str) -> Table:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        told.has_stopped.wait()
        return Table([], [])

    monkeypatch.setattr(database, "_answer", answer)
    with pytest.raises(KeyboardInterrupt):
        database._interruptible(cast("duckdb.DuckDBPyConnection", told), "")
    assert told.times == 3


def test_a_question_that_has_ended_is_not_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(database, "_answer", lambda *_: Table(["one"], [(1,)]))
    assert database._interruptible(cast("duckdb.DuckDBPyConnection", told), "").rows == [(1,)]
    assert told.times == 0


def test_only_the_named_runs_are_asked(stored: Path) -> None:
    (folder,) = stored.glob("vs-*")
    for name in ("vs", folder.name, folder):
        assert package.query("select run from runs", name, out=stored).rows == [(folder.name,)]
    done = iolab("query", "from runs", "nowhere", "--out", stored)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "there is no run 'nowhere'" in done.stderr


def test_a_run_that_cannot_be_read_is_left_out_unless_it_is_named(stored: Path, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(stored, tmp_path / "runs"))
    (broken,) = runs.glob("vs-*")
    (broken / layout.MACHINE).write_text("{")
    done = iolab("query", "select count(*) as runs from runs", "--csv", "--out", runs)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (0, "runs\n2\n", 1)
    assert done.stderr.startswith(f"iolab: left out: {broken / layout.MACHINE}: is damaged")
    named = iolab("query", "from runs", broken, "--out", runs)
    assert (named.exit_code, named.stdout, named.stderr.count("\n")) == (1, "", 1)
    empty = iolab("query", "from runs", "--out", tmp_path / "none")
    assert (empty.exit_code, empty.stderr.count("\n")) == (2, 1)


def test_the_same_rows_come_as_csv_as_json_and_as_parquet(stored: Path, tmp_path: Path) -> None:
    done = iolab("export", "--csv", "--json", "--parquet", "--out", stored, "-o", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert f"{tmp_path / 'trials.csv'}: 44 rows\n" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{view}.{form}" for view in VIEWS for form in ("csv", "json", "parquet")
    )
    with duckdb.connect() as connected:
        for view in VIEWS.values():
            documents = json.loads((tmp_path / f"{view.name}.json").read_text())
            with (tmp_path / f"{view.name}.csv").open() as file:
                lines = list(csv.DictReader(file))
            found = connected.sql(f"from '{tmp_path / view.name}.parquet'")
            assert [str(kind) for kind in found.types] == [column.type for column in view.schema]
            rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
            assert len(documents) == len(lines) == len(rows)
            for document, line, row in zip(documents, lines, rows, strict=True):
                assert list(document) == list(line) == list(row) == [column.name for column in view.schema]
                assert all((line[name] == "") == (document[name] in (None, "")) for name in line)
                numbers = {name for name, value in document.items() if isinstance(value, int | float)}
                assert {name: document[name] for name in numbers} == {name: row[name] for name in numbers}


def test_a_query_and_an_export_give_the_same_text(stored: Path, tmp_path: Path) -> None:
    assert iolab("export", "--csv", "--json", "--out", stored, "-o", tmp_path).exit_code == 0
    for form in ("csv", "json"):
        asked = iolab("query", "from trials", f"--{form}", "--out", stored).stdout
        assert asked == (tmp_path / f"trials.{form}").read_text()


def test_an_export_needs_a_format_and_a_folder_that_can_be_written(stored: Path, tmp_path: Path) -> None:
    done = iolab("export", "--out", stored)
    assert (done.exit_code, done.stderr) == (2, "iolab export: a format is missing: add --csv, --json or --parquet\n")
    (tmp_path / "file").write_text("")
    for form in ("--csv", "--parquet"):
        done = iolab("export", form, "--out", stored, "-o", tmp_path / "file")
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("columns", "row", "said"),
    [
        (["a", "b"], (1, "x"), "a  b\n-  -\n1  x\n"),
        (["rate_per_s", "x"], (123456.789, None), "rate_per_s  x\n----------  -\n    123457  -\n"),
        (["t"], ("\x1b[31mred\nline",), "t\n-------------\n\ufffd[31mred line\n"),
        (["t"], ([1, {"a": True}],), 't\n----------------\n[1, {"a": true}]\n'),
        (["a"], ("word " * 20,), "-- row 1 of 1 ".ljust(80, "-") + f"\na  {'word ' * 15}\n   {'word ' * 5}\n"),
    ],
)
def test_a_table_is_text_of_eighty_columns(columns: list[str], row: tuple[Any, ...], said: str) -> None:
    wanted = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
    assert aligned.text_of(Table(columns, [row]), 80) == wanted


def test_every_metric_and_every_setting_is_a_column_of_trials() -> None:
    columns = [column.name for column in VIEWS["trials"].schema]
    assert {row.column for row in METRICS.values()} | {name.replace(".", "_") for name in SETTINGS} <= set(columns)
    for view in VIEWS.values():
        names = [column.name for column in view.schema]
        assert len(names) == len(set(names)), view.name


def reference() -> str:
    """The tables of the page."""
    return "\n".join(_table(view) for view in VIEWS.values())


def _table(view: View[Any]) -> str:
    rows = ["| column | type | what |", "| --- | --- | --- |"]
    settings = {name.replace(".", "_") for name in SETTINGS} if view.name == "trials" else set()
    for column in view.schema:
        if column.name in settings:
            continue
        rows.append(f"| `{column.name}` | {column.type} | {column.about} |")
        if view.name == "trials" and column.name == "server":
            rows += [_settings_row(table) for table in dict.fromkeys(known.table for known in SETTINGS.values())]
    return "\n".join([f"### `{view.name}`", "", view.about, "", *rows, ""])


def _settings_row(table: str) -> str:
    """All settings of a table in one row; docs/experiments.md describes each."""
    names = ", ".join(f"`{table}_{known.key}`" for known in SETTINGS.values() if known.table == table)
    return f"| {names} | as set | settings of `{table}` ([experiments](experiments.md)) |"


def test_the_documents_list_every_view_and_column() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}{reference()}{END}{after}"
    if os.environ.get("IOLAB_GOLDEN"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "IOLAB_GOLDEN=1 pytest tests/test_query.py writes it anew"


def test_every_view_has_rows_here(stored: Path) -> None:
    """Without rows the other tests would not cover a view."""
    for view in set(VIEWS) - RARE:
        assert package.query(f"select count(*) from {view}", out=stored).rows[0][0] > 0, view
    assert RUN.name == "run"
