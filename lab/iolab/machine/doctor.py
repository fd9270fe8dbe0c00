"""Whether this machine is fit to measure, and what would make it fitter."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from iolab.contract.types import Description, percent
from iolab.machine.cpus import Cpu, choose_cpus
from iolab.machine.interpreters import Interpreter, NoInterpreter
from iolab.results.records import SAME_TOPOLOGY_MAX

# Beyond these, doctor says something. They are about the machine at rest, before anything is measured.
LOAD_PER_CPU_MAX = 0.2
FREE_BYTES_MIN = 1 << 30
NOFILE_MIN = 4_096
SOMAXCONN_MIN = 1_024
STEAL_SHARE_MAX = 0.01
Status = Literal["ok", "warn", "bad"]
NO_LIMITS: Mapping[str, str] = {}
NO_INTERPRETERS: Mapping[str, Interpreter | NoInterpreter] = {}


class Check(NamedTuple):
    """One thing doctor looked at: what it found, and what to do about it (empty when it is ok)."""

    status: Status
    what: str
    found: str
    advice: str = ""


def checks(
    machine: Mapping[str, Any],
    engine: Description | None,
    trouble: str = "",
    core_to_core_ns: Sequence[float] = (),
    limits: Mapping[str, str] = NO_LIMITS,
    no_path: str | None = None,
    interpreters: Mapping[str, Interpreter | NoInterpreter] = NO_INTERPRETERS,
) -> tuple[Check, ...]:
    """Judges a description of a machine. `trouble` says why there is no engine, `core_to_core_ns` the latency between
    the processors of a server and of its generator over a few seconds, `limits` why each limit on a server cannot be
    set, empty where it can. `no_path` says why no network path can be made, empty where one can; None where there is no
    engine to make it. `interpreters` are those of Python by their names, or why one is not here. Reads nothing, changes
    nothing.
    """
    return (
        *_engine_checks(engine, trouble),
        *_cpu_checks(machine),
        *_core_to_core_checks(core_to_core_ns),
        *_limit_checks(machine),
        *_server_limit_checks(limits),
        *_path_checks(no_path),
        *_interpreter_checks(interpreters),
    )


def _engine_checks(engine: Description | None, trouble: str) -> list[Check]:
    if engine is None:
        return [Check("bad", "engine", trouble, "Nothing can be measured without it.")]
    checks = [Check("ok", "engine", f"{engine.version}, build {engine.build}")]
    for kind, items in (("model", engine.models), ("driver", engine.drivers)):
        for item in items:
            if not item.available:
                advice = "It is left out; allow it (container profile, sysctl) or use a newer kernel."
                checks.append(Check("warn", f"{kind} {item.name}", item.why_not or "not available", advice))
    return checks


def _cpu_checks(machine: Mapping[str, Any]) -> list[Check]:
    cpu, logical = machine["cpu"], machine["cpu"]["logical"]
    sets = choose_cpus([Cpu(**c) for c in cpu["topology"]])
    load, quota, steal = machine["load_average"][0], machine["limits"]["cgroup_cpus"], machine["steal_share_since_boot"]
    governor = cpu["governor"]
    return [
        _check(
            bool(sets.server),
            "processors",
            f"{cpu['cores']} cores ({logical} logical): {sets.why}",
            "Trust CPU per request more than throughput: the generator takes what the server could use.",
        ),
        _check(
            load <= LOAD_PER_CPU_MAX * logical,
            "load average",
            f"{load:.2f} on {logical} processors",
            "Something else is running: end it, or expect discarded trials and wide intervals.",
        ),
        _check(
            quota is None or quota >= logical,
            "CPU quota",
            "none" if quota is None else f"{quota:g} of {logical} processors",
            "A quota stops all threads for the rest of each period, which ruins tail latency: lift it.",
        ),
        _check(
            governor in (None, "performance"),
            "frequency governor",
            governor or "not visible",
            "Speed follows the load: set it to performance while you measure, as in cpupower frequency-set.",
        ),
        _check(
            steal is None or steal <= STEAL_SHARE_MAX,
            "steal since boot",
            "unknown" if steal is None else percent(steal, 2),
            "The hypervisor gives this machine's time to others: measure at another hour, or run more blocks.",
        ),
    ]


def _core_to_core_checks(core_to_core_ns: Sequence[float]) -> list[Check]:
    if not core_to_core_ns:
        return []
    least_ns, most_ns = min(core_to_core_ns), max(core_to_core_ns)
    stays = most_ns <= SAME_TOPOLOGY_MAX * least_ns
    return [
        _check(
            stays,
            "core-to-core latency",
            f"{least_ns:.0f} ns round trip"
            if stays
            else f"{least_ns:.0f} to {most_ns:.0f} ns round trip, within seconds",
            "The host moves the processors, and rates change threefold: run more blocks, or ask for pinned processors.",
        )
    ]


def _limit_checks(machine: Mapping[str, Any]) -> list[Check]:
    nofile, somaxconn = machine["limits"]["nofile"][0], machine["limits"]["somaxconn"]
    congestion = machine["network"]["congestion_control"]
    return [
        _check(
            nofile == resource.RLIM_INFINITY or nofile >= NOFILE_MIN,
            "open files",
            "unlimited" if nofile == resource.RLIM_INFINITY else str(nofile),
            f"At most about {nofile - 64} connections can be open: raise it with ulimit -n.",
        ),
        _check(
            somaxconn is None or int(somaxconn) >= SOMAXCONN_MIN,
            "listen queue",
            somaxconn or "unknown",
            "Many connections at once may be refused: raise net.core.somaxconn, or use fewer.",
        ),
        _check(
            congestion in (None, "cubic", "reno"),
            "congestion control",
            congestion or "unknown",
            "It paces with timers even on loopback: set net.ipv4.tcp_congestion_control to cubic, or read ratios only.",
        ),
        _check(
            machine["memory"]["thp"] != "always",
            "transparent huge pages",
            machine["memory"]["thp"] or "unknown",
            "Resident sizes are rounded up to huge pages: compare memory with that in mind.",
        ),
    ]


def _server_limit_checks(limits: Mapping[str, str]) -> list[Check]:
    advice = "A contestant that needs this limit is left out."
    return [_check(not why, f"limit {name}", why or "can be set", advice) for name, why in limits.items()]


def _path_checks(no_path: str | None) -> list[Check]:
    advice = "Trials over a path are not measurable here."
    return [] if no_path is None else [_check(not no_path, "network path", no_path or "can be made", advice)]


def _interpreter_checks(interpreters: Mapping[str, Interpreter | NoInterpreter]) -> list[Check]:
    return [
        Check("ok", f"interpreter {name}", found.words)
        if isinstance(found, Interpreter)
        else Check("warn", f"interpreter {name}", "not here", f"What needs it is left out. To have it: {found.remedy}")
        for name, found in interpreters.items()
    ]


def _check(good: bool, what: str, found: str, advice: str) -> Check:
    return Check("ok", what, found) if good else Check("warn", what, found, advice)
