"""The live view of a run: what it shows, and that it changes neither the output nor the exit code."""

from __future__ import annotations

import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE_S
from iolab.machine import port_owner, proc
from iolab.measure import handover, live
from iolab.measure.live import Seen

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "schema/examples"
SECOND = 1_000_000_000
# An engine that prints its arguments, two slices and its end. With the argument `wait` it then waits for a signal.
ENGINE = """#!/bin/sh
[ "$1" = load ] || exit 3
[ "$2" = --events-fd ] || { echo "alone: $*"; exit 4; }
trap 'echo interrupted; exit 7' INT
eval "exec 9>&$3"
shift 3
echo "warned" >&2
cat {events} >&9
for word; do [ "$word" = wait ] && while :; do sleep 0.05; done; done
echo "summary of $*"
exit 5
"""


def interval(index: int, rate: float, p50: int, p99: int, wrong: int = 0) -> dict[str, Any]:
    """An `interval` event of one second, as the engine prints it."""
    told: dict[str, Any] = json.loads((EXAMPLES / "interval.json").read_text())
    latency = told["latency_ns"] | {"p50": p50, "p99": p99}
    begin, correct = index * SECOND, int(rate)
    return told | {
        "index": index,
        "begin_ns": begin,
        "end_ns": begin + SECOND,
        "correct": correct,
        "wrong": wrong,
        "failed": 0,
        "rate_per_s": rate,
        "latency_ns": latency,
    }


SPEC = {"schema": 1, "role": "load", "cpus": [1], "duration_ms": 10_000, "requests": None}
MEASURING = {"event": "measuring", "monotonic_ns": 0}
SLICES = [interval(0, 1000, 150_000, 900_000), interval(1, 500, 300_000, 9_000_000, wrong=2)]


def seen(lines: Sequence[dict[str, Any]]) -> Seen:
    known = Seen()
    for line in lines:
        known = live.after(known, json.dumps(line))
    return known


def check(lines: Sequence[dict[str, Any]], now_s: float, expected: str, width: int = 60) -> None:
    """Expects this view after these lines of the engine."""
    drawn = live.drawing(seen(lines), int(now_s * SECOND), width)
    assert drawn == expected
    assert max(map(len, drawn.splitlines())) <= width


@pytest.mark.parametrize(
    ("server_cpu", "warning"),
    [
        (0, ""),
        (
            1,
            "ran on the generator's CPU (1) for 100 % of its time: "
            "start each on its own, as with taskset -c 0 and taskset -c 1",
        ),
    ],
)
def test_a_server_that_ran_on_the_generators_processor_is_named_in_a_warning(
    monkeypatch: pytest.MonkeyPatch, server_cpu: int, warning: str
) -> None:
    ran_ns = itertools.count(step=100)

    def tasks(tree: proc.Tree) -> dict[str, proc.Task]:
        cpu = server_cpu if tree.pids[0] == os.getpid() else 1
        return {"a": proc.Task(frozenset(), cpu, next(ran_ns))}

    monkeypatch.setattr(proc, "tasks", tasks)
    monkeypatch.setattr(port_owner, "find", lambda connect: os.getpid())
    sharing, run = live.Sharing(load_pid=os.getppid()), SPEC | {"connect": ["127.0.0.1:1"]}
    sharing.look(seen([run]))
    assert sharing.pair is None, "the load has not begun"
    for _ in range(3):
        sharing.look(seen([run, MEASURING]))
    name = port_owner.name(os.getpid())
    assert sharing.warning() == (f"warning: the server (process {os.getpid()}, {name}) {warning}" if warning else "")


def test_of_a_server_elsewhere_there_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_owner, "find", lambda connect: None)
    sharing = live.Sharing(load_pid=os.getpid())
    sharing.look(seen([SPEC | {"connect": ["192.0.2.1:80"]}, MEASURING]))
    assert sharing.warning() == ""


def test_before_the_window_there_is_only_a_word() -> None:
    check([], 0, "connecting and warming up; Ctrl-C ends it")
    check([SPEC, {"event": "ready"}], 0, "connecting and warming up; Ctrl-C ends it")
    check([SPEC, MEASURING], 0.2, "measuring: 0 s, 10 s left; Ctrl-C ends it early")


def test_the_last_slice_is_shown_in_figures_and_all_of_them_in_bars() -> None:
    expected = """\
measuring: 2 s, 8 s left; Ctrl-C ends it early
rate           500/s  █▅
p50           300 µs  ▅█
p99          9.00 ms  ▂█
errors             2  2 wrong, 0 failed"""
    check([SPEC, MEASURING, *SLICES], 2, expected)


