"""A text into a page: outputs of tools, tables, commands and prose, in the order of its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import ModuleType

from iolab.errors import BadInput
from iolab.lint import tables
from iolab.lint.formats import FORMATS, KNOWN, command, k6
from iolab.lint.record import Command, Line, Page, Run, lines_of
from iolab.wording import listed

# A page that somebody reads is smaller. Limits keep the time short for any text.
BYTES_MAX = 4_000_000
LINES_MAX = 100_000
LINE_MAX = 2_000
# What ends an output: the rest of the page goes on.
_ENDS = re.compile(r"^\s*(?:#{1,6} |\||```|~~~)")


@dataclass
class _Block:
    """The lines of an output, while they are collected."""

    starts: set[str]
    lines: list[Line] = field(default_factory=list)
    command: Command | None = None


def read(text: str) -> Page:
    """Reads a page; raises BadInput where it is too large, or nothing in it is recognised."""
    if len(text) > BYTES_MAX:
        raise BadInput(f"the text has more than {BYTES_MAX} characters: give the outputs and tables alone")
    lines = lines_of(text)
    if len(lines) > LINES_MAX:
        raise BadInput(f"the text has more than {LINES_MAX} lines: give the outputs and tables alone")
    blocks, prose, commands = _split([Line(number, text[:LINE_MAX]) for number, text in lines])
    runs = tuple(run for block in blocks if (run := _run(block)))
    found, rest = tables.read(prose)
    if not runs and not found:
        raise BadInput(f"no output or table is recognised: iolab lint reads {listed(KNOWN)}")
    # A command alone is an example of how to run a tool; beside others that have an output, its output is missing.
    used = [run.command for run in runs if run.command]
    silent = tuple(each for each in commands if each not in used) if used else ()
    rows = tuple(run for table in found for run in table.runs)
    return Page(runs=(*runs, *rows), tables=found, prose=rest, silent=silent)


def _split(lines: list[Line]) -> tuple[list[_Block], list[Line], list[Command]]:
    """The outputs, the lines outside of them, and all commands."""
    blocks: list[_Block] = []
    prose: list[Line] = []
    commands: list[Command] = []
    block: _Block | None = None
    waiting: Command | None = None
    for line in lines:
        if asked := command.read(line):
            commands.append(asked)
            block, waiting = None, asked
        elif start := _start(line, block):
            if block is None or start in block.starts:
                block = _Block({start}, command=waiting)
                blocks.append(block)
                waiting = None
            block.starts.add(start)
            block.lines.append(line)
        elif block is not None and not _ENDS.match(line.text):
            block.lines.append(line)
        else:
            block = None
            prose.append(line)
    return blocks, prose, commands


def _start(line: Line, block: _Block | None) -> str | None:
    """The words with which an output begins in this line."""
    if block is None and _ENDS.match(line.text):
        return None
    return next((match[0] for each in FORMATS if (match := each.START.search(line.text))), None)


def _run(block: _Block) -> Run | None:
    """The run of an output; None where too little of it is there."""
    known = _format(block)
    if known is None:
        return None
    run: Run = known.read(block.lines)
    if not run.figures:
        return None
    asked = block.command
    # iolab load --like prints the report of a tool: the command above it may be that of another program.
    if asked is None or asked.tool not in (run.tool, "wrk" if run.tool == "wrk2" else run.tool):
        return run
    is_open_loop = run.is_open_loop or (known is k6 and asked.has_rate)
    return replace(run, command=asked, name=run.name or asked.url, is_open_loop=is_open_loop)


def _format(block: _Block) -> ModuleType | None:
    """The format of an output."""
    begun = [each for each in FORMATS if any(each.START.search(start) for start in block.starts)]
    return next((each for each in begun if any(each.IS.search(line.text) for line in block.lines)), None)
