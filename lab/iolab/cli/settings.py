"""Settings of the workload and the load as flags; those that `vs` and `capacity` share are defined once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from iolab.cli.parser import cpus, one_of, usage_of, whole
from iolab.contract.literals import Arrivals, Driver, Framing, Opening, Processors, Protocol, Verification


class Setting(NamedTuple):
    """A flag for a setting: its help, its default (empty if it has none), and its type."""

    help: str
    default: str = ""
    type: Callable[[str], Any] = whole
    metavar: str = "N"
    flags: tuple[str, ...] = ()


def word(help_: str, kind: Any, default: str = "", flags: tuple[str, ...] = ()) -> Setting:
    """A setting with a fixed set of words."""
    words = get_args(kind)
    return Setting(help_, default, one_of(words), usage_of(words), flags)


def text(help_: str, default: str = "") -> Setting:
    """A setting that is parsed with the rest of the plan, which reports errors in it."""
    return Setting(help_, default, str)


def cpu_list(default: str, flags: tuple[str, ...] = ()) -> Setting:
    """A setting that is a list of processors."""
    return Setting("processors, as 0,2 or 0-3", default, cpus, "LIST", flags)


# The settings by their keys. The defaults are for help only; a test compares them with those of the plan and of the
# capacity spec. An absent flag does not become a setting, so a flag of another protocol is an error.
MESSAGES: Mapping[str, Setting] = {
    "framing": word("echo: how messages end", Framing, "raw"),
    "message_bytes": Setting("echo, line: size of a message", "64; line: 12"),
}
CALLS: Mapping[str, Setting] = {
    "target": Setting("rpc: steps of the computation for each answer", "1000"),
    "text_bytes": Setting("rpc: size of the text that the server sends back", "11"),
}
LOAD: Mapping[str, Setting] = {
    "connections": Setting("connections open at the same time", "50", flags=("-c",)),
    "threads": Setting("threads of the generator", "1", flags=("-t",)),
    "driver": word("how the generator waits for replies", Driver, "epoll"),
}
SERVER: Mapping[str, Setting] = {
    "instances": text("copies of the server, each with its own address, measured as one", "1"),
    "interpreter": text("Python interpreter of the server: gil, nogil, system or a version; python3 by default"),
    "cpu_quota": text("processors that the server may use (cgroup)"),
    "memory_limit_bytes": text("memory that the server may use (cgroup), such as 512MB"),
    "nice": text("nice value of the server"),
    "processes_max": text("processes and threads that the server may have"),
    "descriptors_max": text("open files of each process of the server"),
}
PATTERN: Mapping[str, Setting] = {
    "active": text("connections that are busy at the same time; all by default"),
    "idle": text("additional connections that are opened and never used", "0"),
    "pipeline": text("requests in flight on a connection", "1"),
    "requests_per_connection": text("close a connection after this many requests and reopen it; never by default"),
    "requests": text("end the trial after this many requests, without a warm-up"),
    "rate": text("requests per second (open loop), or a share of capacity; by default a closed loop"),
    "arrivals": word("random or evenly spaced send times at a rate", Arrivals, "poisson"),
    "processes": text("processes of the generator", "1"),
    "probes": text("extra low-rate connections on a separate thread", "0"),
    "spin_us": text("busy-wait this long before a send is due", "0"),
    "connect_per_s": text("connections opened per second; as fast as possible by default"),
    "open": word("open all connections before the run, or each when its first request is due", Opening, "before"),
    "load_verify": word("check whole replies, or only what the first receive returns", Verification, "whole"),
}
TRIAL: Mapping[str, Setting] = {
    "timeout_ms": text("timeout of a reply", "10000"),
    "start_ms": text("how long a server of the registry or a command may take to start", "15000"),
    "processors": word("separate processors for server and generator, or one that both share", Processors, "apart"),
}


def protocol(default: str) -> Setting:
    """The setting for the protocol of a server."""
    return word("protocol of requests and replies", Protocol, default)


def add_settings(parser: argparse._ActionsContainer, settings: Mapping[str, Setting]) -> None:
    """Declares the flags: --warmup-ms for warmup_ms, unless the setting has its own long flag, such as --warmup."""
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
    """The settings given on the command line."""
    return {key: value for key in settings if (value := getattr(options, key)) is not None}
