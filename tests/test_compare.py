"""`iolab compare`: its findings, its refusals, its error rate and its output."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from conftest import Done, iolab
from iolab import api, cli
from iolab.judge import comparison, stats
from iolab.plan.experiment import vs_plan
from iolab.plan.schedule import schedule
from iolab.report import changes
from iolab.results import layout, store
from iolab.results.records import Failure, MachineNoise, Result
from made import result
from simulated_runs import MACHINE, MINE, Weather, outcomes, plan_of, store_run

pytestmark = pytest.mark.usefixtures("few_resamples")

PAGE = Path(__file__).resolve().parent.parent / "docs/continuous-integration.md"
CALM = Weather(0.004)
LIMITED = {"generator_share": 0.95, "server_share": 0.5}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These runs need not survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


class Run(NamedTuple):
    """One stored run, as its differences from a run of the first build on the first machine."""

    work: float = 0.0
    blocks: int = 8
    alone: bool = False
    weather: Weather = CALM
    identity: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    changes: Mapping[str, Any] = {}

    def store(self, runs: Path, seed: int) -> Path:
        plan = plan_of(self.blocks, alone=self.alone, **self.settings)
        identity = {**MACHINE["identity"], **self.identity}
        machine = {**MACHINE, "identity": identity, "engine": {"sha256": identity["engine"]}}
        return store_run(runs, plan, self.weather, seed, work=self.work, machine=machine, **self.changes)


def compared(tmp_path: Path, a: Run, b: Run, *flags: str) -> Done:
    """The command's output for two runs, with their folders as A and B."""
    folders = [run.store(tmp_path / name, seed) for seed, (name, run) in enumerate((("a", a), ("b", b)))]
    done = iolab("compare", *folders, *flags)
    return Done(done.exit_code, *(text.replace(str(tmp_path), "") for text in done[1:]))


def check(tmp_path: Path, a: Run, b: Run, flags: str, code: int, says: tuple[str, ...]) -> None:
    done = compared(tmp_path, a, b, *flags.split())
    text = " ".join(f"{done.stdout} {done.stderr}".split())
    assert done.exit_code == code, text
    for words in says:
        assert words in text


