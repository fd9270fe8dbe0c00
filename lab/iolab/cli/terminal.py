"""Prints for people: progress while a plan runs, then the table and verdict of each comparison, and each notice once.

On a terminal there is one progress line, and prose is wrapped to the width. Elsewhere lines are plain and not wrapped,
so a CI log stays readable and searchable.
"""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from textwrap import fill
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from iolab.judge import scaling
from iolab.judge.claims import ClaimVerdict
from iolab.judge.costs import Cost
from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.precision import aim_words, chosen_words
from iolab.judge.rankings import Ranked
from iolab.judge.scaling import Scaling
from iolab.judge.verdict import ComparisonVerdict
from iolab.machine.cpus import cpu_words
from iolab.measure.contestants import Building
from iolab.measure.earlier_run import NOTHING_MEASURED
from iolab.measure.events import (
    BlocksChosen,
    CanTakePart,
    CapacityMeasured,
    Checked,
    Counted,
    Event,
    LeftOut,
    MachineBusy,
    MinuteOver,
    NothingUsable,
    Opened,
    Planned,
    Probing,
    PutBack,
    TrialBegan,
    TrialEnded,
)
from iolab.measure.protocol_probe import remedy
from iolab.metrics import COMPARED, Metric
from iolab.plan.contestant import Contestant
from iolab.report import matrix
from iolab.results.records import WARNINGS, Break, Failure, Minute
from iolab.wording import BOUND_SIGNS, duration, number, when, words_of, wrapped

# The columns of the table: a metric, its heading with the unit, and the divisor of its figures. CPU is the server's for
# one request.
COLUMNS = tuple((row.key, row.short or row.heading, row.scale) for row in COMPARED.values())
# The width at which a ranking shows all columns in one line per contestant.
WIDE_COLUMNS = 120
# A longer name is wrapped in tables, or shortened and explained in a line above the table.
NAME_MAX = 24
# Printed in place of the ratio of two bounds.
NOT_COMPARABLE = "not comparable"
# The cost columns: syscalls per request, memory per connection, and threads.
COSTS = ("syscalls", "KiB/conn", "tasks")
# A longer reason is printed in a line of its own instead of a column of figures.
WORD_MAX = 14


