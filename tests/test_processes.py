"""Foreign servers as processes: ready lines, several instances, and each way a command can misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import FAKE_ENGINE, PATIENCE_S, iolab, is_alive, wait_until
from iolab.contract.ready import PythonState, ReadyLine
from iolab.machine import proc, syscalls
from iolab.machine.interpreters import Interpreter
from iolab.measure import contestants, output, processes, pythons, reaper, registered
from iolab.measure.agent import Agent
from iolab.measure.engine import Engine, TrialFailed
from iolab.measure.first_look import check as look_at
from iolab.plan import registry
from iolab.plan.plan import Comparison, Plan
from iolab.plan.schedule import schedule
from iolab.plan.settings import Cell
from iolab.results.records import Result

# Listens, then prints its addresses and the fields in its second argument.
LINE = """
import json, socket, sys, time
listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
addresses = ["127.0.0.1:%d" % each.getsockname()[1] for each in listeners]
print(json.dumps({"event": "ready", "listen": addresses} | json.loads(sys.argv[2])), flush=True)
time.sleep(600)
"""
# The interpreter's state in the ready line of a Python server.
PYTHON = {"version": "3.13.5 (main)", "flags": "--x", "gil_built": True, "gil": True, "extensions": []}
ENTRY = """
[mine]
about = "says where it listens"
protocols = ["echo"]
settings = ["sockets", "interpreter"]
start = ["{python}", "-S", "{folder}/server.py", "{sockets}", '%s']
ready = "line"
install = "install mine"
"""
LISTENS = "import socket, sys, time; at = socket.create_server(('127.0.0.1', int(sys.argv[1])))"


def cell_of(contestant: str, **settings: Any) -> Cell:
    server = {name: settings.pop(name) for name in ("sockets", "instances", "interpreter") if name in settings}
    return Cell.model_validate(
        {"contestant": contestant, "workload": {"protocol": "echo"}, "server": server, "trial": settings}
    )


def command(program: str, *words: str) -> str:
    """The command of a server in Python, with its port as first argument."""
    return f"cmd:{shlex.join([sys.executable, '-S', '-c', program])} {{port}} {shlex.join(words)}"


@pytest.fixture
def prepared(tmp_path: Path) -> contestants.Prepared:
    return registry_of(tmp_path, LINE)


def registry_of(folder: Path, program: str, more: dict[str, Any] | None = None) -> contestants.Prepared:
    """A registry with a server that runs this program and adds `more` to its ready line."""
    (folder / "mine").mkdir()
    (folder / "mine/server.py").write_text(program)
    (folder / "contestants.toml").write_text(ENTRY % json.dumps(more or {}))
    return {"mine": registered.prepare(registry.load(folder / "contestants.toml")["mine"])}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a server all the time it needs to exit."""
    monkeypatch.setattr("iolab.measure.child.GRACE_S", PATIENCE_S)


def nothing_is_left() -> bool:
    return proc.look(os.getpid()).pids == (os.getpid(),)


@pytest.mark.usefixtures("patient")
def test_a_server_that_says_its_addresses_is_started_at_all_of_them(prepared: contestants.Prepared) -> None:
    server = contestants.start(cell_of("mine", sockets=3), None, prepared)
    try:
        assert len(set(server.addresses)) == 3
        assert all(map(processes.accepts, server.addresses))
        assert server.line is not None
        assert server.line.listen == server.addresses
    finally:
        assert server.stop()
    assert nothing_is_left()


def test_a_server_may_listen_on_a_socket_of_the_file_system(tmp_path: Path) -> None:
    program = LINE.replace('("127.0.0.1", 0)', "sys.argv[3], family=socket.AF_UNIX").replace(
        '"127.0.0.1:%d" % each.getsockname()[1]', '"unix:" + each.getsockname()'
    )
    known = registry_of(tmp_path, program)
    file = tmp_path / "contestants.toml"
    file.write_text(file.read_text().replace("'{}']", "'{}', '{scratch}/socket']"))
    known = {"mine": registered.prepare(registry.load(file)["mine"])}
    server = contestants.start(cell_of("mine"), None, known)
    scratch = server.instances[0].scratch
    try:
        assert scratch is not None
        assert server.addresses == (f"unix:{scratch.folder}/socket",)
    finally:
        server.stop()
    assert not scratch.folder.exists()


