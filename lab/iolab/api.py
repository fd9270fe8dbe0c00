"""iolab from Python: the commands `vs`, `run`, `lint`, `report` and others as functions that return data.

    import iolab
    found = iolab.vs("epoll", "io_uring", connections=50, quick=True)

They print nothing. They raise `IolabError`; its message is one line that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iolab import report, runs
from iolab.contract.types import updated
from iolab.errors import BadInput, StoreError
from iolab.judge import comparison, results, stats
from iolab.judge import suite as judge_suite
from iolab.judge.comparison import RunComparison
from iolab.judge.results import Results
from iolab.judge.run_pairs import Circumstance
from iolab.judge.suite import SuiteResults
from iolab.lint import Linted, lint_file
from iolab.machine import cpus
from iolab.measure import agent, contestants, engine, events, examination, placement, planning, runner
from iolab.measure.events import OnEvent
from iolab.measure.examination import Examination
from iolab.measure.progress import CLOCKS
from iolab.plan import catalog, registry
from iolab.plan.experiment import load_experiment, soak_plan, vs_plan
from iolab.plan.overrides import with_settings
from iolab.plan.plan import Plan
from iolab.plan.settings import DOTTED, whole_intervals_ms
from iolab.plan.suite import Suite
from iolab.results import layout, suites
from iolab.results.export import Table
from iolab.results.suites import SuiteRun
from iolab.tables.stored import Stored

if TYPE_CHECKING:
    from iolab.bundles import Bundle, Verified
    from iolab.tables.files import Format

# The settings of a trial that are times.
TIMES = ("trial.warmup_ms", "trial.duration_ms")
NO_SETTINGS: Mapping[str, Any] = {}


def _ignored(_event: object) -> None:
    """Does nothing with an event."""


def vs(
    *servers: str,
    blocks: int | None = None,
    seed: int = 1,
    within: float | None = None,
    budget_ms: int | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    quick: bool = False,
    fresh: bool = False,
    out: str | Path = layout.RUNS,
    on_event: OnEvent = _ignored,
    **setting: Any,
) -> Results:
    """Compares servers with the first of them. A server is a name, or a command such as `cmd:./mine --port {port}`.

    Names are those of models, of the registry, and of a `contestants.toml` in the working directory.

    `setting` takes an experiment's settings by their last names, as `protocol="http", connections=100`, and `settings`
    by their full names, as `{"path.delay_ms": 24.5}`. The default is 12 `blocks`. With `within`, `budget_ms` or both, a
    pilot chooses the number: for ratios of requests and CPU within this half-width (0.02: 2 %), in this total time.

    A finished comparison is measured again; an interrupted one continues, unless `fresh`. `on_event` is called with
    each event of the run.
    """
    if blocks is not None and (within is not None or budget_ms is not None):
        raise BadInput("blocks: is chosen after a pilot where a precision or a budget is asked for: leave it out")
    count = {} if blocks is None else {"blocks": blocks}
    plan = vs_plan(servers, _by_name(settings, setting), seed=seed, **count)
    known = registry.load(Path(registry.USERS))
    # `by_hand`: servers named here must all run, while an experiment leaves out those this machine cannot run.
    plan = planning.aimed(plan.quick() if quick else plan, within, budget_ms)
    return _run(plan, known, Path(out), on_event, fresh=fresh, by_hand=True)


def soak(
    server: str,
    *,
    settings: Mapping[str, Any] = NO_SETTINGS,
    fresh: bool = False,
    out: str | Path = layout.RUNS,
    on_event: OnEvent = _ignored,
    **setting: Any,
) -> Results:
    """Loads one server for `duration_ms`, up to a day, and stores every minute.

    An interrupted trial continues for the remaining time, unless `fresh`. A server that dies after the first minute is
    a result: the last trial has a `failure`. If anything else ends the trial, it raises `runner.CutOff`, and the same
    call continues after the stored minutes. The other arguments are those of `vs`; `judge.endurance.lines` describes
    the result.
    """
    plan = soak_plan(server, _by_name(settings, setting))
    return _run(plan, registry.load(Path(registry.USERS)), Path(out), on_event, fresh=fresh, by_hand=True)


def run(
    experiment: str | Path | Plan,
    *,
    settings: Mapping[str, Any] = NO_SETTINGS,
    quick: bool = False,
    within: float | None = None,
    budget_ms: int | None = None,
    fresh: bool = False,
    since: str = "",
    out: str | Path = layout.RUNS,
    on_event: OnEvent = _ignored,
) -> Results:
    """Runs or resumes an experiment, given by its name, its file or its plan.

    With other `settings`, such as `{"load.connections": 200}`, it is another run in its own folder. A finished run is
    measured again only with `fresh`, or if it began before `since`, a time in ISO 8601. `within` and `budget_ms` choose
    the number of blocks, as for `vs`. `on_event` is called with each event of the run. A `contestants.toml` beside the
    file adds servers to the registry.
    """
    if isinstance(experiment, Plan):
        plan, known = experiment, registry.load(Path(registry.USERS))
    else:
        file = catalog.path_of(str(experiment))
        known = registry.load(registry.beside(file))
        plan = load_experiment(file, contestants.options(engine.open_engine().description, known))
    plan = with_settings(plan, settings)
    plan = planning.aimed(plan.quick() if quick else plan, within, budget_ms)
    return _run(plan, known, Path(out), on_event, fresh=fresh, since=since, by_hand=False)


def begin_suite(
    suite: Suite,
    *,
    only: Sequence[str] = (),
    settings: Mapping[str, Any] = NO_SETTINGS,
    quick: bool = False,
    fresh: bool = False,
    out: str | Path = layout.RUNS,
) -> SuiteRun:
    """Begins or resumes a run of a suite, or of the parts in `only`, and returns its record.

    It runs no experiment. A resumed run counts no trial from before it was last begun with `fresh`. Until an experiment
    ends again, the record keeps its earlier run.
    """
    suite = suite.only(only)
    asked = SuiteRun(suite=suite, only=tuple(only), is_quick=quick, settings=dict(settings))
    earlier = suites.earlier(Path(out, asked.folder_name), is_needed=not fresh)
    asked = updated(asked, runs=asked.runs if earlier is None else suites.kept_runs(Path(out), earlier))
    since = CLOCKS.wall() if fresh else "" if earlier is None else earlier.since
    waiting = {name: catalog.claims_of(name) for name in suite.experiments(quick=False)}
    begun = updated(asked, since=since, waiting=waiting)
    suites.write(Path(out), begun)
    return begun


def with_experiment(record: SuiteRun, experiment: str, found: Results) -> SuiteRun:
    """The record of a suite's run with a finished experiment added; stored beside the experiment's run."""
    waiting = {name: claims for name, claims in record.waiting.items() if name != experiment}
    further = updated(record, runs={**record.runs, experiment: found.folder.name}, waiting=waiting)
    suites.write(found.folder.parent, further)
    return further


def open_suite(folder: Path) -> SuiteResults:
    """The results of a stored run of a suite, given by its folder."""
    return judge_suite.read(folder)


def open_run(name: str | Path, *, out: str | Path = layout.RUNS) -> Results:
    """The results of a stored comparison or experiment, given by its folder or by its name in `out`."""
    return results.read(runs.find(name, Path(out)))


def compare(
    a: str | Path,
    b: str | Path | None = None,
    *,
    threshold: float = stats.EFFECT,
    allow: Set[Circumstance] = frozenset(),
    out: str | Path = layout.RUNS,
) -> RunComparison:
    """What changed from stored run `a` to stored run `b`, or without `b` from each contestant's reference to it.

    Runs are given by their folders or by their names in `out`. Differences beyond `threshold`, a share, count. Runs of
    different machines, load generators or plans are refused unless `allow` names the difference.
    """
    runs_folder = Path(out)
    first = _comparable(a, runs_folder)
    if b is None:
        return comparison.compare_within(first, threshold=threshold)
    second = _comparable(b, runs_folder)
    if first.folder.resolve() == second.folder.resolve():
        raise BadInput(f"{first.folder} is both runs: name two runs, or one to compare its contestants")
    return comparison.compare(first, second, threshold=threshold, allow=allow)


def _comparable(name: str | Path, out: Path) -> Results:
    folder = _of_one_run(name, out)
    if runs.is_capacity(folder):
        raise BadInput(f"{folder} is a search for a capacity: compare takes runs of iolab vs and iolab run")
    return results.read(folder)


def _of_one_run(name: str | Path, out: Path) -> Path:
    """The folder of a run; raises BadInput if it is a suite's."""
    folder = runs.find(name, out)
    if runs.is_suite(folder):
        raise BadInput(f"{folder} is a suite: name the run of one of its experiments (iolab list runs has them)")
    return folder


