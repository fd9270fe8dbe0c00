"""Suites: experiments run in turn, and the table of their headline claims."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import FakeHost, iolab, wait_until
from iolab import api
from iolab.errors import IolabError
from iolab.judge.results import Results
from iolab.measure.progress import Clocks
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

# A claim in the terminal output, with its verdict.
CLAIM = r"^ *(C-\w+) ([a-z ]+): io_uring serves more$"

# A row with a figure that does not follow from its others.
PUBLISHED = """
[[published]]
id = "R1"
figures = { epoll = { throughput = { value = 2100, should_be = 2000 } } }
"""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite with one headline claim, in the first of its experiments."""
    folder = tmp_path / "experiments"
    (folder / "suites").mkdir(parents=True)
    for name, headline in (("first", "true"), ("second", "false"), ("third", "false")):
        (folder / f"{name}.toml").write_text(EXPERIMENT.replace("NAME", name).replace("HEADLINE", headline))
    (folder / "suites/both.toml").write_text(
        'name = "both"\nquestion = "Are they?"\n'
        '[[parts]]\nname = "A"\nabout = "the first note"\nexperiments = ["first"]\n'
        '[[parts]]\nname = "B"\nabout = "the second note"\nexperiments = ["second"]\nfull = ["third"]\n'
    )
    monkeypatch.setattr(catalog, "FOLDER", folder)
    monkeypatch.setattr(catalog, "SUITES", folder / "suites")
    return tmp_path / "runs"


@pytest.fixture
def ran_before(both: Path, simulated: None, quiet: None) -> None:
    """A run of the suite in an earlier second: a stored start has whole seconds, and a run takes less than one."""
    iolab("run", "both", "--quick", "--out", both)
    ended = datetime.now(UTC).replace(microsecond=0)
    wait_until(lambda: datetime.now(UTC).replace(microsecond=0) > ended, "the next second")


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_runs_its_experiments_in_turn_and_ends_with_its_headline_claims(both: Path) -> None:
    done = iolab("run", "both", "--quick", "--out", both)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.index("1 of 2: first") < done.stderr.index("2 of 2: second")
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  C-first "))
    assert lines[at].endswith(": io_uring serves more")
    assert lines[at + 1].startswith("      published 1.2x, measured ")
    assert not any("C-second" in line for line in lines[at:])
    assert any(line.startswith("all claims: ") for line in lines[at:])


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_as_json_is_one_document_of_all_its_runs(both: Path) -> None:
    document = json.loads(iolab("run", "both", "--quick", "--json", "--out", both).stdout)
    assert [[claim["claim"]["id"] for claim in run["claims"]] for run in document["runs"]] == [
        ["C-first"],
        ["C-second"],
    ]
    assert [(claim["part"], claim["experiment"], claim["claim"]["id"]) for claim in document["claims"]] == [
        ("A", "first", "C-first"),
        ("B", "second", "C-second"),
        ("B", "third", "C-third"),
    ]


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_that_measured_nothing_fails_with_json_as_without(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Results, "is_empty", property(lambda found: found.plan.name == "first"))
    assert iolab("run", "both", "--quick", "--out", both).exit_code == 1
    done = iolab("run", "both", "--quick", "--json", "--out", both)
    assert done.exit_code == 1
    assert "iolab: first: nothing could be measured\n" in done.stderr


@pytest.mark.usefixtures("simulated", "quiet", "both")
def test_a_suite_is_listed_with_its_question_and_known_by_its_name() -> None:
    assert "Are they?" in iolab("list", "experiments").stdout
    assert "did you mean 'both'?" in iolab("run", "boht").stderr


def test_every_suite_names_experiments_that_there_are() -> None:
    for path in catalog.SUITES.glob("*.toml"):
        suite = catalog.suite_of(path.stem)
        assert suite is not None
        assert suite.name == path.stem
        assert all(catalog.path_of(name).is_file() for name in suite.experiments(quick=False))


