"""Cells without our generator, with a foreign client or with no load at all: from the plan to the report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import FakeHost, is_alive, wait_until
from iolab.errors import PlanError
from iolab.judge import results as judged
from iolab.judge.trial import judged as judge_trial
from iolab.measure import output, runner
from iolab.measure.client import Client
from iolab.measure.engine import TrialFailed
from iolab.measure.processes import Place
from iolab.metrics import METRICS, Side, value_of
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.plan import Plan, name_of
from iolab.plan.schedule import schedule
from iolab.report import commands, render
from iolab.results import export, store
from iolab.results.export import Table
from iolab.results.records import ClientRun, MachineNoise, Result, ServerUsage

CLIENT = "cmd:./client.py --connect {address} --clients {connections} --reuse yes"
EXPERIMENT = """
name = "clients"
question = "Whose figures?"
contestants = ["epoll", "thread"]
blocks = 6
fixed.workload.protocol = "echo"
"""
# Two processes that work for a while and report what they did.
PROGRAM = """
import json, os, sys, time
children = [os.fork() for _ in range(2)]
if 0 in children:
    end = time.process_time() + 0.05
    while time.process_time() < end: pass
    os._exit(0)
for _ in children: os.wait()
print("connected to", sys.argv[1])
print(json.dumps({"requests": 1000, "failed": 1, "elapsed_s": 0.5, "clients_s": [0.4, 0.5]}))
"""


def plan_of(more: str) -> Plan:
    return parse_experiment((EXPERIMENT + more).encode())


def run(plan: Plan, folder: Path) -> judged.Results:
    host = FakeHost()
    made = runner.run(plan, host, folder, lambda event: None, clocks=host.clocks())
    assert host.running == []
    return judged.read(made)


def client_of(program: str, *words: str) -> Client:
    return Client([sys.executable, "-S", "-c", program, *words], Place("127.0.0.1"))


def followed(client: Client) -> ClientRun:
    try:
        while not client.ended(0.05):
            pass
        return client.run()
    finally:
        client.stop()


def test_a_client_says_its_figures_and_all_its_processes_are_accounted_for() -> None:
    client = client_of(PROGRAM, "127.0.0.1:1")
    made = followed(client)
    assert (made.requests, made.failed, made.elapsed_s, made.clients_s) == (1_000, 1, 0.5, (0.4, 0.5))
    assert made.rate_per_s == 2_000
    assert made.stdout.startswith("connected to 127.0.0.1:1\n")
    # Each of the two used 50 ms of CPU time by its own clock.
    assert made.cpu_ns >= 100_000_000
    assert made.wall_ns == client.end_ns - client.begin_ns
    assert made.processes_max >= 1
    assert client.machine_bytes > 0


def test_the_window_of_a_client_ends_when_it_ends_and_not_when_that_is_read() -> None:
    client = client_of(PROGRAM, "127.0.0.1:1")
    try:
        wait_until(lambda: not is_alive(client._instance.child.pid), "the client and its reaper have ended")
        over_ns = time.monotonic_ns()
        assert client.ended(0)
        assert client.begin_ns < client.end_ns < over_ns
    finally:
        client.stop()


def test_a_client_may_say_the_times_of_a_hundred_thousand_clients_after_much_output() -> None:
    program = (
        "import json, sys\n"
        "for _ in range(17): sys.stdout.write('x' * (1 << 20) + '\\n')\n"
        "print(json.dumps({'requests': 1, 'elapsed_s': 1.0, 'clients_s': [86399.123456789] * 100_000}))"
    )
    made = followed(client_of(program))
    assert len(made.clients_s) == 100_000
    assert len(made.stdout) == 64 << 10


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        ("raise SystemExit('no server')", "client_failed", "the client ended with code 1: no server$"),
        ("import os; os.kill(os.getpid(), 11)", "client_failed", "the client was ended by SIGSEGV"),
        ("", "no_figures", "the client printed no figures: its last line must be like "),
        ("print('1000 requests in 2 s')", "no_figures", r"no figures: .*Invalid JSON.*: 1000 requests in 2 s$"),
        ("print('{\"requests\": 1}')", "no_figures", "elapsed_s: Field required"),
        ('print(\'{"requests": -1, "elapsed_s": 1.0}\')', "no_figures", "requests: "),
        ('print(\'{"requests": 1, "elapsed_s": 1.0, "p99": 3}\')', "no_figures", "p99: Extra inputs"),
        ("while True: print('x' * 65_536)", "floods", "MiB of output so far: make it log less"),
    ],
)
def test_a_client_without_figures_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, program: str, kind: str, message: str
) -> None:
    monkeypatch.setattr(output, "FLOOD_BYTES", 4 << 20)
    monkeypatch.setattr(output, "FLOOD_BYTES_PER_S", 0)
    with pytest.raises(TrialFailed, match=message) as raised:
        followed(client_of(program))
    assert raised.value.failure.kind == kind
    assert "\n" not in raised.value.failure.line


def test_a_client_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(
        TrialFailed, match=r"^/nowhere/client does not exist: check the command after load.driver = cmd:"
    ):
        Client(["/nowhere/client"], Place("127.0.0.1"))


@pytest.mark.usefixtures("no_charts")
def test_the_figures_of_a_client_are_shown_with_what_iolab_did_not_verify(tmp_path: Path) -> None:
    found = run(plan_of(f"fixed.load.driver = {CLIENT!r}\n"), tmp_path)
    (verdict,) = found.verdicts
    assert all(result.client is not None and result.report is None for result in found.trials)
    assert not any(result.discarded for result in found.trials)
    assert {each.warning.word for each in verdict.warnings} == {"replies_not_verified"}
    assert verdict.warnings[0].warning.detail.startswith("replies not verified by iolab: the client reports no latency")
    level = verdict.level("throughput", "epoll")
    assert level is not None
    assert level.median == 120_000
    assert verdict.level("latency_p50", "epoll") is None
    assert "no difference" in verdict.sentence or "same requests" in verdict.sentence
    assert verdict.blocks_used == 6
    row = found.rows()[0]
    assert (row["requests"], row["rate_per_s"], row["latency_p50_ns"]) == (30_000, 120_000.0, None)
    assert row["warnings"] == "replies_not_verified"
    assert "120000.0" in export.csv_of(Table.of(found.rows()))
    page = render(found)
    assert "replies not verified by iolab" in page
    assert "client.py --reuse yes" in page
    # Syscalls per request cannot be counted, and the run still ends.
    assert {count.why_not for count in found.counts} == {"only requests of iolab's generator are counted"}
    assert store.ended(found.folder) is not None


@pytest.mark.usefixtures("no_charts")
def test_without_connections_memory_alone_is_measured(tmp_path: Path) -> None:
    found = run(plan_of("axes.load.connections = [0, 50]\n"), tmp_path)
    at_rest, loaded = found.verdicts
    assert at_rest.sentence == "Memory at rest: epoll 10 MiB and thread 10 MiB."
    assert at_rest.level("throughput", "epoll") is None
    assert at_rest.level("rss", "epoll") is not None
    assert loaded.level("throughput", "epoll") is not None
    resting = [result for result in found.trials if result.report is None]
    assert len(resting) == 12
    assert {value_of(each, "machine_memory") for each in resting} == {50 << 20}
    assert {value_of(each, "rss", "client") for each in resting} == {0}
    assert {value_of(each, "throughput") for each in resting} == {None}
    assert "no load: memory is read while the server rests" in render(found)
    assert commands.by_hand(found.plan, 0)[0].load == ()


def usage(**changes: Any) -> ServerUsage:
    fields: dict[str, Any] = {
        "cpu_ns": 600,
        "wall_ns": 1_000,
        "user_ns": 600,
        "system_ns": 0,
        "threads": 1,
        "processes": 1,
    }
    fields |= {"rss_bytes_max": 12, "rss_bytes_median": 10, "pss_bytes": 9, "private_bytes": 7}
    fields |= {"client_rss_bytes": 40, "client_pss_bytes": 30, "client_private_bytes": 20, "machine_bytes": 70}
    return ServerUsage.model_validate(fields | changes)


RUN = ClientRun(
    requests=100, failed=25, elapsed_s=2.0, clients_s=(1.0, 2.0), wall_ns=1_000, cpu_ns=400, rss_bytes_max=40,
    processes_max=2, threads_max=2,
)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "side", "of_client", "at_rest"),
    [
        ("throughput", "server", 50.0, None),
        ("requests", "server", 100.0, None),
        ("failed", "server", 25.0, None),
        ("error_share", "server", 0.2, None),
        ("time_to_finish", "server", 2e9, None),
        ("time_per_request", "server", 2e7, None),
        ("client_time_mean", "server", 1.5e9, None),
        ("client_time_max", "server", 2e9, None),
        ("cpu_per_request", "server", 6.0, None),
        ("cpu_per_request", "client", 4.0, None),
        ("cpu_per_request", "both", 10.0, None),
        ("cores_used", "both", 1.0, None),
        ("share_of_machine", "client", 0.1, None),
        ("latency_p50", "server", None, None),
        ("rss", "server", 10, 10),
        ("rss", "client", 40, 40),
        ("pss", "both", 39, 39),
        ("pss", "machine", 70, 70),
        ("private", "both", 27, 27),
        ("machine_memory", "server", 70, 70),
        ("client_pss", "server", 30, 30),
        ("threads", "server", 1, 1),
    ],
)
def test_a_metric_is_read_from_a_trial_without_a_report(
    metric: str, side: Side, of_client: float | None, at_rest: float | None
) -> None:
    plan = vs_plan(["epoll", "thread"], {"protocol": "echo"})
    result = Result(trial=schedule(plan)[0], started="", server=usage())
    assert value_of(result, metric, side, processors=4) == at_rest
    driven = result.model_copy(update={"client": RUN})
    assert value_of(driven, metric, side, processors=4) == (of_client and pytest.approx(of_client))
    assert side in METRICS[metric].known_sides


def test_a_client_whose_requests_fail_is_discarded_and_a_busy_machine_too() -> None:
    plan = plan_of(f"fixed.load.driver = {CLIENT!r}\n")
    cell = plan.comparisons[0].cells[0]
    made = Result(trial=schedule(plan)[0], started="", server=usage(), client=RUN)
    assert [each.word for each in judge_trial(cell, made).warnings] == ["replies_not_verified", "errors"]
    busy = MachineNoise(steal_share=0.0, foreign_cpu_cores=1.0)
    long = usage(wall_ns=3_000_000_000)
    whole = made.model_copy(update={"client": RUN.model_copy(update={"failed": 0}), "noise": busy, "server": long})
    assert [each.word for each in judge_trial(cell, whole).warnings] == ["machine_busy", "replies_not_verified"]


COMPARED = '[[claims]]\nid = "a"\ntext = "b"\ndecide = { relation = "ratio", %s, published = 2 }\n'


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            "fixed.load.driver = 'cmd:./client 80'\n",
            "fixed.load.driver: 'cmd:./client 80' does not say where the server is: "
            "write {address} or {addresses} there",
        ),
        ("fixed.load.driver = 'thrad'\n", "fixed.load.driver: must be 'epoll', 'io_uring' or 'thread', not 'thrad'"),
        (
            "fixed.load = { driver = 'cmd:./client {address}', requests_per_connection = 1 }\n",
            "fixed.load.requests_per_connection: the client does not take it: "
            "write {requests_per_connection} in its arguments, or leave it out",
        ),
        (
            "axes.load.connections = [0, 10]\n" + COMPARED % 'of = "epoll", to = "thread"',
            "claims[a].of: throughput is not measured without connections: ask for memory, or use at",
        ),
        (
            f"axes.load.driver = ['epoll', {CLIENT!r}]\n"
            + COMPARED
            % (
                "of = { contestant = 'epoll', at = { load.driver = 'epoll' } }, "
                f"to = {{ contestant = 'epoll', at = {{ load.driver = {CLIENT!r} }} }}"
            ),
            "claims[a]: has figures of iolab's generator and of a client whose replies are not verified: "
            "give each a test of its own",
        ),
    ],
)
def test_a_load_that_cannot_be_is_refused_with_what_to_write(more: str, line: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_of(more)
    assert str(refused.value).splitlines()[0] == line


def test_a_comparison_has_one_kind_of_load() -> None:
    text = EXPERIMENT.replace(
        '["epoll", "thread"]', f"['epoll', {{ server = 'epoll', name = 'theirs', load = {{ driver = {CLIENT!r} }} }}]"
    )
    with pytest.raises(
        PlanError, match=r"stand in comparisons of their own: use .*comparisons.*, or make load.driver an"
    ):
        parse_experiment(text.encode())


def test_by_hand_there_is_a_load() -> None:
    with pytest.raises(PlanError, match=r"^connections: without any, only memory is measured"):
        vs_plan(["epoll", "thread"], {"protocol": "echo", "connections": 0})


def test_a_comparison_is_named_by_its_client_without_folders_and_what_is_filled_in() -> None:
    text = "cmd:{python} {contestants}/python/clients.py --addresses {addresses} --reuse yes --clients {connections}"
    assert name_of("all", {"load.driver": text}) == "driver=clients.py --reuse yes"
