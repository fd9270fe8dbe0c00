"""Find the highest rate at which a running server holds a limit, and test it beyond that rate."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from iolab.cli.parser import Parser, add_shared, milliseconds, read_by, whole
from iolab.cli.settings import CALLS, LOAD, MESSAGES, Setting, add_settings, cpu_list, given, protocol, word
from iolab.contract.literals import Arrivals

if TYPE_CHECKING:
    from iolab.capacity.progress import SearchState
    from iolab.capacity.spec import CapacitySpec

USAGE = "[FLAGS] --slo LIMIT URL"
EXAMPLES = (
    "iolab capacity --slo 'p99<5ms' http://127.0.0.1:8080/",
    "iolab capacity --slo 'p99<5ms' --slo 'errors<0.1%' http://127.0.0.1:8080/",
    "iolab capacity --slo 'p50<1ms' --message-bytes 512 tcp://127.0.0.1:7000",
)
# The settings of a protocol.
WORKLOAD: Mapping[str, Setting] = {
    "method": Setting("http", "GET, or POST with a body", str, "METHOD", ("-m",)),
    "body": Setting("http: the body of each request", type=str, metavar="TEXT", flags=("-d",)),
    **MESSAGES,
    **CALLS,
}
# The settings of the generator.
GENERATOR: Mapping[str, Setting] = {
    **LOAD,
    "cpus": cpu_list("apart from those of a server on this machine"),
    "arrivals": word("random or evenly spaced send times", Arrivals, "poisson"),
    "timeout_ms": Setting("timeout of a reply", "10s", milliseconds, "TIME", ("--timeout",)),
    "seed": Setting("seed of the random arrivals", "1"),
}


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument("url", metavar="URL", help="http(s)://host:port/path, tcp:// or tls://host:port, or unix:/path")
    _add_search(parser)
    _add_requests(parser)
    tls = parser.add_argument_group("TLS")
    tls.add_argument(
        "--server-name", metavar="NAME", help="the name the certificate must be for (default: the host of the URL)"
    )
    tls.add_argument(
        "--cacert", type=Path, metavar="PATH", help="a PEM file of trusted authorities (default: this machine's)"
    )
    tls.add_argument("--insecure", action="store_true", help="do not check the server's certificate")
    add_settings(parser.add_argument_group("the load"), GENERATOR)
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--server-pid", type=whole, metavar="PID", help="the server's process, if iolab does not find it"
    )
    add_shared(group, "--fresh", "--out", "--json")


def _add_search(parser: Parser) -> None:
    group = parser.add_argument_group("the search")
    group.add_argument(
        "--slo",
        action="append",
        required=True,
        type=limit,
        metavar="LIMIT",
        help="what must hold, as 'p99<5ms' or 'errors<0.1%%'; may be given several times",
    )
    add_settings(group, SEARCH)


def _add_requests(parser: Parser) -> None:
    group = parser.add_argument_group("the requests")
    add_settings(group, {"protocol": protocol("http for http:// and https://, else echo")})
    group.add_argument(
        "-H",
        "--header",
        dest="headers",
        action="append",
        metavar="LINE",
        help="http: an additional header, as 'Name: value'",
    )
    add_settings(group, WORKLOAD)


@read_by
def limit(text: str) -> str:
    """A limit such as p99<5ms."""
    from iolab.capacity import limits

    return limits.parse_limit(text).text


@read_by
def share(text: str) -> float:
    """A share such as 5%."""
    from iolab.capacity import limits

    return limits.parse_share(text)


# The settings of the search.
SEARCH: Mapping[str, Setting] = {
    "precision": Setting("precision of the capacity", "5%", share, "SHARE"),
    "probe_ms": Setting(
        "length of a run; longer if a quantile needs more requests", "1s", milliseconds, "TIME", ("--probe",)
    ),
}


def run(options: Namespace) -> int:
    """Searches for the capacity and prints the result; returns the exit code."""
    from iolab.capacity.spec import spec_of
    from iolab.capacity.target import parse_url, with_tls
    from iolab.machine import port_owner

    target = with_tls(
        parse_url(options.url, options.protocol),
        server_name=options.server_name,
        cacert=options.cacert,
        insecure=options.insecure,
    )
    workload = given(options, WORKLOAD) | ({} if options.headers is None else {"headers": options.headers})
    spec = spec_of(
        target, workload, url=options.url, limits=tuple(options.slo), **given(options, {**SEARCH, **GENERATOR})
    )
    if options.server_pid is not None:
        port_owner.refuse_absent(options.server_pid)
    return _watched(spec, options)


def _watched(spec: CapacitySpec, options: Namespace) -> int:
    """Makes the remaining runs of a search and prints the result, even if it is interrupted or fails."""
    from iolab.capacity import prober
    from iolab.capacity.records import folder_of
    from iolab.cli import failed, searching, terminal
    from iolab.cli.streams import stderr
    from iolab.cli.watching import again
    from iolab.machine import port_owner
    from iolab.measure import agent, engine, stopping

    host, console = agent.Agent(engine.open_engine()), stderr()
    server_pid = options.server_pid or port_owner.find(spec.connect)
    searching.show_spec(console, spec, server_pid)
    folder = folder_of(spec, options.out)
    prober.refuse_mismatch(spec, host)
    lines = searching.Lines(console, knows_server=server_pid is not None)
    try:
        with stopping.stopping_on():
            prober.run(
                spec,
                host,
                options.out,
                lines,
                server_pid=server_pid,
                fresh=options.fresh,
                on_set_aside=lines.set_aside,
                on_placed=lines.placed,
            )
    except (stopping.Stopped, engine.TrialFailed) as error:
        # A search without a run has no folder.
        if folder.is_dir():
            show(folder, as_json=options.as_json)
        if isinstance(error, stopping.Stopped):
            terminal.say(console, f"stopped by {error}; to continue: {again()}")
            return error.code
        return failed(str(error), 2 if error.failure.kind.startswith("bad_") else 1)
    state = show(folder, as_json=options.as_json)
    return 1 if state.done is None or state.done.kind in ("below", "unjudged") else 0


def show(folder: Path, *, as_json: bool) -> SearchState:
    """Prints the result of a search so far, and writes its report."""
    import json

    from iolab import runs
    from iolab.capacity.export import document
    from iolab.capacity.progress import read_state
    from iolab.cli import searching, terminal
    from iolab.cli.streams import stdout
    from iolab.report.capacity import write

    state = read_state(folder)
    path = write(folder)
    runs.summary(folder)
    if as_json:
        places = {"folder": str(folder), "report": str(path)}
        print(json.dumps(document(state) | places, indent=2))
    else:
        searching.show_state(stdout(), state)
        terminal.say(stdout(), f"report: {path}")
    return state
