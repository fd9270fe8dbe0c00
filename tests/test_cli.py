"""The command line: the output of each verb, and the errors for bad input."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from conftest import FAKE_ENGINE, PATIENCE_S, FakeHost, iolab
from iolab import cli, runs
from iolab.capacity.spec import CapacitySpec
from iolab.cli import capacity as capacity_verb
from iolab.cli import vs
from iolab.cli.settings import PATTERN, SERVER, TRIAL
from iolab.contract.types import EchoWorkload, LineWorkload, RpcWorkload
from iolab.errors import BadInput
from iolab.judge import verdict
from iolab.machine import syscalls
from iolab.measure import protocol_probe
from iolab.measure.engine import Engine
from iolab.plan.plan import Plan, Quick
from iolab.plan.settings import DOTTED, SETTINGS, Times, settings_of
from iolab.report import commands
from iolab.results import layout, store
from iolab.results.records import CostCount, Result

EXPERIMENT = """
name = "small"
question = "Is io_uring faster?"
contestants = ["epoll", "io_uring"]
blocks = 6
[fixed.workload]
protocol = "echo"
[fixed.trial]
warmup_ms = 400
duration_ms = 1600
[axes]
workload.message_bytes = [64, 512]
[[claims]]
id = "C1"
text = "io_uring wins"
decide = { relation = "order", contestants = ["io_uring", "epoll"] }
"""


def unfolded(text: str) -> str:
    """The text as one line."""
    return " ".join(text.split())


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_vs_ends_with_a_table_a_verdict_and_the_path_of_the_report(tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "io_uring", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "requests/s" in done.stdout
    assert "io_uring serves 1.251x [1.248, 1.254] the requests of epoll" in unfolded(done.stdout)
    assert "10 of 10 blocks used, 0 discarded" in done.stdout
    report = Path(last_line(done.stdout).removeprefix("report: "))
    assert report.is_file()
    assert "20/20 vs: " in done.stderr
    assert "10 blocks (one trial of each contestant), 20 trials, about " in done.stderr
    table = done.stdout.partition("io_uring serves")[0]
    # The width of output to a file.
    assert max(map(len, table.splitlines())) <= 120
    calls = dict(re.findall(r"(\w+): ([\d.]+) syscalls per request, ", done.stdout))
    assert 1 < float(calls["epoll"]) < 4
    assert 0.25 < float(calls["io_uring"]) < 1
    assert "syscalls: vs: epoll: " in done.stderr


@pytest.mark.usefixtures("simulated")
def test_a_vs_that_ended_is_measured_anew_and_the_earlier_run_is_kept(tmp_path: Path) -> None:
    command = ("vs", "epoll", "thread", "--quick", "--out", tmp_path)
    first, again = iolab(*command), iolab(*command)
    assert (first.exit_code, again.exit_code) == (0, 0)
    kept = next(tmp_path.glob("vs-*.1"))
    assert f"the earlier run is kept as {kept}" in again.stderr
    assert "20/20 vs: " in again.stderr
    assert iolab("report", kept).stdout.replace(".1/report", "/report") == first.stdout


@pytest.mark.usefixtures("simulated")
def test_an_experiment_that_ended_is_shown_with_its_date_and_fresh_measures_anew(tmp_path: Path) -> None:
    command = ("run", experiment(tmp_path, "epoll", "thread"), "--out", tmp_path / "runs")
    first, again, fresh = iolab(*command), iolab(*command), iolab(*command, "--fresh")
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert re.search(r"14 of 14 trials are already in .* \d{4}-\d\d-\d\d \d\d:\d\d UTC: --fresh measures", again.stderr)
    assert "the earlier run is kept as" in fresh.stderr
    assert "14/14 all: " in fresh.stderr


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_an_experiment_is_measured_anew_when_a_server_of_it_was_rebuilt(tmp_path: Path) -> None:
    server = tmp_path / "mine.py"
    server.write_text(FAKE_ENGINE.read_text())
    path = experiment(tmp_path, "epoll", f"cmd:{sys.executable} -S {server} plain {{port}}")
    first = iolab("run", path, "--out", tmp_path / "runs")
    assert first.exit_code == 0, first.stderr
    server.write_text(server.read_text() + "# another build\n")
    again = iolab("run", path, "--out", tmp_path / "runs")
    assert f"{server} has changed: the earlier run is kept as {tmp_path}/runs/some-" in again.stderr
    assert "trials are already in" not in again.stderr


@pytest.mark.usefixtures("simulated")
def test_a_soak_prints_each_minute_and_says_what_it_rests_on(tmp_path: Path) -> None:
    done = iolab("soak", "epoll", "--duration", "5m", "--rate", "300", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert [f"epoll: minute {number}: 1,001 requests, 1 errors" in done.stderr for number in range(1, 6)] == [True] * 5
    said = done.stdout.splitlines()
    assert " requests: " in said[0]
    assert said[1] == "memory of the server, MiB: 10.0 after the first minute, 10.0 at the end"
    assert said[-1].startswith("record: ")
    folder = Path(said[-1].removeprefix("record: "))
    assert len((folder / "minutes.jsonl").read_text().splitlines()) == 5


SOAK = ("soak", "epoll", "--duration", "5m", "--rate", "300", "--out")


def stored_minutes(stdout: str) -> int:
    folder = Path(last_line(stdout).removeprefix("record: "))
    return len((folder / layout.MINUTES).read_text().splitlines())


def test_a_soak_whose_server_dies_ends_with_what_it_has_and_is_measured_anew(
    simulated: FakeHost, tmp_path: Path
) -> None:
    # Start 0 is the check of the server before the first trial.
    simulated.faults = {1: "dies_late"}
    done = iolab(*SOAK, tmp_path)
    assert done.exit_code == 1
    said = done.stdout.splitlines()
    assert said[0] == "failed in minute 3: the server ended while it was measured"
    assert said[1] == "2 errors in 2,002 requests of the whole minutes before"
    assert said[2] == "memory of the server, MiB: 10.0 after the first minute, 10.0 at the end"
    assert stored_minutes(done.stdout) == 2
    assert simulated.counted == [], "it is not started again for a count"
    again = iolab(*SOAK, tmp_path)
    assert again.exit_code == 0, again.stderr
    assert "the earlier run is kept as" in again.stderr
    assert stored_minutes(again.stdout) == 5


def test_a_soak_whose_generator_dies_keeps_its_minutes_and_goes_on_with_the_rest(
    simulated: FakeHost, tmp_path: Path
) -> None:
    simulated.faults = {1: "load_dies"}
    done = iolab(*SOAK, tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "iolab: epoll: the load generator was ended by SIGKILL" in done.stderr
    assert "its minutes are kept in" in done.stderr
    assert "to continue: iolab" in done.stderr
    again = iolab(*SOAK, tmp_path)
    assert again.exit_code == 0, again.stderr
    assert "in 2 trials, because it was cut off" in again.stdout
    assert stored_minutes(again.stdout) == 2 + 3


def test_a_soak_whose_server_dies_at_once_begins_again_and_shows_both_trials(
    simulated: FakeHost, tmp_path: Path
) -> None:
    simulated.faults = {1: "dies"}
    done = iolab(*SOAK, tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "iolab: epoll: the server ended while it was measured" in done.stderr
    again = iolab(*SOAK, tmp_path)
    assert again.exit_code == 0, again.stderr
    assert again.stdout.startswith("failed in minute 1: the server ended while it was measured")
    assert stored_minutes(again.stdout) == 5


@pytest.mark.usefixtures("simulated")
def test_a_server_compared_with_itself_is_legal_and_the_same(tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "epoll", "--quick", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdicts"][0]["titles"] == ["epoll", "epoll (2)"]
    throughput = document["verdicts"][0]["estimates"][0]
    assert (throughput["metric"], throughput["word"]) == ("throughput", "same")


@pytest.mark.usefixtures("simulated")
def test_run_answers_an_experiment_and_judges_its_claims(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    done = iolab("run", tmp_path / "small.toml", "--out", tmp_path / "runs")
    assert done.exit_code == 0, done.stderr
    assert "message_bytes=64" in done.stdout
    assert "claim C1: confirmed" in done.stdout
    (line,) = iolab("list", "runs", "--out", tmp_path / "runs").stdout.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC small-\w+ +Is io_uring faster\? claims: 1 confirmed", line)
    assert runs.last_verdicts(tmp_path / "runs", "small")["C1"].judgement == "confirmed"
    name = line.split()[3]
    again = iolab("report", name, "--out", tmp_path / "runs")
    assert again.exit_code == 0, again.stderr
    assert again.stdout == done.stdout
    document = json.loads(iolab("report", name, "--json", "--out", tmp_path / "runs").stdout)
    again = iolab("run", tmp_path / "small.toml", "--json", "--out", tmp_path / "runs")
    assert json.loads(again.stdout) == document
    rows = list(csv.DictReader(iolab("report", name, "--csv", "--out", tmp_path / "runs").stdout.splitlines()))
    assert len(rows) == 24
    assert {(row["contestant"], row["workload.message_bytes"]) for row in rows} == {
        (name, size) for name in ("epoll", "io_uring") for size in ("64", "512")
    }
    assert {row["discarded"] for row in rows} == {""}
    for row in rows:
        # The fake engine's figures, in the units of the headings.
        assert float(row["rate_per_s"]) > 50_000
        assert int(row["latency_p50_ns"]) <= int(row["latency_p99_ns"])
        assert float(row["cpu_per_request_ns"]) == int(row["server_cpu_ns"]) / int(row["requests"])
        assert int(row["rss_median_bytes"]) > 1 << 20


@pytest.mark.usefixtures("simulated")
def test_a_run_that_is_not_finished_is_listed_as_such(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert iolab("run", experiment(tmp_path, "epoll", "thread"), "--out", runs).exit_code == 0
    (folder,) = runs.iterdir()
    lines = (folder / layout.TRIALS).read_bytes().splitlines(keepends=True)
    (folder / layout.TRIALS).write_bytes(b"".join(lines[:5]))
    machine = json.loads((folder / layout.MACHINE).read_text())
    del machine[store.ENDED]
    (folder / layout.MACHINE).write_text(json.dumps(machine))
    assert iolab("list", "runs", "--out", runs).stdout.endswith(" Which? unfinished, 5 trials\n")


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_a_run_is_judged_once_and_again_when_its_record_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Plan] = []
    judge = verdict.judge

    def judge_and_note(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount]) -> Any:
        judged.append(plan)
        return judge(plan, results, counts)

    monkeypatch.setattr(verdict, "judge", judge_and_note)
    out = tmp_path / "runs"
    assert iolab("run", experiment(tmp_path, "epoll", "thread"), "--out", out).exit_code == 0
    assert len(judged) == 1
    listed = iolab("list", "runs", "--out", out)
    assert len(judged) == 1, "what was found is kept"
    (folder,) = out.iterdir()
    lines = (folder / layout.TRIALS).read_bytes().splitlines(keepends=True)
    (folder / layout.TRIALS).write_bytes(b"".join(lines[:-1]))
    assert iolab("list", "runs", "--out", out) != listed
    (folder / layout.TRIALS).write_bytes(b"".join(lines))
    assert iolab("list", "runs", "--out", out) == listed
    (folder / layout.SUMMARY).write_text("[]")
    assert iolab("list", "runs", "--out", out) == listed


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "vs-1").mkdir()
    (tmp_path / "vs-1" / layout.PLAN).write_text("{")
    (tmp_path / "vs-1" / layout.MACHINE).write_text("{}")
    done = iolab("list", "runs", "--out", tmp_path)
    assert done.exit_code == 0
    assert re.fullmatch(r"not begun +vs-1 +.*plan\.json: .*: run the experiment again\n", done.stdout)


def stored_run(out: Path, name: str, began: str) -> Path:
    """The folder of a run with only its start and its findings."""
    folder = out / name
    folder.mkdir()
    (folder / layout.PLAN).write_text("{}")
    (folder / layout.MACHINE).write_text(json.dumps({store.ENDED: began}))
    found: Any = SimpleNamespace(began=began, plan=SimpleNamespace(question="Which?"), short="neither", claims=())
    runs.summary(folder, found)
    return folder


def test_a_run_is_found_by_the_beginning_of_its_name_and_the_newest_by_its_experiment(tmp_path: Path) -> None:
    new = stored_run(tmp_path, "models-0123456789abcdef", "2026-02-01T00:00:00+00:00")
    old = stored_run(tmp_path, "models-0123456789abcdee", "2026-01-01T00:00:00+00:00")
    aside = stored_run(tmp_path, "models-0123456789abcdee.1", "2025-01-01T00:00:00+00:00")
    other = stored_run(tmp_path, "models-of-mine-fedcba9876543210", "2026-03-01T00:00:00+00:00")
    assert runs.find("models", tmp_path) == new
    assert runs.find("models-of", tmp_path) == other
    assert runs.find("models-0123456789abcdee", tmp_path) == old
    assert runs.find("models-0123456789abcdee.", tmp_path) == aside
    said = re.escape(f"several runs begin with 'models-0': write more of one of {old.name}, {aside.name}, {new.name}")
    with pytest.raises(BadInput, match=said):
        runs.find("models-0", tmp_path)
    with pytest.raises(BadInput, match="there is no run 'model-' here"):
        runs.find("model-", tmp_path)


def test_a_name_that_no_folder_can_have_is_one_line(tmp_path: Path) -> None:
    done = iolab("report", "x" * 300, "--out", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "File name too long: iolab list runs has the names of runs" in done.stderr


MANY = """
name = "many"
question = "Which one?"
contestants = ["epoll", "io_uring", "thread", "blocking", "absent"]
blocks = 8
[fixed.workload]
protocol = "line"
[fixed.trial]
warmup_ms = 400
duration_ms = 1600
[axes]
load.connections = [1, 50]
"""


@pytest.mark.usefixtures("simulated")
def test_a_run_of_many_leaves_out_those_that_cannot_take_part_and_ranks_the_rest(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(MANY)
    done = iolab("run", tmp_path / "many.toml", "--out", tmp_path / "runs")
    assert done.exit_code == 0, done.stderr
    assert "connections=50: blocking is left out: holds 1" in done.stderr
    assert "connections=1: absent is left out: this machine has none" in done.stderr
    assert "connections=1: blocking is left out" not in done.stderr
    assert done.stdout.count("Most requests: io_uring.") == 2
    again = iolab("run", tmp_path / "many.toml", "--out", tmp_path / "runs")
    assert again.stdout == done.stdout
    assert "syscalls" not in again.stderr, "costs are seen once"


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_where_calls_cannot_be_counted_the_reason_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise syscalls.CannotCountError("it takes CAP_PERFMON")

    monkeypatch.setattr(syscalls, "entry_point", refused)
    done = iolab("vs", "epoll", "io_uring[fault=uncountable]", "--quick", "--blocks", "6", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "syscalls of io_uring[fault=uncountable] were not counted: it takes CAP_PERFMON" in done.stdout


def experiment(folder: Path, *contestants: str) -> Path:
    """Writes an experiment of one comparison."""
    path = folder / "some.toml"
    fixed = 'workload.protocol = "echo"\ntrial.warmup_ms = 400\ntrial.duration_ms = 1600'
    path.write_text(
        f'name = "some"\nquestion = "Which?"\nblocks = 7\ncontestants = {list(contestants)}\n[fixed]\n{fixed}\n'
    )
    return path


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_an_experiment_goes_on_without_a_contestant_that_fails_and_says_so(tmp_path: Path) -> None:
    path = experiment(tmp_path, "epoll", "io_uring[fault=forbidden]", "thread")
    done = iolab("run", path, "--out", tmp_path / "runs")
    assert done.exit_code == 0, done.stderr
    assert "io_uring is forbidden here: allow it" in unfolded(done.stdout)
    assert "epoll serves 1.250x [1.249, 1.254] the requests of thread" in unfolded(done.stdout)


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_when_nothing_can_be_measured_the_exit_code_is_one(tmp_path: Path) -> None:
    path = experiment(tmp_path, "epoll[fault=forbidden]", "io_uring[fault=wrong_replies]")
    done = iolab("run", path, "--out", tmp_path / "runs")
    assert done.exit_code == 1
    assert last_line(done.stderr) == "iolab: nothing could be measured: see the reasons above"
    assert "61 of 64 requests over 4 connections were answered correctly (a pretended wrong reply)" in unfolded(
        done.stdout
    )


def test_when_nothing_can_be_concluded_the_exit_code_is_three(simulated: FakeHost, tmp_path: Path) -> None:
    simulated.faults = dict.fromkeys(range(2, 200), "busy")
    command = ("vs", "epoll", "io_uring", "--quick", "--out", tmp_path)
    done = iolab(*command)
    assert done.exit_code == 3
    assert "Inconclusive: the machine was too busy (" in unfolded(done.stdout)
    assert last_line(done.stderr) == "iolab: nothing could be concluded: see the reasons above"
    assert "warning: no trial of the first 3 blocks can be used: machine busy (6 of 6 trials): " in done.stderr
    assert iolab("report", "vs", "--out", tmp_path).exit_code == 0


def web_server() -> str:
    """A minimal HTTP server."""
    program = (
        "import socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "while True:\n"
        "    connection, _ = listener.accept()\n"
        "    with connection:\n"
        "        if b'\\r\\n\\r\\n' in connection.recv(4096):\n"
        "            connection.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')"
    )
    return shlex.join([f"cmd:{sys.executable}", "-S", "-c", program, "{port}"])


SAYS_MUCH = "import sys; print('no config', 'no licence', sep=chr(10), file=sys.stderr); sys.exit(3)"


@pytest.mark.usefixtures("fake", "quiet")
@pytest.mark.parametrize(
    ("contestant", "code", "said"),
    [
        ("io_uring[fault=forbidden]", 1, "io_uring[fault=forbidden]: io_uring is forbidden here: allow it"),
        ("io_uring[fault=wrong_replies]", 1, "61 of 64 requests over 4 connections were answered correctly"),
        (
            "io_uring[fault=dies_at_start]",
            1,
            "io_uring[fault=dies_at_start]: the server ended with code 1; its last output:\n    a pretended crash\n",
        ),
        (web_server(), 2, ": speaks HTTP, not echo: use --protocol http"),
        ("cmd:./nowhere {port}", 2, "./nowhere: ./nowhere does not exist: check the command after cmd:"),
        (
            shlex.join([f"cmd:{sys.executable}", "-S", "-c", SAYS_MUCH, "{port}"]),
            1,
            "; its last output:\n    no config\n    no licence\n",
        ),
    ],
)
def test_a_contestant_that_fails_ends_a_vs_at_once_and_leaves_nothing(
    tmp_path: Path, contestant: str, code: int, said: str
) -> None:
    done = iolab("vs", "epoll", contestant, "thread", "--quick", "--blocks", "7", "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (code, "")
    assert f"iolab: {said}" in done.stderr or said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vs", "epoll"], "name two contestants or more"),
        (["vs", "epoll", "eppol"], "there is no contestant 'eppol': did you mean 'epoll'?\n"),
        (
            ["vs", "epoll", "blocking"],
            "blocking holds 1 at a time, of 50 connections: use --connections 1, or another model",
        ),
        (["vs", "epoll", "blocking", "--workers", "4"], "blocking holds 4 at a time, of 50 connections"),
        (["vs", "epoll", "prefork[processes=32]"], "prefork[processes=32] holds 32 at a time, of 50 connections"),
        (["vs", "epoll", "absent"], "absent cannot run here: this machine has none"),
        (["vs", "epoll", "io_uring[fault=nine]"], "nine is no fault of io_uring: use one of none, "),
        (["vs", "epoll", "thread", "--protocol", "line", "--framing", "raw"], "framing: is not a setting of line"),
        (["vs", "epoll", "io_uring[speed=9]"], "io_uring has no option 'speed': use one of fault"),
        (["vs", "epoll", "io_uring[speed"], "'io_uring[speed' is not a contestant"),
        (["vs", "epoll", "cmd:./mine"], "does not say where its port goes"),
        (
            ["vs", "epoll", "cmd:PORT={port} node app.js"],
            "'cmd:PORT={port} node app.js': no shell reads the command: "
            "write it as in cmd:env PORT={port} node app.js, or as cmd:sh -c '…'",
        ),
        (
            ["vs", "epoll", "cmd:cd /x && ./mine"],
            "no shell reads the command, and cd is not a program: write cmd:sh -c '…'",
        ),
        (
            ["vs", "epoll", "thread", "--protocol", "http", "--message-bytes", "9"],
            "--message-bytes: is not a setting of http: leave",
        ),
        (["vs", "epoll", "thread", "--blocks", "0"], "--blocks: must be 1 or more, not 0\n"),
        (["vs", "epoll", "thread", "--blocks", "2"], "blocks: "),
        (["vs", "epoll", "thread", "--blocks", "9", "--within", "2%"], "--blocks: is chosen after a pilot where"),
        (["vs", "epoll", "thread", "--within", "two"], "--within: 'two' is not a share: write it as in 5%\n"),
        (["vs", "epoll", "thread", "--within", "0%"], "--within: must be more than 0"),
        (["vs", "epoll", "thread", "--budget", "20s"], "--budget: 20 s is too short: 6 blocks, the fewest, and "),
        (["vs", "epoll", "thread", "--connections", "0"], "--connections: without any, only memory is measured"),
        (["vs", "epoll", "thread", "--duration", "50ms"], "--duration: must be 100 ms or more\n"),
        (["vs", "epoll", "thread", "--duration", "3"], "'3' is not a duration: write it as in 500ms or 3s"),
        (["vs", "epoll", "thread", "--warmup", "1ms"], "--warmup: must be 100 ms or more\n"),
        (["vs", "epoll", "thread", "--server-cpus", "0,x"], "'0,x' names no processors: write 0,2 or 0-3"),
        (["vs", "epoll", "thread", "--load-cpus", "99999"], "processor 99999 may not be used here"),
        (["report", "nothing"], "there is no run 'nothing' here or in "),
        (["report", "nothing", "--csv"], "iolab list runs has the names"),
        (["vs", "epoll", "apache"], "there is no contestant 'apache': use one of "),
        (["run", "nothing"], "there is no experiment 'nothing': use one of "),
        (["run", "echo-io-uring-epoll"], "no experiment 'echo-io-uring-epoll': did you mean 'echo-io_uring-epoll'?"),
        (["run", "./nothing.toml"], "nothing.toml: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = iolab(*arguments, "--out", tmp_path)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith(f"iolab {arguments[0]}: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("fake")
def test_a_flag_that_does_not_exist_is_bad_input() -> None:
    done = iolab("vs", "epoll", "thread", "--conections", "5")
    said = "iolab vs: there is no flag --conections: did you mean '--connections'?\n"
    assert done == (2, "", said)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vs epoll thread --connections abc", "iolab vs: --connections: 'abc' is not a whole number"),
        ("vs epoll thread -c", "iolab vs: --connections: needs a value"),
        ("vs epoll thread --protocol htp", "iolab vs: --protocol: there is no 'htp': did you mean 'http'?"),
        ("vs epoll thread --quik", "iolab vs: there is no flag --quik: did you mean '--quick'?"),
        ("vs epoll thread --zzz=1", "iolab vs: there is no flag --zzz: iolab vs --help lists them"),
        ("vs epoll thread --conn 5", "iolab vs: there is no flag --conn: did you mean '--connections'?"),
        ("vs epoll thread --quick=yes", "iolab vs: --quick: takes no value"),
        ("run", "iolab run: EXPERIMENT is missing: iolab run --help shows what to write"),
        ("report", "iolab report: RUN is missing: iolab report --help shows what to write"),
        ("report a --json --csv", "iolab report: --json and --csv cannot be combined: use one of them"),
        ("run a b", "iolab run: 'b' is one argument too many: iolab run --help shows what to write"),
        ("capacity tcp://a:1", "iolab capacity: --slo is missing: iolab capacity --help shows what to write"),
        ("list modles", "iolab list: WHAT: there is no 'modles': did you mean 'models'?"),
        ("doctor now", "iolab doctor: 'now' is one argument too many: iolab doctor --help shows what to write"),
        ("vss", "iolab: there is no command 'vss': did you mean 'vs'?"),
        ("--verson", "iolab: there is no flag --verson: did you mean '--version'?"),
    ],
)
def test_a_slip_of_the_pen_is_one_line_that_says_what_to_write(command: str, line: str) -> None:
    assert iolab(*command.split()) == (2, "", f"{line}\n")


def test_the_version_is_that_of_the_package() -> None:
    assert iolab("--version") == (0, f"iolab {version('iolab')}\n", "")


@pytest.mark.parametrize("columns", [80, 132])
def test_help_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for verb in ((), *((verb,) for verb in cli.VERBS)):
        for line in iolab(*verb, "--help").stdout.splitlines():
            assert len(line) <= columns, line


def default(kind: type[BaseModel], key: str) -> Any:
    """The default of a field."""
    return kind.model_fields[key].default


# Defaults in the help of a plan's flags that are more than one value of one field.
DEFAULTS = {
    "protocol": "echo",
    "message_bytes": f"{default(EchoWorkload, 'message_bytes')}; line: {default(LineWorkload, 'message_bytes')}",
    "warmup_ms": f"{default(Times, 'warmup_ms') // 1_000}s; quick: {default(Quick, 'warmup_ms')}ms",
    "duration_ms": f"{default(Times, 'duration_ms') // 1_000}s; quick: {default(Quick, 'duration_ms')}ms",
    "target": str(default(RpcWorkload, "target")),
    "server_cpus": "chosen for this machine",
    "load_cpus": "chosen for this machine",
}


@pytest.mark.parametrize("key", vs.SETTINGS)
def test_the_defaults_in_the_help_of_vs_are_those_of_a_plan(key: str) -> None:
    field = SETTINGS[DOTTED[key]].field if key in DOTTED else Plan.model_fields[key]
    known = "" if field.default is None else str(field.default)
    assert vs.SETTINGS[key].default == DEFAULTS.get(key, known)


@pytest.mark.parametrize("key", [*SERVER, *PATTERN, *TRIAL])
def test_a_flag_of_vs_says_of_a_setting_what_its_table_says(key: str) -> None:
    assert vs.SETTINGS[key].help == SETTINGS[DOTTED[key]].field.description


# The same for the flags of `iolab capacity`.
QUESTION_DEFAULTS = {
    "cpus": "apart from those of a server on this machine",
    "precision": f"{default(CapacitySpec, 'precision'):.0%}",
    "probe_ms": f"{default(CapacitySpec, 'probe_ms') // 1_000}s",
    "timeout_ms": f"{default(CapacitySpec, 'timeout_ms') // 1_000}s",
}


@pytest.mark.parametrize("key", [*capacity_verb.SEARCH, *capacity_verb.GENERATOR])
def test_the_defaults_in_the_help_of_capacity_are_those_of_its_question(key: str) -> None:
    setting = {**capacity_verb.SEARCH, **capacity_verb.GENERATOR}[key]
    assert setting.default == QUESTION_DEFAULTS.get(key, str(default(CapacitySpec, key)))


@pytest.mark.usefixtures("simulated")
def test_flags_may_be_between_contestants(tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "--quick", "thread", "--blocks", "7", "io_uring", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "epoll or thread or io_uring?" in done.stderr


def test_a_reader_that_ends_early_ends_the_command_in_silence() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = "import sys; from iolab.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "list", "experiments"],
        env=os.environ | {"PYTHONPATH": str(FAKE_ENGINE.parent.parent / "lab")},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=PATIENCE_S,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("verb", ["list experiments", "lint README.md"])
def test_a_full_disk_under_standard_output_is_one_line(verb: str) -> None:
    root = FAKE_ENGINE.parent.parent
    program = "import sys; from iolab.__main__ import main; sys.exit(main())"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *verb.split()],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root / "lab")},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE_S,
        )
    said = b"iolab: standard output: No space left on device: free space, or write to another disk\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_without_an_engine_the_one_line_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOLAB_ENGINE", str(tmp_path / "none"))
    done = iolab("vs", "epoll", "thread", "--out", tmp_path)
    assert (done.exit_code, done.stderr) == (1, f"iolab: IOLAB_ENGINE names no file: {tmp_path / 'none'}\n")
    assert iolab("doctor").exit_code == 1


@pytest.mark.usefixtures("fake", "quiet")
def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = iolab("vs", "epoll", "thread", "--quick", "--out", tmp_path / "file")
    assert done.exit_code == 1
    assert str(tmp_path / "file") in last_line(done.stderr)


@pytest.mark.usefixtures("fake")
def test_alone_it_shows_a_short_help_and_every_verb_has_one() -> None:
    alone = iolab()
    assert alone == iolab("--help") == iolab("-h")
    assert (alone.exit_code, alone.stderr) == (0, "")
    assert "Start with: iolab doctor" in alone.stdout
    for verb in cli.VERBS:
        assert f"\n  {verb} " in alone.stdout
        shown = iolab(verb, "--help")
        assert shown == iolab(verb, "-h")
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"usage: iolab {verb}")
        assert f"\nexamples:\n  iolab {verb}" in shown.stdout


@pytest.mark.usefixtures("fake")
def test_lists_and_doctor_say_what_there_is() -> None:
    listed = iolab("list").stdout
    assert "a pretended io_uring" in listed
    lines = [line.strip() for line in listed.splitlines()]
    assert [line for line in lines if line.startswith(("holds", "needs", "NOT"))] == [
        "holds 1 connection a worker",
        "holds 16 connections a worker",
        "needs a machine of its own",
        "NOT HERE: this machine has none",
    ]
    assert "[processes=16, 1 to 1024] how many" in lines
    assert "garbage is DEFECTIVE: it talks nonsense" in lines
    assert "echo-io_uring-epoll" in iolab("list", "experiments").stdout
    checked = iolab("doctor", "--no-noise")
    assert checked.exit_code == 0
    assert "engine: 0.0.0, build fa4efa4efa4efa4e" in checked.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--model", "io_uring", "--listen", "127.0.0.1:8080"],
        ["serve", "--help"],
        ["load", "http://127.0.0.1:8080/", "-c", "50", "-z", "10s", "--json"],
        ["load", "-h"],
        ["load", "a b", "$(x)", "-q"],
    ],
)
def test_serve_and_load_become_the_engine_with_every_flag_unchanged(fake: Engine, arguments: list[str]) -> None:
    program = "import sys; from iolab.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(FAKE_ENGINE.parent.parent / "lab"), "IOLAB_ENGINE": str(fake.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == arguments


@pytest.mark.usefixtures("simulated")
def test_the_times_of_a_trial_are_flags_of_vs_also_when_it_is_quick(tmp_path: Path) -> None:
    asked = ("--warmup", "0.1s", "--duration", "390ms", "--quick", "--blocks", "6")
    done = iolab("vs", "epoll", "thread", *asked, "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    plan = json.loads(next(tmp_path.glob("vs-*/plan.json")).read_text())
    cells = plan["comparisons"][0]["cells"]
    assert {(cell["trial"]["warmup_ms"], cell["trial"]["duration_ms"]) for cell in cells} == {(100, 400)}


@pytest.mark.usefixtures("simulated")
def test_the_load_and_the_servers_of_vs_take_the_settings_of_an_experiment(tmp_path: Path) -> None:
    asked = [
        "--protocol",
        "http",
        "--connections",
        "20",
        "--active",
        "10",
        "--requests-per-connection",
        "100",
        "--no-keep-alive",
    ]
    done = iolab("vs", "epoll", "thread", *asked, "--quick", "--blocks", "6", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    plan = Plan.model_validate_json(next(tmp_path.glob("vs-*/plan.json")).read_bytes())
    settings = settings_of(plan.comparisons[0].cells[0])
    names = ("load.active", "load.requests_per_connection", "workload.keep_alive")
    assert [settings[name] for name in names] == [10, 100, False]
    assert " ".join(asked[2:4]) in " ".join(commands.again(plan))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rate much", "--rate: 'much' is not a rate: write 20000, 20k, or 50% of capacity of the slowest"),
        ("--connections 5 --active 10", "10 active connections are more than 5 connections"),
        ("--path delay=3", "path.delay: there is no such setting: did you mean 'path.delay_ms'?"),
        ("--path delay_ms", "--path: 'delay_ms' is not NAME=VALUE, as in load.connections=200"),
        ("--cpu-quota 0", "--cpu-quota: must be 0.01 or more, not '0'"),
        (
            "--memory-limit-bytes 2jars",
            "--memory-limit-bytes: '2jars' is not a size: write a number of bytes, 512MB or",
        ),
    ],
)
def test_a_flag_of_a_setting_that_cannot_be_is_refused_in_one_line(flags: str, message: str, tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "thread", *flags.split(), "--out", tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.usefixtures("simulated")
def test_an_experiment_with_other_settings_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    command = ("run", tmp_path / "small.toml", "--quick", "--out", tmp_path / "runs")
    assert iolab(*command).exit_code == 0
    done = iolab(*command, "--set", "load.connections=20", "--set", "workload.message_bytes=128")
    assert done.exit_code == 0, done.stderr
    plans = [Plan.model_validate_json(path.read_bytes()) for path in (tmp_path / "runs").glob("small-*/plan.json")]
    assert sorted(len(plan.comparisons) for plan in plans) == [1, 2]
    assert {"load.connections": "20", "workload.message_bytes": "128"} in [plan.overrides for plan in plans]


# These modules print flags of the engine, of other load generators, of servers, of the programs that build
# interpreters, and of commands that change a machine.
NOT_OURS = {"command.py", "commands.py", "engine.py", "fixes.py", "handover.py", "interpreters.py", "twins.py"}
EXAMPLES = {"--port", "--help", "--version"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SOURCES = [
    path
    for path in (FAKE_ENGINE.parent.parent / "lab/iolab").rglob("*.py")
    if path.name not in NOT_OURS and "contestants" not in path.parts
]


def printed_under(path: Path, commands: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that print the messages of a module."""
    if path.parent.name == "cli":
        return commands
    if path.name in ("comparison.py", "run_pairs.py", "changes.py"):
        return ("compare",)
    is_capacity = path.parent.name == "capacity" or path.name == "port_owner.py"
    return ("capacity",) if is_capacity else ("vs", "run", "report")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_every_flag_that_a_message_names_exists(path: Path) -> None:
    flags = flags_of_commands()
    known = EXAMPLES.union(*(flags[name] for name in printed_under(path, tuple(flags))))
    assert {flag for text in strings(path) for flag in FLAG.findall(text)} <= known


# The commands that suggest flags for a server that speaks another protocol.
@pytest.mark.parametrize("command", ["vs", "capacity"])
@pytest.mark.parametrize("kind", protocol_probe.NAMES)
def test_every_flag_that_is_named_for_another_protocol_is_one_of_the_command(kind: str, command: str) -> None:
    named = set(FLAG.findall(protocol_probe.remedy(kind, as_flags=True)))
    assert named <= flags_of_commands()[command]
    assert named or kind == "speaks_tls"


def flags_of_commands() -> dict[str, set[str]]:
    """The flags of each command of the lab."""
    return {verb: set(cli.parser(verb).flags.values()) for verb in cli.VERBS}


def strings(path: Path) -> list[str]:
    """The strings of a module, without docstrings."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documents)
    return [node.value for node in constants if isinstance(node.value, str)]
