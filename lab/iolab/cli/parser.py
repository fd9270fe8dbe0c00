"""Flags and their values: argparse, with one clear line for each mistake and help without noise."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from iolab.errors import BadInput, IolabError
from iolab.results import layout
from iolab.wording import instead

Value = TypeVar("Value")

# The width of the column of flags in help; the description of a longer flag begins in the next line.
FLAG_COLUMNS = 26
# The beginning of argparse's messages on a flag, and ours.
WORDS = {"expected one argument": "needs a value", "ignored explicit argument": "takes no value"}


class Parser(argparse.ArgumentParser):
    """The flags of one verb."""

    def __init__(self, verb: str, usage: str, about: str, examples: Sequence[str]) -> None:
        super().__init__(
            prog=f"iolab {verb}",
            usage=f"iolab {verb} {usage}".rstrip(),
            description=about,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=FLAG_COLUMNS),
            allow_abbrev=False,
            exit_on_error=False,
        )
        self._examples = examples

    def format_help(self) -> str:
        """The help, followed by the examples without wrapping."""
        return super().format_help() + "\nexamples:\n" + "".join(f"  {each}\n" for each in self._examples)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values of a command's arguments; raises BadInput. Ends the process after --help."""
        try:
            options, unknown = self.parse_known_intermixed_args(arguments)
        except argparse.ArgumentError as error:
            name = (error.argument_name or "").rpartition("/")[2]
            message = next((ours for theirs, ours in WORDS.items() if error.message.startswith(theirs)), error.message)
            raise BadInput(f"{name}: {message}") from None
        if unknown:
            raise BadInput(self._unknown(unknown))
        return options

    def error(self, message: str) -> Any:
        """argparse calls this if an argument is missing."""
        missing = message.rpartition(": ")[2]
        raise BadInput(f"{missing} is missing: {self.prog} --help shows what to write")

    def spelt(self, message: str) -> str:
        """A message about a key of an experiment, with the flag for that key."""
        key, colon, rest = message.partition(":")
        return f"{self.flags.get(key, key)}{colon}{rest}"

    @property
    def flags(self) -> dict[str, str]:
        """The long form of every flag, by the name of its value."""
        return {each.dest: each.option_strings[-1] for each in self._actions if each.option_strings}

    def _unknown(self, arguments: Sequence[str]) -> str:
        flag = next((each.partition("=")[0] for each in arguments if each.startswith("-")), None)
        if flag is None:
            return f"{arguments[0]!r} is one argument too many: {self.prog} --help shows what to write"
        flags = self.flags.values()
        # An abbreviation stands for a flag that begins with it, even if the spelling of another one is closer.
        near = instead(flag, [each for each in flags if each.startswith(flag)] or flags)
        advice = near if "did you mean" in near else f": {self.prog} --help lists them"
        return f"there is no flag {flag}{advice}"


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """One of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"there is no {text!r}{instead(text, words)}")
        return text

    return parse


def read_by(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A type for argparse from a parser of the lab, whose errors become those of the flag."""

    def read(text: str) -> Value:
        try:
            return parse(text)
        except IolabError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


@read_by
def milliseconds(text: str) -> int:
    """A time such as 500ms or 3s."""
    from iolab.capacity import limits

    return limits.parse_ms(text)


@read_by
def share(text: str) -> float:
    """A share such as 2% or 0.02."""
    from iolab.capacity import limits

    return limits.parse_share(text)


@read_by
def cpus(text: str) -> tuple[int, ...]:
    """Processors such as 0,2 or 0-3."""
    from iolab.machine import cpus

    return cpus.parse_cpus(text)


def named_value(text: str) -> tuple[str, str]:
    """A setting and its value, such as load.connections=200."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in load.connections=200")
    return name.strip(), value.strip()


def named_values(text: str) -> dict[str, str]:
    """Settings and their values, such as delay_ms=24.5,loss=0.01."""
    return dict(named_value(part) for part in text.split(","))


def usage_of(words: Sequence[str]) -> str:
    """The words a flag takes, for its help."""
    return f"{{{','.join(words)}}}"


# Flags of several verbs.
SHARED: dict[str, dict[str, Any]] = {
    "--quick": {"action": "store_true", "help": "short trials in fewer blocks: an answer in minutes"},
    "--within": {
        "type": share,
        "metavar": "SHARE",
        "help": "choose the number of blocks, after a pilot, for intervals of this half-width, such as 2%%",
    },
    "--budget": {
        "type": milliseconds,
        "dest": "budget_ms",
        "metavar": "TIME",
        "help": "end the whole run, with its report, within this time, such as 60s; --within may end it sooner",
    },
    "--fresh": {
        "action": "store_true",
        "help": "start a new run instead of resuming; the earlier run is kept under another name",
    },
    "--out": {
        "type": Path,
        "default": layout.RUNS,
        "metavar": "FOLDER",
        "help": "folder of all runs (default: %(default)s)",
    },
    "--json": {"action": "store_true", "dest": "as_json", "help": "print the results as one JSON document"},
}


def add_shared(parser: argparse._ActionsContainer, *flags: str) -> None:
    """Declares flags that several verbs have."""
    for flag in flags:
        parser.add_argument(flag, **SHARED[flag])
