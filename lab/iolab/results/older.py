"""Reads runs that an earlier version stored: only this file knows the older form of cells.

A cell was flat: `connections`, `workers`, `warmup_ms` beside each other, and its key was a digest over all of it. Such
a run can be read and judged; measuring it again begins a new one, as after any change of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iolab.plan import older_claims
from iolab.plan.settings import Cell, digest_of, nested

# The settings of a flat cell by their present names, and the axes with the older names.
NAMES = {
    "connections": "load.connections",
    "driver": "load.driver",
    "threads": "load.threads",
    "load_cpus": "load.cpus",
    "workers": "server.workers",
    "worker_kind": "server.worker_kind",
    "sockets": "server.sockets",
    "server_cpus": "server.cpus",
    "warmup_ms": "trial.warmup_ms",
    "duration_ms": "trial.duration_ms",
    "interval_ms": "trial.interval_ms",
    "timeout_ms": "trial.timeout_ms",
}
WORKLOAD = ("protocol", "reply_bytes", "message_bytes", "framing", "target", "text_bytes", "work_ns", "keep_alive")
AXES = NAMES | {key: f"workload.{key}" for key in WORKLOAD}


def plan_of(document: dict[str, Any]) -> dict[str, Any]:
    """A plan's document in the present form; unchanged if it already is."""
    if not any(map(_is_flat, _cells(document))):
        return older_claims.translated(document)
    comparisons = [
        {**each, "setting": _setting(each["setting"]), "cells": [_cell(cell) for cell in each["cells"]]}
        for each in document["comparisons"]
    ]
    published = [{**row, "setting": _setting(row.get("setting", {}))} for row in document["published"]]
    claims = [{**claim, "decide": _test(claim["decide"])} for claim in document["claims"]]
    nested_cells = {**document, "comparisons": comparisons, "published": published, "claims": claims}
    return older_claims.translated(nested_cells)


def keys_of(document: dict[str, Any]) -> Mapping[str, str]:
    """The present keys of a stored plan's cells, by the keys its trials were stored with."""
    return {digest_of(cell): Cell.model_validate(_cell(cell)).key for cell in _cells(document) if _is_flat(cell)}


def _cells(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (cell for comparison in document["comparisons"] for cell in comparison["cells"])


def _is_flat(cell: Mapping[str, Any]) -> bool:
    return "connections" in cell


def _cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    whole = {name: value for name, value in cell.items() if name not in NAMES}
    return whole | nested({NAMES[name]: value for name, value in cell.items() if name in NAMES})


def _setting(setting: Mapping[str, Any]) -> dict[str, Any]:
    return {AXES.get(name, name): value for name, value in setting.items()}


def _test(test: Mapping[str, Any]) -> dict[str, Any]:
    axis = {"axis": AXES.get(test["axis"], test["axis"])} if "axis" in test else {}
    return {**test, **axis, **({"setting": _setting(test["setting"])} if "setting" in test else {})}