class Screen:
    """Shows the runner's events. Use it as a context manager; call it with each event.

    `folder` is the run's, once it is open.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.folder: Path | None = None
        self._failures: set[tuple[str, str, tuple[str, ...]]] = set()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("starting", total=None, left="")

    def __enter__(self) -> Screen:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Shows one event of the runner."""
        if isinstance(event, Building):
            self._say(f"building {event.contestant} with {event.command}: this is done once")
        elif isinstance(event, Planned):
            show_plan(self._console, event)
        elif isinstance(event, Opened):
            self._opened(event)
        elif isinstance(event, PutBack):
            self._say(aside(NOTHING_MEASURED, event.folder))
        elif isinstance(event, Checked):
            self._checked(event)
        elif isinstance(event, CapacityMeasured):
            self._say(f"{event.comparison}: capacity of the slowest: {event.capacity_per_s:,.0f} requests per second")
        elif isinstance(event, BlocksChosen):
            self._chosen(event)
        elif isinstance(event, LeftOut):
            self._say(f"{event.comparison}: {event.contestant} is left out: {event.why}")
        elif isinstance(event, CanTakePart):
            names = ", ".join(event.contestants)
            self._say(f"{names}: left out when this run began, but can run now: start again with --fresh")
        elif isinstance(event, MachineBusy):
            self._say(f"warning: this machine is busy: {event.why}: trials will be discarded (see iolab doctor)")
        elif isinstance(event, NothingUsable):
            self._say(f"warning: no trial of the first {event.blocks} blocks can be used: {event.why}")
        elif isinstance(event, TrialBegan):
            self._began(event)
        elif isinstance(event, MinuteOver):
            self._say(minute_words(event.title, event.minute))
        elif isinstance(event, TrialEnded):
            self._ended(event)
        elif isinstance(event, Probing):
            self._probing(event)
        else:
            self._counted(event)

    def _checked(self, event: Checked) -> None:
        if event.failure is not None:
            self._failed(event.contestant, event.failure, remedy(event.failure.kind, as_flags=False))
        elif not event.ends_politely:
            self._say(f"{event.contestant}: it ignored SIGTERM and was killed: make it end at SIGTERM")

    def _opened(self, event: Opened) -> None:
        self.folder = event.folder
        if event.set_aside is not None:
            self._say(aside(event.changed, event.set_aside))
        for fault in event.faults:
            self._say(f"{event.folder}/{fault}")
        if event.done:
            finished = "" if event.ended is None else f", measured by {when(event.ended)}: --fresh measures again"
            self._say(f"{event.done} of {event.planned} trials are already in {event.folder}{finished}")
        if self._bar is not None:
            self._bar.update(self._task, total=event.planned, completed=event.done)

    def _chosen(self, event: BlocksChosen) -> None:
        self._say(chosen_words(event.plan))
        if self._bar is not None:
            self._bar.update(self._task, total=event.planned)

    def _began(self, event: TrialBegan) -> None:
        if self._bar is not None:
            where = f"block {event.trial.block + 1} {event.comparison} {event.title}"
            self._bar.update(self._task, description=escape(where), left=f"{duration(event.left_s)} left")

    def _ended(self, event: TrialEnded) -> None:
        if self._bar is not None:
            self._bar.update(self._task, total=event.planned, completed=event.done)
        else:
            self._say(f"{event.done}/{event.planned} {event.comparison}: {event.title}: {outcome(event)}")
        if event.result.failure is not None and event.result.failure.said:
            self._failed(event.title, event.result.failure)

    def _counted(self, event: Counted) -> None:
        where = f"{event.comparison}: {event.contestant}"
        if self._bar is not None:
            self._bar.update(self._task, description=escape(f"counting syscalls: {where}"), left="")
        else:
            calls = event.count.per_request
            counted = f"not counted: {event.count.why_not}" if calls is None else f"{number(calls)} per request"
            self._say(f"syscalls: {where}: {counted}")

    def _probing(self, event: Probing) -> None:
        line = f"what limited {event.comparison}: {event.contestant}: {event.what}"
        if self._bar is not None:
            self._bar.update(self._task, description=escape(line), left="")
        else:
            self._say(line)

    def _failed(self, contestant: str, failure: Failure, advice: str = "") -> None:
        """Prints each failure once: a server that dies tends to die repeatedly of the same fault."""
        if (contestant, failure.kind, failure.said) not in self._failures:
            self._failures.add((contestant, failure.kind, failure.said))
            show_failure(self._console, contestant, failure, advice)

    def _say(self, line: str) -> None:
        say(self._console, line)


