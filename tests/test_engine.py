"""Finding the engine, refusing one built from other sources, and all misbehaviour of its processes and of servers."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import resource
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import FAKE_ENGINE, PATIENCE_S, is_alive, wait_until
from iolab.contract.types import LoadReady, LoadSpec, Report
from iolab.machine import port_owner, proc
from iolab.measure import binary, child, contestants, engine, processes
from iolab.measure.binary import EngineError
from iolab.measure.child import Child, Ended
from iolab.measure.engine import Engine, Load, TrialFailed
from iolab.plan.experiment import vs_plan
from iolab.plan.settings import Cell, Scalar, changed
from iolab.results.records import Failure

NOISY_SERVER = "import os, sys; print('first'); print('last words', file=sys.stderr); sys.exit(3)"


def cell_of(contestant: str) -> Cell:
    setting: dict[str, Scalar] = {"protocol": "echo", "warmup_ms": 100, "duration_ms": 100}
    return vs_plan([contestant, "epoll"], setting, blocks=6).comparisons[0].cells[0]


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, contents in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(contents)


SOURCES = {
    "Cargo.toml": b"[workspace]\n",
    "Cargo.lock": b"",
    "crates/b/Cargo.toml": b"b",
    "crates/b/src/main.rs": b"fn main() {}\n",
    "crates/b-c/src/lib.rs": b"\xff\0",
    "crates/b-c/vendor/c.c": b"c",
    "crates/b-c/vendor/c.h": b"",
    "crates/b/README.md": b"not a source",
}


def test_the_build_id_is_the_one_the_contract_defines(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    text = (
        b"Cargo.lock\x000\x00"
        b"Cargo.toml\x0012\x00[workspace]\n"
        b"crates/b-c/src/lib.rs\x002\x00\xff\x00"
        b"crates/b-c/vendor/c.c\x001\x00c"
        b"crates/b-c/vendor/c.h\x000\x00"
        b"crates/b/Cargo.toml\x001\x00b"
        b"crates/b/src/main.rs\x0013\x00fn main() {}\n"
    )
    assert binary.build_id(str(tmp_path)) == hashlib.sha256(text).hexdigest()[:16]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "crates/b/README.md"])
def test_any_edit_of_a_source_changes_the_build_id(tmp_path: Path, name: str) -> None:
    write(tmp_path, SOURCES)
    before = binary.build_id(str(tmp_path))
    (tmp_path / name).write_bytes(SOURCES[name] + b" ")
    assert binary.build_id(str(tmp_path)) != before


def test_an_engine_of_other_sources_is_refused_with_what_to_run() -> None:
    binary.check_build("e", "0123", "0123")
    with pytest.raises(
        EngineError, match=r"^e was built from other sources \(0123, the checkout is 4567\): run: make b"
    ):
        binary.check_build("e", "0123", "4567")


@pytest.mark.parametrize(
    ("contents", "accepted"),
    [(b"the engine", True), (b"another engine", False)],
    ids=["the file that was installed", "another file"],
)
def test_an_installed_lab_accepts_only_the_file_it_was_installed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: bytes, accepted: bool
) -> None:
    installed = base64.urlsafe_b64encode(hashlib.sha256(b"the engine").digest()).rstrip(b"=").decode()
    other = base64.urlsafe_b64encode(hashlib.sha256(b"another engine").digest()).rstrip(b"=").decode()
    record = f"../../bin/iolab,sha256={other},14\n../../bin/iolab-engine,sha256={installed},10\niolab-0/RECORD,,\n"
    write(tmp_path, {"iolab-0.1.0.dist-info/RECORD": record.encode(), "engine": contents})
    monkeypatch.delenv("IOLAB_ENGINE", raising=False)
    monkeypatch.setattr(binary, "PACKAGES", str(tmp_path))
    assert binary.belongs(str(tmp_path / "engine")) == accepted
    if accepted:
        binary.verify(str(tmp_path / "engine"), "0123")
        return
    with pytest.raises(EngineError, match="is not the engine this iolab was installed with: install iolab again"):
        binary.verify(str(tmp_path / "engine"), "0123")


def test_a_lab_that_is_neither_installed_nor_in_a_checkout_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"engine": b"the engine"})
    monkeypatch.delenv("IOLAB_ENGINE", raising=False)
    monkeypatch.setattr(binary, "PACKAGES", str(tmp_path))
    with pytest.raises(EngineError, match="neither installed nor in a checkout: install it, or set IOLAB_ENGINE to an"):
        binary.verify(str(tmp_path / "engine"), "0123")


def test_in_a_checkout_an_engine_belongs_as_long_as_no_source_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SOURCES | {"lab/iolab/binary.py": b""})
    built = binary.build_id(str(tmp_path))
    write(tmp_path, {"engine": b"\x7fELF\0" + built.encode() + b"\0"})
    monkeypatch.delenv("IOLAB_ENGINE", raising=False)
    monkeypatch.setattr(binary, "PACKAGES", str(tmp_path / "lab"))
    assert binary.belongs(str(tmp_path / "engine"))
    binary.verify(str(tmp_path / "engine"), built)
    write(tmp_path, {"crates/b/src/main.rs": b"fn main() { }\n"})
    assert not binary.belongs(str(tmp_path / "engine"))
    with pytest.raises(EngineError, match=r"was built from other sources .*: run: make build"):
        binary.verify(str(tmp_path / "engine"), built)


@pytest.mark.engine
def test_the_engine_of_this_checkout_is_known_without_running_it(real_engine: Engine) -> None:
    assert binary.belongs(str(real_engine.path))


def test_an_engine_named_by_hand_is_used_and_a_wrong_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Engine
) -> None:
    assert str(fake.path) == os.environ["IOLAB_ENGINE"]
    assert fake.digest == hashlib.sha256(fake.path.read_bytes()).hexdigest()
    monkeypatch.setenv("IOLAB_ENGINE", str(tmp_path / "none"))
    with pytest.raises(EngineError, match=r"^IOLAB_ENGINE names no file: .*/none$"):
        engine.open_engine()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("#!/bin/sh\necho broken >&2; exit 3\n", "describe ended with 3: broken", id="fails"),
        pytest.param("#!/bin/sh\necho '{}'\n", "broke the contract: build: Field required", id="says nonsense"),
        pytest.param("#!/nowhere/sh\n", "cannot be run", id="cannot be run"),
    ],
)
def test_a_broken_engine_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    path = tmp_path / "engine"
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setenv("IOLAB_ENGINE", str(path))
    with pytest.raises(EngineError, match=message) as raised:
        engine.open_engine()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fault", "kind", "final", "message"),
    [
        ("dies_at_start", "died", False, "the server ended with code 1: a pretended crash"),
        ("forbidden", "io_uring_forbidden", True, "io_uring is forbidden here: allow it"),
        ("garbage", "contract", True, "the server broke the contract"),
        ("hangs", "hung", False, "the server was not ready within"),
    ],
)
def test_a_server_that_does_not_get_ready_is_a_typed_failure_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, fake: Engine, fault: str, kind: str, final: bool, message: str
) -> None:
    # Only the hang has to wait that long; other faults get all the time they need.
    monkeypatch.setattr(engine, "READY_S_MAX", 0.5 if kind == "hung" else PATIENCE_S)
    with pytest.raises(TrialFailed, match=message) as raised:
        contestants.start(cell_of(f"epoll[fault={fault}]"), fake)
    assert (raised.value.failure.kind, raised.value.failure.final) == (kind, final)
    assert proc.look(os.getpid()).pids == (os.getpid(),)


def load_spec(server: contestants.Server) -> LoadSpec:
    cell = cell_of("epoll")
    return LoadSpec(
        workload=cell.workload, connect=server.addresses, connections=2, warmup_ms=100, duration_ms=100, timeout_ms=100
    )


def test_a_generator_tells_its_window_and_ends_with_its_report(fake: Engine) -> None:
    server = contestants.start(cell_of("io_uring"), fake)
    load = Load(fake, load_spec(server))
    try:
        names = [type(event).__name__ for event in load.events(PATIENCE_S) if event is not None]
    finally:
        load.stop()
        server.stop()
    assert names == ["LoadReady", "Measuring", "Measured", "Report"]


def test_a_generator_that_dies_says_how(fake: Engine) -> None:
    server = contestants.start(cell_of("epoll[fault=dies_under_load]"), fake)
    load = Load(fake, load_spec(server))
    try:
        with pytest.raises(TrialFailed, match="the load generator ended with code 1: a pretended crash under load"):
            list(load.events(PATIENCE_S))
    finally:
        load.stop()
        server.stop()


@pytest.mark.parametrize(
    ("opens", "message"),
    [(True, "the load generator did not finish within 15 s"), (False, "did not open its 2 connections within 15 s")],
)
def test_a_generator_that_hangs_is_given_up_and_says_in_what(
    tmp_path: Path, fake: Engine, monkeypatch: pytest.MonkeyPatch, opens: bool, message: str
) -> None:
    clock_s = [0.0]
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    monkeypatch.setenv("FAKE_PACE", "10000")
    silent = tmp_path / "iolab-engine"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    server = contestants.start(cell_of("epoll"), fake)
    load = Load(fake if opens else replace(fake, path=silent), load_spec(server))
    events = load.events(0.05)
    try:
        while not (event := next(events)) and opens:
            pass
        assert isinstance(event, LoadReady) == opens
        clock_s[0] = 16.0
        with pytest.raises(TrialFailed, match=message) as raised:
            list(events)
        assert raised.value.failure.kind == "hung"
    finally:
        load.stop()
        server.stop()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (NOISY_SERVER, "ended with code 3"),
        ("import os, signal; print('first', flush=True); os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
    ],
)
def test_the_end_of_a_child_is_reported_after_its_lines(program: str, message: str) -> None:
    process = Child(python(program), b"{}")
    try:
        assert process.line(PATIENCE_S) == b"first"
        with pytest.raises(Ended, match=message):
            process.line(PATIENCE_S)
        assert process.last_words() in (("last words",), ())
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("'one\\n\\n  two\\n'", ("one", "  two")),
        ("'\\x1b[31mred\\x07 \\ttext\\r\\n'", (" [31mred        text",)),
        ("'\\n'.join(map(str, range(30)))", tuple(map(str, range(10, 30)))),
        ("'x' * 100_000", ("x" * child.LAST_LINE_CHARACTERS,)),
        ("''", ()),
    ],
)
def test_the_last_lines_of_standard_error_are_kept_fit_for_a_terminal(written: str, lines: tuple[str, ...]) -> None:
    process = Child(python(f"import sys; sys.stderr.write({written})"), b"{}")
    try:
        with pytest.raises(Ended):
            process.line(PATIENCE_S)
        assert process.last_words() == lines
    finally:
        process.stop()


def test_a_line_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LINE_BYTES_MAX", 1 << 20)
    process = Child(python("import sys\nwhile True: sys.stdout.write('x' * 65536)"), b"{}")
    try:
        line = process.line(PATIENCE_S)
        assert line is not None
        assert len(line) == 1 << 20
    finally:
        process.stop()


def test_no_line_in_time_is_none_and_the_child_lives_on() -> None:
    process = Child(python("import sys; sys.stdin.read()"), b"{}")
    try:
        assert process.line(0.05) is None
        assert process.alive()
        assert process.wait(0) is None
    finally:
        process.stop()
        process.stop()


def test_stopping_a_child_ends_all_it_forked_even_what_ignores_a_polite_word() -> None:
    program = (
        "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pid = os.fork()\nprint(pid, flush=True) if pid else None\ntime.sleep(60)"
    )
    process = Child(python(program), b"{}")
    line = process.line(PATIENCE_S)
    assert line is not None
    process.stop()
    wait_until(lambda: not is_alive(int(line)), "the grandchild is gone")


def test_a_child_that_cannot_be_killed_does_not_hold_up_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.0)
    monkeypatch.setattr(child, "REAPED_S", 0.0)
    process = Child(python("import time; time.sleep(600)"), b"{}")
    # Like a process that waits for a device and ignores signals.
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda leader, number: None)
        assert not process.stop()
    assert process.alive()
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not process.alive(), "it is gone")
    process.stop()


WORDS = (
    "; rm -rf /", "$(touch x)", "`touch x`", "a\nb", "--flag", "-", "../../etc/passwd", "a b", "'", '"', "\\", "*", "?",
    "~", "&", "|", ">", "<", "#", "!", "$HOME", "${IFS}", "%s", "%n", "{}", "{0}", "{{port}}", "\t", "\x07", "\x1b[2J",
    "é", "日本", "\u202e", "\u200b", "a=b", "@file", ":", ",", ";", "&&", "||", "(x)", "[x]", "x" * 500, "^C", "0",
    "-1", "null", "true", "\r",
)  # fmt: skip


ARGV_SERVER = """
import json, socket, sys, time
with open(sys.argv[1], "w") as file:
    json.dump(sys.argv[2:], file)
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
time.sleep(60)
"""


def test_fifty_awkward_arguments_reach_a_command_unchanged(tmp_path: Path) -> None:
    assert len(WORDS) == 50
    out, program = tmp_path / "argv", tmp_path / "server.py"
    program.write_text(ARGV_SERVER)
    command = shlex.join([sys.executable, str(program), str(out), "{port}", *WORDS])
    server = contestants.start(cell_of(f"cmd:{command}"), None)
    server.stop()
    port, *words = json.loads(out.read_text())
    assert server.addresses == (f"127.0.0.1:{port}",)
    assert words == [word.replace("{port}", port) for word in WORDS]


def listens(address: str) -> str:
    """The command of a server that listens on its own choice of address."""
    program = f"import socket, sys, time; at = socket.create_server({address}); time.sleep(60)"
    return f"cmd:{shlex.join([sys.executable, '-S', '-c', program])} {{port}}"


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("cmd:/nowhere/server {port}", "cannot_start", "/nowhere/server does not exist: check the command after cmd:"),
        (
            f"cmd:{sys.executable} -c 'import sys; sys.exit(\"no licence\")' {{port}}",
            "died",
            "before it accepted a connection on port .*: no licence",
        ),
        (
            f"cmd:{sys.executable} -c 'import time; time.sleep(60)' {{port}}",
            "hung",
            "listens nowhere 120 s after its start: make it listen on {port}, or give it longer",
        ),
        (
            listens("('127.0.0.1', 0)"),
            "wrong_address",
            r"it listens on 127.0.0.1:\d+, not on \d+, the port it was given: make it listen on {port}$",
        ),
        (listens("('127.0.0.3', int(sys.argv[1]))"), "wrong_address", "it listens on 127.0.0.3:.*, not on 127.0.0.1: "),
        (
            f"cmd:{sys.executable} -c '' {{port}}",
            "died",
            "ended with code 0 before .*: if it goes into the background, keep it in the foreground$",
        ),
        (
            f"cmd:{sys.executable} -c '' && ./mine {{port}}",
            "died",
            "ended with code 0 before .*: no shell reads the command, so && is an argument: write cmd:sh -c '…'$",
        ),
        (f"cmd:{FAKE_ENGINE.parent / 'made'} {{port}}", "cannot_start", "does not exist: check the command after cmd:"),
    ],
)
def test_a_command_that_does_not_serve_is_a_typed_failure(
    monkeypatch: pytest.MonkeyPatch, command: str, kind: str, message: str
) -> None:
    asked = itertools.count()

    def now_s() -> float:
        """Jumps past the deadline once the server listens on a wrong address, or at once if it hangs."""
        is_wrong = kind == "hung" or bool(port_owner.addresses(proc.look(os.getpid()).pids[1:]))
        return 2 * PATIENCE_S if next(asked) and is_wrong else 0.0

    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=now_s, sleep=time.sleep))
    with pytest.raises(TrialFailed, match=message) as raised:
        contestants.start(changed(cell_of(command), {"trial.start_ms": round(1_000 * PATIENCE_S)}), None)
    assert raised.value.failure.kind == kind
    assert proc.look(os.getpid()).pids == (os.getpid(),)


def test_a_command_that_dies_later_is_noticed(fake: Engine) -> None:
    server = contestants.start(cell_of(f"cmd:{sys.executable} {FAKE_ENGINE} plain {{port}}"), fake)
    try:
        server.check()
        load = Load(fake, load_spec(server))
        assert any(isinstance(event, Report) for event in load.events(PATIENCE_S))
        load.stop()
        os.kill(server.pids[0], 9)
        wait_until(lambda: not server.instances[0].child.alive(), "the server is dead")
        with pytest.raises(TrialFailed, match="the server was ended by SIGKILL while it was measured"):
            server.check()
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("last_act", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os.kill(os.getpid(), 40)", "was ended by signal 40"),
        # What a shell returns for SIGSEGV.
        ("os._exit(139)", "ended with code 139"),
        ("os._exit(0)", "ended with code 0"),
    ],
)
def test_how_a_command_died_is_reported_with_its_last_lines(tmp_path: Path, last_act: str, how: str) -> None:
    program, gate = tmp_path / "server.py", tmp_path / "gate"
    program.write_text(
        "import os, signal, socket, sys, time\n"
        "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        f"while not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.01)\n"
        "print('out of tickets\\nfatal: aborting', file=sys.stderr, flush=True)\n"
        f"{last_act}\n"
    )
    server = contestants.start(cell_of(f"cmd:{sys.executable} {program} {{port}}"), None)
    # Only now: whether a server that dies at its first connection counts as ready is a race.
    gate.touch()
    try:
        with pytest.raises(TrialFailed) as raised:
            server.check(30)
    finally:
        server.stop()
    assert raised.value.failure == Failure(
        kind="died", message=f"the server {how} while it was measured", said=("out of tickets", "fatal: aborting")
    )


def test_a_command_runs_on_its_processors_and_is_accounted_for_alone(fake: Engine) -> None:
    cpu = min(os.sched_getaffinity(0))
    cell = changed(cell_of(f"cmd:{sys.executable} -S {FAKE_ENGINE} forks {{port}}"), {"server.cpus": (cpu,)})
    server = contestants.start(cell, fake)
    try:
        family = proc.look(*server.pids).pids
        assert len(family) == 2, "the server and what it forked, without the reaper"
        assert [os.sched_getaffinity(pid) for pid in family] == [{cpu}, {cpu}]
    finally:
        server.stop()
    wait_until(lambda: not is_alive(family[1]), "what it forked is gone")


@pytest.mark.parametrize("contestant", ["epoll", f"cmd:{sys.executable} {FAKE_ENGINE} plain {{port}}"])
def test_a_server_runs_under_its_limits_and_the_lab_does_not(fake: Engine, contestant: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    cell = changed(cell_of(contestant), {"server.nice": 5, "server.descriptors_max": 77})
    server = contestants.start(cell, fake)
    try:
        assert os.getpriority(os.PRIO_PROCESS, server.pids[0]) == 5
        assert resource.prlimit(server.pids[0], resource.RLIMIT_NOFILE) == (77, 77)
    finally:
        server.stop()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
