"""A command line above its output: what was asked for."""

from __future__ import annotations

import re
import shlex

from iolab.lint.record import Command, Line

# The tools, with their flags for requests, connections, a duration and a rate.
FLAGS = {
    "ab": ("-n", "-c", ("-t",), ()),
    "hey": ("-n", "-c", ("-z",), ("-q",)),
    "wrk": ("", "-c", ("-d",), ("-R",)),
    "wrk2": ("", "-c", ("-d",), ("-R",)),
    "oha": ("-n", "-c", ("-z",), ("-q",)),
    "h2load": ("-n", "-c", ("-D",), ()),
    "k6": ("-i", "-u", ("-d",), ()),
}
_COMMAND = re.compile(r"^\s*(?:[$#>%]\s{1,4})?(?:\S{0,200}/)?(ab|hey|wrk2?|oha|h2load|k6) (.{1,1500})$")


def read(line: Line) -> Command | None:
    """The command in a line; None where it is something else, such as a sentence about a tool."""
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
    requests, connections, duration, rate = FLAGS[match[1]]
    return Command(
        match[1],
        line.number,
        requests=_value(words, requests),
        connections=_value(words, connections),
        has_duration=any(word.startswith(flag) for flag in duration for word in words),
        has_rate=any(word.startswith(flag) for flag in rate for word in words),
        url=targets[-1] if targets else "",
    )


def _value(words: list[str], flag: str) -> int | None:
    """The whole number after a flag, or attached to it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        text = following if word == flag else word.removeprefix(flag)
        if flag and word.startswith(flag) and re.fullmatch(r"\d{1,12}", text.removeprefix("=")):
            return int(text.removeprefix("="))
    return None
