"""What a person sees: progress while a plan runs; then a table, the verdict, and every doubt beside its figure.

On a terminal there is one moving line; elsewhere there are plain lines, so that a log of a CI run stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from iolab.claims import ClaimVerdict
from iolab.machine import Check, cpu_words
from iolab.plan import DOUBTS, Metric, Plan
from iolab.runner import Checked, Event, Opened, TrialBegan, TrialEnded
from iolab.verdict import ComparisonVerdict, DoubtCount, Level

# The columns of the table: a metric, its heading with the unit, and by what its figures are divided. CPU is that of
# the server for one request.
COLUMNS: tuple[tuple[Metric, str, float], ...] = (
    ("throughput", "requests/s", 1.0),
    ("cpu_per_request", "CPU µs", 1e3),
    ("latency_p50", "p50 µs", 1e3),
    ("latency_p99", "p99 µs", 1e3),
    ("rss", "RSS MiB", 1 << 20),
)
BOUNDS = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": "? "}
# How many columns a table needs to show a ratio and its interval in one line; in fewer they stand one above the other.
WIDE_COLUMNS = 120
COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


class Screen:
    """A listener for the runner's events. Use it as a context manager; call it with each event."""

    def __init__(self, console: Console) -> None:
        self._console = console
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
        if isinstance(event, Opened):
            self._opened(event)
        elif isinstance(event, Checked):
            if event.failure is not None:
                self._say(f"{event.contestant}: {event.failure.message}")
        elif isinstance(event, TrialBegan):
            self._began(event)
        else:
            self._ended(event)

    def _opened(self, event: Opened) -> None:
        if event.set_aside is not None:
            self._say(f"an earlier run was kept as {event.set_aside}")
        for fault in event.faults:
            self._say(fault)
        if event.done:
            self._say(f"{event.done} of {event.planned} trials are there already, in {event.folder}")
        if self._bar is not None:
            self._bar.update(self._task, total=event.planned, completed=event.done)

    def _began(self, event: TrialBegan) -> None:
        if self._bar is not None:
            where = f"block {event.trial.block + 1} {event.comparison} {event.title}"
            self._bar.update(self._task, description=escape(where), left=f"{duration(event.left_s)} left")

    def _ended(self, event: TrialEnded) -> None:
        if self._bar is not None:
            self._bar.update(self._task, total=event.planned, completed=event.done)
        else:
            self._say(f"{event.done}/{event.planned} {event.comparison}: {event.title}: {outcome(event)}")

    def _say(self, line: str) -> None:
        say(self._console, line)


def say(console: Console, line: str) -> None:
    """Prints one line as it is: no markup in what a server or a plan says, and no wrapping."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def outcome(event: TrialEnded) -> str:
    """A finished trial in a few words; the figures behind a void one are in the record."""
    result = event.result
    if result.failure is not None:
        return f"failed: {result.failure.message}"
    rate = f"{result.report.rate_per_s:,.0f} requests/s" if result.report else "no report"
    words = ", ".join(_spelt(doubt.word) for doubt in result.doubts if doubt.voids)
    return f"void: {words}" if words else rate


def show_plan(console: Console, plan: Plan, why: Sequence[str]) -> None:
    """Says before the first trial what is asked, for how long, and on which processors."""
    trials = plan.blocks * sum(len(comparison.cells) for comparison in plan.comparisons)
    say(console, plan.question)
    say(console, f"{plan.blocks} blocks, {trials} trials, about {duration(plan.duration_s)}")
    sets = dict.fromkeys((cell.server_cpus, cell.load_cpus) for each in plan.comparisons for cell in each.cells)
    for server, load in sets:
        say(console, f"server {cpu_words(server)}, generator {cpu_words(load)} ({'; '.join(why)})")


def show_verdicts(console: Console, verdicts: Sequence[ComparisonVerdict], claims: Iterable[ClaimVerdict]) -> None:
    """The table, the sentence and the doubts of each comparison, what became of the claims, and last what to do."""
    for verdict in verdicts:
        console.print()
        console.print(table(verdict, console.width))
        say(console, verdict.sentence)
        say(console, f"{verdict.blocks_used} of {verdict.blocks_planned} blocks used, {verdict.blocks_void} void")
        for line in remarks(verdict):
            say(console, line)
    for claim in claims:
        say(console, f"claim {claim.claim.id}: {claim.judgement}: {claim.reason}")
    words = dict.fromkeys(doubt.doubt.word for verdict in verdicts for doubt in verdict.doubts)
    if words:
        console.print()
    for word in words:
        say(console, f"{_spelt(word)}: {DOUBTS[word].advice}")


def table(verdict: ComparisonVerdict, width: int) -> Table:
    """One row a contestant, a column a metric: the figure, below it the ratio to the reference and its interval."""
    title = None if verdict.name == "vs" else escape(verdict.name)
    shown = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    shown.add_column("", overflow="fold")
    for _, heading, _ in COLUMNS:
        shown.add_column(heading, justify="right", no_wrap=True)
    between = " " if width >= WIDE_COLUMNS else "\n"
    for title in verdict.titles:
        figures = (figure(verdict, metric, title, unit, between) for metric, _, unit in COLUMNS)
        shown.add_row(escape(title), *figures)
    return shown


def figure(verdict: ComparisonVerdict, metric: Metric, title: str, unit: float, between: str) -> str:
    """A level and, below it, its ratio to the reference and the interval, with `between` between the two."""
    level, estimate = verdict.level(metric, title), verdict.estimate(metric, title)
    if level is None:
        return "-"
    if estimate is None:
        return _level(level, unit)
    interval = escape(f"[{estimate.low:.2f}, {estimate.high:.2f}]")
    return f"{_level(level, unit)}\n{BOUNDS[estimate.bound]}{estimate.ratio:.2f}x{between}{interval}"


def remarks(verdict: ComparisonVerdict) -> list[str]:
    """A line for each failure of a comparison, and one for what made trials void, and one for its other doubts."""
    failures = [f"{each.contestant}: failed {each.trials}x: {each.message}" for each in verdict.failures]
    void = _counted([each for each in verdict.doubts if each.doubt.voids])
    doubts = _counted([each for each in verdict.doubts if not each.doubt.voids])
    return failures + [f"{what}: {words}" for what, words in (("void trials", void), ("doubts", doubts)) if words]


def _counted(doubts: Sequence[DoubtCount]) -> str:
    """Doubts with the trials they were raised in: `machine noisy (epoll 5, io_uring 3)`."""
    whose: dict[str, list[str]] = {}
    for each in doubts:
        whose.setdefault(each.doubt.word, []).append(f"{each.contestant} {each.trials}")
    return ", ".join(f"{_spelt(word)} ({', '.join(counts)})" for word, counts in whose.items())


def _spelt(word: str) -> str:
    """A doubt's word for people."""
    return word.replace("_", " ")


def show_checks(console: Console, checks: Iterable[Check]) -> None:
    """What doctor found, a line each, with its advice."""
    for check in checks:
        console.print(f"[{COLOURS[check.status]}]{check.status:>4}[/] ", end="")
        say(console, f"{check.what}: {check.found}" + (f". {check.advice}" if check.advice else ""))


def duration(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _level(level: Level, unit: float) -> str:
    value = level.median / unit
    return f"{BOUNDS[level.bound]}{value:,.0f}" if value >= 1_000 else f"{BOUNDS[level.bound]}{value:.3g}"