def say(console: Console, line: str) -> None:
    """Prints one line verbatim, without markup or wrapping; it may contain text of a server or a plan."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def show_failure(console: Console, contestant: str, failure: Failure, advice: str = "") -> None:
    """Prints why a contestant failed, and below that its last output."""
    said = "; its last output:" if failure.said else ""
    say(console, f"{contestant}: {failure.message}{advice}{said}")
    for line in failure.said:
        say(console, f"    {line}")
    for line in broken(failure.how) if failure.how else ():
        say(console, f"    {line}")


def broken(how: Break) -> list[str]:
    """How a server broke: what the client saw, which resource ran out, the evidence, and whether it recovered."""
    where = [f"{name} {value}" for name in ("request", "connection") if (value := getattr(how, name)) is not None]
    saw = [f"first failure: {' on '.join(where) or 'seen'}: {how.phase}: {how.saw}"] if how.saw else []
    ran_out = [f"ran out of: {how.ran_out}"] if how.ran_out else []
    after = {True: ["it recovered after the load had stopped"], False: ["it did not recover"], None: []}
    return [*saw, *ran_out, *how.evidence, *after[how.recovered]]


def minute_words(title: str, minute: Minute) -> str:
    """A minute of a long trial in one line."""
    requests = minute.correct + minute.wrong + minute.failed
    return (
        f"{title}: minute {minute.number}: {requests:,} requests, {minute.wrong + minute.failed:,} errors, "
        f"p99 {minute.p99_ns / 1e3:,.0f} µs; {minute.rss_bytes / (1 << 20):.1f} MiB, "
        f"{minute.threads} threads, {minute.descriptors} descriptors"
    )


def aside(changed: str, folder: Path) -> str:
    """A line on an earlier run that is kept, and why it is not resumed."""
    return f"{changed}: " * bool(changed) + f"the earlier run is kept as {folder}"


def outcome(event: TrialEnded) -> str:
    """A finished trial in a few words; the record has the figures of a discarded one."""
    result = event.result
    if result.failure is not None:
        return f"failed: {result.failure.line}"
    measured = result.report or result.client
    rate = f"{measured.rate_per_s:,.0f} requests/s" if measured else "at rest" if result.server else "no report"
    words = ", ".join(words_of(warning.word) for warning in result.warnings if warning.discards)
    return f"discarded: {words}" if words else rate


def show_plan(console: Console, planned: Planned) -> None:
    """Prints the question, the expected time and the processors before the first trial."""
    plan = planned.plan
    trials = plan.blocks * sum(len(comparison.cells) for comparison in plan.comparisons)
    more = f", up to {duration(planned.probing_s)} more to see what limited them" if planned.probing_s else ""
    say(console, plan.question)
    length = f"about {duration(planned.time_s)}{more}"
    say(console, f"{plan.blocks} blocks (one trial of each contestant), {trials} trials, {length}")
    if plan.aim is not None:
        say(console, f"this is a pilot: after it, the number of blocks is chosen {aim_words(plan.aim)}")
    sets = dict.fromkeys((cell.server.cpus, cell.load.cpus) for each in plan.comparisons for cell in each.cells)
    for server, load in sets:
        say(console, f"server {cpu_words(server)}, generator {cpu_words(load)} ({'; '.join(planned.why)})")


def fitted(console: Console, line: str, *, indent: int = 0) -> list[str]:
    """A line wrapped to the width of the terminal, or unwrapped for a file."""
    fits = console.is_terminal or "COLUMNS" in os.environ
    return (wrapped(line, console.width - indent) if fits else line).split("\n")


def prose(console: Console, line: str, *, indent: int = 0) -> None:
    """Prints a line, wrapped to the width of the terminal, or unwrapped to a file."""
    text = "\n".join(fitted(console, line, indent=indent))
    say(console, textwrap.indent(text, " " * indent))


def show_verdicts(
    console: Console,
    verdicts: Sequence[ComparisonVerdict],
    claims: Iterable[ClaimVerdict],
    scalings: Iterable[Scaling] = (),
) -> None:
    """Prints each comparison's tables and sentence, then matrices, scalings and claims, then each notice once."""
    for verdict in verdicts:
        console.print()
        _show_comparison(console, verdict)
    for each in matrix.matrices(verdicts):
        _show_matrix(console, each)
    for line in scaling.sentences(scalings):
        prose(console, f"scaling: {line}")
    for claim in claims:
        _show_claim(console, claim)
    lines = notices(verdicts)
    if lines:
        console.print()
    for line in lines:
        prose(console, line)


