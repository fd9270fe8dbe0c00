"""The command line: one function a verb, each a few lines over the modules that do the work.

Results go to standard output, progress and trouble to standard error. An exit code of 2 is bad input, 1 a failure, and
128 and the signal's number an interrupted run, which the same command goes on with.

Help comes at once: a function imports the modules that do its work when it is called, because they are slow to load.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from iolab import handover
from iolab.literals import Arrivals, Driver, Framing, Protocol, WorkerKind

if TYPE_CHECKING:
    from rich.console import Console

    from iolab import capacity, terminal
    from iolab.plan import Plan, Scalar

EXPERIMENTS = Path(__file__).parent / "experiments"
RUNS = Path("runs")
# Failures of a contestant that are the fault of the command line.
BAD_COMMANDS = frozenset({"cannot_start", "wrong_address"})
# The flags of vs by the keys of an experiment, where they differ by more than their dashes.
FLAGS = {"warmup_ms": "--warmup", "duration_ms": "--duration"}
FLAGS |= {
    key: f"--{key}" for key in ("blocks", "connections", "framing", "seed", "sockets", "target", "threads", "workers")
}
FLAGS |= {key: f"--{key.replace('_', '-')}" for key in ("message_bytes", "reply_bytes", "text_bytes", "work_ns")}
# Times of a trial are multiples of this, which is how often its throughput is noted.
INTERVAL_MS = 20
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

HELP = ["-h", "--help"]

app = typer.Typer(
    name="iolab",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Which I/O and concurrency model should my network server use, for my workload, on my machine?",
    epilog="Start with: iolab doctor; then: iolab vs epoll io_uring --quick",
    context_settings={"help_option_names": HELP},
)

PASSED_ON: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

Out = Annotated[Path, typer.Option(help="Folder of all runs.")]
Quick = Annotated[bool, typer.Option("--quick", help="Short trials in ten blocks: an answer in minutes.")]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Measure anew, also what was interrupted; the earlier run is kept under another name."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the verdicts as one JSON document.")]
Cpus = Annotated[str | None, typer.Option(metavar="LIST", help="Processors, as 0,2 or 0-3; chosen when left out.")]


@app.command(epilog="Examples: iolab vs epoll io_uring   |   iolab vs epoll 'cmd:./mine --port {port}' --protocol http")
def vs(
    servers: Annotated[
        list[str], typer.Argument(metavar="CONTESTANTS", help="Two servers or more; the first is the reference.")
    ],
    protocol: Annotated[Protocol, typer.Option(help="What they speak.")] = "echo",
    framing: Annotated[Framing | None, typer.Option(help="Echo: how messages end.")] = None,
    message_bytes: Annotated[int | None, typer.Option(help="Echo, line: size of a message.")] = None,
    reply_bytes: Annotated[int | None, typer.Option(help="HTTP: size of the body.")] = None,
    target: Annotated[int | None, typer.Option(help="RPC: steps of the loop that make an answer.")] = None,
    text_bytes: Annotated[int | None, typer.Option(help="RPC: size of the text that comes back.")] = None,
    work_ns: Annotated[int | None, typer.Option(help="RPC: processor time a call costs besides.")] = None,
    connections: Annotated[int | None, typer.Option("--connections", "-c", help="Open at once (50).")] = None,
    sockets: Annotated[int | None, typer.Option(help="Each server listens on (1).")] = None,
    workers: Annotated[int | None, typer.Option(help="Of each server (1).")] = None,
    worker_kind: Annotated[WorkerKind | None, typer.Option(help="What carries a worker (thread).")] = None,
    threads: Annotated[int | None, typer.Option(help="Of the generator (1).")] = None,
    driver: Annotated[Driver | None, typer.Option(help="Of the generator (epoll).")] = None,
    blocks: Annotated[int, typer.Option(help="Trials of each contestant, in paired blocks.")] = 12,
    warmup: Annotated[str | None, typer.Option(help="Before each window (1s; quick: 250ms).")] = None,
    duration: Annotated[str | None, typer.Option(help="Of each window (3s; quick: 800ms).")] = None,
    seed: Annotated[int, typer.Option(help="Decides the random order.")] = 1,
    server_cpus: Cpus = None,
    load_cpus: Cpus = None,
    quick: Quick = False,
    fresh: Fresh = False,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare servers with each other: ours by name, or yours as 'cmd:./mine --port {port}'."""
    named: dict[str, Scalar | None] = {
        "protocol": protocol,
        "framing": framing,
        "message_bytes": message_bytes,
        "reply_bytes": reply_bytes,
        "target": target,
        "text_bytes": text_bytes,
        "work_ns": work_ns,
        "connections": connections,
        "sockets": sockets,
        "workers": workers,
        "worker_kind": worker_kind,
        "threads": threads,
        "driver": driver,
    }
    with _one_line_errors(FLAGS):
        from iolab import runner
        from iolab.contract import WORKLOADS
        from iolab.plan import Cell, PlanError, vs_plan

        times = {"warmup_ms": _whole_ms(warmup), "duration_ms": _whole_ms(duration)}
        named |= times
        setting = {key: value for key, value in named.items() if value is not None}
        alien = setting.keys() - {"protocol"} - Cell.model_fields.keys() - WORKLOADS[protocol].model_fields.keys()
        if alien:
            raise PlanError(f"{min(alien)}: is not a setting of {protocol}: leave it out")
        plan = vs_plan(servers, setting, blocks=blocks, seed=seed)
        # What was asked for is not shortened by --quick.
        plan = plan.model_copy(update={"short": plan.short.model_copy(update={k: v for k, v in times.items() if v})})
        plan = runner.with_cpus(plan, _cpu_list(server_cpus), _cpu_list(load_cpus))
        # Who was named here is to be compared; an experiment goes on without those that this machine cannot run.
        _run(plan.quick() if quick else plan, out, fresh=fresh, as_json=as_json, by_hand=True)


