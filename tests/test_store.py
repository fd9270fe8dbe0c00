"""Results that survive: crashes, damage, full disks, two writers."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import iolab
from iolab.judge import verdict
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan
from iolab.plan.schedule import schedule
from iolab.results import journal, layout, older, store
from iolab.results.records import CostCount, Result
from iolab.results.remaining import remaining
from made import result, results

PLAN = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50}, blocks=6)
RESULTS = results(PLAN, lambda trial: 100_000.0 + 1_000 * trial.slot)
STORED = Path(__file__).parent / "golden/stored"
MACHINE = {"identity": {"engine_build": "0123456789abcdef", "kernel": "6.1"}, "load": 0.1}


def write(runs: Path, made: list[Result], plan: Plan = PLAN) -> Path:
    with store.writing(plan, MACHINE, runs) as writer:
        for one in made:
            writer.append(one)
    return store.folder_of(plan, runs)


def first_form(record: bytes) -> bytes:
    """A line as earlier versions wrote it: the checksum before the record."""
    return b"%08x %s\n" % (zlib.crc32(record), record)


@pytest.fixture(scope="module", params=[journal.line_of, first_form])
def whole(request: pytest.FixtureRequest) -> bytes:
    """A file of four trials, in each form of a line."""
    return b"".join(request.param(one.model_dump_json().encode()) for one in RESULTS[:4])


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run, which a property test damages repeatedly."""
    return write(tmp_path_factory.mktemp("runs"), [])


def read(folder: Path, text: bytes) -> store.Trials:
    (folder / layout.TRIALS).write_bytes(text)
    return store.read_trials(folder)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    folder = write(tmp_path, RESULTS)
    assert store.read_trials(folder) == store.Trials(tuple(RESULTS), ())
    assert store.read_plan(folder) == PLAN
    assert store.read_machine(folder) == MACHINE
    assert remaining(PLAN, store.read_trials(folder).results) == ()


def test_the_files_of_a_run_are_json_lines(tmp_path: Path) -> None:
    count = CostCount(comparison=0, slot=1, cell="0" * 16, requests=9, calls=18)
    records: list[Result | CostCount] = [*RESULTS[:3], count]
    with store.writing(PLAN, MACHINE, tmp_path) as writer:
        for record in records:
            writer.append(record)
    for name, written in ((layout.TRIALS, records[:3]), (layout.COUNTS, records[3:])):
        lines = (writer.folder / name).read_bytes().splitlines()
        for line, record in zip(lines, written, strict=True):
            fields = json.loads(line)
            assert list(fields)[-1] == "crc32"
            assert fields.pop("crc32") == f"{zlib.crc32(line[: line.rindex(b',')] + b'}'):08x}"
            assert fields == record.model_dump(mode="json")


def test_a_run_stored_in_the_first_form_is_read_and_reported(tmp_path: Path) -> None:
    """Its lines have checksums before the record, and the cells of its plan are flat with other keys."""
    (stored,) = STORED.glob("vs-*")
    folder = Path(shutil.copytree(stored, tmp_path / stored.name))
    plan, trials = store.read_plan(folder), store.read_trials(folder)
    assert (len(trials.results), len(trials.counts), trials.faults) == (7, 2, ())
    assert all(plan.holds(each.trial) for each in trials.results)
    assert all(each.is_of(plan) for each in trials.counts)
    cell = plan.comparisons[0].cells[1]
    assert (cell.contestant.text, cell.load.connections, cell.server.cpus, cell.load.cpus) == ("thread", 2, (0,), (1,))
    assert (cell.trial.warmup_ms, cell.trial.duration_ms) == (100, 100)
    shown = iolab("report", folder.name, "--csv", "--out", tmp_path)
    assert (shown.exit_code, len(shown.stdout.splitlines())) == (0, 8), shown.stderr


def test_the_settings_of_an_older_plan_have_their_names_of_today() -> None:
    flat = {"contestant": "epoll", "workload": {"protocol": "echo"}, "connections": 7, "server_cpus": [0]}
    claim = {"decide": {"relation": "flat", "axis": "message_bytes", "contestants": ["epoll"], "at_most": 1.2}}
    ratio = {"relation": "ratio", "contestant": "a", "reference": "b", "setting": {"driver": "epoll"}}
    document = {
        "comparisons": [{"setting": {"message_bytes": 65, "connections": 7}, "cells": [flat]}],
        "published": [{"setting": {"workers": 1}}],
        "claims": [claim, {"decide": ratio}],
    }
    read = older.plan_of(document)
    cell = {
        "contestant": "epoll",
        "workload": {"protocol": "echo"},
        "load": {"connections": 7},
        "server": {"cpus": [0]},
    }
    assert read["comparisons"] == [{"setting": {"workload.message_bytes": 65, "load.connections": 7}, "cells": [cell]}]
    assert read["published"] == [{"at": {"server.workers": 1}}]
    flat_test, ratio_test = (each["tests"][0] for each in read["claims"])
    assert (flat_test["along"], flat_test["within"]) == ("workload.message_bytes", 1.2)
    assert ratio_test == {"relation": "ratio", "of": "a", "to": "b", "at": {"load.driver": "epoll"}}
    assert older.plan_of(read) == read