def _show_matrix(console: Console, found: matrix.Matrix) -> None:
    """Prints ratios to the best and ranks over all settings, named by letters, in as many tables as the width needs."""
    letters = [chr(ord("A") + at % 26) * (1 + at // 26) for at in range(len(found.settings))]
    names = [row.title if len(row.title) <= NAME_MAX else f"{row.title[: NAME_MAX - 1]}…" for row in found.rows]
    cells = [[f"{cell.text} #{cell.rank}" if cell.rank else cell.text for cell in row.cells] for row in found.rows]
    room = console.width - max(map(len, names))
    columns = max(1, room // (1 + max(len(cell) for row in cells for cell in row)))
    console.print()
    for begin in range(0, len(letters), columns):
        part = slice(begin, begin + columns)
        shown = Table(
            title=f"{found.heading}: ratio to the best, # rank",
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=0,
            pad_edge=False,
            show_edge=False,
        )
        shown.add_column("", no_wrap=True)
        for letter in letters[part]:
            shown.add_column(letter, justify="right", no_wrap=True)
        for name, row in zip(names, cells, strict=True):
            shown.add_row(escape(name), *row[part])
        console.print(shown)
    prose(console, "; ".join(f"{letter}: {name}" for letter, name in zip(letters, found.settings, strict=True)))


def _show_claim(console: Console, claim: ClaimVerdict) -> None:
    """Prints the verdict with its reason, and a line for each test if there are several."""
    prose(console, f"claim {claim.claim.id}: {claim.judgement}: {claim.reason}")
    if len(claim.tests) > 1:
        for test in claim.tests:
            shown = " (shown only)" if test.test.shown else ""
            prose(console, f"    {test.test.relation}{shown}: {test.judgement}: {test.reason}")


def _show_comparison(console: Console, verdict: ComparisonVerdict) -> None:
    names = short_names(verdict)
    for text, title, name in zip(verdict.texts, verdict.titles, names, strict=True):
        if " ".join(name.split()) != title:
            prose(console, f"{name} = {text}")
    shown = rankings if verdict.rankings else tables
    for position, each in enumerate(shown(verdict, names, console.width)):
        if position:
            console.print()
        console.print(each)
    if verdict.ladder:
        prose(console, "each ratio is to the nearest measured row above it")
    prose(console, verdict.sentence)
    prose(
        console, f"{verdict.blocks_used} of {verdict.blocks_planned} blocks used, {verdict.blocks_discarded} discarded"
    )
    if verdict.rankings:
        # With many contestants, only the report has limits and costs.
        return
    for title, limit in verdict.limits.items():
        if not limit.kind.is_ranked:
            prose(console, f"{title}: {limit.label}: {limit.reason}")
    for line in cost_lines(verdict.costs):
        prose(console, line)


def short_names(verdict: ComparisonVerdict) -> tuple[str, ...]:
    """The contestants' names in tables: a long name wrapped, a long command as program and script without folders, and
    one that still does not fit as a letter.
    """
    names = [_short_name(title, text) for title, text in zip(verdict.titles, verdict.texts, strict=True)]
    letters = (chr(ord("A") + slot) for slot in range(len(names)))
    unfit = {name for name in names if _line_length(name) > NAME_MAX or names.count(name) > 1}
    return tuple(letter if name in unfit else name for name, letter in zip(names, letters, strict=True))


def _short_name(title: str, text: str) -> str:
    if len(title) <= NAME_MAX:
        return title
    if title == Contestant.parse(text).title and text.startswith("cmd:"):
        return " ".join(PurePath(word).name for word in title.split()[:2])
    return fill(title, NAME_MAX, break_long_words=False, break_on_hyphens=False)


def _line_length(name: str) -> int:
    return max(map(len, name.splitlines()))


def tables(verdict: ComparisonVerdict, names: Sequence[str], width: int) -> list[Table]:
    """The figures and their ratios: a row per metric for two contestants, else a row per contestant."""
    if len(verdict.titles) == 2 and not verdict.ladder:
        return [_pair_table(verdict, names)]
    return _contestant_tables(verdict, names, width)


def _pair_table(verdict: ComparisonVerdict, names: Sequence[str]) -> Table:
    reference, contestant = verdict.titles
    heading = f"{names[1]} / {names[0]}"
    shown = _table(verdict, *names, heading if len(heading) <= NAME_MAX else "ratio")
    for metric, what, unit in COLUMNS:
        levels = (_level_of(verdict, metric, title, unit) for title in (reference, contestant))
        estimate = verdict.estimate(metric, contestant)
        shown.add_row(what, *levels, "-" if estimate is None else escape(_ratio(estimate)))
    return shown


def _contestant_tables(verdict: ComparisonVerdict, names: Sequence[str], width: int) -> list[Table]:
    """A row per contestant and a column per metric, in as few tables as fit; each figure has its ratio below."""
    for count in range(1, len(COLUMNS) + 1):
        for between in (" ", "\n"):
            cells = [_cells(verdict, column, between) for column in COLUMNS]
            at = [len(COLUMNS) * part // count for part in range(count + 1)]
            parts = [cells[begin:end] for begin, end in pairwise(at)]
            room = width - max(map(_line_length, names))
            if count == len(COLUMNS) or all(sum(map(_width, part)) <= room for part in parts):
                return [_contestant_table(verdict, names, part) for part in parts]
    raise AssertionError("a table of one column each is the last resort")


def _cells(verdict: ComparisonVerdict, column: tuple[Metric, str, float], between: str) -> list[str]:
    """One column: its heading, and the cell of every contestant."""
    metric, heading, unit = column
    return [heading, *(figure(verdict, metric, title, unit, between) for title in verdict.titles)]


def _width(cells: Iterable[str]) -> int:
    return 1 + max(len(line) for cell in cells for line in cell.splitlines())


def _contestant_table(verdict: ComparisonVerdict, names: Sequence[str], columns: Sequence[Sequence[str]]) -> Table:
    shown = _table(verdict, *(heading for heading, *_ in columns))
    for name, *figures in zip(names, *(cells for _, *cells in columns), strict=True):
        shown.add_row(escape(name), *map(escape, figures))
    return shown


def _table(verdict: ComparisonVerdict, *headings: str) -> Table:
    title = None if verdict.name == "vs" else escape(verdict.name)
    shown = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    shown.add_column("", overflow="fold")
    for heading in headings:
        shown.add_column(escape(heading), justify="right", no_wrap=True)
    return shown


def rankings(verdict: ComparisonVerdict, names: Sequence[str], width: int) -> list[Table]:
    """One row per contestant, the best first: ranks, figures, ratios to the best, and costs.

    On a narrow terminal CPU has ranks but no ratios, and the costs have a table of their own. Contestants that are not
    ranked come last, with the reason in place of figures.
    """
    is_wide = width >= WIDE_COLUMNS
    cpu_ratio = ["of the best"] if is_wide else []
    first, heading, unit = next(column for column in COLUMNS if column[0] == verdict.rankings[0].metric)
    columns = (heading, "of the best", "CPU µs", *cpu_ratio, "#", *(COSTS if is_wide else ()))
    shown = _ranked(verdict.name, "#", columns)
    by = {each.metric: {row.contestant: row for row in each.rows} for each in verdict.rankings}
    costs = {cost.contestant: cost for cost in verdict.costs}
    name = dict(zip(verdict.titles, names, strict=True))
    for title, row in by[first].items():
        cpu = by.get("cpu_per_request", {}).get(title)
        shown.add_row(
            _rank(row),
            escape(name[title]),
            _level_of(verdict, first, title, unit),
            _of_the_best(row),
            _level_of(verdict, "cpu_per_request", title, 1e3),
            *([_of_the_best(cpu)] if is_wide else []),
            _rank(cpu),
            *(_cost(costs.get(title)) if is_wide else ()),
        )
    for title, why in verdict.rankings[0].absent.items():
        short = "not ranked" if title in verdict.not_judged else "not here"
        shown.add_row("", escape(name[title]), escape(why) if len(why) <= WORD_MAX else short)
    if is_wide or not costs:
        return [shown]
    apart = _ranked("", "", COSTS)
    for title in by[first]:
        apart.add_row("", escape(name[title]), *_cost(costs.get(title)))
    return [shown, apart]


def _ranked(name: str, rank: str, columns: Iterable[str]) -> Table:
    title = None if name == "vs" else escape(name) or None
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    shown.add_column(rank, justify="right", min_width=2)
    shown.add_column("", overflow="fold")
    for heading in columns:
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def _rank(row: Ranked | None) -> str:
    return "-" if row is None or row.rank is None else str(row.rank)


def _of_the_best(row: Ranked | None) -> str:
    if row is None or row.bound == "unknown":
        return "-"
    return escape(row.interval.alone if row.low == row.high else str(row.interval))


def _cost(cost: Cost | None) -> tuple[str, str, str]:
    """Syscalls per request, KiB per connection, and the number of threads."""
    if cost is None:
        return "-", "-", "-"
    calls = "-" if cost.calls_per_request is None else f"{cost.calls_per_request:.2f}"
    memory = "-" if cost.connection_bytes is None else f"{cost.connection_bytes / 1024:.1f}"
    return calls, memory, str(cost.threads)


def _level_of(verdict: ComparisonVerdict, metric: Metric, title: str, unit: float) -> str:
    level = verdict.level(metric, title)
    return "-" if level is None else _level(level, unit)


def figure(verdict: ComparisonVerdict, metric: Metric, title: str, unit: float, between: str) -> str:
    """A level and, below it, its ratio to the reference and the interval, separated by `between`."""
    level, estimate = verdict.level(metric, title), verdict.estimate(metric, title)
    if level is None:
        return "-"
    if estimate is None:
        return _level(level, unit)
    return f"{_level(level, unit)}\n{_ratio(estimate).replace('x [', f'x{between}[')}"


def _ratio(estimate: Estimate) -> str:
    return NOT_COMPARABLE if estimate.bound == "unknown" else str(estimate.interval)


def notices(verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """The notices, each once with its comparisons, and advice on the warnings last."""
    about: dict[str, list[str]] = {}
    for verdict in verdicts:
        for line in _notices_of(verdict):
            about.setdefault(line, []).append(verdict.name)
    lines = [line + _where(names, len(verdicts)) for line, names in about.items()]
    words = dict.fromkeys(each.warning.word for verdict in verdicts for each in verdict.warnings)
    counted = ((discards, _counted(verdicts, discards=discards)) for discards in (True, False))
    lines += [f"{'discarded trials' if discards else 'warnings'}: {line}" for discards, line in counted if line]
    if any(verdict.topology_changed for verdict in verdicts):
        lines.append(MOVED)
    return lines + [f"{words_of(word)}: {WARNINGS[word].advice}" for word in words]


# How blocks with a changed core-to-core latency are handled.
MOVED = (
    "core-to-core latency changed: the hypervisor moved processors between server and generator; the ratios leave "
    "these blocks out where enough others remain."
)


def _where(names: Sequence[str], total: int) -> str:
    if total == 1:
        return ""
    return " (everywhere)" if len(names) == total else f" ({'; '.join(names)})"


def _notices_of(verdict: ComparisonVerdict) -> list[str]:
    lines = _uncounted(verdict)
    lines += [
        f"{title} was left out: {why}"
        for title, why in verdict.left_out.items()
        if (len(why) > WORD_MAX if verdict.rankings else why.rstrip(".") not in verdict.sentence)
    ]
    lines += [f"{title} is not judged: {why}" for title, why in verdict.not_judged.items()]
    lines += [
        f"{each.contestant}: failed {each.trials}x: {each.message}"
        for each in verdict.failures
        if each.message.rstrip(".") not in verdict.sentence
    ]
    lines += [
        f"{each.contestant}: replies are of unequal size: {each.warning.detail}"
        for each in verdict.warnings
        if each.warning.word == "unequal_replies" and each.contestant not in verdict.not_judged
    ]
    lines += [f"not equal: {each.text[:-1]}" for each in verdict.asymmetries if each.warns]
    return lines + ([f"processors moved: {verdict.topology_changed}"] if verdict.topology_changed else [])


def cost_lines(costs: Iterable[Cost]) -> list[str]:
    """The cost of a request and a connection, in one line for all contestants with the same figures."""
    whose: dict[str, list[str]] = {}
    for cost in costs:
        whose.setdefault(_cost_words(cost), []).append(cost.contestant)
    return [f"{', '.join(titles)}: {words}" for words, titles in whose.items()]


def _cost_words(cost: Cost) -> str:
    parts = [] if cost.calls_per_request is None else [f"{cost.calls_per_request:.2f} syscalls per request"]
    if cost.connection_bytes is not None:
        parts.append(f"{cost.connection_bytes / 1024:.1f} KiB per connection")
    parts.append(f"{cost.processes} process{'' if cost.processes == 1 else 'es'}")
    return f"{', '.join(parts)}, {cost.threads} thread{'' if cost.threads == 1 else 's'}"


def _uncounted(verdict: ComparisonVerdict) -> list[str]:
    """Why syscalls were not counted: each reason once, with its contestants."""
    whose: dict[str, list[str]] = {}
    for cost in verdict.costs:
        if cost.calls_why_not is not None:
            whose.setdefault(cost.calls_why_not, []).append(cost.contestant)
    return [f"syscalls of {', '.join(titles)} were not counted: {why}" for why, titles in whose.items()]


def _counted(verdicts: Sequence[ComparisonVerdict], *, discards: bool) -> str:
    """Warnings with their numbers of trials: `machine noisy (epoll 5, io_uring 3), too short (10 of each)`."""
    whose: dict[str, Counter[str]] = {}
    measured: dict[str, None] = {}
    for verdict in verdicts:
        measured |= dict.fromkeys(title for title in verdict.titles if verdict.level("throughput", title) is not None)
        for each in verdict.warnings:
            if each.warning.discards == discards:
                whose.setdefault(each.warning.word, Counter())[each.contestant] += each.trials
    return ", ".join(f"{words_of(word)} ({_whose(counts, tuple(measured))})" for word, counts in whose.items())


def _whose(counts: Mapping[str, int], measured: Sequence[str]) -> str:
    alike = set(counts.values())
    if len(measured) > 1 and counts.keys() >= set(measured) and len(alike) == 1:
        return f"{alike.pop()} of each"
    return ", ".join(f"{title} {trials}" for title, trials in counts.items())


def _level(level: Level, unit: float) -> str:
    return BOUND_SIGNS[level.bound] + number(level.median / unit)