def without_times(page: str) -> str:
    """The page without its times, which differ between runs."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00| UTC)?", "TIME", page)


def the_page(out: Path) -> str:
    (page,) = out.glob("both-*/report.html")
    return without_times(page.read_text())


def killed_at(operation: int, *arguments: str | Path) -> int:
    """Runs a command in a child that dies at this write, as from SIGKILL; returns its exit code.

    The write is left half done: a torn line, or a file not yet renamed.
    """
    with warnings.catch_warnings():
        # Python 3.12 and later warn about forking with other threads; the child waits for none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os._exit(_dying(operation, *arguments))
        finally:
            # After an error the child must not continue with the tests.
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _dying(operation: int, *arguments: str | Path) -> int:
    left, write = [operation], os.write

    def torn(file: int, data: bytes | memoryview) -> int:
        left[0] -= 1
        if left[0] == 0:
            write(file, bytes(data)[: len(data) // 2])
            os._exit(137)
        return write(file, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", torn)
        patch.setattr(Path, "replace", killing(Path.replace, left))
        return min(iolab(*arguments).exit_code, 127)


def killing(replace: Callable[[Path, Path], Path], left: list[int]) -> Callable[[Path, Path], Path]:
    """`Path.replace` in a process that dies before the given call."""

    def replaced(path: Path, to: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            os._exit(137)
        return replace(path, to)

    return replaced


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_that_was_killed_twenty_times_has_the_page_of_one_that_was_not(both: Path) -> None:
    whole = both.with_name("whole")
    assert iolab("run", "both", "--quick", "--out", whole).exit_code == 0
    random = np.random.default_rng(1)
    kills = 0
    # So few operations always end before the run does, and the later ones make some progress each time.
    while killed_at(int(random.integers(1, 12)), "run", "both", "--quick", "--out", both) == 137:
        kills += 1
    assert kills >= 20
    assert the_page(both) == the_page(whole)
    reports = [
        {path.parent.name: without_times(path.read_text()) for path in out.glob("*/report.html")}
        for out in (both, whole)
    ]
    assert reports[0] == reports[1]


@pytest.mark.usefixtures("simulated", "quiet")
def test_an_ended_run_is_not_measured_again_and_its_machine_stays_as_it_was(both: Path) -> None:
    iolab("run", "both", "--quick", "--out", both)
    before = {path: path.read_bytes() for path in both.glob("*/machine.json")}
    assert len(before) == 2
    page = the_page(both)
    assert iolab("run", "both", "--quick", "--out", both).exit_code == 0
    assert {path: path.read_bytes() for path in both.glob("*/machine.json")} == before
    assert the_page(both) == page


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_fresh_suite_that_was_interrupted_uses_no_trial_from_before(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iolab("run", "both", "--quick", "--out", both)
    (path,) = both.glob("second-*/trials.jsonl")
    old = path.read_bytes()
    # The suite's clock is a minute ahead, so everything stored is older.
    later = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="seconds")
    monkeypatch.setattr(api, "CLOCKS", Clocks(wall=lambda: later))
    with monkeypatch.context() as patch:
        patch.setattr(api, "run", lambda name, **given: pytest.fail("stopped before the first experiment"))
        with pytest.raises(pytest.fail.Exception):
            iolab("run", "both", "--quick", "--fresh", "--out", both)
    iolab("run", "both", "--quick", "--out", both)
    assert (path.parent.with_name(f"{path.parent.name}.1") / "trials.jsonl").read_bytes() == old


def judged(out: Path, verb: str = "check") -> dict[str, str]:
    """The verdict on each claim of the suite, by its id."""
    document = json.loads(iolab(verb, "both", "--json", "--out", out).stdout)
    return {each["claim"]["id"]: each["judgement"] for each in document["claims"]}


@pytest.mark.usefixtures("simulated", "quiet")
@pytest.mark.parametrize("flags", [(), ("--fresh",)])
def test_a_suite_that_fails_the_second_time_keeps_what_it_measured_before(
    both: Path, ran_before: None, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    before = judged(both)

    def fails(name: str, **given: object) -> None:
        raise IolabError(f"{name} cannot be run")

    monkeypatch.setattr(api, "run", fails)
    done = iolab("run", "both", "--quick", *flags, "--out", both)
    assert (done.exit_code, "first cannot be run" in done.stderr) == (1, True)
    assert judged(both) == before
    done = iolab("report", "both", "--out", both)
    says = "results of an earlier run, as the new one has not ended: first, second"
    assert (says in " ".join(done.stdout.split())) is bool(flags)
    assert ("The same command continues." in the_page(both)) is bool(flags)
    markdown = iolab("report", "both", "--markdown", "--out", both).stdout
    assert ("Results of an earlier run, as the new one has not ended: first, second." in markdown) is bool(flags)


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_fresh_suite_that_is_killed_keeps_what_it_measured_before(both: Path, ran_before: None) -> None:
    before = judged(both)
    (ended,) = both.glob("first-*")
    # Before the first experiment, at its plan, and in its first blocks.
    for operation in (1, 2, 3, 4, 8):
        assert killed_at(operation, "run", "both", "--quick", "--fresh", "--out", both) == 137
        assert judged(both) == before
    assert len(list(both.glob(f"{ended.name}.*"))) >= 1
    iolab("run", "both", "--quick", "--out", both)
    assert "The same command continues." not in the_page(both)


@pytest.mark.usefixtures("simulated", "quiet")
@pytest.mark.parametrize("flags", [(), ("--fresh",)])
def test_a_suite_one_of_whose_runs_is_damaged_is_measured_again(both: Path, flags: tuple[str, ...]) -> None:
    iolab("run", "both", "--quick", "--out", both)
    before = judged(both)
    (machine,) = both.glob("first-*/machine.json")
    machine.write_text("{")
    done = iolab("run", "both", "--quick", *flags, "--out", both)
    assert done.exit_code == 0, done.stderr
    assert judged(both) == before


@pytest.mark.usefixtures("simulated", "quiet")
def test_one_part_of_a_suite_is_run_alone_and_an_unknown_one_is_named(both: Path) -> None:
    done = iolab("run", "both", "--quick", "--only", "B", "--out", both)
    assert done.exit_code == 0, done.stderr
    assert "1 of 1: second" in done.stderr
    assert not list(both.glob("first-*"))
    assert "iolab run both --only B" in the_page(both).replace("\n", " ")
    assert "--only: both has no part 'C': use one of A, B" in iolab("run", "both", "--only", "C").stderr
    assert "--only: is for suites, and first is an experiment" in iolab("run", "first", "--only", "A").stderr


@pytest.mark.usefixtures("simulated", "quiet")
def test_the_page_of_a_suite_has_the_findings_first_and_then_claims_tables_and_charts(both: Path) -> None:
    iolab("run", "both", "--quick", "--out", both)
    page = the_page(both)
    heads = ["What the notes got right", "What they got wrong, and why", "All claims", "Published tables", "Charts"]
    there = [page.find(f"<h2>{head}") for head in heads]
    assert [at for at in there if at >= 0] == sorted(at for at in there if at >= 0)
    assert 'id="finding-C-first"' in page
    assert 'href="#chart-C-first"' in page
    assert 'id="chart-C-first"' in page
    # What a quick run leaves out is listed with its reason.
    assert "the quick run leaves out third" in page
    (folder,) = both.glob("first-*")
    assert f'href="../{folder.name}/trials.jsonl"' in page


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_claim_that_no_note_makes_is_no_finding_on_the_notes(both: Path) -> None:
    second = catalog.FOLDER / "second.toml"
    second.write_text(second.read_text().replace('text = "io', 'source = "iolab"\ntext = "io'))
    iolab("run", "both", "--quick", "--out", both)
    page = the_page(both)
    own = page.index("<h2>What no note asks")
    assert page.index('id="finding-C-first"') < own < page.index('id="finding-C-second"')


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_stored_suite_is_found_by_its_name_listed_and_reported_again(both: Path) -> None:
    iolab("run", "both", "--quick", "--out", both)
    page = the_page(both)
    assert iolab("report", "both", "--out", both).exit_code == 0
    assert the_page(both) == page
    assert "full run only" in iolab("list", "runs", "--out", both).stdout
    markdown = iolab("report", "both", "--markdown", "--out", both).stdout
    assert markdown.startswith("## Are they?\n")
    assert "| **C-first** io\\_uring serves more |" in markdown
    assert "--csv: a suite has no trials of its own" in iolab("report", "both", "--csv", "--out", both).stderr


@pytest.mark.usefixtures("simulated", "quiet")
def test_the_markdown_of_a_suite_says_where_the_notes_contradict_themselves(both: Path) -> None:
    file = catalog.FOLDER / "first.toml"
    file.write_text(file.read_text() + PUBLISHED)
    iolab("run", "both", "--quick", "--out", both)
    lines = iolab("report", "both", "--markdown", "--out", both).stdout.splitlines()
    at = lines.index("Where the notes contradict themselves:")
    assert lines[at + 2].startswith("- R1, epoll: throughput is printed as 2,100 and should be 2,000")


@pytest.mark.usefixtures("simulated", "quiet")
def test_check_judges_stored_runs_without_measuring(both: Path, simulated: FakeHost) -> None:
    iolab("run", "both", "--quick", "--out", both)
    started = len(simulated.started)
    for arguments, claims in (((), 2), (("both",), 3), (("first",), 1)):
        done = iolab("check", *arguments, "--out", both)
        assert done.exit_code == 0, done.stderr
        assert len(re.findall(CLAIM, done.stdout, re.MULTILINE)) == claims
        document = json.loads(iolab("check", *arguments, "--json", "--out", both).stdout)
        assert len(document["claims"]) == claims
    assert len(simulated.started) == started
    assert iolab("check", "nothing", "--out", both).exit_code == 2
    assert iolab("check", "--out", both / "empty").exit_code == 2


def words_of(both: Path) -> dict[str, dict[str, str]]:
    """The verdict on each claim of the suite by its id, in each form of output."""
    page = re.sub(r"\s+", " ", the_page(both))
    markdown = iolab("report", "both", "--markdown", "--out", both).stdout
    terminal = iolab("check", "both", "--out", both).stdout
    return {
        "report --json": judged(both, "report"),
        "check --json": judged(both),
        "check": dict(re.findall(CLAIM, terminal, re.MULTILINE)),
        "findings of the page": dict(
            re.findall(r'<b>(C-\w+)</b> io_uring serves more <span class="word \w+">([a-z ]+)<', page)
        ),
        "claims of the page": dict(re.findall(r'<tr id="claim-(C-\w+)">.*?<td class="word \w+">([a-z ]+)</td>', page)),
        "markdown": dict(re.findall(r"\*\*(C-\w+)\*\* io\\_uring serves more \| ([a-z ]+) \|", markdown)),
    }


@pytest.mark.usefixtures("simulated", "quiet")
@pytest.mark.parametrize("headline", ["true", "false"])
def test_each_claim_of_a_suite_has_the_same_word_wherever_it_is_told(
    both: Path, monkeypatch: pytest.MonkeyPatch, headline: str
) -> None:
    (catalog.FOLDER / "second.toml").write_text(EXPERIMENT.replace("NAME", "second").replace("HEADLINE", headline))
    run = api.run

    def only_the_first(name: str, **given: Any) -> Results:
        if name == "second":
            raise IolabError("it cannot be run")
        return run(name, **given)

    monkeypatch.setattr(api, "run", only_the_first)
    shown = iolab("run", "both", "--quick", "--out", both)
    assert shown.exit_code == 1
    assert "iolab: second: it cannot be run\n" in shown.stderr
    words = words_of(both)
    expected = words["report --json"]
    assert (expected["C-second"], expected["C-third"]) == ("undecided", "full run only")
    assert words == dict.fromkeys(words, expected)
    told = dict(re.findall(CLAIM, shown.stdout, re.MULTILINE))
    assert told.items() <= expected.items()
    assert ("C-second" in told) is (headline == "true")
    for reason in ("second has not been run to its end", "the quick run leaves out third"):
        assert reason in " ".join(iolab("check", "both", "--out", both).stdout.split())


@pytest.mark.usefixtures("simulated", "quiet")
def test_a_suite_whose_runs_are_gone_is_one_line_and_stops_no_list(both: Path) -> None:
    assert iolab("run", "both", "--quick", "--out", both).exit_code == 0
    (gone,) = both.glob("first-*")
    shutil.rmtree(gone)
    listed = iolab("list", "runs", "--out", both)
    assert "second-" in listed.stdout
    done = iolab("report", "both", "--out", both)
    assert done.exit_code in (1, 2), done.stdout
    assert done.stderr.count("\n") == 1
    assert gone.name in done.stderr


@pytest.mark.usefixtures("simulated", "quiet")
@pytest.mark.parametrize("verb", ["bundle NAME", "compare NAME", "query select(1) NAME"])
def test_verbs_of_one_run_refuse_a_suite_in_one_line(both: Path, verb: str) -> None:
    assert iolab("run", "both", "--quick", "--out", both).exit_code == 0
    done = iolab(*verb.replace("NAME", "both").split(), "--out", both)
    assert done.exit_code == 2
    assert "is a suite: name the run of one of its experiments (iolab list runs has them)" in done.stderr
    assert iolab("query", "select count(*) from runs", "--out", both).stderr == ""
