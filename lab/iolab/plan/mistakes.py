"""Messages for mistakes in an experiment file, a registry or flags, a line each: the key, what is wrong, what to write.

pydantic finds most mistakes. Its words are for programmers; these are for the author of the file or the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from iolab.plan.settings import DOTTED, SETTINGS
from iolab.wording import instead

# Examples for missing keys.
EXAMPLES = {
    "name": '"my-question"',
    "question": '"Which is faster?"',
    "id": '"C-1"',
    "text": '"what was claimed"',
    "title": '"http"',
    "contestants": '["epoll", "io_uring"]',
    "contestant": '"io_uring"',
    "of": '"io_uring"',
    "to": '"epoll"',
    "along": '"load.connections"',
    "is": '"rising"',
    "law": '"littles_law"',
    "reason": '"one process cannot hold them"',
    "figures": "{ epoll = { throughput = 100000 } }",
    "about": '"a server in Go"',
    "protocols": '["http"]',
    "start": '["./mine", "--port", "{port}"]',
    "install": '"apt-get install mine"',
    "least": "1",
    "most": "100000",
    "default": "10000",
    "words": '["select", "poll"]',
    "tests": '[{ relation = "order", contestants = ["io_uring", "epoll"] }]',
}
# The message for each pydantic error type; {…} is filled from its context.
WORDS = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be a table, as in {{ key = 1 }}",
    "model_type": "must be a table, as in {{ key = 1 }}",
    "model_attributes_type": "must be a table, as in {{ key = 1 }}",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "too_long": "has too many items: use at most {max_length}",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long: use at most {max_length} characters",
    "string_pattern_mismatch": "must be small letters, digits, '.', '_' and '-', beginning with a letter or digit",
    "literal_error": "must be {expected}",
}
# Settings of the older flat form whose names differed.
FLAT = {"server_cpus": "server.cpus", "load_cpus": "load.cpus"}
# A key at the beginning of a message.
KEY = re.compile(r"[a-z_]+")
# The keys of lists of tables.
TABLES = frozenset({"comparisons", "published", "claims", "skip"})
# A value of a union type has an error for each type; their places end in these.
SCALARS = ("bool", "int", "float", "str")
SCALAR = "must be a number, text in quotes, or true or false"


def of_file(
    error: ValidationError, table: Mapping[str, Any], keys: Mapping[str, Iterable[str]], relations: Sequence[str]
) -> list[str]:
    """The mistakes in a file. `keys` are the valid keys of each table, by the last name of its path."""
    # A value of a union type has an error for each type, with equal messages.
    lines: list[str] = []
    for fault in error.errors(include_url=False):
        if fault["loc"]:
            lines.append(_of_place(fault, table, keys, relations))
        else:
            lines += fault["msg"].removeprefix("Value error, ").split("\n")
    return list(dict.fromkeys(lines))


def _of_place(
    fault: ErrorDetails, table: Mapping[str, Any], keys: Mapping[str, Iterable[str]], relations: Sequence[str]
) -> str:
    place = list(fault["loc"])
    if fault["type"].startswith("union_tag"):
        wrong = fault.get("ctx", {}).get("tag")
        found = "is missing" if wrong is None else f"{wrong!r} is no relation"
        return f"{_spelt(place, table, relations)}.relation: {found}: write one of {', '.join(relations)}"
    if place and place[-1] in SCALARS:
        return f"{_spelt(place[:-1], table, relations)}: {SCALAR}"
    where = _spelt(place, table, relations)
    if fault["type"] == "extra_forbidden":
        tables = [part for part in place[:-1] if isinstance(part, str)]
        name, key = tables[-1] if tables else "", str(place[-1])
        if "fixed" in keys.get(name, ()) and (setting := setting_of(key)) is not None:
            of_tables = f"{name}.fixed".lstrip(".")
            return f"{where}: write it as {setting}, in [{of_tables}.{SETTINGS[setting].table}]"
        return f"{where}: there is no such key here{instead(key, keys.get(name, ()))}"
    return _joined(where, words(fault))


def _joined(where: str, said: str) -> str:
    """The place of a mistake and its message; a message about a table may begin with the key it is about."""
    key, colon, rest = said.partition(": ")
    if colon and where and KEY.fullmatch(key):
        return f"{where}.{key}: {rest}"
    return f"{where}: {said}" if where else said


def setting_of(name: str) -> str | None:
    """The dotted name of a setting given by its key alone; None if there is none."""
    if name in SETTINGS:
        return name
    return FLAT.get(name) or DOTTED.get(name) or next((each for each in SETTINGS if each.endswith(f".{name}")), None)


def of_toml(error: str, text: str) -> str:
    """tomllib's message on one line. For a key given twice tomllib names only the line, so this adds the key."""
    found = re.fullmatch(r"Cannot overwrite a value \(at (line (\d+)), .*\)", error)
    if found is not None:
        key, equals, _ = text.splitlines()[int(found[2]) - 1].partition("=")
        if equals:
            return f"the key {key.strip()} is given twice (at {found[1]}): keep one"
    return " ".join(error.split())


