"""List models, other servers, experiments, their claims, or stored runs."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.cli.parser import Parser, add_shared, one_of
from iolab.errors import BadInput
from iolab.wording import when

if TYPE_CHECKING:
    from iolab.contract.types import ModelAbout, Option
    from iolab.plan.claims import Claim

USAGE = "[FLAGS] [models | contestants | experiments | claims | runs]"
EXAMPLES = ("iolab list", "iolab list contestants", "iolab list experiments", "iolab list claims", "iolab list runs")
WHAT = ("models", "contestants", "experiments", "claims", "runs")
# The width of the column of names.
NAME_WIDTH = 12


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "what", nargs="?", default="models", type=one_of(WHAT), metavar="WHAT", help="what to list (default: models)"
    )
    add_shared(parser, "--out", "--json")


def run(options: Namespace) -> int:
    """Prints the list."""
    if options.as_json and options.what != "claims":
        raise BadInput("--json is for iolab list claims: leave it out")
    if options.what == "models":
        lines = _models()
    elif options.what == "contestants":
        lines = _contestants()
    elif options.what == "experiments":
        lines = _experiments()
    elif options.what == "claims":
        lines = _claims(options)
    else:
        lines = _runs(options)
    for line in lines:
        print(line)
    return 0


def _contestants() -> Iterator[str]:
    """The servers of the registry and of a contestants.toml in the working directory, then the Python interpreters.

    Each server has its description, protocols, settings, options and version.
    """
    from pathlib import Path

    from iolab.machine import interpreters
    from iolab.measure import registered
    from iolab.plan import registry

    for name, server in registry.load(Path(registry.USERS)).items():
        entry = server.entry
        takes = ", ".join(entry.settings) or "no settings"
        yield f"{name:<{NAME_WIDTH}} {entry.about}"
        yield f"{'':{NAME_WIDTH}} speaks {', '.join(entry.protocols)}; takes {takes}"
        for option, values in entry.options.items():
            yield f"{'':{NAME_WIDTH}} [{option}={registry.spelt(values)}]"
        yield f"{'':{NAME_WIDTH}} {registered.state(server)}"
    yield "interpreters of Python, for server.interpreter"
    for name, found in interpreters.found().items():
        said = found.words if isinstance(found, interpreters.Interpreter) else f"NOT HERE: {found.remedy}"
        yield f"{'':{NAME_WIDTH}} {name}: {said}"


def _experiments() -> Iterator[str]:
    from iolab.plan import catalog

    questions = list(catalog.questions())
    width = max(len(each.name) for each in questions)
    for each in questions:
        claims = f" ({each.claims} claim{'' if each.claims == 1 else 's'})" if each.claims else ""
        yield f"{each.name:<{width}} {each.question}{claims}"


def _claims(options: Namespace) -> Iterator[str]:
    """Every claim: its experiment, the relations of its tests, which run decides it, and the last verdict here."""
    import json

    rows = list(_claim_rows(options))
    if options.as_json:
        yield json.dumps(rows, indent=2)
        return
    widths = {key: max((len(row[key]) for row in rows), default=0) for key in ("id", "experiment", "relations", "run")}
    for row in rows:
        columns = " ".join(f"{row[key]:<{width}}" for key, width in widths.items())
        yield f"{columns} {row['verdict']}"


def _claim_rows(options: Namespace) -> Iterator[dict[str, str]]:
    from iolab import runs
    from iolab.plan import catalog

    last: dict[str, dict[str, runs.LastVerdict]] = {}
    for experiment, claim in catalog.claims():
        if experiment not in last:
            last[experiment] = runs.last_verdicts(options.out, experiment)
        verdict = last[experiment].get(claim.id)
        yield {
            "id": claim.id,
            "experiment": experiment,
            "text": claim.text,
            "relations": ", ".join(dict.fromkeys(test.relation for test in claim.tests)),
            "run": _decided_by(claim),
            "verdict": verdict.judgement if verdict else "not run yet",
            "began": verdict.began if verdict else "",
        }


def _decided_by(claim: Claim) -> str:
    """Whether a quick run decides the claim, a full one, or none."""
    votes = [test for test in claim.tests if not test.shown]
    if all(test.relation == "stated" for test in votes):
        return "none"
    if all(test.quick for test in votes):
        return "quick"
    return "quick in part" if any(test.quick for test in votes) else "full"


def _runs(options: Namespace) -> Iterator[str]:
    """A line per run, cut to the width of the terminal."""
    from iolab import runs

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for run in runs.stored(options.out):
        line = f"{when(run.began) if run.began else 'not begun':<20} {run.name:<24} {run.question} {run.found}"
        yield line if len(line) <= width else f"{line[: width - 1]}…"


def _models() -> Iterator[str]:
    """Every model; the options that all of them have are listed once, at the end."""
    from iolab.measure import engine

    models = engine.open_engine().description.models
    common = [option for option in models[0].options if all(option in model.options for model in models)]
    for model in models:
        yield from _model(model, common)
    yield "every model"
    for option in common:
        yield from _option(option)


def _model(model: ModelAbout, common: Sequence[Option]) -> Iterator[str]:
    """A model's description, needs, availability and own options."""
    from iolab.contract.types import WORKLOADS

    yield f"{model.name:<{NAME_WIDTH}} {model.about}"
    more = [] if model.holds is None else [f"holds {model.holds} connection{'' if model.holds == 1 else 's'} a worker"]
    more += [f"speaks {', '.join(model.protocols)} only"] if len(model.protocols) < len(WORKLOADS) else []
    more += [f"needs {model.needs}"] if model.needs else []
    more += ["here" + (f", without {', '.join(model.lacks)}" if model.lacks else "")] if model.available else []
    more += [] if model.available else [f"NOT HERE: {model.why_not}"]
    yield from (f"{'':{NAME_WIDTH}} {line}" for line in more)
    for option in model.options:
        if option not in common:
            yield from _option(option)


def _option(option: Option) -> Iterator[str]:
    yield f"{'':{NAME_WIDTH}} [{option.name}={_values(option)}] {option.about}"
    for value, defect in option.defects.items():
        yield f"{'':{NAME_WIDTH}}   {value} is DEFECTIVE: {defect}"


def _values(option: Option) -> str:
    """The values of an option, the default first; for a number the default and the limits."""
    if option.min is None or option.max is None:
        return "|".join(option.values)
    return f"{option.values[0]}, {option.min} to {option.max}"