def test_a_narrow_terminal_cuts_bars_before_figures() -> None:
    expected = """\
measuring: 2 s, 8 s lef
rate           500/s  █
p50           300 µs  █
p99          9.00 ms  █
errors             2  2"""
    check([SPEC, MEASURING, *SLICES], 2, expected, width=23)


def test_a_run_of_requests_tells_how_many_are_done() -> None:
    spec = SPEC | {"duration_ms": None, "requests": 5_000}
    first = "measuring: 2 s, 1,502 of 5,000 requests; Ctrl-C ends it early"
    assert live.drawing(seen([spec, MEASURING, *SLICES]), 2 * SECOND, 80).splitlines()[0] == first


def test_a_run_that_is_late_has_no_time_left_and_one_that_is_over_says_so() -> None:
    check([SPEC, MEASURING], 11, "measuring: 10 s, 0 s left; Ctrl-C ends it early")
    check([SPEC, MEASURING, {"event": "measured"}], 11, "measured; writing the report")


def test_only_the_last_slices_are_kept_and_all_are_counted() -> None:
    known = seen([interval(index, 10, 1, 1) for index in range(100)])
    assert (len(known.slices), known.correct) == (live.SHOWN_MAX, 1_000)


@pytest.mark.parametrize(
    ("values", "bars"), [([], ""), ([0.0, 0.0], "▁▁"), ([7.0], "█"), ([0.0, 1.0, 2.0, 4.0], "▁▃▅█")]
)
def test_bars_are_in_proportion_to_the_highest(values: list[float], bars: str) -> None:
    assert live.sparkline(values) == bars


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (12_345, "12.3 µs"), (999_900, "1.00 ms"), (2e9, "2.00 s")],
)
def test_times_have_three_digits_and_the_unit_that_suits_them(ns: float, text: str) -> None:
    assert live.time_text(ns) == text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("http://127.0.0.1/ -c 5 -z 1s -o run.json", True),
        ("http://127.0.0.1/ --json", False),
        ("http://127.0.0.1/ -q", False),
        ("http://127.0.0.1/ --quiet", False),
        ("--spec=-", False),
        ("--spec -", False),
        ("--help", False),
        ("-h", False),
    ],
)
def test_what_is_for_a_program_is_not_watched(arguments: str, wanted: bool) -> None:
    assert handover.is_wanted(arguments.split()) is wanted


def pretended(folder: Path) -> Path:
    """A fake engine that replays these events."""
    events = folder / "events"
    events.write_text("".join(json.dumps(line) + "\n" for line in (SPEC, MEASURING, *SLICES)))
    engine = folder / "engine"
    engine.write_text(ENGINE.replace("{events}", str(events)))
    engine.chmod(0o755)
    return engine


class Terminal:
    """`iolab load` with a fake engine on its own terminal."""

    def __init__(self, folder: Path, *arguments: str, program: str = "") -> None:
        engine = pretended(folder)
        self._ours, theirs = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-c", program + PROGRAM, str(engine), *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT / "lab"), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)
        # Closing the terminal ends what still runs on it.
        self.child.wait(timeout=PATIENCE_S)

    def until(self, text: str) -> None:
        """Reads the output until it contains this text; reads to the end if the text is empty."""
        while not text or text not in self.shown:
            assert select.select([self._ours], [], [], PATIENCE_S)[0], f"nothing more is shown after {self.shown!r}"
            try:
                self.shown += os.read(self._ours, 1 << 16).decode()
            except OSError:
                break

    def end(self) -> int:
        """Reads to the end; returns the exit code."""
        self.until("")
        return self.child.wait(timeout=PATIENCE_S)


# Calls `load` after the search for an engine, because this one is a fake.
PROGRAM = """
import sys
from iolab.measure import handover
sys.exit(handover.watch(sys.argv[1], sys.argv[2:]))
"""


def test_a_view_shows_the_run_then_what_the_engine_said_and_ends_with_its_code(tmp_path: Path) -> None:
    with Terminal(tmp_path, "a b") as terminal:
        assert terminal.end() == 5
    assert "warned\r\nsummary of a b\r\n" in terminal.shown
    assert terminal.shown.rstrip().endswith("summary of a b"), "the view is gone by then"


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_ctrl_c_comes_to_the_engine_which_reports(tmp_path: Path, number: signal.Signals) -> None:
    with Terminal(tmp_path, "wait") as terminal:
        terminal.until("9.00 ms")
        os.kill(terminal.child.pid, number)
        assert terminal.end() == 7
    assert "warned\r\ninterrupted\r\n" in terminal.shown


