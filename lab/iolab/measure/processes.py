"""Starts a command that is not ours behind a reaper (see `reaper`) and waits until it is ready: an instance of a
server.

Every failure is one clear line, and leaves nothing of the command running.
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from iolab.contract.ready import LINE_BYTES_MAX, ReadyLine, parse_ready_line
from iolab.contract.types import ContractError, ServeReady
from iolab.machine import port_owner, proc
from iolab.measure import reaper
from iolab.measure.child import Child, Ended, ending
from iolab.measure.engine import TrialFailed, with_environment
from iolab.measure.output import Output
from iolab.measure.registered import Command
from iolab.measure.scratch import Scratch

POLL_S = 0.01
# A port without a listener refuses at once. A busy machine may take longer for a handshake.
CONNECT_S_MAX = 5.0
# Separators between commands in a shell, and a program as an argument.
OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})
# How long its reaper may take to start it.
REAPER_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """The environment of a command: its processors, its network namespace (empty: the lab's), and the words before it.

    `host` is the address to listen at; in another namespace the lab cannot connect to it.
    """

    host: str
    cpus: tuple[int, ...] = ()
    netns: str = ""
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """A process tree that the lab started, which accepts connections at `addresses`.

    `child` is the process that the lab started, and `pid` the root of the tree: behind a reaper, they differ. `ready`
    is the event of an engine server, `line` the ready line of another, if it prints one. `scratch` is removed with it.
    """

    child: Child
    pid: int
    addresses: tuple[str, ...] = ()
    ready: ServeReady | None = None
    line: ReadyLine | None = None
    scratch: Scratch | None = None
    stdout: Output | None = None
    began_s: float = 0.0

    def check(self, wait_s: float = 0.0) -> None:
        """Raises TrialFailed if it has died, dies within `wait_s`, or floods its output."""
        if self.child.wait(wait_s) is not None:
            raise died(self.child, "while it was measured", reaped=self.ready is None)
        self.refuse_flood()

    def refuse_flood(self) -> None:
        """Raises TrialFailed if it writes more than a log."""
        for output in filter(None, (self.child.stderr, self.stdout)):
            if output.floods(time.monotonic() - self.began_s):
                message = f"it has written {output.written() >> 20} MiB of output so far: make it log less"
                raise TrialFailed("floods", message, final=True, said=self.child.last_words()[-1:])

    def stop(self) -> bool:
        """Ends it and everything it started; returns whether it ended when it was asked to. May be called again."""
        try:
            return self.child.stop()
        finally:
            if self.stdout is not None:
                self.stdout.close()
            remove(self.scratch)


def stop_all(instances: Sequence[Instance]) -> bool:
    """Ends them all at once; returns whether all ended when they were asked to."""
    ended = list[bool]()
    with ExitStack() as stack:
        for each in instances:
            each.child.ask_to_end()
            # If one fails to stop, the others are stopped anyway.
            stack.callback(lambda each: ended.append(each.stop()), each)
    return all(ended)


def remove(scratch: Scratch | None) -> None:
    """Removes the folder of an instance."""
    if scratch is not None:
        scratch.remove()


def refuse_missing(program: str, prefix: str) -> None:
    """Raises TrialFailed if the program of a command does not exist; `prefix` is the text before the command."""
    if shutil.which(program) is None:
        missing = "is not executable" if Path(program).exists() else "does not exist"
        message = f"{program} {missing}: check the command after {prefix}"
        raise TrialFailed("cannot_start", message, final=True)


def spawn(command: Command, place: Place, *, scratch: Scratch | None = None, keeps_stdout: bool = False) -> Instance:
    """Starts a command, which may not listen yet; raises TrialFailed."""
    words = [*place.before, *with_environment(command.environment, command.argv)]
    cpus, began_s = ",".join(map(str, place.cpus)), time.monotonic()
    with ExitStack() as undo:
        stdout = undo.enter_context(closing(Output())) if keeps_stdout else None
        kept = () if stdout is None else (stdout.fileno(),)
        to = "".join(map(str, kept))
        try:
            child = Child([sys.executable, "-I", "-S", reaper.__file__, cpus, place.netns, to, *words], b"", kept)
        except OSError as error:
            # For example, a body that is too long for an argument.
            message = f"{command.argv[0]} cannot be started: {error.strerror or error}"
            raise TrialFailed("cannot_start", message, final=True) from None
        undo.callback(child.stop)
        pid = _pid_reaped(child, command.argv[0])
        undo.pop_all()
        return Instance(child, pid, scratch=scratch, stdout=stdout, began_s=began_s)


def _pid_reaped(child: Child, program: str) -> int:
    """The process id of the command, which its reaper prints first."""
    try:
        line = child.line(REAPER_S_MAX)
    except Ended:
        said = child.last_words() or (f"{program} cannot be started",)
        raise TrialFailed("cannot_start", said[-1], final=True) from None
    if line is None:
        raise TrialFailed("hung", f"{program} was not started within {REAPER_S_MAX:.0f} s")
    return int(line)


@dataclass(frozen=True, slots=True)
class Readiness:
    """The condition for readiness: a port that accepts connections at a place, or a line that names `sockets`
    addresses.

    A server has `limit_s` from its start; `argv` is its command, for messages.
    """

    place: Place
    port: int
    sockets: int
    limit_s: float
    argv: Sequence[str]

    def wait(self, instance: Instance) -> Instance:
        """The instance, once it accepts connections; raises TrialFailed."""
        while time.monotonic() < instance.began_s + self.limit_s:
            found = self._by_port(instance) if instance.stdout is None else self._by_line(instance, instance.stdout)
            if found is not None:
                return found
            if not instance.child.alive():
                raise died(instance.child, self._before(instance), reaped=True, argv=self.argv)
            instance.refuse_flood()
            time.sleep(POLL_S)
        raise self._no_line(instance) if instance.stdout is not None else self._not_there(instance)

    def _before(self, instance: Instance) -> str:
        return "before it was ready" if instance.stdout else f"before it accepted a connection on port {self.port}"

    def _by_port(self, instance: Instance) -> Instance | None:
        """The instance, if its port accepts and its process is alive: a command in the background does not count."""
        address = f"{self.place.host}:{self.port}"
        if not self._accepts(address, instance.pid) or not proc.size(instance.pid).processes:
            return None
        return replace(instance, addresses=(address,))

    def _by_line(self, instance: Instance, stdout: Output) -> Instance | None:
        """The instance, if it has printed its ready line."""
        line, end, _ = stdout.head(LINE_BYTES_MAX).partition(b"\n")
        if not end and len(line) < LINE_BYTES_MAX:
            return None
        try:
            said = parse_ready_line(line)
        except ContractError as error:
            raise TrialFailed("no_ready_line", str(error), final=True, said=instance.child.last_words()) from None
        if why := self._wrong_addresses(said.listen, instance.pid):
            raise TrialFailed("wrong_address", why, final=True, said=instance.child.last_words())
        return replace(instance, addresses=said.listen, line=said)

    def _wrong_addresses(self, listen: Sequence[str], pid: int) -> str:
        """What is wrong with the addresses in a server's ready line; empty if they are right."""
        if len(listen) != self.sockets:
            return f"its ready line names {_counted(len(listen), 'address')}, and server.sockets is {self.sockets}"
        for address in listen:
            host, _, port = address.rpartition(":")
            if not address.startswith("unix:/") and (host != self.place.host or not port.isdecimal()):
                return f"its ready line names {address}: listen on {self.place.host}, or on unix:/path"
            if not self._accepts(address, pid):
                return f"its ready line names {address}, which accepts no connection: print the line when all accept"
        return ""

    def _accepts(self, address: str, pid: int) -> bool:
        """Whether something accepts connections at an address. In another namespace the kernel's table shows it."""
        if self.place.netns and not address.startswith("unix:"):
            return port_owner.is_listened_on(address, pid)
        return accepts(address)

    def _no_line(self, instance: Instance) -> TrialFailed:
        message = (
            f"it has printed no ready line {self.limit_s:g} s after its start: flush its output, "
            "or give it longer (vs: --start-ms, experiment: trial.start_ms)"
        )
        return TrialFailed("hung", message, final=True, said=instance.child.last_words())

    def _not_there(self, instance: Instance) -> TrialFailed:
        """Why a running server does not listen on its port, as far as its sockets show."""
        said, host, port = instance.child.last_words(), self.place.host, self.port
        addresses = port_owner.addresses(proc.look(instance.pid).pids)
        # It may listen at its own address by now, but too late.
        elsewhere = [address for address in addresses if address != f"{host}:{port}"]
        if any(address.endswith(f":{port}") for address in elsewhere):
            message = f"it listens on {', '.join(elsewhere)}, not on {host}: make it listen there"
        elif elsewhere:
            message = (
                f"it listens on {', '.join(elsewhere)}, not on {port}, the port it was given: "
                "make it listen on {port}"
            )
        else:
            message = (
                f"it listens nowhere {self.limit_s:g} s after its start: "
                "make it listen on {port}, or give it longer (vs: --start-ms, experiment: trial.start_ms)"
            )
            return TrialFailed("hung", message, final=True, said=said)
        return TrialFailed("wrong_address", message, final=True, said=said)


def accepts(address: str) -> bool:
    """Whether something at an address of this machine accepts a connection."""
    with suppress(OSError):
        if address.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(CONNECT_S_MAX)
                client.connect(address.removeprefix("unix:"))
            return True
        host, _, port = address.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S_MAX):
            return True
    return False


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 'es'}"


def died(child: Child, when: str, *, reaped: bool, argv: Sequence[str] = ()) -> TrialFailed:
    """How a server ended, and its last words. The reaper of a command reports how, because its own exit is a code.

    `argv` is given for a command that has not served yet.
    """
    try:
        line = child.line(0) if reaped else None
        code = child.wait(0) if line is None else int(line.split()[0])
        how = ending(code)
    except Ended as ended:
        code, how = ended.code, str(ended)
    advice = _advice(argv, code) if argv else ""
    return TrialFailed("died", f"the server {how} {when}{advice}", said=child.last_words())


def _advice(argv: Sequence[str], code: int | None) -> str:
    """What to do about a command that ended before it served."""
    operator = next((word for word in argv if word in OPERATORS), None)
    if operator is not None:
        return f": no shell reads the command, so {operator} is an argument: write cmd:sh -c '…'"
    return ": if it goes into the background, keep it in the foreground" if code == 0 else ""
