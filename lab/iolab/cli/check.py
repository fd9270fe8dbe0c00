"""Judge stored runs without measuring: the verdict on every claim, with its evidence."""

from __future__ import annotations

import itertools
import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from iolab.cli.parser import Parser, add_shared, one_of, usage_of
from iolab.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from iolab.judge.claims import ClaimVerdict
    from iolab.judge.results import Results

USAGE = "[FLAGS] [RUN | SUITE]"
EXAMPLES = (
    "iolab check published",
    "iolab check http-wan --json",
    "iolab check --out records",
    "iolab check my-question --fail-on contradicted",
)
# The verdicts that --fail-on takes.
FAILURES = ("contradicted", "undecided")


class Judged(NamedTuple):
    """A claim with its verdict, and its experiment."""

    experiment: str
    found: ClaimVerdict


class Checked(NamedTuple):
    """The judged runs and every claim. `waiting` are the claims of a suite's experiments without a run."""

    runs: tuple[Results, ...]
    claims: tuple[Judged, ...]
    waiting: tuple[Judged, ...] = ()


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a run's folder, its name in --out or the beginning of it; or the name of an experiment or a suite, for "
        "its newest run (default: the newest run of each experiment in --out)",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        type=one_of(FAILURES),
        metavar=usage_of(FAILURES),
        help="exit with code 1 if a claim has this verdict; may be given twice",
    )
    add_shared(parser, "--out", "--json")


def run(options: Namespace) -> int:
    """Judges the runs and prints the verdicts on their claims; returns the exit code."""
    from iolab import cli
    from iolab.judge.suite import is_decided

    checked = _checked(options)
    if options.as_json:
        print(json.dumps(_document(checked), indent=2))
    else:
        _show(checked)
    verdicts = [each.found for each in checked.claims]
    failed = [each for each in verdicts if each.judgement in options.fail_on]
    if failed:
        return cli.failed("; ".join(f"{each.claim.id} is {each.judgement}" for each in failed), 1)
    decided = any(is_decided(each.judgement) for each in verdicts)
    if not decided and all(each.is_inconclusive for each in checked.runs):
        return cli.failed("nothing could be concluded: see the reasons above", cli.INCONCLUSIVE)
    return 0


def _checked(options: Namespace) -> Checked:
    """The requested runs; raises BadInput if there is none to judge."""
    from iolab import api, runs

    if options.run is None:
        found = [api.open_run(folder) for folder in _newest(options.out)]
        if not found:
            raise BadInput(f"there is no run of an experiment in {options.out}: iolab run measures one")
        return _of_runs(found)
    folder = runs.find(options.run, options.out)
    if runs.is_capacity(folder):
        raise BadInput(f"{folder} is a search for a capacity, which has no claims: iolab report {folder} shows it")
    if runs.is_suite(folder):
        whole = api.open_suite(folder)
        claims = tuple(Judged(each.experiment, each.found) for each in whole.claims)
        waiting = tuple(each for each in claims if each.experiment not in whole.runs)
        return Checked(tuple(whole.runs.values()), claims, waiting)
    return _of_runs([api.open_run(folder)])


def _of_runs(runs: Sequence[Results]) -> Checked:
    """The claims of runs outside a suite."""
    return Checked(tuple(runs), tuple(Judged(each.plan.name, claim) for each in runs for claim in each.claims))


def _newest(out: Path) -> list[Path]:
    """The folders of the newest run of each experiment, sorted by experiment."""
    from iolab import runs

    newest: dict[str, str] = {}
    for each in runs.stored(out):
        if each.claims:
            newest[each.name.rpartition("-")[0]] = each.name
    return [out / name for _, name in sorted(newest.items())]


def _show(checked: Checked) -> None:
    """Prints every claim with its evidence, experiment by experiment, then the contradicted and undecided ones."""
    from iolab.cli import terminal
    from iolab.cli.streams import stdout
    from iolab.judge.suite import counted
    from iolab.judge.together import together
    from iolab.wording import when

    console = stdout()
    for each in checked.runs:
        began = f", measured {when(each.began)}" if each.began else ""
        terminal.say(console, f"{each.folder}{began}")
        if not each.claims:
            for verdict in each.verdicts:
                terminal.prose(console, f"{verdict.name}: {verdict.sentence}")
        for claim in each.claims:
            _show_claim(console, claim)
        console.print()
    for experiment, waiting in itertools.groupby(checked.waiting, key=lambda judged: judged.experiment):
        terminal.say(console, f"{experiment} has no run")
        for judged in waiting:
            _show_claim(console, judged.found)
        console.print()
    if not checked.claims:
        return
    verdicts = [each.found for each in checked.claims]
    terminal.prose(console, f"{len(verdicts)} claims: {counted([each.judgement for each in verdicts])}")
    for word in FAILURES:
        named = [each.claim.id for each in verdicts if each.judgement == word]
        if named:
            terminal.prose(console, f"{word}: {', '.join(named)}")
    joint = together(checked.runs).sentence
    if joint:
        terminal.prose(console, joint)


def _show_claim(console: Console, found: ClaimVerdict) -> None:
    """Prints a claim with its verdict, the reason, and a line for each test if it has several."""
    from iolab.cli import terminal

    terminal.prose(console, f"{found.claim.id} {found.judgement}: {found.claim.text}")
    terminal.prose(console, found.reason, indent=4)
    for each in found.tests if len(found.tests) > 1 else ():
        shown = " (shown only)" if each.test.shown else ""
        terminal.prose(console, f"{each.test.relation}{shown}: {each.judgement}: {each.reason}", indent=8)


def _document(checked: Checked) -> dict[str, Any]:
    """The verdicts as a JSON document."""
    return {
        "schema": 1,
        "runs": [
            {"folder": str(each.folder), "experiment": each.plan.name, "began": each.began} for each in checked.runs
        ],
        "claims": [{"experiment": name, **found.model_dump(mode="json")} for name, found in checked.claims],
        **{word: [each.found.claim.id for each in checked.claims if each.found.judgement == word] for word in FAILURES},
    }
