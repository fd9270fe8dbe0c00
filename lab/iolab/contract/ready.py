"""The ready line of a server other than the engine's models: one line of JSON on its standard output.

`{"event": "ready", "listen": ["127.0.0.1:4000"]}`, once every listener accepts. A Python server with the setting
`interpreter` adds a description of its interpreter, made after its imports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from iolab.contract.types import ContractError, Frozen, Targets, one_line

# Room for 64 addresses and an interpreter with many extensions.
LINE_BYTES_MAX = 64 << 10
Word = Annotated[str, Field(max_length=4_096)]


class PythonState(Frozen):
    """The interpreter of a server: `version` is its `sys.version`, `flags` are those of its configure script.

    `gil_built`: it was built with a GIL. `gil`: the GIL is on after all imports. `extensions` are the loaded compiled
    modules from outside the standard library, sorted.
    """

    version: Word
    flags: Word | None
    gil_built: bool
    gil: bool
    extensions: tuple[Word, ...] = Field(max_length=1_000)


class ReadyLine(Frozen):
    """Where a server accepts connections (`127.0.0.1:8080`, `[::1]:8080` or `unix:/path`), and its interpreter."""

    event: Literal["ready"]
    listen: Targets
    interpreter: PythonState | None = None


def parse_ready_line(line: bytes) -> ReadyLine:
    """Parses the line; raises ContractError with one line that names the field."""
    try:
        return ReadyLine.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise ContractError(f"its ready line is wrong: {one_line(error)}") from None
