"""Contestants, cells, experiments, and the order in which trials run."""

from __future__ import annotations

import itertools
import json
import math
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Set
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from iolab.contract.types import WORKLOADS
from iolab.errors import PlanError
from iolab.plan.contestant import Contestant
from iolab.plan.experiment import load_experiment, parse_experiment, vs_plan
from iolab.plan.needs import Needs
from iolab.plan.overrides import with_settings
from iolab.plan.plan import RETRIES_MAX, Place, Plan, Quick, Trial
from iolab.plan.schedule import schedule
from iolab.plan.settings import SETTINGS, Scalar, cell_of, changed, digest_of, settings_of, values_of
from iolab.results.records import CostCount, Failure, MachineNoise, Result
from iolab.results.remaining import remaining, uncounted
from made import result

EXPERIMENTS = sorted((Path(__file__).parent.parent / "experiments").glob("*.toml"))
# Questions about many contestants take minutes even in a quick run.
LONG_S = {
    "models": 480,
    "io_uring-ladder": 360,
    "active-map": 240,
    "languages": 180,
    "price": 180,
    "http-one-request-connections": 135,
    "http-wan": 135,
    "workers-scaling": 240,
}
ECHO: dict[str, Scalar] = {"protocol": "echo", "connections": 50}


@pytest.mark.parametrize(
    ("text", "canonical", "name", "options", "title"),
    [
        ("epoll", "epoll", "epoll", {}, "epoll"),
        (" epoll ", "epoll", "epoll", {}, "epoll"),
        ("io_uring[recv=oneshot]", "io_uring[recv=oneshot]", "io_uring", {"recv": "oneshot"}, "io_uring[recv=oneshot]"),
        ("a[y=2, x=1]", "a[x=1,y=2]", "a", {"x": "1", "y": "2"}, "a[x=1,y=2]"),
        ("cmd:./mine --port {port}", "cmd:./mine --port {port}", "./mine", {}, "./mine"),
        ("cmd:python3 my.py {port}", "cmd:python3 my.py {port}", "python3", {}, "python3 my.py"),
    ],
)
def test_a_contestant_is_what_a_person_types(
    text: str, canonical: str, name: str, options: dict[str, str], title: str
) -> None:
    contestant = Contestant.parse(text)
    assert (contestant.text, contestant.name, contestant.options, contestant.title) == (canonical, name, options, title)
    assert Contestant.model_validate_json(contestant.model_dump_json()) == contestant


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "write a name such as epoll"),
        ("Epoll", "write a name such as epoll"),
        ("--flag", "write a name such as epoll"),
        ("../epoll", "write a name such as epoll"),
        ("epoll[", "write a name such as epoll"),
        ("epoll[]", "write name=value"),
        ("epoll[x]", "write name=value"),
        ("epoll[x=a b]", "write name=value"),
        ("epoll[x=1,x=2]", "name it once"),
        ("cmd:", "needs a program"),
        ("cmd:./mine", "write {port} there"),
        ("cmd:'./mine {port}", "balance its quotes"),
        ("cmd:./mine {port} \0", "take it out"),
        ("x" * 5_000, "at most"),
    ],
)
def test_a_text_that_is_no_contestant_is_answered_in_one_line(text: str, advice: str) -> None:
    with pytest.raises(PlanError) as caught:
        Contestant.parse(text)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"cmd:.{0,40}", fullmatch=True))
def test_any_text_is_a_contestant_or_one_line(text: str) -> None:
    refusal = ""
    try:
        text = Contestant.parse(text).text
    except PlanError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert refusal or Contestant.parse(text).text == text


def test_a_command_gets_the_settings_that_its_arguments_name() -> None:
    text = "cmd:./mine {host}:{port} -w {workers} --body={reply_bytes} -c {load.connections} {driver} {port} {unknown}"
    cell = vs_plan(["epoll", text], {"protocol": "http", "reply_bytes": 9, "workers": 2}).comparisons[0].cells[1]
    values = {**values_of(cell), "host": "127.0.0.1"}
    told = ("./mine", "127.0.0.1:80", "-w", "2", "--body=9", "-c", "50", "epoll", "80", "{unknown}")
    assert cell.contestant.argv(80, values) == told
    assert cell.contestant.title == "./mine"


@pytest.mark.parametrize(("key", "value"), [("workers", 2), ("worker_kind", "process")])
def test_a_setting_that_a_command_does_not_take_is_refused(key: str, value: Scalar) -> None:
    with pytest.raises(PlanError, match=f"{key}: the command does not take it: write {{{key}}} in its arguments"):
        vs_plan(["epoll", "cmd:./mine {port}"], {"protocol": "echo", key: value})
    vs_plan(["epoll", f"cmd:./mine {{port}} {{{key}}}"], {"protocol": "echo", key: value})


