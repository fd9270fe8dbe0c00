"""docs/experiments.md: its tables are generated from the types, and its example is a valid experiment.

`IOLAB_GOLDEN=1 pytest tests/test_experiment_reference.py` rewrites the tables after a change of the types.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iolab.contract.types import Frozen
from iolab.plan.experiment import TABLES, parse_experiment
from iolab.plan.settings import SETTINGS, settings_of

PAGE = Path(__file__).parent.parent / "docs/experiments.md"
BEGIN, END = "<!-- tables: made by tests/test_experiment_reference.py -->\n", "<!-- end of tables -->\n"
UNITS = {"_bits_per_s": "bits/s", "_per_s": "per s", "_ms": "ms", "_us": "us", "_ns": "ns", "_bytes": "bytes"}
# The workload types belong to the engine's contract; these are the lab's descriptions of their fields.
WORKLOAD = {
    "protocol": "protocol of requests and replies",
    "reply_bytes": "size of a reply's body",
    "reply_status": "status of a reply",
    "target": "path of the requests; rpc: steps of the computation for each answer",
    "host": "the Host header; the address by default",
    "keep_alive": "whether a connection serves more than one request",
    "verify": "compare status and body, or the status only",
    "method": "GET, or POST with a body",
    "headers": "additional header fields, as pairs",
    "body": "what is sent with each request",
    "expect_status": "status that a reply must have; any 2xx by default",
    "expect_body": "body that a reply must have; by default the body of the first reply",
    "framing": "how messages end",
    "message_bytes": "size of a message",
    "text_bytes": "size of the text that the server sends back",
    "work_ns": "additional processor time of a call",
}
HEADINGS = {
    "": "The file",
    "contestants": "A contestant: `[[contestants]]`, or a table in a list",
    "comparisons": "`[[comparisons]]`",
    "skip": "`[[skip]]`, and without a reason `[[quick.skip]]`",
    "quick": "`[quick]`",
    "needs": "`[needs]`, or `needs = { … }` of a contestant",
}


def reference() -> str:
    """The tables of the page."""
    parts = []
    for table, heading in HEADINGS.items():
        kind = TABLES[table]
        rows = [_row(key, _schema(kind, key), kind.model_fields[key].description or "") for key in kind.model_fields]
        parts.append(_table(f"### {heading}", rows))
    for table in dict.fromkeys(known.table for known in SETTINGS.values()):
        rows = []
        for known in SETTINGS.values():
            if known.table == table:
                about = WORKLOAD[known.key] if table == "workload" else known.field.description or ""
                rows += list(
                    dict.fromkeys(_row(known.key, _schema(kind, known.key), about) for kind, _ in known.fields)
                )
        parts.append(_table(f"### `[fixed.{table}]`", rows))
    return "\n".join(parts)


def _table(heading: str, rows: list[str]) -> str:
    return "\n".join(
        (heading, "", "| key | meaning | type | default | limits |", "| --- | --- | --- | --- | --- |", *rows, "")
    )


def _schema(kind: type[Frozen], key: str) -> dict[str, Any]:
    """The schema of one key, merged from all alternatives of an optional key or of one that may be one of two
    numbers."""
    document = kind.model_json_schema()
    found = dict(document["properties"][key])
    for part in found.pop("anyOf", []):
        if part.get("type") != "null":
            found = {**found, **part, "type": "/".join(filter(None, (found.get("type"), part.get("type"))))}
    return found


def _row(key: str, schema: dict[str, Any], about: str) -> str:
    unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), "")
    if schema.get("$ref", "").endswith("Contestant"):
        schema = {**schema, "type": "string"}
    words = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    names = {"integer": "whole number", "number": "number", "number/string": "number or text", "string": "text"}
    names |= {"array": "list", "object": "table", "boolean": "true or false"}
    kind = " or ".join(f"`{word}`" for word in words) or names.get(schema.get("type", ""), "table")
    cells = (f"`{key}`", about, f"{kind}, {unit}" if unit else kind, _default(schema), ", ".join(_limits(schema)))
    return f"| {' | '.join(cells)} |"


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    if "default" not in schema:
        return "required"
    is_plain = isinstance(default, bool | int | float | str) and default != ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`" if is_plain else "none"


def _limits(schema: dict[str, Any]) -> Iterator[str]:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    for key, word in words.items():
        if key in schema:
            yield f"{word} {schema[key]:,}" if isinstance(schema[key], int) else f"{word} {schema[key]:g}"
    if "maxItems" in schema:
        yield f"at most {schema['maxItems']:,}"
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']:,} characters"


def test_the_tables_of_the_page_are_those_of_the_types() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = before + BEGIN + reference() + END + after
    if os.environ.get("IOLAB_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert made == PAGE.read_text(encoding="utf-8")


def test_the_example_of_the_page_is_an_experiment_whose_command_takes_its_settings() -> None:
    example, *_ = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    plan = parse_experiment(example.encode())
    mine = next(cell for cell in plan.comparisons[-1].cells if cell.contestant.kind == "command")
    assert settings_of(mine)["load.active"] == 100
    assert "{" not in " ".join(mine.contestant.argv(80, {"host": "a", "workers": "2", "reply_bytes": "1"}))