def check_line(folder: Path, program: str, kind: str, message: str, **settings: Any) -> None:
    """Expects that a server with this program fails to start with such a message and leaves nothing behind."""
    known = registry_of(folder, program)
    with pytest.raises(TrialFailed, match=message) as raised:
        contestants.start(cell_of("mine", **settings), None, known)
    assert raised.value.failure.kind == kind
    assert "\n" not in raised.value.failure.message
    assert nothing_is_left()


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        ("print('hello', flush=True); import time; time.sleep(600)", "no_ready_line", "its ready line is wrong: Inva"),
        (LINE.replace('"listen"', '"listens"'), "no_ready_line", "its ready line is wrong: listen: Field required"),
        (LINE.replace('"ready"', '"served"'), "no_ready_line", "its ready line is wrong: event: "),
        (LINE.replace("range(", "range(1 + "), "wrong_address", "names 2 addresses, and server.sockets is 1$"),
        (
            LINE.replace('"127.0.0.1:%d"', '"0.0.0.0:%d"'),
            "wrong_address",
            "names 0.0.0.0:.*: listen on 127.0.0.1, or on unix:/path$",
        ),
        (
            LINE.replace("print(", "[each.close() for each in listeners]; print("),
            "wrong_address",
            "which accepts no connection: print the line when all accept$",
        ),
        ("print('x' * 70_000, end='', flush=True); import time; time.sleep(600)", "no_ready_line", "its ready line is"),
        ("raise SystemExit('no licence')", "died", "the server ended with code 1 before it was ready: no licence$"),
    ],
)
def test_a_ready_line_that_is_wrong_is_one_clear_line(tmp_path: Path, program: str, kind: str, message: str) -> None:
    check_line(tmp_path, program, kind, message)


def test_a_server_that_prints_no_ready_line_fails_after_its_time(tmp_path: Path) -> None:
    # The line never comes, so a short limit is enough.
    message = "it has printed no ready line 0.1 s after its start: flush its output, or give it longer"
    check_line(tmp_path, "import time; time.sleep(600)", "hung", message, start_ms=100)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "asked for 3.99, and the ready line does not say what runs the server: add interpreter to it"),
        ({"interpreter": PYTHON}, "asked for 3.99, and the server runs on 3.13.5"),
    ],
)
def test_a_server_on_another_interpreter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], message: str
) -> None:
    found = SimpleNamespace(program=sys.executable, version="3.99.0")
    monkeypatch.setattr("iolab.machine.interpreters.find", lambda name: found)
    check_other_interpreter(registry_of(tmp_path, LINE, said), "3.99", message)


def check_other_interpreter(known: contestants.Prepared, asked: str, message: str) -> None:
    with pytest.raises(TrialFailed, match=message) as raised:
        contestants.start(cell_of("mine", interpreter=asked), None, known)
    assert (raised.value.failure.kind, raised.value.failure.final) == ("other_interpreter", True)
    assert nothing_is_left()


def test_a_server_that_brings_an_interpreter_of_its_own_is_not_called_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Interpreter("system", Path(sys.executable), PythonState.model_validate(PYTHON | {"version": "3.11.2 (x)"}))
    monkeypatch.setattr("iolab.machine.interpreters.find", lambda name: found)
    known = registry_of(tmp_path, LINE, {"interpreter": PYTHON})
    message = r"asked for system, which is 3.11.2 here \(.*\), and the server runs on 3.13.5$"
    check_other_interpreter(known, "system", message)


def test_a_file_of_the_working_directory_is_not_taken_for_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pythons, "PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    for name in ("importlib", "package_that_is_not_installed"):
        (tmp_path / f"{name}.py").touch()
    assert pythons.why_not(None, ("json",)) == ""
    why = pythons.why_not(None, ("package_that_is_not_installed",), "install it")
    assert why.startswith(f"{sys.executable} cannot import package_that_is_not_installed (ModuleNotFoundError: ")
    assert why.endswith(": install it")


@pytest.mark.parametrize("contestant", ["epoll", f"cmd:{sys.executable} -S {FAKE_ENGINE} plain {{port}}", "mine"])
def test_several_instances_are_one_server(fake: Engine, prepared: contestants.Prepared, contestant: str) -> None:
    server = contestants.start(cell_of(contestant, instances=3), fake, prepared)
    try:
        assert len(set(server.addresses)) == 3
        assert len(proc.look(*server.pids).pids) == 3
        assert proc.size(*server.pids).processes == 3
        server.check()
        os.kill(server.pids[-1], 9)
        wait_until(lambda: not server.instances[-1].child.alive(), "the last instance is dead")
        with pytest.raises(TrialFailed, match="ended by SIGKILL while it was measured") as raised:
            server.check()
        assert raised.value.failure.kind == "died"
    finally:
        server.stop()
    assert nothing_is_left()


