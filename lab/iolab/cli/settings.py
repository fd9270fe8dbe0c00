"""Settings of the workload and the load as flags: what `vs` and `capacity` ask for alike is described once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from iolab.cli.parser import cpus, one_of, usage_of, whole
from iolab.contract.literals import Arrivals, Driver, Framing, Opening, Processors, Protocol, Verification


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


def text(help_: str, default: str = "") -> Setting:
    """A setting that is read with the rest of the plan, which says what is wrong with it."""
    return Setting(help_, default, str)


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
SERVER: Mapping[str, Setting] = {
    "instances": text("servers, with an address each, measured as one", "1"),
    "interpreter": text("interpreter of a server in Python: gil, nogil, system or a version; python3 by default"),
    "cpu_quota": text("processors it may use, by a cgroup"),
    "memory_limit_bytes": text("memory it may use, by a cgroup; or as 512MB"),
    "nice": text("its nice value"),
    "processes_max": text("processes and threads it may have"),
    "descriptors_max": text("descriptors a process may have"),
}
PATTERN: Mapping[str, Setting] = {
    "active": text("of these, busy at the same time; all by default"),
    "idle": text("further connections that are open and never used", "0"),
    "pipeline": text("requests in flight on a connection", "1"),
    "requests_per_connection": text("requests after which a connection is closed and opened anew; none by default"),
    "requests": text("end the trial after so many requests, counted from the first, without a warm-up"),
    "rate": text("requests per second of an open loop, or a share of capacity; by default a closed loop"),
    "arrivals": word("how the requests of a rate are spread in time", Arrivals, "poisson"),
    "processes": text("processes of the generator", "1"),
    "probes": text("low-rate connections on a thread of their own", "0"),
    "spin_us": text("busy-wait this long before a request is due", "0"),
    "connect_per_s": text("connections opened per second; as fast as possible by default"),
    "open": word("open all connections before the first request, or each when it is needed", Opening, "before"),
    "load_verify": word("check each reply whole, or only what one receive returned", Verification, "whole"),
}
TRIAL: Mapping[str, Setting] = {
    "timeout_ms": text("how long a reply may take", "10000"),
    "start_ms": text("how long a server that is not ours may take to accept connections", "15000"),
    "processors": word("processors of their own for server and generator, or one that both share", Processors, "apart"),
}


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
