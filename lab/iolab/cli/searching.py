"""What a person sees of a search for a capacity: what is asked, a line for each run, and the table at the end."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iolab.capacity import search, state
from iolab.capacity.search import rate_words, time_words
from iolab.capacity.state import Found, Question, Shot
from iolab.cli.terminal import aside, duration, say
from iolab.contract.types import percent
from iolab.judge.trial import quantile_supported
from iolab.machine import listener

# How many runs a question takes, more or less, beside those of the curve.
SEARCH_RUNS = 11
# Whether a run held its limits, for the table.
WORDS: dict[search.Word, str] = {"holds": "yes", "breaks": "no", "generator": "no (generator)", "unjudged": "too few"}


def show_question(console: Console, asked: Question, server_pid: int | None) -> None:
    """Says before the first run what is asked, and how long it takes where the search goes straight."""
    runs = SEARCH_RUNS + len(state.CURVE)
    length_s = runs * (asked.warmup_ms + asked.settings.probe_ms) / 1_000
    length_s += (state.BEFORE + 1 + state.WATCHED) * asked.settings.probe_ms / 1_000
    say(console, f"{' and '.join(asked.limits)} at {asked.url}, {asked.connections} connections")
    say(
        console,
        f"{runs} to {2 * runs} runs of {asked.settings.probe_ms / 1_000:g} s or more, {duration(length_s)} or more",
    )
    if server_pid is not None:
        say(console, f"the server is process {server_pid} ({listener.name(server_pid)}): its processor time is read")


class Lines:
    """A listener for a question that is asked: a line for what is there already, and one for each run that ends.

    `knows_server`: whether the process behind the address is known, so that another one would be noticed.
    """

    def __init__(self, console: Console, *, knows_server: bool) -> None:
        self._console, self._knows_server = console, knows_server
        self._begun = False

    def aside(self, changed: str, folder: Path) -> None:
        """Says that an earlier run is kept, and why it is not gone on with."""
        say(self._console, aside(changed, folder))

    def __call__(self, found: Found) -> None:
        """Shows what is new."""
        if self._begun:
            say(self._console, run_line(found))
        elif found.shots:
            unsure = "" if self._knows_server else ", as far as it is known of the same server"
            say(self._console, f"{len(found.shots)} runs are there already{unsure}: --fresh asks anew")
        self._begun = True


def run_line(found: Found) -> str:
    """The run that has just ended, in one line."""
    shot = found.shots[-1]
    rate = "" if shot.step.rate_per_s is None else f" {rate_words(shot.step.rate_per_s)}"
    what = f"{len(found.shots):>3} {shot.step.purpose}{rate}"
    if shot.step.purpose == "recovery":
        return f"{what}: {state.recovery_sentence(found)}"
    achieved = f"{rate_words(shot.seen.achieved_per_s)}, p99 {_time(shot, 'p99')}"
    if shot.step.rate_per_s is None:
        return f"{what}: {achieved}"
    # The advice that follows a colon is told once, at the end.
    why = shot.judged.why.partition(":")[0]
    return f"{what}: {achieved}: {shot.judged.word}" + (f" ({why})" if why else "")


def show_found(console: Console, found: Found) -> None:
    """The table of all runs, the slowest first, and what follows from them."""
    knows_cpu = any(shot.cpu_per_request_ns is not None for shot in found.shots)
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    headings = ("asked/s", "achieved/s", "p50", "p99", "p99.9", "errors", *(["CPU µs"] if knows_cpu else []))
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("holds?", overflow="fold")
    closed = [shot for shot in found.shots if shot.step.purpose == "closed loop"]
    for shot in (*closed, *found.curve):
        shown.add_row(*_row(shot, knows_cpu=knows_cpu))
    if found.shots:
        console.print(shown)
    for sentence in state.sentences(found):
        say(console, sentence)


def _row(shot: Shot, *, knows_cpu: bool) -> tuple[str, ...]:
    asked, cpu_ns = shot.step.rate_per_s, shot.cpu_per_request_ns
    cpu = "–" if cpu_ns is None else f"{cpu_ns / 1e3:,.0f}" if cpu_ns >= 1e6 else f"{cpu_ns / 1e3:.3g}"
    return (
        "closed loop" if asked is None else rate_words(asked).removesuffix("/s"),
        rate_words(shot.seen.achieved_per_s).removesuffix("/s"),
        *(_time(shot, name) for name in ("p50", "p99", "p99.9")),
        percent(shot.seen.errors_share, 2) if shot.seen.errors_share else "0",
        *([cpu] if knows_cpu else []),
        "" if asked is None else WORDS[shot.judged.word],
    )


def _time(shot: Shot, name: str) -> str:
    """A quantile, where there were requests enough for it."""
    is_carried = quantile_supported(shot.seen.replies, search.QUANTILES[name])
    return time_words(shot.seen.times_ns[name]) if is_carried else "–"
