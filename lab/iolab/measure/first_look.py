"""A short check of each contestant before anything is measured: a few requests, each reply verified."""

from __future__ import annotations

from iolab.contract.types import Report, updated
from iolab.measure.agent import Host, RunningServer
from iolab.measure.engine import TrialFailed
from iolab.measure.events import Checked
from iolab.measure.follower import death_first, follow, load_spec, running
from iolab.measure.protocol_probe import Mismatch
from iolab.plan.settings import Cell, changed, digest_of

# Requests in the check of a contestant, all verified, and its connections.
CHECK_REQUESTS = 64
CHECK_CONNECTIONS = 4
CHECK_TIMEOUT_MS = 3_000
# A contestant that fails its check is checked once more: another process may have taken its port.
CHECKS_MAX = 2
SEEN_ONCE = frozenset(
    {"cannot_start", "wrong_address", "hung", "silent", "floods", "other_interpreter", "no_ready_line", "unavailable"}
)


def kind_of(cell: Cell) -> str:
    """A key of the check: cells with the same server, settings, workload and path share one."""
    shown = cell.model_dump(mode="json", include={"contestant", "workload", "server", "path"})
    # A server whose load is an external client's gets no requests here.
    return digest_of(shown | {"is_asked": cell.load.client is None})


def check(host: Host, cell: Cell, title: str) -> Checked:
    """Whether a contestant answers every request correctly, and if not, why."""
    failure = None
    for _ in range(CHECKS_MAX):
        try:
            return _checked(host, cell, title)
        except TrialFailed as failed:
            is_final, failure = failed.failure.final, failed.failure.model_copy(update={"final": True})
            # A second try helps if another process took the port, not against failures that take long to show.
            if is_final and (failure.kind in SEEN_ONCE or failure.kind.startswith("speaks_")):
                break
    return Checked(title, None, failure)


def _checked(host: Host, cell: Cell, title: str) -> Checked:
    """The result of a short run, and whether the server ended when asked to; raises TrialFailed.

    It runs over loopback, where the lab can connect to the server.
    """
    cell = updated(cell, path=None)
    server = host.start(cell)
    try:
        with death_first(server):
            # An external client may speak a protocol that iolab does not.
            size = None if cell.load.client is not None else _reply_bytes(host, cell, server)
    except BaseException:
        server.stop()
        raise
    return Checked(title, size, None, ends_politely=server.stop())


def _reply_bytes(host: Host, cell: Cell, server: RunningServer) -> int:
    """The size of one reply, after a short run with every reply verified; raises TrialFailed."""
    if server.ready is None:
        _refuse_mismatch(host.mismatch(server.addresses[0], cell.workload))
    spec = load_spec(
        changed(cell, {"load.rate": None, "load.connections": max(1, cell.load.connections)}),
        server,
        # A trial that counts requests tests what breaks under its load, which must not break before.
        connections=1 if cell.load.requests else min(max(1, cell.load.connections), CHECK_CONNECTIONS),
        # A few closed-loop requests test whether it answers correctly, not how it behaves under load.
        idle=0,
        active=None,
        probes=0,
        threads=1,
        processes=1,
        warmup_ms=0,
        duration_ms=None,
        requests=CHECK_REQUESTS,
        timeout_ms=min(cell.trial.timeout_ms, CHECK_TIMEOUT_MS),
    )
    with running(host.load(spec)) as load:
        report = follow(load)
    _refuse_faulty(report)
    return round(report.bytes.received / report.requests.correct)


def _refuse_mismatch(mismatch: Mismatch | None) -> None:
    """Raises TrialFailed for a server that does not answer the requested protocol."""
    if mismatch is not None:
        raise TrialFailed(*mismatch, final=True)


def _refuse_faulty(report: Report) -> None:
    """Raises TrialFailed unless every request of the check was answered correctly."""
    requests = report.requests
    if requests.correct == CHECK_REQUESTS and not requests.wrong and not requests.failed:
        return
    first = f" ({report.first_error})" if report.first_error else ""
    seen = (
        f"{requests.correct} of {CHECK_REQUESTS} requests over {report.connections} connections were answered correctly"
    )
    if report.errors.timeout:
        raise TrialFailed("silent", f"{seen}{first}: it may serve fewer connections at once, so use fewer", final=True)
    raise TrialFailed("wrong_replies" if requests.wrong else "errors", f"{seen}{first}: it is not compared", final=True)
