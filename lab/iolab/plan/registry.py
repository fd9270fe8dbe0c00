"""The registry: servers outside the engine, by name. How each is built, started and asked for its version.

iolab's own is `contestants/registry.toml`. A user's is `contestants.toml` beside an experiment, or in the working
directory for `vs`. A server NAME keeps its sources and its configuration in the folder NAME beside the registry, or in
the folder that its entry names as `folder`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from iolab.contract.literals import Protocol
from iolab.contract.types import Frozen
from iolab.errors import PlanError
from iolab.plan import mistakes, toml_file
from iolab.plan.contestant import PLACEHOLDER, Contestant
from iolab.plan.settings import SHORT, Cell
from iolab.wording import instead, listed

OURS = Path(__file__).parent.parent / "contestants/registry.toml"
USERS = "contestants.toml"
NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
# Settings of a server. An entry must list those that may differ from their defaults.
SETTINGS = (
    *("workers", "worker_kind", "sockets", "interpreter"),
    *("reply_status", "reply_bytes", "message_bytes", "framing", "work_ns"),
)
# `message_bytes` and `framing` reach a server with each message; each other setting reaches it by one of these words.
TOLD_BY = {
    "workers": ("workers",),
    "worker_kind": ("worker_kind",),
    "sockets": ("sockets",),
    "interpreter": ("python",),
    "reply_bytes": ("reply_bytes", "body"),
    "work_ns": ("work_ns",),
}
# Settings whose effect only the server knows: it reports them in its ready line.
SAID_WHEN_READY = {"sockets": "its addresses", "interpreter": "its interpreter"}
# Placeholders known before a start, the only ones for builds and version commands: the server's folder, the folder of
# all of iolab's servers, the build, and the interpreter.
PLACES = ("folder", "contestants", "built", "python")
# Further placeholders: the address of the server, a scratch folder for this start, a reply body, and the settings.
PLACEHOLDERS = ("host", "port", *PLACES, "scratch", "protocol", "body", *TOLD_BY, "message_bytes", "framing")

Takes = Literal[
    "workers", "worker_kind", "sockets", "interpreter", "reply_bytes", "message_bytes", "framing", "work_ns"
]
Words = tuple[str, ...]
# Names and values in brackets after the name of a contestant.
OptionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
OptionValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]+$")]


class Numbers(Frozen):
    """The values of an option that is a whole number: its limits and its default."""

    least: int = Field(ge=0)
    most: int
    default: int

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.least <= self.default <= self.most:
            raise ValueError(f"default: {self.default} is not from {self.least} to {self.most}: use one that is")
        return self


# The two kinds of options, by the names that pydantic puts into the place of a mistake.
WORDS, NUMBERS = "words", "numbers"
Values = Annotated[
    Annotated[tuple[OptionValue, ...], Field(min_length=1), Tag(WORDS)] | Annotated[Numbers, Tag(NUMBERS)],
    Discriminator(lambda value: NUMBERS if isinstance(value, dict | Numbers) else WORDS),
]


class Entry(Frozen):
    """A server in the registry.

    `start`, `build`, `version`, the values of `environment` and the text of `files` may contain placeholders. `files`
    are copied from the server's folder into `{scratch}`. `options` are those in brackets, as in `mine[wait=select]`:
    the values of each, the default first, or the limits of a number; each is also a placeholder. A server is `ready`
    when its port accepts, or when it prints a ready line (see `contract.ready`). `version` is a command whose first
    line names the version; alternatively, `crates` names packages of its Cargo.lock. `packages` are Python modules that
    `{python}` must be able to import. `install` says what to run if a program or a package is missing.
    """

    about: str = Field(min_length=1, max_length=200)
    protocols: tuple[Protocol, ...]
    settings: tuple[Takes, ...] = ()
    at_most: dict[str, int] = Field(default={})
    options: dict[OptionName, Values] = Field(default={})
    folder: str = Field(default="", pattern=r"^([a-z][a-z0-9_.-]{0,63})?$")
    build: Words = ()
    start: Words
    ready: Literal["port", "line"] = "port"
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(default={})
    files: Words = ()
    version: Words = ()
    crates: Words = ()
    packages: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")], ...] = ()
    install: str = Field(min_length=1, max_length=200)


@dataclass(frozen=True, slots=True)
class Listed:
    """A server of a registry: its name, its entry, and the registry's file."""

    name: str
    entry: Entry
    file: Path

    @property
    def folder(self) -> Path:
        """The folder of its sources and configuration."""
        return self.file.parent / (self.entry.folder or self.name)

    @property
    def defaults(self) -> dict[str, str]:
        """The default of each of its options."""
        return {name: default_of(values) for name, values in self.entry.options.items()}

    def chosen(self, contestant: Contestant) -> dict[str, str]:
        """The value of each of its options: the contestant's or the default."""
        defaults = self.defaults
        return defaults | {name: value for name, value in contestant.options.items() if name in defaults}


