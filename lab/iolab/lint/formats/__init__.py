"""The known formats, one file each: how to recognise an output and parse it into a run."""

from __future__ import annotations

from types import ModuleType

from iolab.lint.formats import ab, echo_client, h2load, hey, k6, oha, wrk

# Each has START, which matches lines that may begin an output, IS, which matches a line that every such output has, and
# `read`. If START of several formats matches, the first with a match of IS applies.
FORMATS: tuple[ModuleType, ...] = (ab, oha, hey, wrk, h2load, k6, echo_client)
KNOWN = ("ab", "hey", "wrk", "wrk2", "oha", "k6", "h2load", "echo-client", "tables in Markdown, CSV or TSV")