def test_of_several_instances_none_is_left_where_one_cannot_start(tmp_path: Path) -> None:
    # The second instance fails, because the folder exists.
    program = f"import os, sys; os.mkdir({str(tmp_path / 'first')!r}); {LISTENS}; time.sleep(600)"
    with pytest.raises(TrialFailed, match="File exists"):
        contestants.start(cell_of(command(program), instances=2), None)
    assert nothing_is_left()


def test_a_command_gets_its_host_its_interpreter_and_the_folder_of_the_registry(tmp_path: Path) -> None:
    program = f"import json, sys; json.dump(sys.argv[2:], open({str(tmp_path / 'argv')!r}, 'w')); {LISTENS}"
    words = ("{host}:{port}", "{python}", "{contestants}/x", "{workers}", "{load.connections}", "{unknown}")
    text = command(f"{program}; time.sleep(600)") + " " + " ".join(words)
    server = contestants.start(cell_of(text), None)
    server.stop()
    told = json.loads((tmp_path / "argv").read_text())
    assert told == [*server.addresses, "python3", f"{registry.OURS.parent}/x", "1", "50", "{unknown}"]


DAEMON = f"""
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[2], "w").write(str(os.getpid()))
{LISTENS}
time.sleep(600)
"""


def test_a_command_that_goes_into_the_background_is_one_clear_line_and_leaves_no_process(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    with pytest.raises(TrialFailed, match=r"ended with code 0 before .*: if it goes into the background, keep it in"):
        contestants.start(cell_of(command(DAEMON, str(said))), None)
    # It may be killed before it writes its process id.
    assert not said.exists() or not said.read_text() or not is_alive(int(said.read_text()))
    assert nothing_is_left()


def test_what_a_server_puts_into_the_background_ends_with_it(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    program = (
        f"import os; {LISTENS}; pid = os.fork()\n"
        "if not pid:\n    os.setsid()\n    pid = os.fork()\n"
        f"    if pid: os._exit(0)\n    open({str(said)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"    os.rename({str(said)!r} + '.new', {str(said)!r})\n"
        "time.sleep(600)"
    )
    server = contestants.start(cell_of(command(program)), None)
    wait_until(said.exists, "the daemon runs")
    server.stop()
    assert not is_alive(int(said.read_text()))


def reaped(folder: Path, program: str, change: str = "") -> subprocess.Popen[bytes]:
    """Runs a changed reaper with this program, which writes its process id to `folder / "pid"`."""
    words = ["", "", "", "", sys.executable, "-S", "-c", program, str(folder / "pid")]
    code = f"import sys; from iolab.measure import reaper; {change}; sys.argv = {words!r}; sys.exit(reaper.main())"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def said_pid(folder: Path) -> int:
    """The process id that a program wrote."""
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "", "it said its process id")
    return int((folder / "pid").read_text())


def test_a_server_ends_with_a_lab_that_is_killed_before_it_reads_a_line(tmp_path: Path) -> None:
    # The lab dies before the server starts.
    late = "read = reaper.checked; reaper.checked = lambda result: (sys.stdin.read(), read(result))"
    with reaped(tmp_path, "import time; time.sleep(600)", late) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.close()
        process.wait(PATIENCE_S)
        try:
            wait_until(lambda: not is_session(process.pid), "the server has ended")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_session(leader: int) -> bool:
    """Whether any process is left in a session whose leader has exited."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, 0)
        return True
    return False


def test_the_processor_time_of_what_has_ended_is_as_fine_as_the_kernel_counts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = SimpleNamespace(ru_utime=0.003141, ru_stime=0.000002)
    monkeypatch.setattr("resource.getrusage", lambda whose: used)
    assert reaper.used_ns() == 3_143_000


def test_a_process_that_cannot_be_killed_is_named_and_holds_nothing_up(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "if not os.fork():\n"
        "    open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
        "while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)"
    )
    # Like a process of another user, or one that waits for a device: kill has no effect.
    with reaped(tmp_path, program, "reaper.kill = lambda pid: None; reaper.AGAIN_MAX = 3") as process:
        pid = said_pid(tmp_path)
        try:
            assert process.wait(PATIENCE_S) == 0
        finally:
            os.kill(pid, signal.SIGKILL)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert re.fullmatch(rf"processes are left that cannot be killed: {pid} \(python\S*, state S\)\n", said)


IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LISTENS}; time.sleep(600)"


@pytest.mark.parametrize(("program", "ends"), [(IGNORES, False), (f"{LISTENS}; time.sleep(600)", True)])
def test_a_command_that_ignores_sigterm_is_killed_and_that_is_known(
    monkeypatch: pytest.MonkeyPatch, program: str, ends: bool
) -> None:
    if ends:
        monkeypatch.setattr("iolab.measure.child.GRACE_S", PATIENCE_S)
    server = contestants.start(cell_of(command(program)), None)
    assert server.stop() is ends
    assert nothing_is_left()


def test_the_first_look_says_that_a_command_ignores_sigterm(fake: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    served = f"cmd:{sys.executable} -S {FAKE_ENGINE} deaf {{port}}"
    assert not look_at(Agent(fake), cell_of(served), "deaf").ends_politely
    monkeypatch.setattr("iolab.measure.child.GRACE_S", PATIENCE_S)
    assert look_at(Agent(fake), cell_of(served.replace("deaf", "plain")), "plain").ends_politely


@pytest.mark.parametrize("error", [OSError("no such process"), KeyboardInterrupt()])
def test_a_server_whose_count_fails_is_ended(
    fake: Engine, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    seen = list[bool]()

    def fails(_pids: object) -> None:
        seen.append(nothing_is_left())
        raise error

    monkeypatch.setattr(syscalls, "Counter", fails)
    with pytest.raises(type(error)):
        Agent(fake).start(cell_of(f"cmd:{sys.executable} -S {FAKE_ENGINE} plain {{port}}"), count_calls=True)
    assert seen == [False], "the server ran when it was to be counted"
    assert nothing_is_left()


def started_and_checked(cell: Cell) -> None:
    """Starts a server and checks it until a check fails."""
    server = contestants.start(cell, None)
    try:
        while True:
            server.check()
    finally:
        server.stop()


@pytest.mark.parametrize("listens", [False, True])
def test_a_command_that_floods_its_output_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, listens: bool) -> None:
    monkeypatch.setattr(output, "FLOOD_BYTES", 4 << 20)
    monkeypatch.setattr(output, "FLOOD_BYTES_PER_S", 0)
    monkeypatch.setattr(output, "TRIMMED_BYTES", 1 << 20)
    flood = "import sys\nwhile True: sys.stderr.write('x' * 65_536)"
    program = f"{LISTENS}\n{flood}" if listens else flood
    with pytest.raises(TrialFailed, match=r"it has written \d+ MiB of output so far: make it log less") as raised:
        started_and_checked(cell_of(command(program)))
    assert raised.value.failure.kind == "floods"
    assert nothing_is_left()


@pytest.mark.parametrize("limit_s", [15, 30])
def test_a_command_that_takes_twenty_seconds_is_started_if_it_is_given_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit_s: int
) -> None:
    """The server listens after twenty seconds on a fake clock of the lab."""
    passed = tmp_path / "passed"
    asked = 0

    def now_s() -> float:
        nonlocal asked
        asked += 1
        if asked <= 5:
            return 0.0
        if limit_s > 20:
            passed.touch()
        return 20.0

    program = (
        f"import os, time\nwhile not os.path.exists({str(passed)!r}): time.sleep(0.01)\n{LISTENS}; time.sleep(600)"
    )
    cell = cell_of(command(program), start_ms=1_000 * limit_s)
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=now_s, sleep=time.sleep))
    monkeypatch.setattr("iolab.measure.child.GRACE_S", PATIENCE_S)
    if limit_s > 20:
        assert contestants.start(cell, None).stop()
    else:
        message = "it listens nowhere 15 s after its start: make it listen on {port}, or give it longer "
        with pytest.raises(TrialFailed, match=message):
            contestants.start(cell, None)
    assert nothing_is_left()


def test_output_keeps_its_beginning_and_its_end_and_counts_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("TRIMMED_BYTES", 100), ("HEAD_BYTES", 10), ("TAIL_BYTES", 20)):
        monkeypatch.setattr(output, name, size)
    kept = output.Output()
    for number in range(50):
        os.write(kept.fileno(), b"%04d\n" % number)
        assert not kept.floods(0)
    assert (kept.head(10), kept.tail(10), kept.written()) == (b"0000\n0001\n", b"0048\n0049\n", 250)
    assert b"0002" not in kept.head(250), "what is between them is freed"
    kept.close()


def test_a_line_that_is_written_while_output_is_trimmed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "TRIMMED_BYTES", 0)
    kept, lines = output.Output(), list[bytes]()
    os.write(kept.fileno(), b"x" * (5 << 20))

    def with_a_line(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: int) -> Any:
            found = call(*arguments)
            lines.append(b"line %d\n" % len(lines))
            os.write(kept.fileno(), lines[-1])
            return found

        return called

    with monkeypatch.context() as patch:
        for name in ("fstat", "pread"):
            patch.setattr(os, name, with_a_line(getattr(os, name)))
        kept.floods(0)
    assert lines
    assert kept.tail(1_000).endswith(b"".join(lines))
    kept.close()


def said_by(interpreter: str, slot: int, extensions: tuple[str, ...]) -> Result:
    python = PythonState.model_validate(PYTHON | {"gil": interpreter == "gil", "gil_built": interpreter == "gil"})
    line = ReadyLine(
        event="ready", listen=("127.0.0.1:1",), interpreter=python.model_copy(update={"extensions": extensions})
    )
    return Result(trial=schedule(TWINS)[slot], started="", ready_line=line)


TWINS = Plan(
    name="twins",
    question="?",
    blocks=6,
    comparisons=(
        Comparison(name="twins", cells=tuple(cell_of("mine", interpreter=name) for name in ("gil", "nogil"))),
    ),
)


@pytest.mark.parametrize(("extensions", "failed"), [((), False), (("uvloop.loop",), True)])
def test_a_trial_on_an_interpreter_whose_twin_loads_other_extensions_has_failed(
    extensions: tuple[str, ...], failed: bool
) -> None:
    first, second = schedule(TWINS)[:2]
    names = [TWINS.cell(each).server.interpreter or "" for each in (first, second)]
    earlier, measured = said_by(names[0], 0, ()), said_by(names[1], 1, extensions)
    found = pythons.beside_its_twin(TWINS, [earlier], TWINS.cell(second), measured)
    assert (found.failure is not None) is failed
    if found.failure is not None:
        assert (found.failure.kind, found.failure.final) == ("other_interpreter", True)
        assert "its twin loads other compiled extensions" in found.failure.message
    else:
        assert found is measured
    assert pythons.beside_its_twin(TWINS, [], TWINS.cell(second), measured) is measured


NOT_FOUND = """
import sys
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self): self.send_error(404)
    def log_message(self, *words): pass