Registry = Mapping[str, Listed]


def load(users: Path | None = None) -> Registry:
    """iolab's registry, and the user's if that file exists; raises PlanError with a line for each mistake."""
    registry = _read(OURS)
    if users is None or not users.is_file():
        return registry
    own = _read(users.absolute())
    twice = [name for name in own if name in registry]
    if twice:
        raise PlanError("\n".join(f"{users}: [{name}]: iolab's registry has that name: use another" for name in twice))
    return registry | own


def beside(experiment: Path) -> Path:
    """The path of the user's registry for an experiment, if there is one."""
    return experiment.parent / USERS


def refuse_names_of(models: Collection[str], registry: Registry) -> None:
    """Raises PlanError with a line for each server named like a model of the engine."""
    if taken := [each for name, each in registry.items() if name in models]:
        lines = (f"{each.file}: [{each.name}]: is a model of the engine: use another name" for each in taken)
        raise PlanError("\n".join(lines))


def refusal(server: Listed, cell: Cell) -> str:
    """Why a server does not take the settings of a cell, in one line; empty if it does."""
    entry, workload, name = server.entry, cell.workload, server.name
    if workload.protocol not in entry.protocols:
        return f"{name} does not speak {workload.protocol}: it speaks {', '.join(entry.protocols)}"
    for key in SETTINGS:
        holder = next((each for each in (cell.server, workload) if key in type(each).model_fields), None)
        if holder is None:
            continue
        value, default = getattr(holder, key), type(holder).model_fields[key].default
        if value != default and key not in entry.settings:
            takes = f"it takes {listed(entry.settings)}" if entry.settings else "it takes no settings"
            return f"{name} does not take {key}: {takes}; leave {key} at {default}, or leave {name} out"
        if key in entry.at_most and value > entry.at_most[key]:
            return f"{name} takes {key} up to {entry.at_most[key]}, not {value}"
    for option, value in cell.contestant.options.items():
        if option in entry.options and not _has(entry.options[option], value):
            return f"{name} has no {option}={value}: it has {spelt(entry.options[option], ', ')}"
    return ""


def default_of(values: Words | Numbers) -> str:
    """The default of an option."""
    return str(values.default) if isinstance(values, Numbers) else values[0]


def spelt(values: Words | Numbers, between: str = "|") -> str:
    """The values of an option, the default first; for a number its default and its limits."""
    if isinstance(values, Numbers):
        return f"{values.default}, {values.least} to {values.most}"
    return between.join(values)


def _has(values: Words | Numbers, value: str) -> bool:
    if isinstance(values, Numbers):
        return value.isdecimal() and value.isascii() and values.least <= int(value) <= values.most
    return value in values


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in; other braces stay as they are."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _read(file: Path) -> dict[str, Listed]:
    try:
        text = file.read_bytes()[: toml_file.BYTES_MAX + 1]
        return parse(text, file)
    except OSError as error:
        raise PlanError(f"{file}: cannot be read: {error.strerror or error}") from None
    except PlanError as error:
        raise PlanError("\n".join(f"{file}: {line}" for line in str(error).split("\n"))) from None