BOTH = "Each ratio is beside epoll, whose program is the same in both runs, block by block: drift cancels"
CASES: dict[str, tuple[Run, Run, str, int, tuple[str, ...]]] = {
    "the same build twice is the same": (
        Run(),
        Run(),
        "--threshold 3%",
        0,
        (BOTH, "same within 3 %", "No regression beyond 3 %, 5 the same"),
    ),
    "more work is a regression, in the direction of more": (
        Run(),
        Run(work=0.1),
        "--threshold 3%",
        1,
        ("regression: ./mine: A serves 1.10", "B uses 1.10", "differs: worse", "4 regressions beyond 3 %, 1 the same"),
    ),
    "less work is an improvement and no failure": (
        Run(work=0.1),
        Run(),
        "--threshold 3%",
        0,
        ("improvement: ./mine: B serves 1.10", "differs: better", "No regression beyond 3 %, 4 improvements"),
    ),
    "a difference below the threshold is the same": (Run(), Run(work=0.02), "--threshold 5%", 0, ("5 the same",)),
    "a difference on the threshold asks for more blocks": (
        Run(weather=Weather(0.01)),
        Run(work=0.025, weather=Weather(0.01)),
        "--threshold 3%",
        0,
        ("not decided: about", "more blocks", "No regression beyond 3 %"),
    ),
    "a slower machine is not a slower server": (
        Run(),
        Run(weather=Weather(0.004, level=0.5)),
        "",
        0,
        (BOTH, "5 the same"),
    ),
    "noise that hides the threshold is no pass": (
        Run(weather=Weather(0.2)),
        Run(weather=Weather(0.2)),
        "",
        3,
        ("Too noisy: these blocks cannot show a change of 2 %", "to decide, run each with about", "blocks, or raise"),
    ),
    "alone, a small difference may be the machine's": (
        Run(alone=True),
        Run(alone=True, work=0.07),
        "--threshold 3%",
        3,
        (
            "Unpaired: drift is not removed",
            "differences below 15 % are not decided",
            "same within 15 %",
            "Unpaired runs cannot show a change of 3 %",
            "measure both builds in one run, iolab vs 'cmd:OLD ...' 'cmd:NEW ...'",
        ),
    ),
    "alone, a large difference is one": (
        Run(alone=True),
        Run(alone=True, work=0.5),
        "--threshold 3%",
        1,
        ("Unpaired", "4 regressions beyond 3 %", "same within 3 %"),
    ),
    "of two builds of the engine the server that stayed is the reference": (
        Run(),
        Run(identity={"engine": "fedcba9876543210"}),
        "--allow engine",
        0,
        (
            "allowed: the load generators are of different builds: 0123456789abcdef in A and fedcba9876543210 in B",
            "Each ratio is beside ./mine, whose program is the same in both runs",
            "epoll (8 blocks)",
        ),
    ),
    "where every program changed, the runs are unpaired": (
        Run(),
        Run(identity={"engine": "fedcba9876543210", "programs": {MINE: {"./mine": "new"}}}),
        "--allow engine",
        3,
        ("Unpaired: drift is not removed", "Unpaired runs cannot show a change of 2 %"),
    ),
    "a server that was built anew is compared beside the one that stayed": (
        Run(),
        Run(work=0.1, identity={"programs": {MINE: {"./mine": "new"}}}),
        "",
        1,
        (BOTH, "4 regressions beyond 2 %"),
    ),
    "a limited generator leaves the CPU to judge by": (
        Run(changes=LIMITED),
        Run(changes=LIMITED),
        "",
        0,
        ("not decided: the server was not the limit", "No regression beyond 2 %"),
    ),
    "replies of another size are other work": (
        Run(),
        Run(changes={"bytes": {"sent": 300_000 * 200, "received": 300_000 * 2_000}}),
        "",
        3,
        ("./mine is not compared:", "Nothing could be compared"),
    ),
    "no other server passes for one that could not be judged": (
        Run(),
        Run(
            identity={"engine": "fedcba9876543210", "programs": {MINE: {"./mine": "new"}}},
            changes={"bytes": {"sent": 300_000 * 200, "received": 300_000 * 2_000}},
        ),
        "--allow engine --threshold 20%",
        3,
        ("./mine is not compared: its replies are of", "Inconclusive: 1 server could not be compared"),
    ),
    "the same settings on another machine are refused": (
        Run(),
        Run(identity={"kernel": "6.18", "host": "other"}),
        "",
        2,
        (
            "iolab compare: the runs are of different machines: host bench in A and other in B, "
            "kernel 6.1 in A and 6.18 in B: measure both on one machine, or allow it with --allow machine",
        ),
    ),
    "another machine can be allowed, and is named": (
        Run(),
        Run(identity={"kernel": "6.18"}),
        "--allow machine",
        0,
        ("allowed: the runs are of different machines: kernel 6.1 in A and 6.18 in B",),
    ),
    "another load generator is refused": (
        Run(),
        Run(identity={"engine": "fedcba9876543210"}),
        "",
        2,
        ("the load generators are of different builds", "or allow it with --allow engine"),
    ),
    "other settings are refused by their names": (
        Run(),
        Run(settings={"connections": 100, "threads": 2}),
        "",
        2,
        (
            "the runs have different plans: load.connections is 50 in A and 100 in B; load.threads is 1 in A and 2 "
            "in B: measure both with the same settings, or allow it with --allow plan",
        ),
    ),
    "every refusal has its line": (
        Run(),
        Run(identity={"kernel": "6.18"}, settings={"connections": 100}),
        "",
        2,
        ("iolab compare: the runs are of different machines", "iolab compare: the runs have different plans"),
    ),
    "another number of blocks is the same question": (
        Run(),
        Run(blocks=12),
        "",
        0,
        ("./mine (8 blocks of A, 12 of B)", "5 the same"),
    ),
    "what only one run measured is named": (
        Run(),
        Run(alone=True),
        "",
        3,
        ("epoll is not compared: only A measured it", "Unpaired"),
    ),
    "alone, a threshold above what the machine does can pass": (
        Run(alone=True),
        Run(alone=True, work=0.05),
        "--threshold 16%",
        0,
        ("5 the same", "No regression beyond 16 %"),
    ),
    "alone, noise is not told from the machine": (
        Run(alone=True, weather=Weather(0.1)),
        Run(alone=True, weather=Weather(0.1), work=0.1),
        "",
        3,
        ("not decided: unpaired", "Unpaired runs cannot show a change of 2 %"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_two_runs_are_compared(tmp_path: Path, name: str) -> None:
    check(tmp_path, *CASES[name])


@pytest.mark.parametrize(("noise", "blocks", "pairs"), [(0.02, 20, 20), (0.05, 80, 4)])
def test_the_same_build_never_fails_and_one_with_more_work_does(
    tmp_path: Path, noise: float, blocks: int, pairs: int
) -> None:
    """Does the same as `make bench-compare` with fewer pairs; the seeds are fixed, so the outcomes are too."""
    plan, weather = plan_of(blocks), Weather(noise, 0.01, 0.03)
    same = outcomes(tmp_path / "same", plan, weather, pairs, work=0.0, threshold=0.03)
    assert same["regression"] == 0
    slower = outcomes(tmp_path / "slower", plan, weather, pairs // 2, work=0.05, threshold=0.03)
    assert slower["regression"] >= 0.9 * (pairs // 2)


def test_unpaired_runs_of_one_build_do_not_fail_where_the_machine_drifts(tmp_path: Path) -> None:
    counts = outcomes(tmp_path, plan_of(12, alone=True), Weather(0.02, 0.01, 0.03), 12, work=0.0, threshold=0.03)
    assert counts == {"too noisy": 12}


DIED = Failure(kind="died", message="the server was killed by SIGSEGV")
BUSY = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)


class One(NamedTuple):
    """One run of several servers: the rate of each, or its failure in the first trial.

    The first is discarded in the blocks `busy_in`, and the second dies in the blocks `dies_in`.
    """

    servers: str
    rates: tuple[float | Failure, ...]
    ladder: bool = False
    blocks: int = 12
    dies_in: Set[int] = frozenset()
    busy_in: Set[int] = frozenset()

    def store(self, runs: Path) -> Path:
        plan = vs_plan(self.servers.split(), {"protocol": "http", "connections": 50}, blocks=self.blocks)
        comparison = plan.comparisons[0].model_copy(update={"ladder": self.ladder})
        plan = plan.model_copy(update={"comparisons": (comparison,)})
        generator, failed = np.random.default_rng(1), set[int]()
        with store.writing(plan, MACHINE, runs) as writer:
            for trial in schedule(plan):
                rate = DIED if trial.slot == 1 and trial.block in self.dies_in else self.rates[trial.slot]
                if not isinstance(rate, Failure):
                    noise = BUSY if trial.slot == 0 and trial.block in self.busy_in else None
                    rate_per_s = rate * float(generator.normal(1, 0.002))
                    writer.append(result(plan, trial, rate_per_s=rate_per_s, noise=noise))
                elif trial.slot not in failed:
                    writer.append(Result(trial=trial, started="2026-01-01T00:00:00+00:00", failure=rate))
                    failed |= {trial.slot} if rate.final else set()
            writer.end("2026-01-01T01:00:00+00:00")
        return store.folder_of(plan, runs)


THREE = "epoll thread io_uring"
ABSENT = Failure(kind="unavailable", message="needs Linux 5.19", final=True)
WITHIN: dict[str, tuple[One, int, tuple[str, ...]]] = {
    "a rung of a ladder is compared with the one below it": (
        One(THREE, (100_000, 120_000, 108_000), ladder=True),
        1,
        (
            "A → B are two of its contestants, and each block pairs B with its reference A",
            "improvement: epoll → thread: thread serves 1.2",
            "regression: thread → io_uring: thread serves 1.11",
        ),
    ),
    "a ladder without its lowest rung has the others": (
        One(THREE, (ABSENT, 120_000, 108_000), ladder=True),
        1,
        (
            "regression: thread → io_uring: thread serves 1.11",
            "thread is not compared: epoll: needs Linux 5.19",
        ),
    ),
    "a rung above one that is missing is compared with the nearest below": (
        One(THREE, (100_000, ABSENT, 95_000), ladder=True),
        1,
        ("regression: epoll → io_uring: epoll serves 1.05", "thread is not compared: needs Linux 5.19"),
    ),
    "without the first contestant the line names it": (
        One(THREE, (ABSENT, 120_000, 108_000)),
        3,
        ("thread is not compared: epoll: needs Linux 5.19", "io_uring is not compared: epoll: needs Linux 5.19"),
    ),
}


@pytest.mark.parametrize("name", WITHIN)
def test_the_contestants_of_one_run_are_compared_with_their_references(tmp_path: Path, name: str) -> None:
    run, code, says = WITHIN[name]
    done = iolab("compare", run.store(tmp_path), "--threshold", "3%")
    text = " ".join(f"{done.stdout} {done.stderr}".split())
    assert done.exit_code == code, text
    for words in says:
        assert words in text


def test_the_contestants_of_one_run_have_the_ratios_of_its_verdict(tmp_path: Path) -> None:
    folder = Run(work=0.1).store(tmp_path, 1)
    done = iolab("compare", folder, "--threshold", "3%")
    assert done.exit_code == 1
    assert "regression: epoll → ./mine: epoll serves 1." in " ".join(done.stdout.split())
    verdict = api.open_run(folder).verdicts[0]
    for change in api.compare(folder, threshold=0.03).changes:
        estimate = verdict.estimate(change.metric, "./mine")
        assert estimate is not None
        assert (change.ratio, change.low, change.high) == (estimate.ratio, estimate.low, estimate.high)


FOUR = "epoll thread io_uring poll"
RATES = (100_000, 110_000, 120_000, 90_000)
REFERENCES: dict[str, tuple[One, One, str, int]] = {
    "the first server that is the same in both runs": (One(FOUR, RATES), One(FOUR, RATES), "epoll", 0),
    "another where the first failed in B": (
        One(FOUR, RATES),
        One(FOUR, (Failure(kind="silent", message="no reply", final=True), *RATES[1:])),
        "thread",
        3,
    ),
    "another where the first is missing in some blocks of A": (
        One(FOUR, RATES, busy_in={2, 5}),
        One(FOUR, RATES),
        "thread",
        0,
    ),
    "another where the first was left out of A": (
        One(FOUR, (ABSENT, *RATES[1:])),
        One(FOUR, RATES),
        "thread",
        0,
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_of_two_runs_is_one_that_both_have_measured(tmp_path: Path, name: str) -> None:
    a, b, reference, code = REFERENCES[name]
    done = iolab("compare", a.store(tmp_path / "a"), b.store(tmp_path / "b"), "--threshold", "3%")
    assert done.exit_code == code, done
    assert f"Each ratio is beside {reference}, whose program is the same in both runs" in " ".join(done.stdout.split())


def test_a_renamed_server_is_compared_with_what_it_was(tmp_path: Path) -> None:
    before = Run().store(tmp_path / "a", 1)
    after = Run(work=0.1).store(tmp_path / "b", 2)
    plan = json.loads((after / layout.PLAN).read_text().replace("./mine", "./new"))
    (after / layout.PLAN).write_text(json.dumps(plan))
    renamed = store.read_plan(after)
    keys = {
        old.key: new.key for old, new in zip(plan_of(8).comparisons[0].cells, renamed.comparisons[0].cells, strict=True)
    }
    results = [
        each.model_copy(update={"trial": each.trial.model_copy(update={"cell": keys[each.trial.cell]})})
        for each in store.read_trials(after).results
    ]
    with store.writing(renamed, MACHINE, tmp_path / "c") as writer:
        for each in results:
            writer.append(each)
    found = api.compare(before, store.folder_of(renamed, tmp_path / "c"), threshold=0.03)
    assert {change.contestant for change in found.changes} == {"./mine → ./new"}
    assert found.kinds["regression"] == 4


@pytest.fixture
def slower(tmp_path: Path) -> list[Path]:
    """The folders of a run and of a slower run."""
    return [Run().store(tmp_path / "a", 1), Run(work=0.1).store(tmp_path / "b", 2)]


def test_json_has_every_change_with_its_words(slower: list[Path]) -> None:
    done = iolab("compare", *slower, "--threshold", "3%", "--json")
    found = json.loads(done.stdout)
    assert (found["schema"], found["threshold"], found["headline"]) == (1, 0.03, "4 regressions beyond 3 %, 1 the same")
    first = found["changes"][0]
    assert {key: first[key] for key in ("metric", "contestant", "kind", "word", "reference", "blocks")} == {
        "metric": "throughput",
        "contestant": "./mine",
        "kind": "regression",
        "word": "differs",
        "reference": "epoll",
        "blocks": [8, 8],
    }
    assert first["low"] < first["ratio"] < first["high"] < 1
    assert done.stderr == "iolab: 4 regressions beyond 3 %, 1 the same\n"


def test_junit_has_a_case_for_each_change_and_a_failure_for_each_regression(slower: list[Path], tmp_path: Path) -> None:
    done = iolab("compare", *slower, "--junit", tmp_path / "changes.xml")
    assert done.exit_code == 1
    suite = ElementTree.parse(tmp_path / "changes.xml").getroot()
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "5",
        "failures": "4",
        "skipped": "0",
    }
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failures = {name: case.find("failure") for name, case in cases.items()}
    assert failures["Resident memory"] is None
    assert failures["Throughput"] is not None
    assert str(failures["Throughput"].get("message")).startswith("Throughput: A serves 1.10")
    assert cases["Throughput"].get("classname") == "./mine"


PAIR = (100_000, 110_000)
WRONG = Failure(kind="wrong_replies", message="3 of 10 replies were wrong", final=True)
MISSING: dict[str, tuple[One, One, str, str]] = {
    "a server that dies in B": (
        One("epoll thread", PAIR),
        One("epoll thread", PAIR, dies_in={3, 7}),
        "thread",
        "its server died in 2 of 12 trials of B and 0 of 12 of A: the server was killed by SIGSEGV",
    ),
    "a server that fails in B": (
        One("epoll thread", PAIR),
        One("epoll thread", (100_000, WRONG)),
        "thread",
        "3 of 10 replies were wrong (in B)",
    ),
    "a server that B did not measure": (
        One(THREE, (100_000, 110_000, 120_000)),
        One("epoll thread", PAIR),
        "io_uring",
        "only A measured it (measure it in B too, or allow it with --allow plan)",
    ),
}


def judged(tmp_path: Path, a: One, b: One, *flags: str) -> tuple[Done, ElementTree.Element]:
    """The command's output for two runs, and its JUnit file."""
    file = tmp_path / "changes.xml"
    folders = (a.store(tmp_path / "a"), b.store(tmp_path / "b"))
    done = iolab("compare", *folders, "--threshold", "3%", "--junit", file, "--annotations", "github", *flags)
    return done, ElementTree.parse(file).getroot()


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_in_b_is_an_error_for_junit_and_for_github(tmp_path: Path, name: str) -> None:
    a, b, what, why = MISSING[name]
    done, suite = judged(tmp_path, a, b)
    assert done.exit_code == cli.INCONCLUSIVE, done
    cases = {case.get("classname"): case.find("error") for case in suite.iter("testcase") if len(case)}
    error = cases[what]
    assert error is not None
    assert error.get("message") == f"{what} is not compared: {why}"
    assert (suite.get("errors"), suite.get("tests")) == ("1", str(len(list(suite.iter("testcase")))))
    assert f"::error title=iolab not compared::{what} is not compared: {why}" in done.stdout.splitlines()


def test_a_server_that_dies_less_often_in_a_longer_run_is_compared(tmp_path: Path) -> None:
    a, b = One("epoll thread", PAIR, blocks=8, dies_in={3}), One("epoll thread", PAIR, blocks=24, dies_in={3, 7})
    done, suite = judged(tmp_path, a, b)
    assert (done.exit_code, suite.get("errors")) == (0, "0"), done
    done, suite = judged(tmp_path, b, a)
    assert done.exit_code == cli.INCONCLUSIVE
    assert "its server died in 1 of 8 trials of B and 2 of 24 of A" in " ".join(done.stdout.split())


def test_what_may_be_missing_in_b_is_skipped(tmp_path: Path) -> None:
    done, suite = judged(tmp_path, *MISSING["a server that B did not measure"][:2], "--allow", "plan")
    assert done.exit_code == 0, done
    (skipped,) = suite.iter("skipped")
    assert str(skipped.get("message")).startswith("io_uring is not compared: only A measured it")
    assert suite.get("errors") == "0"


def test_a_server_that_dies_more_often_than_its_reference_is_not_compared_with_it(tmp_path: Path) -> None:
    done = iolab("compare", One("epoll thread", PAIR, dies_in={3, 7}).store(tmp_path))
    assert done.exit_code == cli.INCONCLUSIVE
    assert "thread is not compared: its server died in 2 trials, and epoll in 0: " in " ".join(done.stdout.split())


def test_markdown_leads_with_the_answer_and_marks_regressions(slower: list[Path]) -> None:
    text = iolab("compare", *slower, "--threshold", "3%", "--markdown").stdout
    assert text.startswith("### 4 regressions beyond 3 %, 1 the same\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 5
    assert len({line.count("|") for line in table}) == 1
    assert "| **differs: worse** |" in table[2]
    assert "\\[" in table[2]


def test_annotations_are_one_line_for_each_regression(slower: list[Path]) -> None:
    lines = iolab("compare", *slower, "--annotations", "github").stdout.splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert len(commands) == 4
    assert commands[0].startswith("::error title=iolab regression::./mine: A serves 1.10")


def test_a_percent_sign_in_an_annotation_is_escaped(tmp_path: Path) -> None:
    noisy = Run(weather=Weather(0.2))
    done = compared(tmp_path, noisy, noisy, "--annotations", "github")
    warning = next(line for line in done.stdout.splitlines() if line.startswith("::"))
    assert warning.startswith("::warning title=iolab::Too noisy: these blocks cannot show a change of 2 %25; to decide")


def test_a_table_fits_a_narrow_terminal(slower: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    done = iolab("compare", *(folder.relative_to(tmp_path) for folder in slower))
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", "A is missing: iolab compare --help shows what to write"),
        ("nothing", "there is no run 'nothing' here or in runs: iolab list runs has the names"),
        ("x --threshold 3", "--threshold: '3' is not a share such as 3%"),
        ("x --threshold 0%", "--threshold: '0%' is not a share such as 3%"),
        ("x --allow kernel", "--allow: there is no 'kernel': use one of machine, engine, plan"),
        ("x --json --markdown", "--json and --markdown do not fit, as both are printed: leave one of them out"),
        (
            "x --json --annotations github",
            "--json and --annotations do not fit, as both are printed: leave one of them out",
        ),
    ],
)
def test_a_slip_of_the_pen_is_one_line(
    arguments: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert iolab("compare", *arguments.split()) == (2, "", f"iolab compare: {line}\n")


def test_what_is_no_pair_of_runs_is_one_line(tmp_path: Path) -> None:
    folder = Run().store(tmp_path, 1)
    assert iolab("compare", folder, folder).stderr.endswith(
        "is both runs: name two runs, or one to compare its contestants\n"
    )
    alone = Run(alone=True).store(tmp_path, 1)
    assert iolab("compare", alone).stderr.endswith("measured one contestant alone: name the run to compare it with\n")
    (tmp_path / "capacity").mkdir()
    (tmp_path / "capacity" / layout.QUESTION).write_text("{}")
    assert "is a search for a capacity" in iolab("compare", tmp_path / "capacity", folder).stderr


def test_a_run_is_found_by_its_name_in_the_folder_of_all_runs(tmp_path: Path) -> None:
    folder = Run().store(tmp_path, 1)
    assert iolab("compare", "vs", "--out", tmp_path).exit_code == iolab("compare", folder).exit_code


def test_a_file_that_cannot_be_written_is_one_line(slower: list[Path], tmp_path: Path) -> None:
    done = iolab("compare", *slower, "--junit", tmp_path / "absent/changes.xml")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"iolab: {tmp_path}/absent/changes.xml: cannot be written: ")


def test_a_drift_is_the_shift_between_the_halves_of_a_series() -> None:
    assert stats.drift_within(np.array([1.0, 1.0, 1.0, 9.0, 3.0, 3.0, 3.0])) == 2.0
    assert stats.drift_within(np.array([3.0, 3.0, 1.0, 1.0])) == 2.0


def test_the_smallest_effect_of_two_samples_is_that_of_pairs_whose_noise_is_theirs_together() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(0, 0.03, 400), generator.normal(0, 0.03, 400)
    assert stats.smallest_effect_of_samples(a, b) == pytest.approx(stats.smallest_effect(b - a), rel=0.1)


def commands(text: str) -> list[list[str]]:
    """The iolab commands in a page's code blocks, joined to one line each, without shell syntax."""
    blocks = "\n".join(re.findall(r"^```(?:sh|yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    joined = re.sub(r"\s*\\\n\s*", " ", blocks)
    lines = re.findall(r"(?:^|run: |&& )\s*iolab ([^\n]*)", joined, re.MULTILINE)
    return [shlex.split(re.split(r" >>? | \|\| ", line)[0]) for line in lines]


def test_the_commands_of_the_page_are_taken_by_their_parsers() -> None:
    found = commands(PAGE.read_text())
    assert {verb for verb, *_ in found} == {"vs", "compare", "run"}
    for verb, *arguments in found:
        cli.parser(verb).read(arguments)


def test_the_page_names_each_exit_code_and_each_difference_that_can_be_allowed() -> None:
    text = PAGE.read_text()
    for code in (0, 1, 2, cli.INCONCLUSIVE):
        assert re.search(rf"^\| {code} \|", text, re.MULTILINE)
    for allowed in ("machine", "engine", "plan"):
        assert f"`--allow {allowed}`" in text
    assert changes.share(comparison.UNPAIRED_MIN) in text