HOSTILE = [
    "; rm -rf /", "$(id)", "`id`", "a\nb", "--flag", "-", "--", "../../etc/passwd", "a b", "'", '"', "\\", "\\n", "*",
    "?", "[a-z]", "~", "$HOME", "${IFS}", "&& id", "|| id", "| id", "> out", "< in", "2>&1", "&", "#", "!", "!!", "%s",
    "%00", "{a,b}", "{}", "{0}", "{ports}", "\t", "\r", " ", "", "é", "\u202e", "💥", "a;b", "a=b", "@file", "//x",
    "cmd:x", "\x1b[31m", "<script>", "\x7f",
]  # fmt: skip


def test_fifty_hostile_arguments_arrive_at_a_child_unchanged() -> None:
    assert len(HOSTILE) == 50
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    contestant = Contestant.parse("cmd:" + shlex.join([sys.executable, "-c", program, "{port}", *HOSTILE]))
    child = subprocess.run(contestant.argv(8080), capture_output=True, check=True, text=True)
    assert json.loads(child.stdout) == ["8080", *HOSTILE]


words = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(words.filter(lambda word: "{port}" not in word), max_size=6))
def test_a_command_is_split_into_the_words_that_were_joined(arguments: list[str]) -> None:
    contestant = Contestant.parse("cmd:" + shlex.join(["./mine", "--port={port}", *arguments]))
    assert contestant.argv(81) == ("./mine", "--port=81", *arguments)


def test_everything_in_a_cell_decides_its_key() -> None:
    plan = vs_plan(["epoll", "io_uring"], ECHO)
    cell = plan.comparisons[0].cells[0]
    changes: dict[str, object] = {
        "workload.message_bytes": 65,
        "workload.framing": "crlf",
        "load.connections": 51,
        "load.active": 10,
        "load.idle": 1,
        "load.pipeline": 2,
        "load.requests_per_connection": 1,
        "load.requests": 1_000,
        "load.rate": "20k",
        "load.arrivals": "even",
        "load.threads": 2,
        "load.processes": 2,
        "load.driver": "io_uring",
        "load.probes": 1,
        "load.spin_us": 1,
        "load.details": True,
        "load.connect_per_s": 100,
        "load.verify": "one_receive",
        "load.open": "as_needed",
        "load.cpus": "1",
        "server.workers": 2,
        "server.worker_kind": "process",
        "server.sockets": 2,
        "server.instances": 2,
        "server.interpreter": "nogil",
        "server.cpus": "0-1",
        "server.cpu_quota": 2.0,
        "server.memory_limit_bytes": "512MB",
        "server.nice": 5,
        "server.processes_max": 100,
        "server.descriptors_max": 100,
        "server.environment": {"A": "1"},
        "path.delay_ms": 24.5,
        "path.rate_bits_per_s": 1e6,
        "path.queue_packets": 10,
        "path.loss": 0.01,
        "path.mtu": 1_400,
        "path.syn_cookies": False,
        "path.seed": 2,
        "trial.warmup_ms": 2_000,
        "trial.duration_ms": 2_000,
        "trial.interval_ms": 10,
        "trial.timeout_ms": 5_000,
        "trial.start_ms": 20_000,
        "trial.processors": "shared",
    }
    of_protocols = {f"workload.{key}" for kind in WORKLOADS.values() for key in kind.model_fields}
    assert SETTINGS.keys() - changes.keys() <= of_protocols
    keys = {changed(cell, {name: value}).key for name, value in changes.items()}
    keys |= {changed(cell, {"path.delay_ms": 0}).key, cell_of(Contestant.parse("a"), settings_of(cell)).key}
    assert len(keys - {cell.key}) == len(changes) + 2