# Unlike HTTPServer, it does not ask for the name of this machine, which may take long.
TCPServer.allow_reuse_address = True
TCPServer((sys.argv[2], int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.mark.usefixtures("real_engine")
def test_a_command_that_answers_another_status_is_one_clear_line(tmp_path: Path) -> None:
    words = ("--protocol", "http", "--connections", "1", "--quick", "--out", tmp_path)
    done = iolab("vs", "epoll", command(NOT_FOUND, "{host}"), *words)
    assert done.exit_code == 1
    assert re.search(
        r": 0 of 64 requests over 1 connection.* were answered correctly \(.*404.*\): it is not compared", done.stderr
    )
    assert nothing_is_left()


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("program", "flags", "code", "said"),
    [
        ("raise SystemExit('no licence')", (), 1, "ended with code 1 before it accepted a connection on port"),
        ("import time; time.sleep(600)", ("--start-ms", "300"), 1, "it listens nowhere 0.3 s after its start: "),
        (DAEMON.replace("sys.argv[2]", "'/dev/null'"), (), 1, "keep it in the foreground"),
    ],
)
def test_a_command_that_does_not_serve_ends_a_comparison_in_one_line(
    tmp_path: Path, program: str, flags: tuple[str, ...], code: int, said: str
) -> None:
    done = iolab("vs", "epoll", command(program), "--quick", *flags, "--out", tmp_path)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("iolab: "))
    assert done.exit_code == code
    assert said in line
    assert nothing_is_left()
