"""A run as data: its measurements and its verdicts.

A run is judged once. The terminal, the report, JSON and your own scripts all show these results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iolab.judge import claims, scaling, stats, verdict
from iolab.judge.claims import ClaimVerdict
from iolab.judge.precision import Precision, precision_of
from iolab.judge.scaling import Scaling
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan
from iolab.results import export, layout, store
from iolab.results.records import CostCount, Minute, Result
from iolab.results.store import Trials


@dataclass(frozen=True, slots=True)
class Results:
    """A run and its verdicts.

    `trials` are in the order they were stored, including discarded ones. `verdicts` has one for each comparison of the
    plan, `claims` one for each of its claims, `scalings` one for each contestant with a varied number of workers, and
    `faults` a line for each lost trial. `precision` compares a requested half-width or budget with what was reached.
    """

    folder: Path
    plan: Plan
    machine: Mapping[str, Any]
    trials: tuple[Result, ...]
    counts: tuple[CostCount, ...]
    faults: tuple[str, ...]
    verdicts: tuple[ComparisonVerdict, ...]
    claims: tuple[ClaimVerdict, ...]
    minutes: tuple[Minute, ...] = ()
    precision: Precision | None = None
    scalings: tuple[Scaling, ...] = ()

    @property
    def report(self) -> Path:
        """The report: one HTML file."""
        return self.folder / layout.REPORT

    @property
    def began(self) -> str:
        """When the first trial began, in ISO 8601; empty if there is none."""
        return min((result.started for result in self.trials), default="")

    @property
    def is_empty(self) -> bool:
        """Whether no trial measured anything."""
        return not any(result.is_measured for result in self.trials)

    @property
    def is_inconclusive(self) -> bool:
        """Whether every comparison is inconclusive. Finding no difference is a conclusion."""
        return all(each.inconclusive is not None or not each.levels for each in self.verdicts)

    @property
    def short(self) -> str:
        """The result in one line: the counts of the claims' verdicts, or the sentence of the first comparison."""
        judged = Counter(each.judgement for each in self.claims)
        if judged:
            return f"claims: {', '.join(f'{count} {word}' for word, count in judged.items())}"
        others = f" ({len(self.verdicts)} comparisons)" if len(self.verdicts) > 1 else ""
        return self.verdicts[0].sentence + others

    @property
    def processors(self) -> int | None:
        """The machine's number of processors; None if the record lacks it."""
        return processors_of(self.machine)

    def rows(self) -> list[dict[str, Any]]:
        """A table of all trials, one row each; the names of the columns state the units."""
        return export.trial_rows(self.plan, self.trials, self.processors)

    def document(self) -> dict[str, Any]:
        """The verdicts as a JSON document."""
        return {
            "schema": 1,
            "folder": str(self.folder),
            "report": str(self.report),
            "precision": None if self.precision is None else self.precision.document(),
            "verdicts": [each.model_dump(mode="json") for each in self.verdicts],
            "claims": [each.model_dump(mode="json") for each in self.claims],
            "scalings": [each.model_dump(mode="json") for each in self.scalings],
        }


def processors_of(machine: Mapping[str, Any]) -> int | None:
    """A recorded machine's number of processors; None if the record lacks it."""
    processors: int | None = machine.get("cpu", {}).get("logical")
    return processors


def judged(plan: Plan, machine: Mapping[str, Any], trials: Trials, folder: Path = Path()) -> Results:
    """The results of the trials stored so far. Pure: the same record gives the same results."""
    kept = tuple(result for result in trials.results if plan.holds(result.trial))
    verdicts = verdict.judge(plan, kept, trials.counts)
    judgements = claims_of(plan, machine, kept, verdicts)
    scalings = scaling.scalings_of(plan, kept, verdicts)
    reached = precision_of(plan, kept, trials.counts)
    return Results(
        folder,
        plan,
        machine,
        kept,
        trials.counts,
        trials.faults,
        verdicts,
        judgements,
        trials.minutes,
        reached,
        scalings,
    )


def claims_of(
    plan: Plan,
    machine: Mapping[str, Any],
    trials: Iterable[Result],
    verdicts: Sequence[ComparisonVerdict],
    confidence: float = stats.CONFIDENCE,
) -> tuple[ClaimVerdict, ...]:
    """The verdicts on the claims of a plan, each test at this confidence."""
    unmet = {Needs.model_validate(each["needs"]): str(each["why"]) for each in machine.get("unmet", ())}
    processors = processors_of(machine)
    return claims.judge(plan, trials, verdicts, processors=processors, unmet=unmet, confidence=confidence)


def read(folder: Path) -> Results:
    """The results of a stored run; raises StoreError."""
    return judged(store.read_plan(folder), store.read_machine(folder), store.read_trials(folder), folder)