def query(
    sql: str, *names: str | Path, out: str | Path = layout.RUNS, on_unreadable: Callable[[StoreError], None] = _ignored
) -> Table:
    """The result of a query in SQL over all stored runs in `out`, or over the named ones.

    docs/query.md has the views and their columns. Without `names`, unreadable runs are left out, and `on_unreadable` is
    called with the reason for each.
    """
    from iolab.tables import database  # DuckDB takes longer to load than all else

    return database.ask(sql, _stored(names, Path(out), on_unreadable))


def export(
    folder: str | Path,
    *names: str | Path,
    formats: Sequence[Format] = ("csv",),
    out: str | Path = layout.RUNS,
    on_unreadable: Callable[[StoreError], None] = _ignored,
) -> dict[Path, int]:
    """Writes the views of `query` into a folder: one file for each view and format.

    Returns the number of rows in each file. The other arguments are those of `query`.
    """
    from iolab.tables import files

    return dict(files.write(_stored(names, Path(out), on_unreadable), Path(folder), formats))


def bundle(name: str | Path, path: str | Path | None = None, *, out: str | Path = layout.RUNS) -> Bundle:
    """Packs the record and the report of a stored run into one file, by default RUN.tar.gz in the working directory."""
    from iolab import bundles

    return bundles.write(_of_one_run(name, Path(out)), None if path is None else Path(path))


