"""The views as files for other tools: one file for each view, as CSV, JSON or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from iolab.results.export import csv_of, json_of
from iolab.results.files import make_folder, write_file
from iolab.tables import database
from iolab.tables.stored import Stored
from iolab.tables.views import VIEWS

Format = Literal["csv", "json", "parquet"]


def write(runs: Iterable[Stored], folder: Path, formats: Sequence[Format]) -> Iterator[tuple[Path, int]]:
    """Writes each view of these runs in each format; yields each file and its rows. Raises StoreError.

    An existing file of the same name is replaced as a whole.
    """
    runs = list(runs)
    make_folder(folder)
    for view in VIEWS.values():
        table = view.table(runs)
        for form in formats:
            path = folder / f"{view.name}.{form}"
            if form == "parquet":
                database.write_parquet(view, table, path)
            else:
                write_file(path, csv_of(table) if form == "csv" else json_of(table))
            yield path, len(table.rows)
