"""The claims of the published notes: each is in one experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iolab import cli
from iolab.plan import catalog

# The notes and how many claims each has: C0-1 to C0-14, and so on.
NOTES = {"C0": 14, "C1": 6, "C2": 13, "C3": 14, "C4": 13}


def test_every_claim_of_the_notes_is_in_one_experiment() -> None:
    found = [claim.id for _, claim in catalog.claims()]
    expected = {f"{note}-{n}" for note, count in NOTES.items() for n in range(1, count + 1)}
    assert expected <= set(found)
    of_notes = [each for each in found if each.partition("-")[0] in NOTES]
    assert set(of_notes) <= expected
    assert len(of_notes) == len(set(of_notes)), "a claim belongs to one experiment"


def test_the_claims_are_listed_with_their_experiment_and_the_run_that_decides_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list", "claims", "--out", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == [claim.id for _, claim in catalog.claims()]
    first = next(row for row in rows if row["id"] == "C1-6")
    assert (first["experiment"], first["relations"]) == ("echo-io_uring-epoll", "identity, order, level")
    assert {row["verdict"] for row in rows} == {"not run yet"}
    assert {row["run"] for row in rows} == {"quick", "quick in part", "full", "none"}