def verify(path: str | Path) -> Verified:
    """Checks a file that `bundle` wrote: every checksum, and its report against a new one."""
    from iolab import bundles

    return bundles.verify(Path(path))


def lint(name: str | Path) -> Linted:
    """Checks a file with outputs of load generators or tables of results, or standard input for `-`.

    Raises `BadInput` if the file cannot be read or nothing in it is recognised.
    """
    return lint_file(str(name))


def doctor(*, noise: bool = True, on_noise: Callable[[float], None] = _ignored) -> Examination:
    """Which differences this machine can show, what limits it, and the command that would improve each finding.

    Changes nothing. With `noise`, a load of about nine seconds measures it; `on_noise` is called before, with the
    seconds that takes.
    """
    return examination.examine(with_noise=noise, on_noise=on_noise)


def write_report(found: Results | SuiteResults) -> Path:
    """Writes the report of a run or of a suite's run into its folder again: one HTML file."""
    return report.write(found)


def _stored(names: Sequence[str | Path], out: Path, on_unreadable: Callable[[StoreError], None]) -> list[Stored]:
    """The named runs, or all readable ones; raises BadInput and StoreError."""
    if names:
        return [Stored(folder) for folder in dict.fromkeys(_of_one_run(name, out) for name in names)]
    readable = []
    for each in (Stored(folder) for folder in runs.all_folders(out) if not runs.is_suite(folder)):
        try:
            each.check()
            readable.append(each)
        except StoreError as error:
            on_unreadable(error)
    return readable


def _by_name(settings: Mapping[str, Any], short: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by their full names, with the default protocol and times rounded to whole intervals."""
    given = {"workload.protocol": "echo", **settings}
    given |= {DOTTED.get(name, name): each for name, each in short.items()}
    return given | {name: whole_intervals_ms(each) for name in TIMES if isinstance(each := given.get(name), int)}


def _run(
    plan: Plan,
    known: registry.Registry,
    out: Path,
    on_event: OnEvent,
    *,
    fresh: bool,
    by_hand: bool,
    since: str = "",
) -> Results:
    """Runs a plan to its end.

    A plan made `by_hand` needs all its contestants, and is measured again if it has finished.
    """
    ours = engine.open_engine()
    contestants.refuse_unknown(plan, ours.description, known)
    ready, absent = contestants.prepare(plan, known, on_event)
    variants = contestants.variants(plan, ours, known, absent)
    facts = contestants.facts(plan, ours)
    if by_hand:
        contestants.refuse_unfit(plan, variants, facts, ready)
    plan, why = placement.placed(plan, cpus.topology())
    time_s = plan.duration_s + planning.others(plan).time_s()
    on_event(events.Planned(plan, why, time_s, planning.probes(plan).time_s()))
    left_out = contestants.left_out(plan, variants, facts, ready)
    host = agent.Agent(ours, ready, contestants.unmet_by_claims(plan, facts))
    folder = runner.run(
        plan,
        host,
        out,
        on_event,
        left_out=left_out,
        all_or_none=by_hand,
        repeat=by_hand,
        fresh=fresh,
        since=since,
    )
    found = results.read(folder)
    report.write(found)
    runs.summary(folder, found)
    return found
