"""Whether this machine is fit to measure: what each figure means, and the command that would improve it.

Pure functions over figures that were read or measured elsewhere. Nothing here reads or changes the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from iolab.contract.types import Description, DriverAbout, ModelAbout, percent
from iolab.judge.resolution import DIFFERENCE_WANTED, Noise, Resolution, title
from iolab.machine import fixes
from iolab.machine.check import CANNOT, Check, check
from iolab.machine.cpus import Cpu, choose_cpus
from iolab.machine.host_limits import HostLimits
from iolab.machine.interpreters import Interpreter, NoInterpreter
from iolab.machine.limit_checks import limit_checks
from iolab.plan.plan import BLOCKS_MAX
from iolab.results.records import SAME_TOPOLOGY_MAX

# Thresholds beyond which doctor reports a finding.
LOAD_PER_CPU_MAX = 0.2
STEAL_SHARE_MAX = 0.01
FOREIGN_CORES_MAX = 0.05
# The command in a fix, as a user would type it.
COMMAND = "iolab vs A B"
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
# Settings that forbid user namespaces at one value, and the value that allows them.
NO_NAMESPACES = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
# The controller behind each limit on a server that may need a control group.
CONTROLLERS = {"cpu_quota": "cpu", "memory_limit_bytes": "memory", "processes_max": "pids"}


class Tried(NamedTuple):
    """Why this machine lacks a feature that some trials need; empty where it has it.

    `limits` has the reason for each limit on a server, by setting. `no_path` is None without an engine, which makes
    paths.
    """

    limits: Mapping[str, str] = {}
    no_path: str | None = None
    no_count: str = ""
    interpreters: Mapping[str, Interpreter | NoInterpreter] = {}


def checks(
    machine: Mapping[str, Any],
    host: HostLimits,
    engine: Description | None,
    trouble: str = "",
    noise: Noise | None = None,
    tried: Tried | None = None,
) -> tuple[Check, ...]:
    """Checks a description of a machine. `trouble` is why there is no engine; `noise` is None if it was not
    measured.
    """
    tried = tried or Tried()
    return (
        *_noise_checks(noise),
        *_processor_checks(machine, host, noise),
        *limit_checks(host, has_io_uring=engine is not None),
        *_engine_checks(engine, trouble, host),
        *_feature_checks(host, tried),
    )


def _noise_checks(noise: Noise | None) -> Iterator[Check]:
    if noise is None:
        return
    if not noise.resolutions:
        found = f"unknown: {noise.discarded} of {noise.blocks} pairs of trials cannot be used"
        yield check("noise", False, "what it resolves", found, noise.why, fixes.WHAT_RUNS)
    for resolution in noise.resolutions:
        means = f"{resolution.needs_words[0].upper()}{resolution.needs_words[1:]}."
        fix = _more_blocks(noise, resolution)
        yield check("noise", resolution.is_fine, title(resolution), resolution.words, means, fix)
    if noise.core_to_core_ns:
        yield _core_to_core(noise)
    cores = noise.foreign_cpu_cores
    means = "" if cores <= FOREIGN_CORES_MAX else "Trials are discarded while others use a tenth of a processor."
    found = f"{cores:.2f} processors, during {noise.seconds:.0f} s of trials"
    yield check("noise", cores <= FOREIGN_CORES_MAX, "other programs", found, means, fixes.WHAT_RUNS)


def _more_blocks(noise: Noise, resolution: Resolution) -> str:
    """The run that would resolve the target difference, if it takes long."""
    need = next(each for each in resolution.needs if each.difference == DIFFERENCE_WANTED)
    if need.blocks > BLOCKS_MAX:
        return f"{CANNOT}it takes {need.blocks:,} blocks: measure at another hour, or on processors of your own"
    times = f"--warmup {noise.warmup_ms}ms --duration {noise.duration_ms}ms"
    return f"{COMMAND} {times} --blocks {need.blocks}"


def _core_to_core(noise: Noise) -> Check:
    least_ns, most_ns = min(noise.core_to_core_ns), max(noise.core_to_core_ns)
    if most_ns <= SAME_TOPOLOGY_MAX * least_ns:
        return check("noise", True, "core-to-core latency", f"{least_ns:.0f} ns round trip, in one state")
    found = f"{least_ns:.0f} to {most_ns:.0f} ns round trip: its state changed"
    means = "The host moves the processors, and rates change up to threefold; pairs in one state are compared."
    fix = f"{CANNOT}ask the host for pinned processors, or run more blocks"
    return check("noise", False, "core-to-core latency", found, means, fix)


def _processor_checks(machine: Mapping[str, Any], host: HostLimits, noise: Noise | None) -> Iterator[Check]:
    cpu, logical = machine["cpu"], machine["cpu"]["logical"]
    sets = choose_cpus([Cpu(**each) for each in cpu["topology"]])
    yield check(
        "processors",
        bool(sets.server),
        "processors",
        f"{cpu['cores']} core{'' if cpu['cores'] == 1 else 's'} ({logical} logical)",
        f"{sets.why[0].upper()}{sets.why[1:]}.",
        f"{CANNOT}use a machine of two cores or more; until then trust CPU per request more than throughput",
    )
    load = machine["load_average"][0]
    means = "" if load <= LOAD_PER_CPU_MAX * logical else "Expect discarded trials and wide intervals."
    found = f"{load:.2f} on {logical} processors"
    yield check("processors", not means, "load average", found, means, fixes.WHAT_RUNS)
    yield from _quota(machine, logical)
    yield from _stolen(machine, noise)
    yield from _frequency(host)
    if host.smt:
        yield check("processors", True, "SMT", "on", "Siblings share a core, so server and generator never do.")
    yield from _huge_pages(machine, host)


def _quota(machine: Mapping[str, Any], logical: int) -> Iterator[Check]:
    quota = machine["limits"]["cgroup_cpus"]
    if quota is None or quota >= logical:
        yield check("processors", True, "CPU quota", "none" if quota is None else f"{quota:g} processors")
        return
    means = "A quota stops all threads for the rest of each period, which ruins tail latency."
    yield check("processors", False, "CPU quota", f"{quota:g} of {logical} processors", means, fixes.NO_QUOTA)


def _stolen(machine: Mapping[str, Any], noise: Noise | None) -> Iterator[Check]:
    since_boot = machine["steal_share_since_boot"]
    shares = [] if noise is None else [(noise.steal_share, f"{percent(noise.steal_share, 1)} during trials")]
    shares += [] if since_boot is None else [(since_boot, f"{percent(since_boot, 2)} since boot")]
    if not shares:
        return
    good = all(share <= STEAL_SHARE_MAX for share, _ in shares)
    means = "" if good else "The hypervisor gives this machine's time to others, which widens every interval."
    fix = f"{CANNOT}measure at another hour, or on processors of your own"
    yield check("processors", good, "stolen time", ", ".join(words for _, words in shares), means, fix)


def _frequency(host: HostLimits) -> Iterator[Check]:
    governor = host.governor
    if governor is None:
        yield check("processors", True, "frequency governor", "not visible")
    else:
        means = "" if governor == "performance" else "Speed follows the load, so an idle server is a slow one."
        fix = fixes.into_file(host, GOVERNORS, "performance")
        yield check("processors", governor == "performance", "frequency governor", governor, means, fix)
    if host.turbo is not None:
        means = "Speed depends on heat and on idle cores: intervals are wider." if host.turbo.is_on else ""
        fix = fixes.into_file(host, host.turbo.file, host.turbo.off)
        yield check("processors", not means, "turbo", "on" if host.turbo.is_on else "off", means, fix)


def _huge_pages(machine: Mapping[str, Any], host: HostLimits) -> Iterator[Check]:
    if (found := machine["memory"]["thp"]) is None:
        return
    means = "Resident sizes are rounded up to huge pages, so memory compares badly." if found == "always" else ""
    fix = fixes.into_file(host, HUGE_PAGES, "madvise")
    yield check("processors", not means, "transparent huge pages", found, means, fix)


def _engine_checks(engine: Description | None, trouble: str, host: HostLimits) -> Iterator[Check]:
    if engine is None:
        is_named = trouble.startswith("IOLAB_ENGINE")
        fix = "unset IOLAB_ENGINE" if is_named else "make build, in a checkout; elsewhere install iolab again"
        yield Check("features", "bad", "engine", trouble, "Nothing can be measured without it.", fix)
        return
    yield check("features", True, "engine", f"{engine.version}, build {engine.build}")
    for kind, items in (("model", engine.models), ("driver", engine.drivers)):
        for item in items:
            if not item.available:
                found = item.why_not or "not available"
                yield check("features", False, f"{kind} {item.name}", found, "It is left out.", _model_fix(item, host))


def _model_fix(item: ModelAbout | DriverAbout, host: HostLimits) -> str:
    if "io_uring" not in f"{item.name} {item.why_not}":
        return f"{CANNOT}the kernel or the container lacks what it needs"
    if host.sysctl("kernel.io_uring_disabled") in ("1", "2"):
        return fixes.sysctl(host, "kernel.io_uring_disabled", "0")
    return fixes.ANY_SYSCALL


def _feature_checks(host: HostLimits, tried: Tried) -> Iterator[Check]:
    if host.groups:
        versions = ", ".join(f"{name} {version}" for name, version in host.groups.items())
        yield check("features", True, "control groups", f"{versions} (controller and version)")
    for name, why in tried.limits.items():
        means = "" if not why else "A contestant that needs this limit is left out."
        yield check("features", not why, f"limit {name}", why or "can be set", means, _group_fix(host, name))
    if tried.no_path is not None:
        means = "Trials over a path are not measurable here." if tried.no_path else ""
        yield check("features", not means, "network path", tried.no_path or "can be made", means, _path_fix(host))
    means = "Syscalls per request of servers that are not iolab's are unknown." if tried.no_count else ""
    yield check("features", not means, "syscall counts", _count_words(host, tried), means, _count_fix(host))
    for name, found in tried.interpreters.items():
        if isinstance(found, Interpreter):
            yield check("features", True, f"interpreter {name}", found.words)
        else:
            means = "What needs it is left out."
            yield check("features", False, f"interpreter {name}", "not here", means, found.remedy)


def _count_words(host: HostLimits, tried: Tried) -> str:
    paranoid = host.sysctl("kernel.perf_event_paranoid")
    seen = "" if paranoid is None else f"; kernel.perf_event_paranoid is {paranoid}"
    return f"{tried.no_count}{seen}" if tried.no_count else "can be made"


def _group_fix(host: HostLimits, limit: str) -> str:
    if host.is_root:
        return f"{CANNOT}the control groups above this process are not its own: run it on the host"
    if (host.groups or {}).get(CONTROLLERS.get(limit, "")) == 2:
        return fixes.in_scope(COMMAND)
    return fixes.as_root(COMMAND)


def _path_fix(host: HostLimits) -> str:
    if not host.has_tun:
        return fixes.tun(host)
    if host.is_root:
        return fixes.NAMESPACES
    for name, forbidden, allowed in NO_NAMESPACES:
        if host.sysctl(name) == forbidden:
            return fixes.sysctl(host, name, allowed)
    return fixes.as_root(COMMAND)


def _count_fix(host: HostLimits) -> str:
    return fixes.COUNTERS if host.is_root else fixes.as_root(COMMAND)
