"""A run as data: what was measured, and what may be said of it.

A run is judged once. The terminal, the report, JSON and a script of your own all show what is here.
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

    `trials` are in the order in which they were stored, the discarded ones among them. `verdicts` has one for each
    comparison of the plan, `claims` one for each of its claims. `scalings` has one for each contestant whose number of
    workers is varied. `faults` has a line on each trial that was lost. `precision` says what was reached of a
    half-width or a budget that was asked for in place of a number of blocks.
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
        """When the first trial began, as ISO 8601; empty where there is none."""
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
        """What was found, in one line: how the claims were judged, or the sentence of the first comparison."""
        judged = Counter(each.judgement for each in self.claims)
        if judged:
            return f"claims: {', '.join(f'{count} {word}' for word, count in judged.items())}"
        others = f" ({len(self.verdicts)} comparisons)" if len(self.verdicts) > 1 else ""
        return self.verdicts[0].sentence + others

    @property
    def processors(self) -> int | None:
        """How many processors the machine had; None where its record does not say."""
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
    """How many processors a recorded machine had; None where its record does not say."""
    processors: int | None = machine.get("cpu", {}).get("logical")
    return processors


def judged(plan: Plan, machine: Mapping[str, Any], trials: Trials, folder: Path = Path()) -> Results:
    """The results of what a run has stored so far. Pure: the same record gives the same results."""
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
    """The verdicts on the claims of a plan, where each test is held to this confidence."""
    unmet = {Needs.model_validate(each["needs"]): str(each["why"]) for each in machine.get("unmet", ())}
    processors = processors_of(machine)
    return claims.judge(plan, trials, verdicts, processors=processors, unmet=unmet, confidence=confidence)


def read(folder: Path) -> Results:
    """The results of a stored run; raises StoreError."""
    return judged(store.read_plan(folder), store.read_machine(folder), store.read_trials(folder), folder)
