"""The lab's types agree with the engine's schemas field by field: names with units, limits, words and defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from iolab.contract.types import (
    Description,
    Failed,
    Frozen,
    HttpWorkload,
    Interval,
    LoadReady,
    LoadSpec,
    Measured,
    Measuring,
    PathReady,
    PathReport,
    PathSpec,
    Report,
    Served,
    ServeReady,
    ServeSpec,
)
from iolab.plan.settings import Cell, Load, Server, Times

SCHEMAS = Path(__file__).parent.parent / "schema"
SPECS: dict[str, type[Frozen]] = {"serve-spec": ServeSpec, "load-spec": LoadSpec, "path-spec": PathSpec}
ANSWERS: dict[str, type[Frozen]] = {
    "serve-ready": ServeReady,
    "load-ready": LoadReady,
    "served": Served,
    "measuring": Measuring,
    "interval": Interval,
    "measured": Measured,
    "report": Report,
    "path-ready": PathReady,
    "path-report": PathReport,
    "failed": Failed,
    "description": Description,
}
# The unit at the end of a field's name.
UNIT = re.compile(r"_(per_s|ns|us|ms|s|bytes)(_max|_min)?$")
LIMITS = ("minimum", "exclusiveMinimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")
# The maximum that a number format implies.
FORMATS = {"uint": (1 << 64) - 1, "uint64": (1 << 64) - 1, "uint32": (1 << 32) - 1, "uint16": (1 << 16) - 1}

# The facts of a field: limits, words, whether it may be null, and its default.
Facts = dict[str, Any]


def facts(schema: dict[str, Any]) -> Facts:
    found = {key: schema[key] for key in LIMITS if key in schema}
    # A minimum length of 0 is no limit.
    found = {key: value for key, value in found.items() if value or key not in ("minLength", "minItems")}
    if schema.get("format") in FORMATS:
        found.setdefault("maximum", FORMATS[schema["format"]])
    if words(schema):
        found["words"] = sorted(map(str, words(schema)))
    if schema.get("null") or "null" in schema.get("type", ""):
        found |= {"null": True, "default": None}
    if "default" in schema and "const" not in schema:
        found["default"] = schema["default"]
    return found


def words(schema: dict[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def fields(schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[tuple[str, Facts]]:
    """Every field of a document by its path. The two languages write words, null and variants differently."""
    schema = resolved(schema, root)
    choices = [resolved(each, root) for each in schema.get("anyOf", schema.get("oneOf", ()))]
    others = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    variants = [each for each in choices if each.get("type") != "null"]
    if len(variants) < len(choices):
        others["null"] = True
    if len(variants) == 1:
        yield from fields(variants[0] | others, root, path)
        return
    if variants and all("properties" not in each for each in variants):
        others, variants = others | {"enum": [word for each in variants for word in words(each)]}, []
    yield path, facts(others)
    for each in variants:
        tag = next(part["const"] for part in each["properties"].values() if "const" in part)
        yield from fields(each, root, f"{path}<{tag}>")
    for name, each in others.get("properties", {}).items():
        yield from fields(each, root, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(others.get(key), dict):
            yield from fields(others[key], root, f"{path}{mark}")


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return resolved(root["$defs"][schema["$ref"].rpartition("/")[2]], root) | beside


def engine_fields(document: str) -> dict[str, Facts]:
    schema = json.loads((SCHEMAS / f"{document}.json").read_text())
    return dict(fields(schema, schema))


def lab_fields(ours: type[Frozen]) -> dict[str, Facts]:
    schema = ours.model_json_schema()
    return dict(fields(schema, schema))


def disagreements(engine: dict[str, Facts], lab: dict[str, Facts], *, is_stored: bool) -> list[str]:
    """A line for each name, unit, limit, word or default that differs."""
    lines = []
    for path in sorted(engine.keys() ^ lab.keys()):
        here, there = ("the engine", lab) if path in engine else ("the lab", engine)
        stem = UNIT.sub("", path)
        same = [other for other in there.keys() - (engine.keys() & lab.keys()) if UNIT.sub("", other) == stem]
        lines.append(f"{path}: unit: the other has {same[0]}" if same else f"{path}: only {here} has it")
    for path in sorted(engine.keys() & lab.keys()):
        ours, theirs = lab[path], engine[path]
        for fact in sorted(ours.keys() | theirs.keys()):
            # A field that older engines did not report has a default here, so older runs can still be read.
            if is_stored and fact in ("null", "default") and fact not in theirs:
                continue
            if ours.get(fact, "none") != theirs.get(fact, "none"):
                lines.append(f"{path}: {fact}: engine {theirs.get(fact, 'none')}, lab {ours.get(fact, 'none')}")
    return lines


@pytest.mark.parametrize("document", [*SPECS, *ANSWERS])
def test_limits_defaults_and_units_are_the_engines(document: str) -> None:
    lab = lab_fields((SPECS | ANSWERS)[document])
    assert disagreements(engine_fields(document), lab, is_stored=document in ANSWERS) == []


def test_every_schema_is_compared() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == {*SPECS, *ANSWERS}


def test_a_reply_without_content_has_no_length_and_is_that_of_the_root() -> None:
    workload = HttpWorkload.model_validate({"protocol": "http", "reply_status": 204})
    assert (workload.reply_status, workload.reply_bytes) == (204, 0)
    assert HttpWorkload(reply_status=204, reply_bytes=0) == workload
    assert HttpWorkload().reply_bytes == 1
    with pytest.raises(ValidationError, match="a reply with the status 204 has no body: leave it out, or give 0"):
        HttpWorkload(reply_status=204, reply_bytes=5)
    for target in ("/?a", "http://a", "http://a/"):
        HttpWorkload(reply_status=204, reply_bytes=0, target=target)
    HttpWorkload(reply_status=204, reply_bytes=0, target="/json", expect_status=200)
    with pytest.raises(ValidationError, match="204 is the status of / only: leave out target, or add expect_status"):
        HttpWorkload(reply_status=204, reply_bytes=0, target="/json")
    with pytest.raises(ValidationError, match="reply_status"):
        HttpWorkload.model_validate({"reply_status": 404})


# The settings of a trial, with the contract's field for each.
SETTINGS = {
    "load.connections": "load-spec.connections",
    "load.active": "load-spec.active",
    "load.idle": "load-spec.idle",
    "load.pipeline": "load-spec.pipeline",
    "load.requests_per_connection": "load-spec.requests_per_connection",
    "load.requests": "load-spec.requests",
    "load.threads": "load-spec.threads",
    "load.processes": "load-spec.processes",
    "load.driver": "load-spec.driver",
    "load.probes": "load-spec.probes",
    "load.spin_us": "load-spec.spin_us",
    "load.details": "load-spec.details",
    "load.connect_per_s": "load-spec.connect_per_s",
    "load.cpus": "load-spec.cpus",
    "trial.warmup_ms": "load-spec.warmup_ms",
    "trial.duration_ms": "load-spec.duration_ms",
    "trial.interval_ms": "load-spec.interval_ms",
    "trial.timeout_ms": "load-spec.timeout_ms",
    "server.workers": "serve-spec.workers",
    "server.worker_kind": "serve-spec.worker_kind",
    "server.cpus": "serve-spec.cpus",
    "server.sockets": "serve-spec.listen",
}
# Handled by the lab itself, or made of several fields.
OF_THE_LAB = {
    *("load.rate", "load.arrivals", "load.verify", "load.open", "trial.processors"),
    *(f"server.{key}" for key in ("instances", "interpreter", "cpu_quota", "memory_limit_bytes", "nice")),
    *(f"server.{key}" for key in ("environment", "processes_max", "descriptors_max")),
    "trial.start_ms",
}
# A trial is more than a load: where its limits and defaults differ from the engine's.
OF_A_TRIAL = {
    "load.connections": {"default"},
    "trial.warmup_ms": {"minimum", "default", "null"},
    "trial.duration_ms": {"minimum", "default", "null"},
    "trial.interval_ms": {"minimum", "maximum"},
}


def test_every_setting_of_a_trial_has_its_field_in_the_contract() -> None:
    of_a_server_and_a_load = {
        f"{table}.{key}"
        for table, kind in (("load", Load), ("server", Server), ("trial", Times))
        for key in kind.model_fields
    }
    assert SETTINGS.keys() | OF_THE_LAB == of_a_server_and_a_load
    for setting, field in SETTINGS.items():
        ends = [UNIT.search(name) for name in (setting, field)]
        assert len({end and end[0] for end in ends}) == 1, f"{setting} and {field} have different units"


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_a_trial_has_the_limits_and_the_default_of_its_field(setting: str) -> None:
    document, _, field = SETTINGS[setting].partition(".")
    engine, lab = engine_fields(document)[f".{field}"], lab_fields(Cell)[f".{setting}"]
    if setting == "server.sockets":
        # One socket per address.
        engine = {"minimum": engine["minItems"], "maximum": engine["maxItems"], "default": 1}
    own = OF_A_TRIAL.get(setting, set())
    if setting == "load.connections":
        # With no connections, the lab does not start the generator.
        assert lab["minimum"] == 0
        engine = {**engine, "minimum": 0}
    differing = {fact for fact in engine.keys() | lab.keys() if engine.get(fact) != lab.get(fact)}
    assert differing == own, f"{setting}: engine {engine}, lab {lab}"
    for fact in own & {"minimum", "maximum"}:
        assert engine["minimum"] <= lab[fact] <= engine["maximum"], f"{setting} cannot be beyond the engine's {fact}"
