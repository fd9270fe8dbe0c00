"""Reads a file or standard input as text; every error is one line."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

from iolab.errors import BadInput
from iolab.lint.page import BYTES_MAX

STDIN = "-"
# The byte order marks of UTF-16, which PowerShell writes.
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read(name: str) -> str:
    """The text of a file, or of standard input for `-`; raises BadInput. Reads at most BYTES_MAX and one byte."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise BadInput(f"{name}: more than {BYTES_MAX} bytes: give the outputs and tables alone")
    if b"\0" in data and not data.startswith(UTF16):
        raise BadInput(f"{name}: not a text: it has zero bytes")
    return _decoded(data)


def _decoded(data: bytes) -> str:
    """Decodes UTF-16 with a byte order mark, else UTF-8, else Latin-1, which accepts any bytes."""
    try:
        if data.startswith(UTF16):
            return data.decode("utf-16", "replace")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
