"""Compare servers with each other: ours by name, or yours as 'cmd:./mine --port {port}'."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from iolab.cli.parser import Parser, add_shared, cpus, milliseconds, one_of, usage_of, whole
from iolab.literals import Driver, Framing, Protocol, WorkerKind

USAGE = "[FLAGS] CONTESTANT CONTESTANT ..."
EXAMPLES = (
    "iolab vs epoll io_uring",
    "iolab vs epoll io_uring thread --quick -c 1000",
    "iolab vs epoll 'cmd:./mine --port {port}' --protocol http",
)


class Setting(NamedTuple):
    """A flag that stands for a key of an experiment: what it is, its default (empty if it has none), and its type."""

    help: str
    default: str = ""
    type: Callable[[str], Any] = whole
    metavar: str = "N"
    flags: tuple[str, ...] = ()


def _word(help_: str, kind: Any, default: str = "") -> Setting:
    words = get_args(kind)
    return Setting(help_, default, one_of(words), usage_of(words))


# The settings by their keys in an experiment. The defaults here are only shown; a test compares them with those of the
# plan. A flag that is absent stays out of the plan's settings, so a flag of another protocol is an error.
GROUPS: Mapping[str, Mapping[str, Setting]] = {
    "what is asked of the servers": {
        "protocol": _word("what they speak", Protocol, "echo"),
        "framing": _word("echo: how messages end", Framing, "raw"),
        "message_bytes": Setting("echo, line: size of a message", "64; line: 12"),
        "reply_bytes": Setting("http: size of the body", "1"),
        "target": Setting("rpc: steps of the loop that makes an answer", "1000"),
        "text_bytes": Setting("rpc: size of the text that comes back", "11"),
        "work_ns": Setting("rpc: processor time a call costs besides", "0"),
    },
    "the servers": {
        "workers": Setting("workers of each", "1"),
        "worker_kind": _word("what carries a worker", WorkerKind, "thread"),
        "sockets": Setting("sockets each listens on", "1"),
        "server_cpus": Setting("processors, as 0,2 or 0-3", "chosen for this machine", cpus, "LIST"),
    },
    "the load": {
        "connections": Setting("open at once", "50", flags=("-c",)),
        "threads": Setting("of the generator", "1"),
        "driver": _word("of the generator", Driver, "epoll"),
        "load_cpus": Setting("processors, as 0,2 or 0-3", "chosen for this machine", cpus, "LIST"),
    },
    "the trials": {
        "blocks": Setting("trials of each contestant, in paired blocks", "12"),
        "warmup_ms": Setting("before each window", "1s; quick: 250ms", milliseconds, "TIME", ("--warmup",)),
        "duration_ms": Setting("of each window", "3s; quick: 800ms", milliseconds, "TIME", ("--duration",)),
        "seed": Setting("decides the random order", "1"),
    },
}

SETTINGS = {key: setting for settings in GROUPS.values() for key, setting in settings.items()}


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "contestants", nargs="*", metavar="CONTESTANT", help="two servers or more; the first is the reference"
    )
    for title, settings in GROUPS.items():
        group = parser.add_argument_group(title)
        for key, setting in settings.items():
            long = () if any(flag.startswith("--") for flag in setting.flags) else (f"--{key.replace('_', '-')}",)
            default = f" (default: {setting.default})" if setting.default else ""
            group.add_argument(
                *setting.flags,
                *long,
                dest=key,
                type=setting.type,
                metavar=setting.metavar,
                help=setting.help + default,
            )
    add_shared(parser.add_argument_group("the run"), "--quick", "--fresh", "--out", "--json")


def run(options: Namespace) -> int:
    """Runs the comparison and prints its results."""
    from iolab import api
    from iolab.cli.watching import watched

    given = {key: value for key in SETTINGS if (value := getattr(options, key)) is not None}
    return watched(
        lambda tell: api.vs(
            *options.contestants, **given, quick=options.quick, fresh=options.fresh, out=options.out, tell=tell
        ),
        as_json=options.as_json,
    )
