"""Prints a search for a capacity: its settings, a line for each run, and the table at the end."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iolab.capacity import table
from iolab.capacity.limits import rate_words
from iolab.capacity.progress import SearchState
from iolab.capacity.search import PROBES_MAX, TRIALS_MIN
from iolab.capacity.sentences import recovery_sentence, sentences
from iolab.capacity.spec import CapacitySpec
from iolab.capacity.steps import BEFORE, CURVE, WATCHED
from iolab.cli.terminal import aside, say
from iolab.machine import port_owner
from iolab.wording import duration

# The runs of a search on a steady machine: with the closed loop, without the curve.
SEARCH_RUNS = 1 + TRIALS_MIN
# The quantiles of the table.
SHOWN = ("p50", "p99", "p99.9")


def show_spec(console: Console, spec: CapacitySpec, server_pid: int | None) -> None:
    """Prints what is measured, and the shortest time it takes."""
    runs = SEARCH_RUNS + len(CURVE)
    length_s = runs * (spec.warmup_ms + spec.settings.probe_ms) / 1_000
    length_s += (BEFORE + 1 + WATCHED) * spec.settings.probe_ms / 1_000
    say(console, f"{' and '.join(spec.limits)} at {spec.url}, {spec.connections} connections")
    say(
        console,
        f"{runs} to {PROBES_MAX + len(CURVE)} runs of {spec.settings.probe_ms / 1_000:g} s or more, "
        f"{duration(length_s)} or more",
    )
    if server_pid is not None:
        say(console, f"the server is process {server_pid} ({port_owner.name(server_pid)}): its processor time is read")


class Lines:
    """Prints how many runs are already stored, and a line for each run that ends.

    `knows_server`: the process behind the address is known, so a change of it would be noticed.
    """

    def __init__(self, console: Console, *, knows_server: bool) -> None:
        self._console, self._knows_server = console, knows_server
        self._begun = False

    def set_aside(self, changed: str, folder: Path) -> None:
        """Prints that an earlier search is kept, and why it is not resumed."""
        say(self._console, aside(changed, folder))

    def placed(self, why: str) -> None:
        """Prints where the generator runs."""
        if why:
            say(self._console, why)

    def __call__(self, state: SearchState) -> None:
        """Prints the last run, or at first the number of stored runs."""
        if self._begun:
            say(self._console, run_line(state))
        elif state.probes:
            unsure = "" if self._knows_server else " (of this server, as far as iolab can see)"
            say(self._console, f"{len(state.probes)} runs are stored already{unsure}: --fresh measures again")
        self._begun = True


def run_line(state: SearchState) -> str:
    """One line on the last run."""
    probe = state.probes[-1]
    rate = "" if probe.step.rate_per_s is None else f" {rate_words(probe.step.rate_per_s)}"
    what = f"{len(state.probes):>3} {probe.step.purpose}{rate}"
    if probe.step.purpose == "recovery":
        return f"{what}: {recovery_sentence(state)}"
    achieved = f"{rate_words(probe.seen.achieved_per_s)}, p99 {table.quantile_words(probe.seen, 'p99')}"
    if probe.step.rate_per_s is None:
        return f"{what}: {achieved}"
    why = table.reasons(probe)
    return f"{what}: {achieved}: {probe.judged.word}" + (f" ({why})" if why else "")


def show_state(console: Console, state: SearchState) -> None:
    """Prints the table of all runs, the lowest rate first, and the sentences."""
    knows_cpu = any(probe.cpu_per_request_ns is not None for probe in state.probes)
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    headings = ("asked/s", "achieved/s", *SHOWN, "errors", *(["CPU µs"] if knows_cpu else []))
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("holds?", overflow="fold")
    for row in table.rows(state):
        times = (row.times[name] for name in SHOWN)
        shown.add_row(row.asked, row.achieved, *times, row.errors, *([row.cpu] if knows_cpu else []), row.word)
    if state.probes:
        console.print(shown)
    for sentence in sentences(state):
        say(console, sentence)
