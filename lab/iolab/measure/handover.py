"""The verbs of the engine: this process becomes the engine, or shows the progress of a load on a terminal.

A load by hand has to begin at once, so slow imports come after the engine has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, NoReturn

from iolab.measure import binary

if TYPE_CHECKING:
    import subprocess

# What each verb does.
VERBS = {
    "load": "Run the load generator alone: iolab load http://127.0.0.1:8080/ -c 50 -z 10s",
    "serve": "Run one server by hand: iolab serve --model io_uring --listen 127.0.0.1:8080",
    "path": "Emulate a network on this machine: iolab path --delay 24.5ms --rate 10mbit",
    "merge": "Merge the reports of several generators: iolab merge a.json b.json",
}
# Flags that call for the engine alone: its output is for a program, or there is no run at all.
ALONE = frozenset({"--json", "--quiet", "-q", "--spec", "--help", "-h", "--self-test"})
CHUNK_BYTES = 1 << 16


def run(verb: str, arguments: Sequence[str]) -> int:
    """Runs the engine with these arguments: flags, output and exit code are the engine's own.

    Returns only after a watched load, or if the engine cannot be started; otherwise this process becomes the engine.
    """
    try:
        path = _engine()
        flags: Sequence[str] = ()
        if verb == "load" and is_wanted(arguments):
            if has_terminal():
                return watch(path, arguments)
            flags = looked_on()
        os.execv(path, ["iolab", verb, *flags, *arguments])
    except binary.EngineError as error:
        print(f"iolab: {error}", file=sys.stderr)  # noqa: T201 (the one line of a failure)
    except OSError as error:
        print(f"iolab: the engine cannot be started: {error}", file=sys.stderr)  # noqa: T201
    return 1


def is_wanted(arguments: Sequence[str]) -> bool:
    """Whether to watch a run with these arguments, given a terminal."""
    return not any(argument.partition("=")[0] in ALONE for argument in arguments)


def has_terminal() -> bool:
    """Whether standard error is a terminal that can be drawn on."""
    return os.isatty(2) and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def looked_on() -> tuple[str, ...]:
    """Starts a process that observes this one as the engine and warns on standard error; returns the flags for the
    engine to report its events to it.

    The observer is no child of the engine and ends with it, and the engine never waits for it. So signals, exit code
    and the end of the run are the engine's alone. If the observer cannot be started, there is no warning.
    """
    load_pid = os.getpid()
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return ()
    if child == 0:
        os.close(writing)
        _look_on(reading, load_pid)
    os.waitpid(child, 0)
    os.close(reading)
    os.set_inheritable(writing, True)
    return "--events-fd", str(writing)


def _look_on(reading: int, load_pid: int) -> NoReturn:
    """The intermediate process and the observing process, which has its own session and only our standard error."""
    # A failure of the observer must not fail the run.
    with contextlib.suppress(BaseException):
        if os.fork() == 0:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            from iolab.measure import live

            with open(reading, "rb", buffering=0) as events:
                if warning := live.look_on(events, load_pid):
                    os.write(2, f"{warning}\n".encode())
    os._exit(0)


def watch(path: str, arguments: Sequence[str]) -> int:
    """Runs `load` with these arguments and shows it; returns the exit code. Raises OSError if it cannot be started.

    The engine never waits for this process. Its messages are kept until the view is gone, because both go to the same
    terminal.
    """
    import subprocess

    reading, writing = os.pipe()
    is_shared, warning = sys.stdout.isatty(), ""
    with (
        open(os.memfd_create("said"), "w+b") as said,
        open(reading, "rb", buffering=0) as events,
        _passing_on() as pass_to,
    ):
        try:
            child = subprocess.Popen(
                ["iolab", "load", "--events-fd", str(writing), *arguments],
                executable=path,
                stdout=said if is_shared else None,
                stderr=said,
                pass_fds=(writing,),
                # Ctrl-C reaches this process, which passes it on, so that the engine gets it once.
                process_group=0,
            )
        finally:
            os.close(writing)
        try:
            pass_to(child)
            # A failed view, as on a terminal that is gone, must not end the run.
            with contextlib.suppress(Exception):
                from iolab.measure import live

                warning = live.show(events, child.pid)
            code = child.wait()
        finally:
            # The engine has its own process group, so nothing else would end it. `kill` does nothing after its end.
            child.kill()
            child.wait()
        said.seek(0)
        with contextlib.suppress(OSError):
            _repeat(said, sys.stdout.buffer if is_shared else sys.stderr.buffer)
            if warning:
                print(warning, file=sys.stderr)  # noqa: T201 (it follows what the engine said)
    return code if code >= 0 else 128 - code


def _engine() -> str:
    """The path of the engine that belongs to this package; raises EngineError."""
    path = binary.find()
    if binary.belongs(path):
        return path
    from iolab.measure import engine  # it asks the engine itself, and says what is wrong

    return str(engine.open_engine().path)


@contextlib.contextmanager
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Passes ending signals on to the engine, which then reports what it has measured.

    It starts before the engine, so that no signal ends this process alone: earlier signals are passed on once the
    yielded function is called with the engine.
    """
    early: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object = None) -> None:
        for child in children:
            child.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
        if not children:
            early.append(number)

    def pass_to(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            pass_on(number)

    kept = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield pass_to
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _repeat(said: IO[bytes], out: IO[bytes]) -> None:
    while chunk := said.read(CHUNK_BYTES):
        out.write(chunk)
    out.flush()
