"""What a server that is not ours says when it is ready: one line of JSON on its standard output.

`{"event": "ready", "listen": ["127.0.0.1:4000"]}`, once every listener accepts. A Python server that takes the
setting interpreter adds a description of its interpreter, made after its imports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from iolab.contract.types import ContractError, Frozen, Targets, one_line

# A line is at most so long: 64 addresses, and an interpreter with many extensions.
LINE_BYTES_MAX = 64 << 10
Word = Annotated[str, Field(max_length=4_096)]


class PythonState(Frozen):
    """The interpreter of a server: `version` is its `sys.version`, `flags` are what it was configured with.

    `gil_built` says whether it was built to have a GIL, `gil` whether the GIL is on after all imports. `extensions` are
    the compiled modules that are loaded from outside the standard library, sorted.
    """

    version: Word
    flags: Word | None
    gil_built: bool
    gil: bool
    extensions: tuple[Word, ...] = Field(max_length=1_000)


class ReadyLine(Frozen):
    """Where a server accepts connections: `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`; and what it runs on."""

    event: Literal["ready"]
    listen: Targets
    interpreter: PythonState | None = None


def parse_ready_line(line: bytes) -> ReadyLine:
    """Reads the line; raises ContractError with one line that names the field."""
    try:
        return ReadyLine.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise ContractError(f"its ready line is wrong: {one_line(error)}") from None