def of_settings(error: ValidationError) -> str:
    """The first mistake in settings that were given one by one, as `key: what is wrong`."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    said = words(first, " ms" if key.endswith("_ms") else "")
    return f"{key}: {said}" if key else said


def words(fault: ErrorDetails, unit: str = "") -> str:
    """The mistake in one value, and what it must be.

    `unit` follows the figures. With a unit the value is left out: a time was rounded after it was given.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "missing":
        key = str(fault["loc"][-1])
        return f"is missing: write {key} = {EXAMPLES.get(key, '…')}"
    if kind == "tuple_type":
        return _no_list(fault)
    if kind == "string_pattern_mismatch" and fault["loc"][-1] != "name":
        return f"must be of the form {context['pattern']}{_instead_of(fault['input'])}"
    if kind not in WORDS:
        return fault["msg"].removeprefix("Value error, ").replace("\n", " ")
    said = WORDS[kind].format(**{name: f"{value}{unit}" for name, value in context.items()})
    return said if unit else f"{said}{_instead_of(fault['input'])}"


def _no_list(fault: ErrorDetails) -> str:
    key, value = fault["loc"][-1], fault["input"]
    if key in TABLES:
        return f"must be a list of tables: write [[{key}]]"
    example = EXAMPLES.get(str(key)) or ('["epoll", "io_uring"]' if isinstance(value, str) else "[1, 2]")
    return f"must be a list, as in {example}{_instead_of(value)}"


def _instead_of(value: object) -> str:
    """The written value, if it is short."""
    is_shown = isinstance(value, bool | int | float | str) and len(str(value)) <= 60
    return f", not {value!r}" if is_shown else ""


def _spelt(place: Sequence[int | str], table: Mapping[str, Any], relations: Sequence[str]) -> str:
    """A place as its author knows it: `claims[C-1].decide.published`, `contestants[2]` counted from 1."""
    spelt = ""
    at: Any = table
    for part in place:
        if part in relations and not (isinstance(at, dict) and part in at):
            continue  # the kind of a test or option, which is no key of the file
        if isinstance(at, str):
            continue  # a contestant as text, whose parts are no keys of the file
        if part == 0 and isinstance(at, dict):
            continue  # a table in place of a list of one
        at = _inside(at, part)
        if isinstance(part, int):
            name = next((at[key] for key in ("id", "title", "name") if isinstance(at, dict) and key in at), part + 1)
            spelt += f"[{name if isinstance(name, str) and len(name) <= 60 else part + 1}]"
        else:
            spelt += f".{part}" if spelt else part
    return spelt.replace("\n", " ")


def _inside(table: Any, part: int | str) -> Any:
    try:
        return table[part]
    except (KeyError, IndexError, TypeError):
        return None