@pytest.mark.parametrize("error", ["OSError(5)", "ValueError('torn')", "AssertionError()"])
def test_a_view_that_fails_changes_neither_what_the_engine_says_nor_its_code(tmp_path: Path, error: str) -> None:
    program = f"from iolab.measure import live\ndef show(*_): raise {error}\nlive.show = show"
    with Terminal(tmp_path, "a b", program=program) as terminal:
        assert terminal.end() == 5
    assert terminal.shown == "warned\r\nsummary of a b\r\n"


def test_an_engine_does_not_outlive_the_process_that_shows_it(tmp_path: Path) -> None:
    program = "import sys\nfrom iolab.measure import live\nlive.show = lambda *_: sys.exit(9)"
    with Terminal(tmp_path, "wait", program=program) as terminal:
        # The output ends once no process has the terminal, the engine included.
        assert terminal.end() == 9


def test_ctrl_c_while_the_engine_is_being_started_comes_to_it(tmp_path: Path) -> None:
    program = """
import os, signal, subprocess
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        os.kill(os.getpid(), signal.SIGINT)
subprocess.Popen = Popen
"""
    with Terminal(tmp_path, "wait", program=program) as terminal:
        # 130 if the signal arrives before the engine's handler is set.
        assert terminal.end() in (7, 130)


# With a fake engine and a fake monitor, which reads all events and warns.
ASIDE = """
import sys
from iolab.measure import handover, live
def look_on(events, load_pid):
    lines = events.read().splitlines()
    return f"warning: {len(lines)} events of process {load_pid}"
live.look_on = look_on
handover._engine = lambda: sys.argv[1]
sys.exit(handover.run("load", sys.argv[2:]))
"""


def aside(folder: Path, *arguments: str, program: str = ASIDE) -> subprocess.Popen[str]:
    """`iolab load` with a fake engine and no terminal."""
    engine = pretended(folder)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(engine), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "lab")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_a_terminal_this_process_is_the_engine_and_another_warns(tmp_path: Path) -> None:
    child = aside(tmp_path, "a b")
    out, errors = child.communicate(timeout=PATIENCE_S)
    assert (out, child.returncode) == ("summary of a b\n", 5)
    assert sorted(errors.splitlines()) == ["warned", f"warning: 4 events of process {child.pid}"]


@pytest.mark.parametrize("flag", ["-q", "--json", "--spec=-"])
def test_what_is_for_a_program_has_no_process_beside_it(tmp_path: Path, flag: str) -> None:
    child = aside(tmp_path, flag)
    assert child.communicate(timeout=PATIENCE_S) == (f"alone: load {flag}\n", "")
    assert child.returncode == 4


def test_what_looks_on_ends_with_an_engine_that_is_killed(tmp_path: Path) -> None:
    child = aside(tmp_path, "wait")
    assert child.stderr is not None
    assert child.stderr.readline() == "warned\n"
    child.kill()
    # Standard error closes once no process has it.
    _, errors = child.communicate(timeout=PATIENCE_S)
    assert errors.startswith("warning: ")
    assert child.returncode == -signal.SIGKILL


def test_a_look_that_fails_changes_nothing(tmp_path: Path) -> None:
    child = aside(tmp_path, "a b", program=ASIDE.replace("lines =", "raise OSError(5)\n    lines ="))
    out, errors = child.communicate(timeout=PATIENCE_S)
    assert (out, child.returncode) == ("summary of a b\n", 5)
    # The fake engine may print that its pipe is broken; the real one ignores that.
    assert errors.startswith("warned\n")
    assert "warning" not in errors


def test_a_look_without_a_terminal_ends_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[Seen]()
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    monkeypatch.setattr(live, "_stand_aside", lambda cpus: None)
    monkeypatch.setattr(live.Sharing, "look", lambda sharing, known: looks.append(known))
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as events, open(writing, "wb", buffering=0) as engine:
        engine.write("".join(json.dumps(each) + "\n" for each in (SPEC, MEASURING, {"event": "measured"})).encode())
        # The engine still has the pipe.
        assert live.look_on(events, os.getpid()) == ""
    assert [each.is_over for each in looks] == [True]
