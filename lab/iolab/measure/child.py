"""A child process of the lab: lines of its output with time-outs, and an end that leaves nothing behind.

Its standard input stays open as a lifeline: when the lab dies, even by SIGKILL, the kernel closes the pipe and a
supervised process ends. Each child leads a session of its own. So Ctrl-C reaches only the lab, which then decides, and
one signal ends everything that the child forked.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

from iolab.measure.output import Output

# A report carries a whole histogram, at most a few hundred kilobytes.
LINE_BYTES_MAX = 16 << 20
# How long a process may take to end by itself before it is killed.
GRACE_S = 1.0
# How long its reaper may take to end what has left the session: the reaper tries for half of that.
REAPED_S = 10.0
# How much of its standard error a failure quotes: lines, and characters of each.
LAST_LINES, LAST_LINE_CHARACTERS = 20, 200
LAST_WORDS_BYTES = 16_384


class Ended(Exception):
    """The process closed its standard output. `code` is its exit code, negative for a signal."""

    def __init__(self, code: int | None) -> None:
        super().__init__(ending(code))
        self.code = code


class Child:
    """A running process; its standard output as lines, its standard error kept in a file for the last words."""

    def __init__(self, argv: Sequence[str], first_line: bytes, descriptors: Sequence[int] = ()) -> None:
        """Starts it, with `descriptors` open, and sends it `first_line`; raises OSError if it cannot be started."""
        self.stderr = Output()
        try:
            self._popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr.fileno(),
                bufsize=0,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except BaseException:
            self.stderr.close()
            raise
        self._received = bytearray()
        self._asked_s: float | None = None
        self._selector = selectors.DefaultSelector()
        assert self._popen.stdin is not None and self._popen.stdout is not None, "both are pipes"  # noqa: PT018
        self._stdin, self._stdout = self._popen.stdin, self._popen.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self.send(first_line)

    @property
    def pid(self) -> int:
        """Its process id, which is also its session id."""
        return self._popen.pid

    def line(self, timeout_s: float) -> bytes | None:
        """The next line without its newline, or None if there was none in time; raises Ended at the end of output."""
        deadline = time.monotonic() + timeout_s
        while (line := self._received_line()) is None:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                return None
            # Non-blocking: None would be a spurious wake-up of select, b"" is the end.
            chunk = self._stdout.read(1 << 16)
            if chunk == b"":
                raise Ended(self.wait(GRACE_S))
            self._received += chunk or b""
        return line

    def send(self, line: bytes) -> None:
        """Sends it a line on its standard input. If it has ended, the next read reports how."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(line + b"\n")

    def alive(self) -> bool:
        """Whether it is running; does not reap it, so its id stays valid."""
        return self._exited(os.WNOHANG) is None

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, negative for a signal; None if it has not ended in time."""
        deadline = time.monotonic() + timeout_s
        while (ended := self._exited(os.WNOHANG)) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.005)
        return ended

    def last_words(self) -> tuple[str, ...]:
        """The last lines of its standard error for a message, without empty lines and control characters."""
        tail = self.stderr.tail(LAST_WORDS_BYTES)
        lines = (_printable(line) for line in tail.decode(errors="replace").splitlines())
        return tuple(line[:LAST_LINE_CHARACTERS] for line in lines if line)[-LAST_LINES:]

    def ask_to_end(self) -> None:
        """Sends SIGTERM to its session without waiting."""
        if self._popen.returncode is None and self._asked_s is None:
            self._asked_s = time.monotonic()
            self._signal(signal.SIGTERM)

    def stop(self) -> bool:
        """Ends it and its session: SIGTERM, then SIGKILL after GRACE_S. May be called again.

        Returns whether it ended by itself.
        """
        if self._popen.returncode is not None:
            return True
        # The process is not reaped before the last signal is sent: until then no other process has its id.
        self.ask_to_end()
        is_polite = self.wait((self._asked_s or 0.0) + GRACE_S - time.monotonic()) is not None
        self._stdin.close()
        if not is_polite:
            # A reaper now ends what has left the session, too.
            self.wait(REAPED_S)
        self._signal(signal.SIGKILL)
        # A process in an uninterruptible wait, for a device or a file system that does not answer, is left to the
        # kernel.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(REAPED_S)
        self._selector.close()
        self._stdout.close()
        self.stderr.close()
        return is_polite

    def _received_line(self) -> bytes | None:
        end = self._received.find(b"\n")
        if end < 0:
            # A line without an end is cut off, and the contract's parser reports what is wrong with it.
            end = LINE_BYTES_MAX if len(self._received) > LINE_BYTES_MAX else -1
        if end < 0:
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _exited(self, flags: int) -> int | None:
        if self._popen.returncode is not None:
            return self._popen.returncode
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | flags)
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def _signal(self, number: signal.Signals) -> None:
        # The session may be empty, or hold only processes that changed to another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def ending(code: int | None) -> str:
    """How a process ended, phrased to follow its name; `code` is negative for a signal."""
    if code is None:
        return "closed its output without ending"
    if code >= 0:
        return f"ended with code {code}"
    # Not every real-time signal has a name.
    known = {number.value: number.name for number in signal.Signals}
    return f"was ended by {known.get(-code, f'signal {-code}')}"


def _printable(line: str) -> str:
    """A line without characters that would move the cursor or change colours; its indentation stays."""
    return "".join(character if character.isprintable() else " " for character in line.expandtabs()).rstrip()
