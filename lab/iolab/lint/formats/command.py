"""Parses the command line above an output."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from iolab.lint.record import Command, Line


class Flags(NamedTuple):
    """A tool's flags for requests, connections, concurrent requests per connection, duration and rate."""

    requests: tuple[str, ...] = ()
    connections: tuple[str, ...] = ("-c",)
    streams: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    rate: tuple[str, ...] = ()


_WRK = Flags(connections=("-c", "--connections"), duration=("-d", "--duration"), rate=("-R", "--rate"))
FLAGS = {
    "ab": Flags(("-n",), duration=("-t",)),
    "hey": Flags(("-n",), duration=("-z",), rate=("-q",)),
    "wrk": _WRK,
    "wrk2": _WRK,
    "oha": Flags(("-n",), streams=("-p",), duration=("-z",), rate=("-q",)),
    "h2load": Flags(
        ("-n", "--requests"), ("-c", "--clients"), ("-m", "--max-concurrent-streams"), ("-D", "--duration")
    ),
    "k6": Flags(("-i", "--iterations"), ("-u", "--vus"), duration=("-d", "--duration")),
}
# `$`, `user@host:~$` or `[user@host ~]$`.
_PROMPT = r"(?:(?:\[[^\]]{1,80}\]|[\w.@:~/+-]{1,80}(?= ?[$#%❯] ))? ?[$#>%❯]\s{1,4})?"
_BEFORE = r"(?:(?:sudo|time|nice|nohup|\w{1,40}=\S{0,80}|taskset (?:-a?c )?\S{1,40}|numactl(?: -\S{1,40}){1,4}) ){0,4}"
_COMMAND = re.compile(rf"^\s*{_PROMPT}{_BEFORE}(?:\S{{0,200}}/)?(ab|hey|wrk2?|oha|h2load|k6) (.{{1,1500}})$")


def read(line: Line) -> Command | None:
    """The command in a line; None if the line is something else, such as a sentence about a tool."""
    match = _COMMAND.match(line.text)
    if not match:
        return None
    try:
        words = shlex.split(match[2])
    except ValueError:
        return None
    targets = [word for word in words if "://" in word or re.fullmatch(r"\S{1,200}:\d{1,5}/\S{0,200}", word)]
    if not any(word.startswith("-") for word in words) or not (targets or match[1] == "k6"):
        return None
    flags = FLAGS[match[1]]
    return Command(
        match[1],
        line.number,
        requests=_value(words, flags.requests),
        connections=_value(words, flags.connections),
        streams=_value(words, flags.streams) or 1,
        has_duration=any(word.startswith(flags.duration) for word in words),
        has_rate=any(word.startswith(flags.rate) for word in words),
        url=targets[-1] if targets else "",
    )


def _value(words: list[str], flags: tuple[str, ...]) -> int | None:
    """The whole number after one of these flags, or attached to it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag = next((each for each in flags if word.startswith(each)), None)
        text = following if word == flag else word.removeprefix(flag or "").removeprefix("=")
        if flag and re.fullmatch(r"\d{1,12}", text):
            return int(text)
    return None
