"""Suites: experiments that are run in turn, and the table of their headline claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import iolab
from iolab.plan import catalog

EXPERIMENT = """
name = "NAME"
question = "Is io_uring faster?"
contestants = ["epoll", "io_uring"]
blocks = 6
fixed = { workload.protocol = "echo" }

[[claims]]
id = "C-NAME"
text = "io_uring serves more"
headline = HEADLINE
decide = { relation = "ratio", of = "io_uring", to = "epoll", published = 1.2, at_least = 1.0 }
"""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite of two experiments, of which one has a headline."""
    folder = tmp_path / "experiments"
    (folder / "suites").mkdir(parents=True)
    for name, headline in (("first", "true"), ("second", "false")):
        (folder / f"{name}.toml").write_text(EXPERIMENT.replace("NAME", name).replace("HEADLINE", headline))
    (folder / "suites/both.toml").write_text(
        'name = "both"\nquestion = "Are they?"\nexperiments = ["first", "second"]\n'
    )
    monkeypatch.setattr(catalog, "FOLDER", folder)
    monkeypatch.setattr(catalog, "SUITES", folder / "suites")
    return tmp_path / "runs"


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_runs_its_experiments_in_turn_and_ends_with_one_table_of_its_headline_claims(both: Path) -> None:
    done = iolab("run", "both", "--quick", "--out", both)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.index("1 of 2: first") < done.stderr.index("2 of 2: second")
    lines = done.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.split()[:2] == ["claim", "verdict"])
    table = [line.split() for line in lines[head + 2 :] if line.strip()]
    assert table[0][0] == "C-first"
    assert "1.2x" in table[0]
    assert not any("C-second" in line for line in lines[head:])


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_as_json_is_one_document_of_all_its_runs(both: Path) -> None:
    document = json.loads(iolab("run", "both", "--quick", "--json", "--out", both).stdout)
    assert [[claim["claim"]["id"] for claim in run["claims"]] for run in document["runs"]] == [
        ["C-first"],
        ["C-second"],
    ]


@pytest.mark.usefixtures("simulated", "quiet", "both")
def test_a_suite_is_listed_with_its_question_and_known_by_its_name() -> None:
    assert "Are they?" in iolab("list", "experiments").stdout
    assert "did you mean 'both'?" in iolab("run", "boht").stderr


def test_every_suite_names_experiments_that_there_are() -> None:
    for path in catalog.SUITES.glob("*.toml"):
        suite = catalog.suite_of(path.stem)
        assert suite is not None
        assert suite.name == path.stem
        assert all(catalog.path_of(name).is_file() for name in suite.experiments)