@app.command(epilog="Examples: iolab run io_uring-vs-epoll --quick   |   iolab run ./my-question.toml")
def run(
    experiment: Annotated[str, typer.Argument(help="The name of an experiment, or the path of a .toml file.")],
    quick: Quick = False,
    fresh: Fresh = False,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Answer a whole question: run an experiment, or go on with it, and write its report."""
    with _one_line_errors():
        from iolab import engine
        from iolab.plan import load_experiment

        models = engine.open_engine().description.models
        known = {model.name: [option.name for option in model.options] for model in models}
        plan = load_experiment(_experiment(experiment), known)
        _run(plan.quick() if quick else plan, out, fresh=fresh, as_json=as_json)


@app.command("capacity", epilog="Example: iolab capacity --slo 'p99<5ms' --slo 'errors<0.1%' http://127.0.0.1:8080/")
def capacity_(
    url: Annotated[str, typer.Argument(help="http(s)://host:port/path, tcp:// or tls://host:port, or unix:/path.")],
    slo: Annotated[list[str], typer.Option(help="What must hold, as 'p99<5ms'; several may be given.")],
    connections: Annotated[int, typer.Option("--connections", "-c", help="Open at once.")] = 50,
    threads: Annotated[int, typer.Option("--threads", "-t", help="Of the generator.")] = 1,
    driver: Annotated[Driver, typer.Option(help="Of the generator.")] = "epoll",
    cpus: Annotated[str | None, typer.Option(metavar="LIST", help="Of the generator, as 0,2 or 0-3 (all).")] = None,
    protocol: Annotated[Protocol | None, typer.Option(help="What it speaks (http for http://, echo).")] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="HTTP (GET, or POST with a body).")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="HTTP: one more, as 'Name: value'.")
    ] = None,
    body: Annotated[str | None, typer.Option("--body", "-d", help="HTTP: what is sent with each request.")] = None,
    server_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="TLS: whom the certificate must be for (the host of the URL).")
    ] = None,
    cacert: Annotated[
        Path | None, typer.Option(metavar="PATH", help="TLS: a file in PEM with who is trusted (this machine's).")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="TLS: do not check the server's certificate.")] = False,
    framing: Annotated[Framing | None, typer.Option(help="Echo: how messages end.")] = None,
    message_bytes: Annotated[int | None, typer.Option(help="Echo, line: size of a message.")] = None,
    target: Annotated[int | None, typer.Option(help="RPC: steps of the loop that make an answer.")] = None,
    text_bytes: Annotated[int | None, typer.Option(help="RPC: size of the text that comes back.")] = None,
    arrivals: Annotated[Arrivals, typer.Option(help="How requests fall due.")] = "poisson",
    precision: Annotated[str, typer.Option(help="How far the capacity may be off.")] = "5%",
    probe: Annotated[str, typer.Option(help="How long a run is, if its quantiles need no more.")] = "3s",
    timeout: Annotated[str, typer.Option(help="How long a reply may take.")] = "10s",
    seed: Annotated[int, typer.Option(help="Decides the random arrivals.")] = 1,
    server_pid: Annotated[int | None, typer.Option(help="Its process, where it is not found by itself.")] = None,
    fresh: Fresh = False,
    out: Out = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON document.")] = False,
) -> None:
    """Find the highest rate at which a running server holds a limit, and what it does beyond."""
    named: dict[str, object] = {
        "body": body,
        "method": method or (None if body is None else "POST"),
        "framing": framing,
        "message_bytes": message_bytes,
        "target": target,
        "text_bytes": text_bytes,
    }
    with _one_line_errors():
        from iolab import prober, search
        from iolab.plan import PlanError

        named["headers"] = prober.headers(header) if header else None
        at = prober.target(url, protocol)
        asked = prober.question(
            prober.secured(at, server_name=server_name, cacert=cacert, insecure=insecure),
            {key: value for key, value in named.items() if value is not None},
            url=url,
            limits=tuple(search.parse_limit(text).text for text in slo),
            connections=connections,
            threads=threads,
            driver=driver,
            cpus=_cpu_list(cpus),
            arrivals=arrivals,
            seed=seed,
            precision=search.parse_share(precision),
            probe_ms=search.parse_ms(probe),
            timeout_ms=search.parse_ms(timeout),
        )
        if server_pid is not None and not Path(f"/proc/{server_pid}").is_dir():
            raise PlanError(f"there is no process {server_pid}: leave --server-pid out, or name the server's")
        _ask(asked, server_pid, out, fresh=fresh, as_json=as_json)


@app.command("list")
def list_(
    what: Annotated[Literal["models", "experiments", "runs"], typer.Argument(help="What to list.")] = "models",
    out: Out = RUNS,
) -> None:
    """List the models of the engine, the experiments, or the stored runs."""
    with _one_line_errors():
        from iolab import engine, terminal
        from iolab.plan import load_experiment

        console = _stdout()
        if what == "models":
            terminal.show_models(console, engine.open_engine().description.models)
        elif what == "experiments":
            for path in sorted(EXPERIMENTS.glob("*.toml")):
                terminal.say(console, f"{path.stem:<24} {load_experiment(path).question}")
        else:
            terminal.show_runs(console, sorted((*_plans(out), *_questions(out)), key=lambda run: run.began))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or its name under --out.")],
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print its trials as a table, units in the headings.")] = False,
    out: Out = RUNS,
) -> None:
    """Write the report of a stored run again, and print its verdicts."""
    with _one_line_errors():
        from iolab import capacity, export, prober, store
        from iolab.plan import PlanError

        folder = _stored(folder, out)
        is_capacity = (folder / capacity.QUESTION).is_file()
        if as_json and as_csv:
            raise PlanError("--json and --csv do not fit: leave one of them out")
        if as_csv and is_capacity:
            sys.stdout.write(export.capacity_csv(prober.known(folder)))
        elif as_csv:
            sys.stdout.write(export.trials_csv(store.read_plan(folder), store.read_trials(folder).results))
        elif is_capacity:
            _answer(folder, as_json=as_json)
        else:
            _conclude(folder, as_json=as_json)


@app.command(context_settings=PASSED_ON)
def serve(context: typer.Context) -> None:
    """Run one server by hand: iolab serve --model io_uring --protocol http --listen 127.0.0.1:8080"""
    raise typer.Exit(handover.run("serve", context.args))


@app.command(context_settings=PASSED_ON)
def load(context: typer.Context) -> None:
    """Run the load generator alone: iolab load http://127.0.0.1:8080/ -c 50 -z 10s"""
    raise typer.Exit(handover.run("load", context.args))


@app.command(context_settings=PASSED_ON)
def merge(context: typer.Context) -> None:
    """Make one report of those of several generators that loaded together: iolab merge a.json b.json"""
    raise typer.Exit(handover.run("merge", context.args))


@app.command()
def doctor() -> None:
    """Say whether this machine is fit to measure, and what would make it fitter. Changes nothing."""
    from iolab import engine, machine, terminal
    from iolab.agent import Agent
    from iolab.binary import EngineError

    description, trouble, distances_ns = None, "", list[float]()
    try:
        agent = Agent(engine.open_engine())
        description, distances_ns = agent.engine.description, agent.distances_ns()
    except EngineError as error:
        trouble = str(error)
    checks = machine.doctor(machine.describe(description), description, trouble, distances_ns)
    terminal.show_checks(_stdout(), checks)
    if any(check.status == "bad" for check in checks):
        raise typer.Exit(1)


def main(arguments: list[str]) -> None:
    """Runs a verb with its arguments, and ends the process.

    A verb is called without the group around it: typer loads pydantic to find that the group's own --help is absent.
    """
    verb = typer.main.get_group(app).commands.get(arguments[0]) if arguments else None
    if verb is None or verb.context_settings:
        app(arguments, prog_name="iolab")
    else:
        verb.main(arguments[1:], prog_name=f"iolab {arguments[0]}", help_option_names=HELP)


def _stored(name: Path, out: Path) -> Path:
    """The folder of a stored run, given by its path or its name; raises PlanError."""
    from iolab import capacity, store
    from iolab.plan import PlanError

    for folder in (name, out / name):
        if (folder / store.PLAN).is_file() or (folder / capacity.QUESTION).is_file():
            return folder
    raise PlanError(f"there is no run {str(name)!r} here or in {out}: iolab list runs has the names")


def _plans(out: Path) -> Iterator[terminal.StoredRun]:
    """The stored runs of comparisons, each with its verdict."""
    from iolab import claims, store, terminal, verdict

    for folder in sorted(path.parent for path in out.glob(f"*/{store.PLAN}")):
        plan, trials = store.read_plan(folder), store.read_trials(folder)
        began = min((result.started for result in trials.results), default="")
        if store.ended(folder) is None:
            found = f"unfinished, {len(trials.results)} trials"
        else:
            sentences = [each.sentence for each in verdict.judge(plan, trials.results, trials.counts)]
            judged = Counter(each.judgement for each in claims.judge(plan, trials.results))
            counted = ", ".join(f"{count} {word}" for word, count in judged.items())
            more = f" ({len(sentences)} comparisons)" if len(sentences) > 1 else ""
            found = f"claims: {counted}" if counted else sentences[0] + more
        yield terminal.StoredRun(folder.name, began, plan.question, found)


def _questions(out: Path) -> Iterator[terminal.StoredRun]:
    """The stored searches for a capacity; one that is not finished says so in its verdict."""
    from iolab import capacity, prober, terminal

    for folder in sorted(path.parent for path in out.glob(f"*/{capacity.QUESTION}")):
        found, records = prober.known(folder), capacity.read_records(folder)[0]
        began = min((record.started for record in records), default="")
        yield terminal.StoredRun(folder.name, began, f"capacity of {found.question.url}?", capacity.verdict(found))


def _run(plan: Plan, out: Path, *, fresh: bool, as_json: bool, by_hand: bool = False) -> None:
    """Runs a plan to its end and concludes.

    Of a plan made by hand, all contestants are to be compared, and it is measured anew once it has ended.
    """
    from iolab import contestants, engine, machine, protocol_probe, runner, store, terminal
    from iolab.agent import Agent

    agent = Agent(engine.open_engine())
    contestants.refuse_unknown(plan, agent.engine.description)
    variants = contestants.variants(plan, agent.engine)
    if by_hand:
        contestants.refuse_unfit(plan, variants)
    plan, why = runner.placed(plan, machine.topology())
    console = _stderr()
    terminal.show_plan(console, plan, why)
    try:
        with runner.stopping_on(ENDING), terminal.Screen(console) as screen:
            left_out = contestants.left_out(plan, variants)
            folder = runner.run(
                plan, agent, out, screen, left_out=left_out, all_or_none=by_hand, repeat=by_hand, fresh=fresh
            )
    except runner.ContestantFailed as failed:
        kind = failed.failure.kind
        advice = protocol_probe.remedy(kind, as_flags=True)
        terminal.show_failure(console, f"iolab: {failed.contestant}", failed.failure, advice)
        raise typer.Exit(2 if kind in BAD_COMMANDS or kind.startswith("speaks_") else 1) from None
    except runner.Stopped as stopped:
        folder = store.folder_of(plan, out)
        kept = f"finished trials are kept in {folder}" if folder.is_dir() else "no trial had ended"
        terminal.say(console, f"stopped by {stopped}; {kept}")
        terminal.say(console, f"to go on: {_again()}")
        raise typer.Exit(stopped.code) from None
    _conclude(folder, as_json=as_json)


def _conclude(folder: Path, *, as_json: bool) -> None:
    """Says what the stored results say, and writes the report."""
    from iolab import claims, report, store, terminal, verdict

    plan, trials = store.read_plan(folder), store.read_trials(folder)
    verdicts = verdict.judge(plan, trials.results, trials.counts)
    judged = claims.judge(plan, trials.results)
    path: Path = report.write(folder)
    if as_json:
        document = {
            "schema": 1,
            "folder": str(folder),
            "report": str(path),
            "verdicts": [each.model_dump(mode="json") for each in verdicts],
            "claims": [each.model_dump(mode="json") for each in judged],
        }
        print(json.dumps(document, indent=2))  # noqa: T201 (the result, as asked)
    else:
        terminal.show_verdicts(_stdout(), verdicts, judged)
        if trials.results:
            terminal.say(_stdout(), f"measured {terminal.when(min(result.started for result in trials.results))}")
        terminal.say(_stdout(), f"report: {path}")
    if not any(result.report for result in trials.results):
        _fail("nothing could be measured: see the reasons above", 1)


def _ask(asked: capacity.Question, server_pid: int | None, out: Path, *, fresh: bool, as_json: bool) -> None:
    """Asks a server what is left of a question, and answers it; what is known is told however it ends."""
    from iolab import capacity, engine, listener, prober, runner, terminal
    from iolab.agent import Agent

    agent, console = Agent(engine.open_engine()), _stderr()
    server_pid = server_pid or listener.find(asked.connect)
    prober.show_question(console, asked, server_pid)
    folder = capacity.folder_of(asked, out)
    prober.refuse_mismatch(asked, agent)
    try:
        with runner.stopping_on(ENDING):
            lines = prober.Lines(console, knows_server=server_pid is not None)
            prober.run(asked, agent, out, lines, server_pid=server_pid, fresh=fresh, tell_aside=lines.aside)
    except runner.Stopped as stopped:
        # Without a single run there is no folder.
        if folder.is_dir():
            _answer(folder, as_json=as_json)
        terminal.say(console, f"stopped by {stopped}; to go on: {_again()}")
        raise typer.Exit(stopped.code) from None
    except engine.TrialFailed as failed:
        if folder.is_dir():
            _answer(folder, as_json=as_json)
        _fail(str(failed), 2 if failed.failure.kind.startswith("bad_") else 1)
    found = _answer(folder, as_json=as_json)
    if found.done is None or found.done.kind in ("unsettled", "unjudged"):
        raise typer.Exit(1)


def _answer(folder: Path, *, as_json: bool) -> capacity.Found:
    """Says what is known of a question, and writes its report."""
    from iolab import capacity, prober, terminal
    from iolab.report.capacity import write

    found = prober.known(folder)
    path: Path = write(folder)
    if as_json:
        places = {"folder": str(folder), "report": str(path)}
        print(json.dumps(capacity.document(found) | places, indent=2))  # noqa: T201 (the result, as asked)
    else:
        prober.show_found(_stdout(), found)
        terminal.say(_stdout(), f"report: {path}")
    return found


def _again() -> str:
    """The command that goes on where this one stopped."""
    return shlex.join(["iolab", *(word for word in sys.argv[1:] if word != "--fresh")])


def _experiment(name: str) -> Path:
    """The file of an experiment, given by path or by name; raises PlanError with the names there are."""
    from iolab.plan import PlanError

    if name.endswith(".toml") or "/" in name:
        return Path(name)
    path = EXPERIMENTS / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(sorted(path.stem for path in EXPERIMENTS.glob("*.toml")))
        raise PlanError(f"there is no experiment {name!r}: name one of {names}, or the path of a .toml file")
    return path


def _cpu_list(text: str | None) -> tuple[int, ...]:
    """Processors written as 0,2 or 0-3; raises PlanError."""
    from iolab.plan import PlanError

    if text is None:
        return ()
    cpus: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    except ValueError:
        raise PlanError(f"{text!r} names no processors: write 0,2 or 0-3") from None
    absent = sorted(set(cpus) - os.sched_getaffinity(0))
    if absent:
        raise PlanError(f"processor {absent[0]} may not be used here: choose among {sorted(os.sched_getaffinity(0))}")
    return tuple(dict.fromkeys(cpus))


def _whole_ms(text: str | None) -> int | None:
    """A time of a trial in milliseconds, as much longer as whole intervals take; raises PlanError."""
    from iolab import search

    return None if text is None else math.ceil(search.parse_ms(text) / INTERVAL_MS) * INTERVAL_MS


@contextmanager
def _one_line_errors(flags: Mapping[str, str] = {}) -> Iterator[None]:
    """Every expected failure is one line on standard error and an exit code.

    A line that begins with a key of a plan is given the flag that stands for it, if `flags` has one.
    """
    from iolab.binary import EngineError
    from iolab.plan import PlanError
    from iolab.store import StoreError

    try:
        yield
    except PlanError as error:
        key, colon, rest = str(error).partition(":")
        _fail(f"{flags.get(key, key)}{colon}{rest}", 2)
    except (EngineError, StoreError) as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(message: str, code: int) -> NoReturn:
    from iolab import terminal

    terminal.say(_stderr(), f"iolab: {message}")
    raise typer.Exit(code)


def _stdout() -> Console:
    from rich.console import Console

    from iolab import terminal

    # A file has no width of its own: what is kept is kept in full.
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else terminal.WIDE_COLUMNS)


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)