def test_a_setting_at_its_default_is_not_in_the_key() -> None:
    """So a new setting of a later version leaves the keys of stored trials unchanged."""
    cell = vs_plan(["epoll", "io_uring"], ECHO).comparisons[0].cells[0]
    assert cell_of(cell.contestant, settings_of(cell)).key == cell.key
    assert cell.key == digest_of({"contestant": "epoll", "workload": {"protocol": "echo"}})


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("load.rate", "20k", 20_000.0),
        ("load.rate", 1_000, 1_000.0),
        ("load.rate", "50 % of capacity of the slowest", "50% of capacity of the slowest"),
        ("load.rate", "0.00001% of capacity of the slowest", "0.00001% of capacity of the slowest"),
        ("load.rate", "37.50% of capacity of the slowest", "37.5% of capacity of the slowest"),
        ("server.cpus", "0-2,5", (0, 1, 2, 5)),
        ("server.cpus", [3, 1], (3, 1)),
        ("server.memory_limit_bytes", "512MB", 512_000_000),
        ("server.memory_limit_bytes", "2 GiB", 2 << 30),
    ],
)
def test_a_setting_may_be_written_as_people_do(name: str, value: object, read: object) -> None:
    cell = vs_plan(["epoll", "io_uring"], {**ECHO, name: value}).comparisons[0].cells[0]
    assert settings_of(cell)[name] == read


NAMED = b"""
name = "named"
question = "Which?"
[fixed.workload]
protocol = "http"
[fixed.load]
connections = 20
[axes]
load.active = [1, 10]
"server.workers" = [1]
[[contestants]]
name = "two processors"
server = "hyper"
server_settings = { cpus = "0-1" }
[[contestants]]
name = "as published"
server = "monoio"
workload = { reply_bytes = 0 }
trial = { duration_ms = 1000 }
"""


PARTS = (
    NAMED
    + b"""
[[skip]]
at = { load.active = 10 }
contestant = "as published"
reason = "it holds one"
"""
)


def test_what_is_skipped_is_in_no_comparison_and_has_a_reason() -> None:
    plan = parse_experiment(PARTS)
    assert [each.titles for each in plan.comparisons] == [("two processors", "as published"), ("two processors",)]
    assert [f"{each.words}: {each.reason}" for each in plan.skipped] == ["as published at active=10: it holds one"]
    whole = parse_experiment(PARTS.replace(b'contestant = "as published"\n', b""))
    assert [each.name for each in whole.comparisons] == ["active=1 workers=1"]


def test_what_cannot_be_may_be_skipped_where_axes_cross() -> None:
    crossed = NAMED.replace(b"[1, 10]", b"[1, 10, 100]")
    with pytest.raises(PlanError, match="100 active connections are more than 20 connections"):
        parse_experiment(crossed)
    skip = b"[[skip]]\nreason = 'there are 20'\nat = { load.active = 100 }\n"
    assert parse_experiment(crossed + skip).comparisons == parse_experiment(NAMED).comparisons
    with pytest.raises(PlanError, match=r"skip\[1\]: nothing is like that"):
        parse_experiment(NAMED + skip)


def test_a_quick_run_may_be_a_part_of_an_experiment() -> None:
    plan = parse_experiment(
        NAMED + b"[quick]\naxes = { load.active = [10] }\n[[quick.skip]]\ncontestant = 'as published'\n"
    )
    quick = plan.quick()
    assert [(each.name, each.titles) for each in quick.comparisons] == [("active=10 workers=1", ("two processors",))]
    assert (plan.is_quick, quick.is_quick, quick.quick()) == (False, True, quick)
    assert Plan.model_validate_json(quick.model_dump_json()) == quick


def test_a_quick_run_may_lack_what_a_claim_is_about() -> None:
    claim = b"""[[claims]]
id = "C"
text = "x"
decide = { relation = "order", contestants = ["as published", "two processors"] }
"""
    plan = parse_experiment(NAMED + b"[[quick.skip]]\ncontestant = 'as published'\n" + claim)
    assert plan.quick().claims == plan.claims


@pytest.mark.parametrize(
    ("contestant", "settings", "needs"),
    [
        ("", "", {"processors": 4}),
        ("needs = { processors = 8, path = true }\n", "", {"processors": 8, "path": True}),
        ("needs = { programs = ['ab'] }\n", "", {"processors": 4, "programs": ("ab",)}),
        ("", "[fixed.server]\ncpu_quota = 2.0\nprocesses_max = 9\n",
         {"processors": 4, "cpu_quota": True, "processes_limit": True}),
        ("", "[fixed.server]\nmemory_limit_bytes = '64MiB'\n", {"processors": 4, "memory_limit": True}),
        ("", "[fixed.path]\ndelay_ms = 5\n", {"processors": 4, "path": True}),
    ],
)  # fmt: skip
def test_a_contestant_needs_what_it_its_experiment_and_its_settings_need(
    contestant: str, settings: str, needs: dict[str, object]
) -> None:
    text = NAMED.replace(b'name = "as published"\n', b'name = "as published"\n' + contestant.encode())
    plan = parse_experiment(text + settings.encode() + b"[needs]\nprocessors = 4\n")
    assert plan.needs_of(0, 1) == Needs.model_validate(needs)
    assert plan.digest == parse_experiment(NAMED + settings.encode()).digest, "needs decide nothing that is measured"


