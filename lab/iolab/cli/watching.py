"""Shared by `vs`, `run` and `report`: follows a run to its end and prints its results."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable

from iolab import cli
from iolab.cli import terminal
from iolab.cli.streams import stderr, stdout
from iolab.judge.results import Results
from iolab.measure import protocol_probe, runner, stopping
from iolab.measure.events import OnEvent
from iolab.wording import when


def watched(measure: Callable[[OnEvent], Results], *, as_json: bool) -> int:
    """Shows the progress of a run on standard error, then prints its results; returns the exit code."""
    found = followed(measure)
    if isinstance(found, int):
        return found
    code = show(found, as_json=as_json)
    if code == 0 and found.is_inconclusive:
        return cli.failed("nothing could be concluded: see the reasons above", cli.INCONCLUSIVE)
    return code


def followed(measure: Callable[[OnEvent], Results]) -> Results | int:
    """Shows the progress of a run on standard error; returns its results, or the exit code if there are none."""
    console = stderr()
    screen = terminal.Screen(console)
    try:
        with stopping.stopping_on(), screen:
            return measure(screen)
    except runner.ContestantFailed as failed:
        advice = protocol_probe.remedy(failed.failure.kind, as_flags=True)
        terminal.show_failure(console, f"iolab: {failed.contestant}", failed.failure, advice)
        return failed.code
    except runner.CutOff as cut:
        terminal.show_failure(console, f"iolab: {cut.contestant}", cut.failure)
        terminal.say(console, f"its minutes are kept in {screen.folder}")
        terminal.say(console, f"to continue: {again()}")
        return cut.code
    except stopping.Stopped as stopped:
        is_kept = screen.folder is not None and screen.folder.is_dir()
        kept = f"finished trials are kept in {screen.folder}" if is_kept else "no trial had ended"
        terminal.say(console, f"stopped by {stopped}; {kept}")
        terminal.say(console, f"to continue: {again()}")
        return stopped.code


def show(found: Results, *, as_json: bool) -> int:
    """Prints the results of a run; returns the exit code."""
    if as_json:
        print(json.dumps(found.document(), indent=2))
    else:
        console = stdout()
        terminal.show_verdicts(console, found.verdicts, found.claims, found.scalings)
        if found.precision is not None:
            terminal.prose(console, found.precision.sentence)
        if found.began:
            terminal.say(console, f"measured {when(found.began)}")
        terminal.say(console, f"report: {found.report}")
    if found.is_empty:
        return cli.failed("nothing could be measured: see the reasons above", 1)
    return 0


def again() -> str:
    """The command that resumes this one."""
    return shlex.join(["iolab", *(word for word in sys.argv[1:] if word != "--fresh")])
