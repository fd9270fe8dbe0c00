"""Runs the experiments of a suite in turn, writes its page, and prints the verdicts on its headline claims."""

from __future__ import annotations

import json
from argparse import Namespace
from functools import partial

from rich.console import Console

from iolab import api, cli, runs
from iolab.cli import terminal, watching
from iolab.cli.streams import stderr, stdout
from iolab.errors import BadInput, IolabError
from iolab.judge.results import Results
from iolab.judge.suite import SuiteResults, counted, is_decided
from iolab.measure.events import OnEvent
from iolab.plan.suite import Suite
from iolab.report import findings
from iolab.wording import when


def run(suite: Suite, options: Namespace) -> int:
    """Runs a suite, or resumes it where it stopped; returns the exit code."""
    record = api.begin_suite(
        suite,
        only=options.only,
        settings=dict(options.settings),
        quick=options.quick,
        fresh=options.fresh,
        out=options.out,
    )
    experiments = record.suite.experiments(quick=options.quick)
    failed, is_inconclusive = 0, True
    for number, name in enumerate(experiments, start=1):
        terminal.say(stderr(), f"{number} of {len(experiments)}: {name}")
        found = _followed(name, options, record.since)
        if not isinstance(found, Results):
            if found >= cli.SIGNALLED:
                return found
            failed = failed or found
            continue
        record = api.with_experiment(record, name, found)
        if not options.as_json:
            watching.show(found, as_json=False)
        elif found.is_empty:
            cli.failed(f"{name}: nothing could be measured", 1)
        failed = failed or (1 if found.is_empty else 0)
        is_inconclusive = is_inconclusive and found.is_inconclusive
    whole = api.open_suite(options.out / record.folder_name)
    api.write_report(whole)
    runs.summary(whole.folder)
    show(whole, as_json=options.as_json)
    decided = any(is_decided(each.found.judgement) for each in whole.claims)
    if not failed and is_inconclusive and not decided:
        return cli.failed("nothing could be concluded: see the reasons above", cli.INCONCLUSIVE)
    return failed


def _followed(name: str, options: Namespace, since: str) -> Results | int:
    """The results of an experiment, or the exit code if it failed; the other experiments still run.

    Raises BadInput, because a mistake in the arguments affects all of them.
    """
    try:
        return watching.followed(partial(_measured, name, options, since))
    except BadInput:
        raise
    except IolabError as error:
        return cli.failed(f"{name}: {error}", error.code)


def _measured(name: str, options: Namespace, since: str, on_event: OnEvent) -> Results:
    return api.run(
        name,
        settings=dict(options.settings),
        quick=options.quick,
        since=since,
        out=options.out,
        on_event=on_event,
    )


def show(whole: SuiteResults, *, as_json: bool) -> None:
    """Prints the results of a suite: its headline claims, the counts of all verdicts, and the path of its page."""
    if as_json:
        print(json.dumps(whole.document(), indent=2))
        return
    console = stdout()
    _show_headline(console, whole)
    console.print()
    terminal.prose(console, f"all claims: {counted([each.found.judgement for each in whole.claims])}")
    if whole.earlier:
        terminal.prose(console, f"results of an earlier run, as the new one has not ended: {', '.join(whole.earlier)}")
    if whole.began:
        terminal.say(console, f"measured {when(whole.began)}")
    terminal.say(console, f"report: {whole.report}")


def _show_headline(console: Console, whole: SuiteResults) -> None:
    """Prints the headline claims under their headings, as on the page: the claim, and below it the evidence."""
    for group in findings.groups(whole):
        if group.headline:
            console.print()
            terminal.say(console, group.heading)
        for each in group.headline:
            terminal.prose(console, f"{each.id} {each.word}: {each.text}", indent=2)
            terminal.prose(console, each.evidence or each.why, indent=6)