def test_other_settings_make_another_run_that_says_so() -> None:
    plan = parse_experiment(PARTS)
    other = with_settings(plan, {"load.connections": "200", "trial.duration_ms": "500"})
    assert {cell.load.connections for each in other.comparisons for cell in each.cells} == {200}
    assert {cell.trial.duration_ms for each in other.quick().comparisons for cell in each.cells} == {500}
    assert other.overrides == {"load.connections": "200", "trial.duration_ms": "500"}
    assert other.digest != plan.digest
    assert with_settings(plan, {}) is plan


def test_a_setting_that_was_an_axis_has_one_value_when_it_is_given() -> None:
    plan = parse_experiment(NAMED)
    other = with_settings(plan, {"load.active": "5"})
    assert [(each.name, each.setting) for each in other.comparisons] == [("workers=1", {"server.workers": 1})]
    assert {cell.load.active for cell in other.comparisons[0].cells} == {5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"load.conections": "5"}, "load.conections: there is no such setting: did you mean 'load.connections'?"),
        ({"load.connections": "many"}, "load.connections: must be a whole number, not 'many'"),
        ({"workload.message_bytes": "5"}, "workload.message_bytes: is not a setting of http"),
        ({"load.threads": "90"}, "load: 90 generator threads cannot share 1 connections"),
    ],
)
def test_a_setting_that_cannot_be_given_is_refused_in_one_line(settings: dict[str, str], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_settings(parse_experiment(NAMED), settings)
    assert str(caught.value) == message


def test_a_contestant_has_a_name_and_settings_of_its_own() -> None:
    comparisons = parse_experiment(NAMED).comparisons
    assert [each.name for each in comparisons] == ["active=1 workers=1", "active=10 workers=1"]
    assert comparisons[1].setting == {"load.active": 10, "server.workers": 1}
    assert comparisons[1].titles == ("two processors", "as published")
    first, second = (settings_of(cell) for cell in comparisons[1].cells)
    differing = {name: (first[name], second[name]) for name in first if first[name] != second[name]}
    assert differing == {
        "server.cpus": ((0, 1), ()),
        "workload.reply_bytes": (1, 0),
        "trial.duration_ms": (3_000, 1_000),
    }


def test_the_key_of_a_cell_is_the_same_everywhere_and_always() -> None:
    cell = vs_plan(["epoll", "io_uring"], ECHO).comparisons[0].cells[0]
    assert cell.key == "61d0275bfe7beedb"


def test_prose_and_claims_do_not_decide_what_is_measured() -> None:
    plan = vs_plan(["epoll", "io_uring"], ECHO)
    assert plan.model_copy(update={"analysis": "other words", "question": "why?"}).digest == plan.digest
    assert vs_plan(["epoll", "io_uring"], ECHO, seed=2).digest != plan.digest
    assert vs_plan(["epoll", "io_uring"], ECHO, blocks=13).digest != plan.digest
    assert vs_plan(["io_uring", "epoll"], ECHO).digest != plan.digest


def test_the_same_contestant_twice_has_two_titles_and_one_key() -> None:
    comparison = vs_plan(["epoll", "epoll"], ECHO).comparisons[0]
    assert comparison.titles == ("epoll", "epoll (2)")
    assert len({cell.key for cell in comparison.cells}) == 1


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_loads_and_survives_its_json(path: Path) -> None:
    plan = load_experiment(path)
    assert plan.name == path.stem
    assert plan.analysis
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert all(plan.digest != other.digest for other in (plan.quick(),))


def test_there_are_experiments() -> None:
    assert {path.stem for path in EXPERIMENTS} >= {"instrument", "echo-io_uring-epoll"}


def test_the_published_table_of_the_echo_note_is_that_of_the_note() -> None:
    plan = load_experiment(next(path for path in EXPERIMENTS if path.stem == "echo-io_uring-epoll"))
    rates = [[row.number(name, "throughput") or 0.0 for name in ("epoll", "io_uring")] for row in plan.published]
    ratios = [io_uring / epoll for epoll, io_uring in rates]
    assert ratios == pytest.approx([1.130, 1.200, 1.137, 1.203], abs=5e-4)
    assert math.prod(ratios) ** (1 / 4) == pytest.approx(1.167, abs=5e-4)
    assert [row.at for row in plan.published] * 2 == [comparison.setting for comparison in plan.comparisons]
    assert [claim.id for claim in plan.claims] == ["C1-1", "C1-2", "C1-3", "C1-6"]


def test_quick_runs_keep_their_promise_of_time() -> None:
    assert vs_plan(["epoll", "io_uring"], ECHO).quick().duration_s < 40
    for path in EXPERIMENTS:
        quick = load_experiment(path).quick()
        assert quick.duration_s + quick.counting_s <= LONG_S.get(path.stem, 120), path.stem


def test_quick_has_ten_blocks_unless_fewer_are_planned_or_more_are_needed() -> None:
    for rivals, least in ((1, 6), (2, 7), (3, 7), (4, 8), (15, 10)):
        contestants = ["epoll"] * (rivals + 1)
        assert vs_plan(contestants, ECHO).quick().blocks == 10
        assert vs_plan(contestants, ECHO, blocks=least).quick().blocks == least
        with pytest.raises(PlanError, match=f"use {least} or more"):
            vs_plan(contestants, ECHO, blocks=least - 1)
    assert vs_plan(["epoll"] * 2, ECHO).quick().quick() == vs_plan(["epoll"] * 2, ECHO).quick()


HEAD = b'name = "a"\nquestion = "why?"\n'
MODELS = {"epoll": ["trigger"], "io_uring": ["recv", "send"], "thread": []}
# Files with mistakes; below each, after "=>", the lines of the error.
MISTAKES = (Path(__file__).parent / "golden" / "mistakes.txt").read_text(encoding="utf-8").split("\n\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *((text.encode(), line.strip()) for text, _, line in (each.partition("=> ") for each in MISTAKES)),
        (b"\xff", "is not UTF-8 text: save it as UTF-8"),
        (b"x = 1 #" + b"x" * (1 << 20), "an experiment has at most 1024 KiB"),
    ],
)
def test_each_mistake_in_an_experiment_is_one_line_with_its_key_and_what_to_write(text: bytes, line: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_experiment(text, MODELS)
    assert str(caught.value) == line


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(PlanError, match=str(path)):
            load_experiment(path)
    bad = tmp_path / "bad.toml"
    bad.write_text("name = 1")
    with pytest.raises(PlanError, match=r"bad\.toml: name: must be text.*\n/.*bad\.toml: question: is missing"):
        load_experiment(bad)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_experiment_is_a_plan_or_lines_that_say_what_is_wrong(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(EXPERIMENTS)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    refusal = "it is a plan"
    try:
        parse_experiment(bytes(text))
    except PlanError as error:
        refusal = str(error)
    assert all(refusal.split("\n"))


# --- The order of trials ------------------------------------------------------------------------------------------

plans = st.builds(
    lambda sizes, extra, seed: _plan(sizes, extra, seed),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 1 << 40),
)


def _plan(sizes: list[int], extra: int, seed: int) -> Plan:
    """A plan with one comparison for each number of contestants."""
    groups = "".join(
        f"[[comparisons]]\ntitle = 'group {at}'\ncontestants = {['epoll'] * size}\n" for at, size in enumerate(sizes)
    )
    text = f"blocks = {8 + extra}\nseed = {seed}\nfixed.workload = {{ protocol = 'echo' }}\n{groups}"
    return parse_experiment(HEAD + text.encode())


@settings(max_examples=80, deadline=None)
@given(plans)
def test_every_block_has_each_contestant_once_and_stays_together(plan: Plan) -> None:
    trials = schedule(plan)
    assert trials == schedule(plan)
    assert len({trial.place for trial in trials}) == len(trials)
    runs = [list(group) for _, group in itertools.groupby(trials, key=lambda trial: (trial.block, trial.comparison))]
    assert len(runs) == plan.blocks * len(plan.comparisons)
    assert [run[0].block for run in runs] == sorted(run[0].block for run in runs)
    for run in runs:
        cells = plan.comparisons[run[0].comparison].cells
        assert sorted(trial.slot for trial in run) == list(range(len(cells)))
        assert [trial.position for trial in run] == list(range(len(cells)))
        assert all(trial.cell == cells[trial.slot].key and plan.holds(trial) for trial in run)


def test_the_order_correlates_with_nothing() -> None:
    """Over 1,000 plans: the order is a fair coin without runs, independent of block, size and neighbour."""
    first = np.array(
        [
            [[trial.slot for trial in trials if trial.block == block and trial.position == 0] for block in range(12)]
            for seed in range(1_000)
            if (trials := schedule(vs_plan(["epoll", "io_uring"], ECHO, seed=seed)))
        ]
    ).reshape(1_000, 12)
    coins = first.ravel()
    assert scipy.stats.binomtest(int(coins.sum()), coins.size).pvalue > 0.01
    assert _runs_test(coins) > 0.01
    assert _runs_test(first.T.ravel()) > 0.01
    by_block = first.sum(axis=0)
    assert scipy.stats.chisquare(np.stack([by_block, 1_000 - by_block]).ravel()).pvalue > 0.01


def _runs_test(coins: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    """The Wald-Wolfowitz p-value for independent coins."""
    ones = int(coins.sum())
    zeros = coins.size - ones
    runs = 1 + int(np.count_nonzero(np.diff(coins)))
    mean = 2 * ones * zeros / coins.size + 1
    variance = (mean - 1) * (mean - 2) / (coins.size - 1)
    return 2 * float(scipy.stats.norm.sf(abs(runs - mean) / math.sqrt(variance)))


def test_comparisons_take_turns_in_every_order() -> None:
    plan = load_experiment(next(path for path in EXPERIMENTS if path.stem == "echo-io_uring-epoll"))
    orders = Counter(
        tuple(trial.comparison for trial in schedule(plan) if trial.block == block and trial.position == 0)
        for block in range(plan.blocks)
    )
    assert len(orders) > plan.blocks / 2


# --- Resuming -----------------------------------------------------------------------------------------------------

GOOD = MachineNoise(steal_share=0.0, foreign_cpu_cores=0.0)
BUSY = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
SMALL = vs_plan(["epoll", "io_uring"], ECHO, blocks=6)


def run(plan: Plan, discarded: set[Place], stops: list[int] | None = None) -> list[Result]:
    """Runs a plan to its end with these trials discarded, and resumes after each number of trials in `stops`."""
    results: list[Result] = []
    pauses = iter(stops or [])
    while rest := remaining(plan, results):
        results += [_finished(plan, trial, discarded) for trial in rest[: next(pauses, None)]]
    return results


def _finished(plan: Plan, trial: Trial, discarded: set[Place]) -> Result:
    return result(plan, trial, noise=BUSY if trial.place in discarded else GOOD)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=8), st.sets(st.tuples(*[st.integers(0, 5), st.integers(0, 1)]), max_size=3))
