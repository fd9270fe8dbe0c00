"""The views in DuckDB: an in-memory database for SQL queries and Parquet.

A query reads only the stored runs. The database has no access to files or the network, and the settings that ensure
this are locked.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb

from iolab.errors import BadInput, StoreError
from iolab.results.export import Table, json_of
from iolab.tables.stored import Stored
from iolab.tables.views import VIEWS, View

# Set and locked before the query. Without a temporary folder, nothing is spilt to disk.
CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "''",
    "enable_external_access": "false",
    "lock_configuration": "true",
}
# The statements that read. To DuckDB, a pivot is several statements.
READING = ("SELECT", "EXPLAIN", "MULTI")
# Rows per insert: a JSON document of some megabytes.
ROWS_MAX = 5_000
# An answer is held in memory. One with more rows or values is a mistake, such as a join of all trials with all trials,
# or belongs in `iolab export`.
ANSWER_ROWS_MAX = 1_000_000
ANSWER_VALUES_MAX = 20_000_000
# DuckDB needs a missing library to convert these to Python values.
ZONED = "TIMESTAMP WITH TIME ZONE"
# The interval between interrupts of a query.
TELL_S = 0.05


def ask(question: str, runs: Iterable[Stored]) -> Table:
    """The answer to one SQL query over the views of these runs.

    Only the views that it names are filled. Raises BadInput with DuckDB's message, and StoreError if a run cannot be
    read.
    """
    named, runs = set(re.findall(r"\w+", question.casefold())), list(runs)
    with duckdb.connect() as database:
        for view in VIEWS.values():
            _create(database, view)
            if view.name in named:
                _insert(database, view, view.table(runs))
        for setting, value in CLOSED.items():
            database.execute(f"SET {setting} = {value}")
        try:
            return _interruptible(database, question)
        except duckdb.Error as error:
            raise BadInput(_one_line(error)) from None


def write_parquet(view: View[Any], table: Table, path: Path) -> None:
    """Writes the rows of a view as a Parquet file with the types of its columns; raises StoreError."""
    with duckdb.connect() as database:
        _create(database, view)
        _insert(database, view, table)
        try:
            database.execute(f"COPY {view.name} TO {_quoted(path)} (FORMAT parquet)")
        except duckdb.Error as error:
            raise StoreError(f"{path}: cannot be written: {_one_line(error)}: choose another folder") from None


def _create(database: duckdb.DuckDBPyConnection, view: View[Any]) -> None:
    """A DuckDB table rather than a view: its rows come from no other table."""
    columns = ", ".join(f'"{column.name}" {column.type}' for column in view.schema)
    database.execute(f"CREATE TABLE {view.name} ({columns})")


def _insert(database: duckdb.DuckDBPyConnection, view: View[Any], table: Table) -> None:
    """Inserts the rows as JSON, the only form that needs no other library and has NULL in each type."""
    types = json.dumps([{column.name: column.type for column in view.schema}])
    statement = f"INSERT INTO {view.name} SELECT unnest(from_json($1, {_quoted(types)}), recursive := true)"
    for first in range(0, len(table.rows), ROWS_MAX):
        database.execute(statement, [json_of(Table(table.columns, table.rows[first : first + ROWS_MAX]))])


def _interruptible(database: duckdb.DuckDBPyConnection, question: str) -> Table:
    """The answer. DuckDB does not return for Ctrl-C, so it runs in a thread and is interrupted."""
    answer = Future[Table]()
    worker = Thread(target=_settle, args=(answer, partial(_answer, database, question)), daemon=True)
    try:
        worker.start()
        return answer.result()
    finally:
        # DuckDB forgets an interrupt when a statement begins, so the interrupts repeat until it has stopped.
        while not (answer.done() or answer.cancel()):
            database.interrupt()
            wait([answer], timeout=TELL_S)


def _settle(answer: Future[Table], work: Callable[[], Table]) -> None:
    """Sets an answer's result or error, unless it was cancelled before."""
    if answer.set_running_or_notify_cancel():
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)


def _answer(database: duckdb.DuckDBPyConnection, question: str) -> Table:
    if not question.isprintable() and any("\ud800" <= each <= "\udfff" for each in question):
        raise BadInput("the question is not in UTF-8: write it anew")
    statements = database.extract_statements(question)
    if len(statements) != 1:
        raise BadInput(f'there are {len(statements)} statements: write one, as in "select * from runs"')
    if statements[0].type.name not in READING:
        raise BadInput(f"{statements[0].type.name} is not possible: stored runs can only be read, as by SELECT")
    found = database.sql(question)
    casts = (f"#{at}::VARCHAR" if str(kind) == ZONED else f"#{at}" for at, kind in enumerate(found.types, start=1))
    most = min(ANSWER_ROWS_MAX, ANSWER_VALUES_MAX // len(found.columns))
    rows = found.project(", ".join(casts)).limit(most + 1).fetchall()
    if len(rows) > most:
        raise BadInput(f"the answer has more than {most:,} rows: count or group them, or add LIMIT")
    return Table(_unique(found.columns), rows)


def _unique(names: Sequence[str]) -> list[str]:
    """The names of columns, made unique as DuckDB does: the second `run` is `run_1`."""
    unique: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in itertools.count(1))
        unique.append(name if name not in unique else next(other for other in others if other not in {*names, *unique}))
    return unique


def _one_line(error: duckdb.Error) -> str:
    """DuckDB's message, without the excerpt of the query."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
