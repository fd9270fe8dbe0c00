"""The settings of a trial as columns: `load.connections` of an experiment is the column load_connections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from iolab.plan.settings import SETTINGS, Known
from iolab.results.export import Column, SqlType, StoredTrial

# The SQL types of JSON Schema types. Any other type, or a union, is text.
TYPES: Mapping[str, SqlType] = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


def columns() -> tuple[Column[StoredTrial], ...]:
    """A column for each setting. It is None if a protocol or a trial has no such setting."""
    return tuple(_column(name, known) for name, known in SETTINGS.items())


def _column(name: str, known: Known) -> Column[StoredTrial]:
    kinds = {_sql_type(kind.model_json_schema()["properties"][known.key]) for kind, _ in known.fields}
    kind = kinds.pop() if len(kinds) == 1 else "VARCHAR"

    def read(trial: StoredTrial) -> Any:
        value = trial.settings.get(name)
        return _text(value) if kind == "VARCHAR" else value

    return Column(name.replace(".", "_"), kind, known.field.description or "", read)


def _sql_type(schema: Mapping[str, Any]) -> SqlType:
    found = {each.get("type") for each in schema.get("anyOf", (schema,))} - {"null"}
    return TYPES.get(str(found.pop()), "VARCHAR") if len(found) == 1 else "VARCHAR"


def _text(value: Any) -> Any:
    """A value as written in a file: processors as `0,1`."""
    if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
        return ",".join(map(str, value))
    if isinstance(value, tuple | dict):
        return json.dumps(value)
    return None if value is None else str(value)
