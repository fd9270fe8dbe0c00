"""Unequal conditions in a comparison are found and reported, and a fair comparison raises nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import made
from iolab import report
from iolab.cli import terminal
from iolab.contract.types import ServeReady, updated
from iolab.judge.results import Results, judged
from iolab.judge.trial import judged as judge_trial
from iolab.machine.cpus import Cpu
from iolab.measure.placement import placed
from iolab.plan.experiment import load_experiment, parse_experiment
from iolab.plan.plan import Plan, Quick, Trial
from iolab.plan.schedule import schedule
from iolab.plan.settings import Cell
from iolab.report import markdown
from iolab.results.records import Failure, MachineNoise, Result
from iolab.results.store import Trials

pytestmark = pytest.mark.usefixtures("few_resamples")

BUSY = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
MACHINE = [Cpu(id=id_, core=id_) for id_ in range(8)]
EXPERIMENT = """
name = "pair"
question = "Which is faster?"
contestants = [{contestants}]
blocks = 8
fixed = {{ workload.protocol = "http", load.connections = 50 }}
"""


def plan_of(*contestants: str) -> Plan:
    """A comparison of contestants, each in the TOML of an experiment."""
    plan = parse_experiment(EXPERIMENT.format(contestants=", ".join(contestants)).encode())
    return placed(plan, MACHINE)[0]


def as_published() -> Plan:
    """S4's configuration as published, from the experiment that iolab ships."""
    shipped = load_experiment(Path(__file__).parent.parent / "experiments/http-hyper-monoio.toml")
    (comparison,) = (each for each in shipped.comparisons if each.group == "as published")
    plan = updated(shipped, comparisons=(comparison,), short=Quick(), published=(), claims=(), blocks=8)
    return placed(plan, MACHINE)[0]


def run(plan: Plan, *, cores: Sequence[float] = (), engine_says: bool = True) -> Results:
    """A run in which each server uses one CPU per worker, or the given `cores`, and reports its settings."""

    def trial(each: Trial) -> Result:
        cell = plan.cell(each)
        used = cores[each.slot] if cores else 0.98 * cell.server.workers
        rate_per_s = 1_000_000 / (cell.trial.duration_ms / 1_000)
        size = 105 if getattr(cell.workload, "reply_status", 200) == 204 else 133
        received = {"sent": 64_000_000, "received": 1_000_000 * size}
        result = made.result(plan, each, rate_per_s=rate_per_s, server_share=used, bytes=received)
        return result.model_copy(update={"ready": said_by(cell, engine_says)})

    return judged(plan, {}, Trials(tuple(map(trial, schedule(plan))), ()))


def said_by(cell: Cell, engine_says: bool) -> ServeReady | None:
    """The ready line of a model; an older engine (`engine_says` is false) does not say how the model is made."""
    if cell.contestant.kind == "command":
        return None
    how: dict[str, Any] = {
        "parser": "hyper" if cell.contestant.name == "hyper" else "iolab",
        "moves_connections": cell.contestant.options.get("runtime") == "multi",
    }
    listen = ("127.0.0.1:40001",)
    return ServeReady(
        model=cell.contestant.title, listen=listen, pid=1, build="b", workers=1, **(how if engine_says else {})
    )


def warned(found: Results) -> set[str]:
    return {each.aspect for each in found.verdicts[0].asymmetries if each.warns}


# What S4 compared besides ring and epoll.
OF_S4 = (
    "server.workers: hyper as published 2, monoio as published 1",
    "workload.reply_status: hyper as published 200, monoio as published 204",
    "workload.reply_bytes: hyper as published 1, monoio as published 0",
    "What parses requests and builds replies: hyper as published hyper, monoio as published iolab",
    "Connections may move from one thread to another: hyper as published yes, monoio as published no",
    "Cores used: hyper as published 1.96, monoio as published 0.98",
)


def test_the_published_configuration_of_s4_raises_its_four_asymmetries_by_itself() -> None:
    found = run(as_published())
    shown = "\n".join(terminal.notices(found.verdicts))
    page, text = unescape(report.render(found)), markdown.of_run(found).replace("\\", "")
    document = json.loads(json.dumps(found.document()))["verdicts"][0]["asymmetries"]
    before, _, folded = page[page.index("<dt>Not equal</dt>") :].partition("</dd>")[0].partition("<details>")
    for line in OF_S4:
        assert f"not equal: {line}" in shown
        assert line in before + folded
        assert line in text
        assert any(each["text"] == f"{line}." and each["warns"] for each in document)
    assert all(line in before for line in OF_S4[:5]), "they are not folded away"
    assert "monoio as published: 105 bytes a reply, the reference 133" in before
    assert {"had": {"hyper as published": "2", "monoio as published": "1"}}.items() <= next(
        each for each in document if each["aspect"] == "server.workers"
    ).items()