def parse(text: bytes, file: Path) -> dict[str, Listed]:
    """The servers of a registry's text; raises PlanError with a line for each mistake."""
    found, wrong = dict[str, Listed](), list[str]()
    for name, table in toml_file.table_of(text, "a registry").items():
        if NAME.fullmatch(name) is None:
            wrong.append(f"[{name}]: a name must be small letters, digits, '.', '_' and '-', beginning with a letter")
            continue
        if not isinstance(table, dict):
            wrong.append(f"{name}: belongs to a server: write [NAME] above it")
            continue
        try:
            found[name] = Listed(name, Entry.model_validate(table), file)
        except ValidationError as error:
            # Each entry is checked like a file of its own.
            keys = {"": Entry.model_fields, NUMBERS: Numbers.model_fields}
            lines = mistakes.of_file(error, table, keys, (WORDS, NUMBERS))
            wrong += [f"[{name}] {line}" for line in lines]
        else:
            wrong += [f"[{name}] {line}" for line in _faults(found[name])]
    if wrong:
        raise PlanError("\n".join(wrong))
    return found


def _faults(server: Listed) -> Iterator[str]:
    """The mistakes in an entry whose keys and types are right, a line each."""
    entry = server.entry
    yield from (f"{key}: must not be empty" for key in ("protocols", "start") if not getattr(entry, key))
    if entry.folder and not server.folder.is_dir():
        yield f"folder: {server.folder} does not exist: create it, or leave folder out"
    contents = dict(_readable(server))
    for name in entry.files:
        if name not in contents:
            yield f"files: {server.folder / name} cannot be read: create it, or leave it out"
    basenames = [Path(name).name for name in entry.files]
    for name in dict.fromkeys(each for each in basenames if basenames.count(each) > 1):
        yield f"files: two of them are called {name}, and a start copies both into one folder: rename one"
    yield from _unknown_placeholders(entry)
    texts = (*entry.start, *entry.environment.values(), *contents.values())
    yield from _untold(entry, set(itertools.chain.from_iterable(map(PLACEHOLDER.findall, texts))))
    for name in entry.at_most:
        if name not in entry.settings:
            yield f"at_most.{name}: is not among settings: add it there, or leave it out"
    if entry.version and entry.crates:
        yield "crates: the version is asked for twice: keep version or crates"


def _untold(entry: Entry, said: Set[str]) -> Iterator[str]:
    """Settings and options that do not reach the server or are not reported. `said` are its start's placeholders."""
    if entry.start and "port" not in said and entry.ready == "port":
        yield "start: does not say where the port goes: write {port} there, in environment or in one of files"
    for setting in entry.settings:
        if setting in TOLD_BY and not said & {*TOLD_BY[setting]}:
            told = TOLD_BY[setting][0]
            yield f"settings: {setting} does not reach the server: write {{{told}}} in start, environment or files"
        if setting in SAID_WHEN_READY and entry.ready != "line":
            what = SAID_WHEN_READY[setting]
            yield f'settings: {setting} needs a server that says {what}: print a ready line, and write ready = "line"'
    for option in entry.options:
        if option in PLACEHOLDERS:
            yield f"options.{option}: {{{option}}} is filled in by iolab already: use another name"
        elif option not in said:
            yield f"options.{option}: does not reach the server: write {{{option}}} in start, environment or files"
    if entry.packages and "python" not in said:
        yield "packages: no interpreter imports them: write {python} in start"


def _unknown_placeholders(entry: Entry) -> Iterator[str]:
    """Placeholders that the lab does not fill in. `files` are not checked: their braces may mean something else."""
    values: Mapping[str, Iterable[str]] = {
        "start": entry.start,
        "build": entry.build,
        "version": entry.version,
        "environment": entry.environment.values(),
    }
    for key, texts in values.items():
        for found in itertools.chain.from_iterable(map(PLACEHOLDER.findall, texts)):
            known = PLACES if key in ("build", "version") else (*PLACEHOLDERS, *entry.options)
            if key not in ("build", "version") and (found in SHORT.values() or found in SHORT):
                continue
            if found not in known:
                yield f"{key}: there is no {{{found}}}{instead(found, known)}"


def _readable(server: Listed) -> Iterator[tuple[str, str]]:
    """The readable files of a server, with their text."""
    for name in server.entry.files:
        try:
            yield name, (server.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