def test_the_same_plan_resumes_and_another_goes_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, RESULTS[:5])
    with store.writing(PLAN, MACHINE | {"load": 0.7}, tmp_path) as writer:
        assert writer.trials.results == tuple(RESULTS[:5])
        assert [trial.place for trial in remaining(PLAN, writer.trials.results)] == [
            trial.place for trial in schedule(PLAN)[5:]
        ]
        writer.append(RESULTS[5])
    assert store.read_trials(store.folder_of(PLAN, tmp_path)).results == tuple(RESULTS[:6])
    assert store.folder_of(vs_plan(["epoll", "tokio"], {"protocol": "echo"}), tmp_path) != store.folder_of(
        PLAN, tmp_path
    )


def test_trials_of_another_engine_are_not_mixed_in(tmp_path: Path) -> None:
    write(tmp_path, RESULTS[:1])
    other = {"identity": MACHINE["identity"] | {"engine_build": "fedcba9876543210"}}  # type: ignore[operator]
    with (
        pytest.raises(store.StoreError, match="engine_build 0123456789abcdef, this is fedcba9876543210"),
        store.writing(PLAN, other, tmp_path),
    ):
        pass
    assert store.read_trials(store.folder_of(PLAN, tmp_path)).results == tuple(RESULTS[:1])


def test_two_labs_do_not_write_one_run(tmp_path: Path) -> None:
    with (
        store.writing(PLAN, MACHINE, tmp_path),
        pytest.raises(store.StoreError, match="another iolab is writing this run"),
        store.writing(PLAN, MACHINE, tmp_path),
    ):
        pass
    with store.writing(PLAN, MACHINE, tmp_path):
        pass


def test_a_result_is_on_the_disk_before_the_next_trial_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    path = store.folder_of(PLAN, tmp_path) / layout.TRIALS
    with store.writing(PLAN, MACHINE, tmp_path) as writer:
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.pread(file, 1 << 20, 0)))
        for one in RESULTS[:3]:
            writer.append(one)
            assert synced[-1] == path.read_bytes()
    assert len(synced) == 3


def test_every_cut_of_the_last_line_loses_that_line_and_no_other(whole: bytes, scratch: Path) -> None:
    one, two = whole.splitlines(keepends=True)[:2]
    for cut in range(len(two)):
        trials = read(scratch, one + two[:cut])
        assert len(trials.results) == 1, cut
        assert len(trials.faults) == (cut > 0), cut
    assert len(read(scratch, one + two).results) == 2


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_one_flipped_bit_anywhere_is_detected_and_the_rest_is_kept(
    whole: bytes, scratch: Path, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(whole) * 8 - 1))
    damaged = bytearray(whole)
    damaged[place // 8] ^= 1 << place % 8
    trials = read(scratch, bytes(damaged))
    # A flipped end of line also loses the next line; any other flip loses only its own line.
    lost = 2 if whole[place // 8] == ord("\n") and place // 8 < len(whole) - 1 else 1
    assert len(trials.results) == 4 - lost
    assert all(one in RESULTS for one in trials.results)
    assert trials.faults
    assert all(fault.startswith(f"{layout.TRIALS}: line ") and "\n" not in fault for fault in trials.faults)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 3))
def test_any_bytes_among_the_lines_are_skipped(whole: bytes, scratch: Path, noise: bytes, after: int) -> None:
    lines = whole.splitlines(keepends=True)
    lines.insert(after, noise + b"\n")
    assert read(scratch, b"".join(lines)).results == tuple(RESULTS[:4])


def test_a_line_of_another_version_is_named_and_skipped(whole: bytes, scratch: Path) -> None:
    body = RESULTS[0].model_dump_json().replace('"started"', '"begun"').encode()
    trials = read(scratch, journal.line_of(body) + whole)
    assert trials.results == tuple(RESULTS[:4])
    assert "line 1 is of another version (started: Field required" in trials.faults[0]


def test_a_trial_that_stands_twice_counts_once(whole: bytes, scratch: Path) -> None:
    trials = read(scratch, whole + whole)
    assert trials.results == tuple(RESULTS[:4])
    assert len(trials.faults) == 4


