"""Settings of the workload and the load as flags: what `vs` and `capacity` ask for alike is described once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from iolab.cli.parser import cpus, one_of, usage_of, whole
from iolab.contract.literals import Driver, Framing, Protocol
from iolab.plan.settings import DOTTED, SETTINGS


class Setting(NamedTuple):
    """A flag that stands for a setting: what it is, its default (empty if it has none), and its type."""

    help: str
    default: str = ""
    type: Callable[[str], Any] = whole
    metavar: str = "N"
    flags: tuple[str, ...] = ()


def word(help_: str, kind: Any, default: str = "", flags: tuple[str, ...] = ()) -> Setting:
    """A setting that is one of a few words."""
    words = get_args(kind)
    return Setting(help_, default, one_of(words), usage_of(words), flags)


def cpu_list(default: str, flags: tuple[str, ...] = ()) -> Setting:
    """A setting that names processors."""
    return Setting("processors, as 0,2 or 0-3", default, cpus, "LIST", flags)


# The settings by their keys. The defaults are only shown: a test compares them with those of the plan and of the
# question. A flag that is absent stays out of the settings, so a flag of another protocol is an error.
MESSAGES: Mapping[str, Setting] = {
    "framing": word("echo: how messages end", Framing, "raw"),
    "message_bytes": Setting("echo, line: size of a message", "64; line: 12"),
}
CALLS: Mapping[str, Setting] = {
    "target": Setting("rpc: steps of the loop that makes an answer", "1000"),
    "text_bytes": Setting("rpc: size of the text that comes back", "11"),
}
LOAD: Mapping[str, Setting] = {
    "connections": Setting("open at once", "50", flags=("-c",)),
    "threads": Setting("of the generator", "1", flags=("-t",)),
    "driver": word("of the generator", Driver, "epoll"),
}


def from_table(*keys: str) -> dict[str, Setting]:
    """Settings of the table of a plan, by their short names. Their values are read with the rest of the plan."""
    made = {}
    for key in keys:
        field = SETTINGS[DOTTED[key]].field
        default = "" if field.default is None else str(field.default)
        words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        made[key] = Setting(field.description or "", default, str, usage_of(words) if words else "N")
    return made


def protocol(default: str) -> Setting:
    """The setting that says what a server speaks."""
    return word("what is spoken", Protocol, default)


def add_settings(parser: argparse._ActionsContainer, settings: Mapping[str, Setting]) -> None:
    """Declares the flags; --warmup stands for warmup_ms, and so on, where a setting names its own long flag."""
    for key, setting in settings.items():
        long = () if any(flag.startswith("--") for flag in setting.flags) else (f"--{key.replace('_', '-')}",)
        default = f" (default: {setting.default})".replace("%", "%%") if setting.default else ""
        parser.add_argument(
            *setting.flags,
            *long,
            dest=key,
            type=setting.type,
            metavar=setting.metavar,
            help=setting.help + default,
        )


def given(options: argparse.Namespace, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The settings that were given."""
    return {key: value for key in settings if (value := getattr(options, key)) is not None}
