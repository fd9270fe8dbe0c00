"""Compare servers with each other: by name (see iolab list), or yours as 'cmd:./mine --port {port}'."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from iolab.cli.parser import Parser, add_shared, milliseconds, named_values
from iolab.cli.settings import (
    CALLS,
    LOAD,
    MESSAGES,
    PATTERN,
    SERVER,
    TRIAL,
    Setting,
    add_settings,
    cpu_list,
    given,
    protocol,
    word,
)
from iolab.contract.literals import WorkerKind

USAGE = "[FLAGS] CONTESTANT CONTESTANT ..."
EXAMPLES = (
    "iolab vs epoll io_uring",
    "iolab vs epoll io_uring thread --quick -c 1000",
    "iolab vs epoll nginx --protocol http",
    "iolab vs epoll 'cmd:./mine --port {port}' --protocol http",
    "iolab vs poll epoll --connections 1000 --active 10",
    "iolab vs epoll io_uring --rate 20k",
    "iolab vs epoll io_uring --quick --within 2% --budget 60s",
    "iolab vs thread fork --protocol http --no-keep-alive --path delay_ms=24.5",
)


# The settings by their keys in an experiment.
GROUPS: Mapping[str, Mapping[str, Setting]] = {
    "the requests": {
        "protocol": protocol("echo"),
        **MESSAGES,
        "reply_bytes": Setting("http: size of the body", "1"),
        **CALLS,
        "work_ns": Setting("rpc: additional processor time of a call", "0"),
    },
    "the servers": {
        "workers": Setting("workers of each server", "1"),
        "worker_kind": word("run each worker as a thread or as a process", WorkerKind, "thread"),
        "sockets": Setting("listening sockets of each server", "1"),
        "server_cpus": cpu_list("chosen for this machine"),
        **SERVER,
    },
    "the load": {
        **LOAD,
        "load_cpus": cpu_list("chosen for this machine"),
        **PATTERN,
    },
    "the trials": {
        "blocks": Setting("trials of each contestant, in paired blocks", "12"),
        "warmup_ms": Setting("load before each window", "1s; quick: 250ms", milliseconds, "TIME", ("--warmup",)),
        "duration_ms": Setting("measured window of a trial", "3s; quick: 800ms", milliseconds, "TIME", ("--duration",)),
        **TRIAL,
        "seed": Setting("seed of the random order", "1"),
    },
}

SETTINGS = {key: setting for settings in GROUPS.values() for key, setting in settings.items()}


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "contestants", nargs="*", metavar="CONTESTANT", help="two or more servers; ratios are to the first"
    )
    add_groups(parser, GROUPS)
    add_shared(parser.add_argument_group("the run"), "--quick", "--within", "--budget", "--fresh", "--out", "--json")


def add_groups(parser: Parser, groups: Mapping[str, Mapping[str, Setting]]) -> None:
    """Declares the settings of each group, and with the load --no-keep-alive and --path."""
    for title, settings in groups.items():
        group = parser.add_argument_group(title)
        add_settings(group, settings)
        if title == "the load":
            group.add_argument(
                "--no-keep-alive",
                dest="keep_alive",
                action="store_const",
                const=False,
                help="http: a connection for each request",
            )
            group.add_argument(
                "--path",
                type=named_values,
                default={},
                metavar="SETTINGS",
                help="a network path instead of loopback, as delay_ms=24.5,rate_bits_per_s=1e6,loss=0.01",
            )


def asked(options: Namespace, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The given settings as arguments of `api`; those of a path by their full names."""
    named = given(options, settings)
    if options.keep_alive is not None:
        named["keep_alive"] = False
    return {**named, "settings": {f"path.{key}": value for key, value in options.path.items()}}


def run(options: Namespace) -> int:
    """Runs the comparison and prints its results."""
    from iolab import api
    from iolab.cli.watching import watched

    settings = asked(options, SETTINGS)
    return watched(
        lambda on_event: api.vs(
            *options.contestants,
            **settings,
            quick=options.quick,
            within=options.within,
            budget_ms=options.budget_ms,
            fresh=options.fresh,
            out=options.out,
            on_event=on_event,
        ),
        as_json=options.as_json,
    )
