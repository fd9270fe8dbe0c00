"""Splits a text into a page: outputs of tools, tables, commands and prose, in the order of its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import ModuleType

from iolab.errors import BadInput
from iolab.lint import tables
from iolab.lint.formats import FORMATS, KNOWN, command
from iolab.lint.record import Command, Line, Page, Run, lines_of
from iolab.wording import listed

# Pages for readers are smaller. The limits bound the time for any text.
BYTES_MAX = 4_000_000
LINES_MAX = 100_000
LINE_MAX = 2_000
# Lines that end an output.
_ENDS = re.compile(r"^\s*(?:#{1,6} |\||```|~~~)")
# Figures with a unit, and leading dots.
_FIGURES = re.compile(r"[\d.]+[a-z]*")


@dataclass
class _Block:
    """The lines of an output so far, its possible formats, and the first words it began with."""

    formats: tuple[ModuleType, ...]
    begun: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    command: Command | None = None


def read(text: str) -> Page:
    """Parses a page; raises BadInput if it is too large, or nothing in it is recognised."""
    if len(text) > BYTES_MAX:
        raise BadInput(f"the text has more than {BYTES_MAX} characters: give the outputs and tables alone")
    lines = lines_of(text)
    if len(lines) > LINES_MAX:
        raise BadInput(f"the text has more than {LINES_MAX} lines: give the outputs and tables alone")
    blocks, prose, commands = _split(_joined([Line(number, text[:LINE_MAX]) for number, text in lines]))
    runs = tuple(run for block in blocks if (run := _run(block)))
    found, rest = tables.read(prose)
    if not runs and not found:
        raise BadInput(f"no output or table is recognised: iolab lint reads {listed(KNOWN)}")
    # A page with only commands shows how to run a tool. If other commands have outputs, one without lacks its own.
    used = [run.command for run in runs if run.command]
    silent = tuple(each for each in commands if each not in used) if used else ()
    rows = tuple(run for table in found for run in table.runs)
    return Page(runs=(*runs, *rows), tables=found, prose=rest, silent=silent)


def _joined(lines: list[Line]) -> list[Line]:
    """The lines, with a line that ends in a backslash joined to the next, as in a shell."""
    found: list[Line] = []
    for line in lines:
        if found and found[-1].text.endswith("\\") and len(found[-1].text) < LINE_MAX:
            found[-1] = Line(found[-1].number, f"{found[-1].text[:-1]} {line.text.lstrip()}")
        else:
            found.append(line)
    return found


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
            formats, words = start
            if block is None or formats != block.formats or words in block.begun:
                block = _Block(formats, command=waiting)
                blocks.append(block)
                waiting = None
            block.begun.add(words)
            block.lines.append(line)
        elif block is not None and not _ENDS.match(line.text):
            block.lines.append(line)
        else:
            block = None
            prose.append(line)
    return blocks, prose, commands


def _start(line: Line, block: _Block | None) -> tuple[tuple[ModuleType, ...], str] | None:
    """The formats whose output may begin in this line, and the words that match, without figures."""
    if block is None and _ENDS.match(line.text):
        return None
    found = [(each, match[0]) for each in FORMATS if (match := each.START.search(line.text))]
    return (tuple(each for each, _ in found), _FIGURES.sub("", found[0][1])) if found else None


def _run(block: _Block) -> Run | None:
    """The run of an output; None if too little of it was found."""
    known = _format(block)
    if known is None:
        return None
    run: Run = known.read(block.lines)
    if not run.figures:
        return None
    asked = block.command
    # iolab load --like prints another tool's report, so the command above may not match the output.
    if asked is None or asked.tool not in (run.tool, "wrk" if run.tool == "wrk2" else run.tool):
        return run
    return replace(run, command=asked, name=run.name or asked.url)


def _format(block: _Block) -> ModuleType | None:
    """The format of an output."""
    return next((each for each in block.formats if any(each.IS.search(line.text) for line in block.lines)), None)
