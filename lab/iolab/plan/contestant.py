"""A server to measure, as a user names it: `epoll`, `io_uring[recv=oneshot]` or `cmd:./mine --port {port}`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, Self

from pydantic import ValidationError, model_serializer, model_validator

from iolab.contract.types import Frozen, one_line
from iolab.errors import PlanError

TEXT_BYTES_MAX = 4_096
# Placeholders that the lab fills in: {port}, {workers}, {load.connections}.
PLACEHOLDER = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)?)\}")
NO_VALUES: Mapping[str, str] = {}
# Words that begin a shell line but are no programs.
SHELL_WORDS = frozenset({".", "cd", "exec", "export", "source", "ulimit"})
# The longest name of a command in tables and sentences.
TITLE_MAX = 40
CLIENT_TITLE_MAX = 120


class Contestant(Frozen):
    """A server to measure, named by the text a user types.

    `epoll` and `io_uring[recv=oneshot,send=silent]` name a server of the engine or of the registry, with options in
    sorted order. `cmd:./mine --port {port}` is any other server: split as a shell would split it, but never given to a
    shell. In JSON a contestant is its text.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a contestant; raises PlanError with one line that says what to write instead."""
        try:
            return cls.model_validate(text)
        except ValidationError as error:
            raise PlanError(one_line(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"text": _canonical(value)}
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            return value | {"text": _canonical(value["text"])}
        return value

    @model_serializer
    def _to_text(self) -> str:
        return self.text

    @property
    def kind(self) -> Literal["named", "command"]:
        """`named`: found in the engine or the registry. `command`: the user's own."""
        return "command" if self.text.startswith("cmd:") else "named"

    @cached_property
    def name(self) -> str:
        """The name without options: `io_uring`. For a command, its program."""
        return self._command[0] if self.kind == "command" else self.text.partition("[")[0]

    @cached_property
    def options(self) -> dict[str, str]:
        """The options in brackets: `{"recv": "oneshot"}`. A command has none."""
        inside = self.text.partition("[")[2].removesuffix("]") if self.kind == "named" else ""
        return dict(_pair(part) for part in inside.split(",")) if inside else {}

    def argv(self, port: int, values: Mapping[str, str] = NO_VALUES) -> tuple[str, ...]:
        """The argument list of a command, with `{port}` and the names of `values` filled in.

        Other braces stay as they are.
        """
        assert self.kind == "command", "only a command has an argument list"
        return _filled(self._command, {**values, "port": str(port)})

    def takes(self, name: str) -> bool:
        """Whether the arguments of a command use this setting."""
        return any(name in PLACEHOLDER.findall(argument) for argument in self._command)

    @cached_property
    def title(self) -> str:
        """A short name for display; a long command loses its folders. Not an identity: see `Comparison.titles`."""
        if self.kind == "named":
            return self.text
        words = [each for each in self._command if not PLACEHOLDER.search(each) and not each.startswith("-")]
        words = words or [self._command[0]]
        title = " ".join(words)
        if len(title) > TITLE_MAX:
            title = " ".join(word.rstrip("/").rpartition("/")[2] for word in words)
        return title if len(title) <= TITLE_MAX else f"{title[: TITLE_MAX - 1]}…"

    @cached_property
    def _command(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.text.removeprefix("cmd:")))


def _canonical(text: str) -> str:
    """The canonical text of a contestant; raises ValueError that says what to write instead."""
    text = text.strip()
    if len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
        raise ValueError(f"a contestant is at most {TEXT_BYTES_MAX} bytes of text")
    if text.startswith("cmd:"):
        return _canonical_command(text)
    match = re.fullmatch(r"([a-z][a-z0-9_.-]*)(?:\[([^\[\]]*)\])?", text)
    if match is None:
        raise ValueError(
            f"{_shown(text)} is not a contestant: write a name such as epoll, a name with options such as "
            "io_uring[recv=oneshot], or 'cmd:./mine --port {port}'"
        )
    name, inside = match[1], match[2]
    if inside is None:
        return name
    pairs = [_pair(part) for part in inside.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{_shown(text)} names an option twice: name it once")
    return f"{name}[{','.join(f'{option}={value}' for option, value in sorted(pairs))}]"


def client_argv(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The argument list of an external client, with the names of `values` filled in."""
    return _filled(shlex.split(text.removeprefix("cmd:")), values)


def client_takes(text: str, name: str) -> bool:
    """Whether the arguments of an external client use this setting."""
    return name in PLACEHOLDER.findall(text)


def client_title(text: str) -> str:
    """A short name of a client: its words without folders and placeholders."""
    title = list[str]()
    for word in shlex.split(text.removeprefix("cmd:")):
        name = word.rstrip("/").rpartition("/")[2]
        if not PLACEHOLDER.search(name):
            title.append(name)
        elif title and title[-1].startswith("-"):
            title.pop()
    said = " ".join(title) or text
    return said if len(said) <= CLIENT_TITLE_MAX else f"{said[: CLIENT_TITLE_MAX - 1]}…"


def canonical_client(text: str) -> str:
    """The canonical text of an external client; raises ValueError that says what to write."""
    text = text.strip()
    words = _command_words(text, "cmd:./client {address}")
    if not any(place in word for word in words for place in ("{address}", "{addresses}", "{port}")):
        raise ValueError(f"{_shown(text)} does not say where the server is: write {{address}} or {{addresses}} there")
    return text


def _filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Each argument with its placeholders filled in; other braces stay as they are."""
    return tuple(PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), each) for each in words)


def _canonical_command(text: str) -> str:
    words = _command_words(text, "cmd:./mine --port {port}")
    if not any("{port}" in word for word in words):
        raise ValueError(f"{_shown(text)} does not say where its port goes: write {{port}} there")
    return text


def _command_words(text: str, example: str) -> list[str]:
    """The words of a command; raises ValueError for one that cannot be started."""
    if len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
        raise ValueError(f"a command is at most {TEXT_BYTES_MAX} bytes of text")
    if "\0" in text:
        raise ValueError("a command cannot hold a NUL byte: take it out")
    try:
        words = shlex.split(text.removeprefix("cmd:"))
    except ValueError as error:
        raise ValueError(f"{_shown(text)} cannot be split into words ({error}): balance its quotes") from None
    if not words or not words[0]:
        raise ValueError(f"cmd: needs a program after it, as in '{example}'")
    if re.match(r"[A-Za-z_]\w*=", words[0]):
        raise ValueError(
            f"{_shown(text)}: no shell reads the command: "
            "write it as in cmd:env PORT={port} node app.js, or as cmd:sh -c '…'"
        )
    if words[0] in SHELL_WORDS:
        raise ValueError(
            f"{_shown(text)}: no shell reads the command, and {words[0]} is not a program: write cmd:sh -c '…'"
        )
    return words


def _pair(part: str) -> tuple[str, str]:
    match = re.fullmatch(r"\s*([a-z][a-z0-9_]*)=([A-Za-z0-9_.+-]+)\s*", part)
    if match is None:
        raise ValueError(f"{_shown(part)} is not an option: write name=value, as in io_uring[recv=oneshot]")
    return match[1], match[2]


def _shown(text: str) -> str:
    """Text from outside, fit for one line of a message."""
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