def test_a_run_that_is_torn_and_resumed_is_the_unbroken_run(stops: list[int], discarded: set[tuple[int, int]]) -> None:
    places = {Place(0, block, 0, slot) for block, slot in discarded}
    unbroken = run(SMALL, places)
    assert [r.trial for r in run(SMALL, places, stops)] == [r.trial for r in unbroken]
    assert [r.trial for r in unbroken][:12] == list(schedule(SMALL))
    again = {block for block, _ in discarded}
    assert len(again) <= SMALL.blocks // 2
    assert Counter(r.trial.block for r in unbroken if r.trial.attempt == 1) == dict.fromkeys(again, 2)


def test_a_block_that_is_run_again_warms_up_twice_as_long_for_all() -> None:
    again = [r.trial for r in run(SMALL, {Place(0, 3, 0, 1)}) if r.trial.attempt == 1]
    assert [SMALL.cell(trial).trial.warmup_ms for trial in again] == [2_000, 2_000]
    assert SMALL.cell(schedule(SMALL)[0]).trial.warmup_ms == 1_000


def test_a_machine_that_is_always_busy_makes_a_run_longer_by_half_at_most() -> None:
    everything = {Place(0, b, a, s) for b in range(6) for a in range(RETRIES_MAX + 1) for s in range(2)}
    assert len(run(SMALL, everything)) == 1.5 * len(schedule(SMALL))
    one_block = SMALL.model_copy(update={"blocks": 1})
    assert len(run(one_block, everything)) == 2 * len(schedule(one_block))


