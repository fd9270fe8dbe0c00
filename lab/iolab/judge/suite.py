"""A run of a suite as data: the results of its experiments, and every claim with its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from iolab.judge import results
from iolab.judge.claims import ClaimVerdict
from iolab.judge.relations.verdicts import Judgement, Obstacle, hindered
from iolab.judge.results import Results
from iolab.plan.claims import Claim, StatedTest
from iolab.plan.suite import Part
from iolab.results import layout, store, suites
from iolab.results.suites import SuiteRun


class SuiteClaim(NamedTuple):
    """A claim of a suite: its part, its experiment, and its verdict."""

    part: Part
    experiment: str
    found: ClaimVerdict


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """A run of a suite so far: `runs` are its finished experiments, by name."""

    folder: Path
    record: SuiteRun
    runs: Mapping[str, Results]

    @property
    def report(self) -> Path:
        """The page: one HTML file."""
        return self.folder / layout.REPORT

    @property
    def earlier(self) -> tuple[str, ...]:
        """The experiments with results of an earlier run, because the new one has not ended yet."""
        return tuple(
            name
            for name, run in self.runs.items()
            if run.began < self.record.since or run.folder.name != self.record.runs[name]
        )

    @property
    def began(self) -> str:
        """When the first trial began, in ISO 8601; empty if there is none."""
        return min((each.began for each in self.runs.values() if each.began), default="")

    @property
    def claims(self) -> tuple[SuiteClaim, ...]:
        """Every claim, in the order of parts, experiments and files."""
        return tuple(
            SuiteClaim(part, name, found)
            for part in self.record.suite.parts
            for name in (*part.experiments, *part.full)
            for found in self._claims_of(part, name)
        )

    def _claims_of(self, part: Part, experiment: str) -> Iterator[ClaimVerdict]:
        if experiment in self.runs:
            yield from self.runs[experiment].claims
            return
        if self.record.is_quick and experiment in part.full:
            obstacle = Obstacle("full run only", f"the quick run leaves out {experiment}")
        else:
            obstacle = Obstacle("undecided", f"{experiment} has not been run to its end")
        for claim in self.record.waiting.get(experiment, ()):
            yield _waiting(claim, obstacle)

    def document(self) -> dict[str, Any]:
        """The verdicts as a JSON document, with the claims of all experiments, even those without a run."""
        return {
            "schema": 1,
            "suite": self.record.suite.name,
            "folder": str(self.folder),
            "report": str(self.report),
            "earlier": list(self.earlier),
            "runs": [each.document() for each in self.runs.values()],
            "claims": [
                {"part": each.part.name, "experiment": each.experiment, **each.found.model_dump(mode="json")}
                for each in self.claims
            ],
        }


def _waiting(claim: Claim, obstacle: Obstacle) -> ClaimVerdict:
    """The verdict on a claim of an experiment without a run. A claim that is only stated needs none."""
    if all(isinstance(test, StatedTest) for test in claim.tests if not test.shown):
        reason = next(test.reason for test in claim.tests if isinstance(test, StatedTest))
        obstacle = Obstacle("stated", reason)
    tests = tuple(hindered(test, obstacle) for test in claim.tests)
    return ClaimVerdict(claim=claim, judgement=obstacle.judgement, reason=obstacle.reason, tests=tests)


def read(folder: Path) -> SuiteResults:
    """The results of a stored run of a suite; raises StoreError."""
    record = suites.read(folder)
    runs = {name: results.read(store.latest(folder.parent / run)) for name, run in record.runs.items()}
    return SuiteResults(folder, record, runs)


def is_decided(judgement: Judgement) -> bool:
    """Whether a measurement decided a claim, for or against it."""
    return judgement in ("confirmed", "direction only", "contradicted")


def counted(judgements: Sequence[Judgement]) -> str:
    """How many claims have each verdict: `11 confirmed, 2 contradicted`."""
    words = dict.fromkeys(judgements)
    return ", ".join(f"{judgements.count(word)} {word}" for word in sorted(words, key=ORDER.index))


# The verdicts in reading order.
ORDER: tuple[Judgement, ...] = (
    *("confirmed", "direction only", "contradicted", "undecided", "not measurable here", "stated", "full run only"),
)
