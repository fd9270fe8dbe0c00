"""The formats that are known: one file each, which says where an output begins and reads it into a run."""

from __future__ import annotations

from types import ModuleType

from iolab.lint.formats import ab, echo_client, h2load, hey, k6, oha, wrk

# Each has START, the lines with which an output may begin, IS, a line that every such output has, and `read`. Where
# two begin alike, the first whose IS matches is taken.
FORMATS: tuple[ModuleType, ...] = (ab, oha, hey, wrk, h2load, k6, echo_client)
KNOWN = ("ab", "hey", "wrk", "wrk2", "oha", "k6", "h2load", "echo-client", "tables in Markdown, CSV or TSV")