def test_a_contestant_that_failed_for_good_is_not_started_again() -> None:
    plan = vs_plan(["epoll", "io_uring", "tokio"], ECHO, blocks=7)
    first = next(trial for trial in schedule(plan) if trial.slot == 1)
    failure = Failure(kind="not_available", message="io_uring is forbidden here", final=True)
    rest = remaining(plan, [Result(trial=first, started="", failure=failure)])
    assert Counter(trial.slot for trial in rest) == {0: 7, 2: 7}
    passing = Failure(kind="died", message="it died")
    assert len(remaining(plan, [Result(trial=first, started="", failure=passing)])) == 20


def test_results_of_another_plan_count_for_nothing() -> None:
    others = run(vs_plan(["epoll", "tokio"], ECHO, blocks=12), set())
    assert {trial.slot for trial in remaining(SMALL, others)} == {1}


@pytest.mark.parametrize(
    ("setting", "workload"),
    [
        ({"protocol": "line"}, {"protocol": "line", "message_bytes": 12}),
        ({"protocol": "line", "message_bytes": 100}, {"protocol": "line", "message_bytes": 100}),
        ({"protocol": "rpc"}, {"protocol": "rpc", "target": 1_000, "text_bytes": 11, "work_ns": 0}),
        (
            {"protocol": "rpc", "target": 9, "text_bytes": 5, "work_ns": 2_000},
            {"protocol": "rpc", "target": 9, "text_bytes": 5, "work_ns": 2_000},
        ),
    ],
)
def test_every_protocol_takes_its_own_settings(setting: dict[str, Scalar], workload: dict[str, Scalar]) -> None:
    setting = setting | {"sockets": 3, "worker_kind": "process", "workers": 2}
    cell = vs_plan(["epoll", "io_uring"], setting).comparisons[0].cells[0]
    assert cell.workload.model_dump() == workload
    assert (cell.server.sockets, cell.server.worker_kind, cell.server.workers) == (3, "process", 2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"protocol": "line", "framing": "raw"}, "framing: is not a setting of line: leave it out"),
        ({"protocol": "rpc", "message_bytes": 5}, "message_bytes: is not a setting of rpc"),
        ({"protocol": "morse"}, "there is no protocol 'morse': use one of http, echo, line, rpc"),
        ({"protocol": "echo", "worker_kind": "fibre"}, "worker_kind: "),
        ({"protocol": "echo", "sockets": 0}, "sockets: "),
    ],
)
def test_a_setting_of_another_protocol_is_refused_in_one_line(setting: dict[str, Scalar], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        vs_plan(["epoll", "io_uring"], setting)
    with pytest.raises(PlanError, match="so it listens on one socket"):
        vs_plan(["epoll", "cmd:./mine {port}"], ECHO | {"sockets": 2})


LADDER = b"""
name = "small"
question = "What is each worth?"
blocks = 9
[quick]
blocks = 9
duration_ms = 300
[fixed.workload]
protocol = "echo"
[[comparisons]]
title = "ladder"
ladder = true
labels = ["bottom", "+ a", "+ b", "+ c"]
contestants = ["epoll", "epoll[a=1]", "epoll[a=1,b=1]", "epoll[a=1,b=1,c=1]"]
"""


def test_each_rung_of_a_ladder_is_compared_with_the_one_below_it() -> None:
    plan = parse_experiment(LADDER)
    comparison = plan.comparisons[0]
    assert comparison.titles == ("bottom", "+ a", "+ b", "+ c")
    assert [comparison.reference(slot) for slot in range(1, 4)] == [0, 1, 2]
    assert (comparison.many, comparison.ranked) == (True, False)
    assert vs_plan(["epoll"] * 4, ECHO).comparisons[0].ranked
    assert not vs_plan(["epoll"] * 3, ECHO).comparisons[0].many
    with pytest.raises(PlanError, match="labels: there are 1 for 4 contestants"):
        parse_experiment(LADDER.replace(b'"bottom", "+ a", "+ b", "+ c"', b'"bottom"'))


@pytest.mark.parametrize(
    ("interval_ms", "usual_ms", "short_ms", "fitted_ms"),
    [
        (20, 1_000, 155, 160),
        (7, 700, 150, 154),
        (7, 105, 800, 105),
        (5, 1_000, 155, 155),
        (20, 3_600_000, 3_599_999, 3_600_000),
    ],
)
def test_the_times_of_a_quick_run_are_whole_intervals(
    interval_ms: int, usual_ms: int, short_ms: int, fitted_ms: int
) -> None:
    setting = ECHO | {"interval_ms": interval_ms, "warmup_ms": usual_ms, "duration_ms": usual_ms}
    plan = vs_plan(["epoll", "io_uring"], setting)
    short = Quick(warmup_ms=short_ms, duration_ms=short_ms)
    quick = plan.model_copy(update={"short": short}).quick()
    cell = quick.comparisons[0].cells[0]
    assert (cell.trial.warmup_ms, cell.trial.duration_ms) == (fitted_ms, fitted_ms)
    assert quick.quick() == quick


def test_an_experiment_says_how_short_its_quick_run_is() -> None:
    quick = parse_experiment(LADDER).quick()
    cell = quick.comparisons[0].cells[0]
    assert (quick.blocks, cell.trial.warmup_ms, cell.trial.duration_ms) == (9, 250, 300)
    assert quick.quick() == quick


FIVE = vs_plan([f"epoll[x={n}]" for n in range(5)], ECHO, blocks=10)


def run_one_by_one(plan: Plan, is_discarded: Callable[[Trial], bool], stops: Set[int] = frozenset()) -> list[Trial]:
    """Runs a plan as the runner does, one trial at a time; at `stops` it reads the results back from JSON."""
    results: list[Result] = []
    while rest := remaining(plan, results):
        results.append(result(plan, rest[0], noise=BUSY if is_discarded(rest[0]) else GOOD))
        if len(results) in stops:
            results = [Result.model_validate_json(each.model_dump_json()) for each in results]
    return [each.trial for each in results]


def discards(share: float, seed: int) -> Callable[[Trial], bool]:
    """Discards trials at random, each independently."""
    random = np.random.default_rng(seed).random((1_000, RETRIES_MAX + 1, 16))
    return lambda trial: bool(random[trial.block, trial.attempt, trial.slot] < share)


def test_a_void_trial_of_many_is_run_again_at_the_end_of_its_own_block() -> None:
    ran = run_one_by_one(
        FIVE, lambda trial: (trial.block, trial.slot) in {(1, 1), (1, 3), (4, 0)} and not trial.attempt
    )
    blocks = [trial.block for trial in ran]
    assert blocks == sorted(blocks), "before the next block begins"
    assert [trial for trial in ran if not trial.attempt] == list(schedule(FIVE))
    again = [(trial.block, trial.slot, trial.attempt) for trial in ran if trial.attempt]
    assert sorted(again) == [(1, 1, 1), (1, 3, 1), (4, 0, 1)]
    for block in (1, 4):
        attempts = [trial.attempt for trial in ran if trial.block == block]
        assert attempts == sorted(attempts), "after the others of its block"
    warmups = {FIVE.cell(trial).trial.warmup_ms for trial in ran}
    assert len(warmups) == 1, "it warms up as long as the others of its block"


@pytest.mark.parametrize(
    ("is_discarded", "reruns"),
    [
        pytest.param(lambda trial: False, {}, id="nothing is discarded"),
        pytest.param(
            lambda trial: trial.block == 2, dict.fromkeys(range(5), 2), id="twice for each trial of a bad minute"
        ),
        pytest.param(lambda trial: trial.slot == 3, {3: 10}, id="as many as blocks for one that is always discarded"),
        pytest.param(lambda trial: True, dict.fromkeys(range(5), 5), id="half of all trials on a machine always busy"),
    ],
)
def test_reruns_of_many_have_a_budget(is_discarded: Callable[[Trial], bool], reruns: dict[int, int]) -> None:
    ran = run_one_by_one(FIVE, is_discarded)
    again = Counter(trial.slot for trial in ran if trial.attempt)
    assert again.total() == sum(reruns.values())
    assert set(again) <= set(reruns)
    assert len(ran) <= 1.5 * len(schedule(FIVE))


@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_many_that_is_torn_anywhere_is_the_unbroken_run(seed: int) -> None:
    is_discarded = discards(0.3, seed)
    unbroken = run_one_by_one(FIVE, is_discarded)
    assert len(unbroken) > len(schedule(FIVE))
    assert run_one_by_one(FIVE, is_discarded, stops=set(range(200))) == unbroken


def test_a_contestant_of_many_that_failed_for_good_is_not_run_again() -> None:
    first = [trial for trial in schedule(FIVE) if trial.block == 0]
    failure = Failure(kind="not_available", message="not here", final=True)
    made = [
        Result(trial=trial, started="", failure=failure) if trial.slot == 2 else result(FIVE, trial) for trial in first
    ]
    assert {trial.slot for trial in remaining(FIVE, made)} == {0, 1, 3, 4}


def test_costs_are_still_to_be_seen_of_those_that_take_part_and_were_not_seen() -> None:
    plan = vs_plan(["epoll", "io_uring", "cmd:./mine {port}"], ECHO, blocks=7)
    cells = plan.comparisons[0].cells
    assert uncounted(plan, [], []) == ((0, 0), (0, 1), (0, 2))
    seen = CostCount(comparison=0, slot=0, cell=cells[0].key, requests=10, calls=25)
    of_another = CostCount(comparison=0, slot=2, cell="0" * 16)
    gone = Result(
        trial=next(trial for trial in schedule(plan) if trial.slot == 1),
        started="2026-01-01",
        failure=Failure(kind="holds", message="holds 1", final=True),
    )
    assert uncounted(plan, [gone], [seen, of_another]) == ((0, 2),)
    assert seen.per_request == 2.5
    assert of_another.per_request is None
    assert plan.counting_cell(0, 0).trial.warmup_ms + plan.counting_cell(0, 0).trial.duration_ms < 500