TWO_WORKERS = '{ name = "two", server = "epoll", server_settings = { workers = 2 } }'
NO_BODY = '{ server = "epoll", workload = { reply_bytes = 0, reply_status = 204 } }'
OWN_LOAD = '{ name = "own load", server = "epoll", load = { pipeline = 4 } }'
MINE, YOURS = "'cmd:./mine --port {port}'", "'cmd:./yours --port {port}'"


@pytest.mark.parametrize(
    ("contestants", "cores", "aspects"),
    [
        pytest.param(['"epoll"', '"io_uring"'], (), set(), id="a fair pair"),
        pytest.param(['"epoll"', '"epoll"'], (), set(), id="a server with itself"),
        pytest.param(['"hyper"', '"hyper"'], (), set(), id="a library with itself"),
        pytest.param(
            [TWO_WORKERS, '"io_uring"'],
            (),
            {"server.workers", "server.cpus", "load.cpus", "cores_used"},
            id="two processors against one",
        ),
        pytest.param([MINE, YOURS], (1.9, 0.97), {"cores_used"}, id="two processors that nobody asked for"),
        pytest.param([MINE, YOURS], (0.99, 0.6), set(), id="less of one processor"),
        pytest.param(
            ['"io_uring"', NO_BODY], (), {"workload.reply_bytes", "workload.reply_status"}, id="a byte against no body"
        ),
        pytest.param(['"hyper"', '"tokio"'], (), {"parser"}, id="two HTTP libraries"),
        pytest.param(['"tokio[runtime=multi]"', '"epoll"'], (), {"moves_connections"}, id="a runtime that moves tasks"),
        pytest.param(['"fork[backlog=3]"', '"thread"'], (), {"backlog"}, id="another backlog"),
        pytest.param(['"io_uring"', OWN_LOAD], (), {"load.pipeline"}, id="another load"),
        pytest.param(['"epoll"', OWN_LOAD], (), set(), id="two loads of one server are what is compared"),
        pytest.param(['"epoll[backlog=3]"', '"epoll"'], (), set(), id="two options of one model are what is compared"),
        pytest.param(
            ['"tokio[runtime=multi]"', '"tokio"'], (), set(), id="two runtimes of one model are what is compared"
        ),
        pytest.param(['"epoll"', MINE], (), set(), id="a program has a parser of its own"),
    ],
)
def test_what_is_not_equal_besides_what_is_compared_is_warned_of(
    contestants: list[str], cores: tuple[float, ...], aspects: set[str]
) -> None:
    found = run(plan_of(*contestants), cores=cores)
    assert warned(found) == aspects
    not_equal = [line for line in terminal.notices(found.verdicts) if line.startswith("not equal: ")]
    assert len(not_equal) == len(aspects)


def test_a_fair_comparison_has_nothing_to_say_on_the_page() -> None:
    found = run(plan_of('"epoll"', '"io_uring"'))
    assert found.verdicts[0].asymmetries == ()
    assert "Nothing that the lab can see: same work, load and processors" in report.render(found)
    assert "Not equal" not in markdown.of_run(found)


def test_what_is_no_warning_is_on_the_page_all_the_same() -> None:
    found = run(plan_of('"epoll"', MINE), cores=(0.98, 0.7))
    page = unescape(report.render(found))
    assert "What parses requests and builds replies: epoll iolab, ./mine its own." in page
    assert "Cores used: epoll 0.98, ./mine 0.70." in page


def test_of_an_engine_that_did_not_say_how_models_are_made_nothing_is_said() -> None:
    assert warned(run(plan_of('"hyper[runtime=multi]"', '"epoll"'), engine_says=False)) == set()


def test_two_parsers_are_warned_of_beside_a_contestant_that_broke() -> None:
    plan = plan_of('"hyper"', '"tokio"', '"thread"')
    died = Failure(kind="died", message="the server was killed by SIGSEGV", final=True)
    made = [
        each.model_copy(update={"failure": died, "report": None, "server": None}) if each.trial.slot == 2 else each
        for each in run(plan).trials
    ]
    assert "parser" in warned(judged(plan, {}, Trials(tuple(made), ())))


def test_of_many_contestants_those_that_differ_from_most_are_named() -> None:
    found = run(plan_of('"hyper"', '"tokio"', '"epoll"', '"io_uring"', '"thread"'))
    (parser,) = (each for each in found.verdicts[0].asymmetries if each.aspect == "parser")
    assert parser.text == "What parses requests and builds replies: hyper hyper, the others iolab."


def test_what_servers_say_of_themselves_is_known_where_every_trial_is_discarded() -> None:
    plan = plan_of('"hyper[runtime=multi]"', '"epoll"')
    busy = [judge_trial(plan.cell(each.trial), each.model_copy(update={"noise": BUSY})) for each in run(plan).trials]
    found = judged(plan, {}, Trials(tuple(busy), ()))
    assert found.verdicts[0].blocks_used == 0
    assert warned(found) == {"parser", "moves_connections"}