@pytest.mark.parametrize("cut", [1, 2, 500])
def test_a_torn_line_is_cut_off_before_the_next_is_written(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, RESULTS[:4]) / layout.TRIALS
    path.write_bytes(path.read_bytes()[:-cut])
    with store.writing(PLAN, MACHINE, tmp_path) as writer:
        assert len(writer.trials.results) == 3
        assert len(writer.trials.faults) == 1
        writer.append(RESULTS[3])
    assert store.read_trials(path.parent) == store.Trials(tuple(RESULTS[:4]), ())


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limits the size of files, like a full disk. Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_at_any_write_keeps_what_was_complete(tmp_path: Path) -> None:
    line = len(journal.line_of(RESULTS[0].model_dump_json().encode()))
    generator = random.Random(1)
    for full in range(12):
        runs = tmp_path / str(full)
        path = store.folder_of(PLAN, runs) / layout.TRIALS
        with store.writing(PLAN, MACHINE, runs) as writer:
            for one in RESULTS[:full]:
                writer.append(one)
            with largest_file(path.stat().st_size + generator.randrange(line // 2)):
                with pytest.raises(store.StoreError, match=f"{path}: cannot be written"):
                    writer.append(RESULTS[full])
                assert store.read_trials(path.parent) == store.Trials(tuple(RESULTS[:full]), ())
            writer.append(RESULTS[full])
        assert store.read_trials(path.parent) == store.Trials(tuple(RESULTS[: full + 1]), ())


def test_a_disk_too_full_for_a_report_keeps_the_old_one(tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    store.write_report(folder, "old")
    with largest_file(1_000), pytest.raises(store.StoreError, match=r"report\.html: cannot be written"):
        store.write_report(folder, "n" * 2_000)
    assert (folder / layout.REPORT).read_text() == "old"
    kept = {layout.PLAN, layout.MACHINE, layout.TRIALS, layout.COUNTS, layout.REPORT}
    assert {path.name for path in folder.iterdir()} == kept


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with (
        pytest.raises(store.StoreError, match=f"{tmp_path / 'runs'}.*cannot be written"),
        store.writing(PLAN, MACHINE, tmp_path / "runs"),
    ):
        pass


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"schema": 1}', b"[" * 100_000])
def test_a_damaged_plan_or_machine_is_one_line(tmp_path: Path, text: bytes) -> None:
    folder = write(tmp_path, RESULTS[:1])
    (folder / layout.PLAN).write_bytes(text)
    with pytest.raises(store.StoreError, match=r"plan\.json: ") as caught:
        store.read_plan(folder)
    assert "\n" not in str(caught.value)
    if text != b'{"schema": 1}':
        (folder / layout.MACHINE).write_bytes(text)
        with pytest.raises(store.StoreError, match=r"machine\.json: is damaged"):
            store.read_machine(folder)


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(store.StoreError, match=r"plan\.json: cannot be read: .*: name the folder of a run"):
        store.read_plan(tmp_path)
    assert store.read_trials(tmp_path) == store.Trials((), ())


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from iolab.results import store
from iolab.results.remaining import remaining
unbroken, runs = Path(sys.argv[1]), Path(sys.argv[2])
plan, results = store.read_plan(unbroken), {one.trial: one for one in store.read_trials(unbroken).results}
with store.writing(plan, store.read_machine(unbroken), runs) as writer:
    print("open", flush=True)
    for trial in remaining(plan, writer.trials.results):
        writer.append(results[trial])
"""


def test_a_lab_killed_at_any_instant_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    """The record of a run killed many times equals that of an unbroken run byte for byte."""
    unbroken = write(tmp_path / "unbroken", RESULTS)
    generator = random.Random(2)
    path = store.folder_of(PLAN, tmp_path / "killed") / layout.TRIALS
    command = [sys.executable, "-c", WRITER, str(unbroken), str(tmp_path / "killed"), *sys.path]
    before, kills = 0, 0
    while not path.exists() or path.read_bytes() != (unbroken / layout.TRIALS).read_bytes():
        kills += 1
        assert kills < 20, "a writer that is killed makes progress"
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(generator.uniform(0, 0.004))
            if kills < 8:
                os.kill(child.pid, signal.SIGKILL)
            child.stdout.read()
        now = len(store.read_trials(path.parent).results)
        assert now >= before
        before = now


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_a_resumed_run_has_the_verdict_of_the_unbroken_one(
    tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    runs = tmp_path_factory.mktemp("runs")
    for stop in [*stops, 100]:
        with store.writing(PLAN, MACHINE, runs) as writer:
            for trial in remaining(PLAN, writer.trials.results)[:stop]:
                writer.append(result(PLAN, trial, rate_per_s=100_000.0 + 1_000 * trial.slot))
    found = verdict.judge(PLAN, store.read_trials(store.folder_of(PLAN, runs)).results)
    assert [v.model_dump_json() for v in found] == [v.model_dump_json() for v in verdict.judge(PLAN, RESULTS)]


def test_costs_lie_in_a_file_of_their_own_and_a_torn_one_is_named(tmp_path: Path) -> None:
    counts = [CostCount(comparison=0, slot=slot, cell="0" * 16, requests=9, calls=slot) for slot in range(2)]
    with store.writing(PLAN, MACHINE, tmp_path) as writer:
        for count in (*counts, counts[0].model_copy(update={"calls": 7})):
            writer.append(count)
    trials = store.read_trials(writer.folder)
    assert (trials.results, trials.faults, trials.counts) == ((), (), tuple(counts)), "the first of two stands"
    path = writer.folder / layout.COUNTS
    path.write_bytes(path.read_bytes()[:-2])
    assert "line 3 is torn or altered" in store.read_trials(writer.folder).faults[0]
    with store.writing(PLAN, MACHINE, tmp_path) as writer:
        writer.append(counts[0])
    assert store.read_trials(writer.folder).faults == ()
