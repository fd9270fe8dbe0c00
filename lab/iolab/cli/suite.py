"""Runs the experiments of a suite in turn, and prints what became of their headline claims."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iolab import api, cli
from iolab.cli import terminal, watching
from iolab.cli.streams import stderr, stdout
from iolab.judge.results import Results
from iolab.measure.events import OnEvent
from iolab.plan.suite import Suite
from iolab.report import claim_table


def run(suite: Suite, options: Namespace) -> int:
    """Runs a suite; returns the exit code. One that was interrupted goes on where it stopped."""
    done: list[Results] = []
    failed = 0
    for number, name in enumerate(suite.experiments, start=1):
        terminal.say(stderr(), f"{number} of {len(suite.experiments)}: {name}")
        found = watching.followed(partial(_measured, name, options))
        if not isinstance(found, Results):
            if found >= cli.SIGNALLED:
                return found
            failed = failed or found
            continue
        done.append(found)
        failed = failed or (0 if options.as_json else watching.show(found, as_json=False))
    if options.as_json:
        print(json.dumps({"schema": 1, "suite": suite.name, "runs": [each.document() for each in done]}, indent=2))
    else:
        show_headline(stdout(), done)
    if not failed and done and all(each.is_inconclusive for each in done):
        return cli.failed("nothing could be concluded: see the reasons above", cli.INCONCLUSIVE)
    return failed


def _measured(name: str, options: Namespace, on_event: OnEvent) -> Results:
    return api.run(
        name,
        settings=dict(options.settings),
        quick=options.quick,
        fresh=options.fresh,
        out=options.out,
        on_event=on_event,
    )


def show_headline(console: Console, done: Sequence[Results]) -> None:
    """The headline claims in one table: the word, and the figures of the first test that has any."""
    table = Table("claim", "verdict", "published", "measured", "what", box=SIMPLE_HEAD)
    for found in done:
        for row in claim_table.rows([each for each in found.claims if each.claim.headline]):
            figures = next((test for test in row.tests if test.measured), row)
            cells = (row.id, row.word, figures.published, figures.measured, row.text)
            table.add_row(*(Text(cell or "–") for cell in cells))
    if table.row_count:
        console.print()
        console.print(table)
