"""How a server broke: which resource ran out, from figures alone."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from conftest import wait_until
from iolab.contract.types import FirstFailure
from iolab.machine import resources
from iolab.machine.netstat import ListenCounters
from iolab.machine.resources import Used
from iolab.measure.broken import Vitals, how
from iolab.results.records import Growth

FIRST = FirstFailure(at_ns=1, request=1_001, connection=1_001, phase="receive", saw="closed")


def grown(**most: int) -> Growth:
    """A server that grows to these values and then shrinks."""
    peak = {"rss_bytes": 10 << 20, "threads": 1, "processes": 1, "zombies": 0, "descriptors": 6} | most
    return Growth(times_ns=(0, 1, 2), **{name: (min(1, value), value, min(1, value)) for name, value in peak.items()})


AGAIN = "the client sends them again after a second or more"


@pytest.mark.parametrize(
    ("growth", "vitals", "dropped", "ran_out", "evidence"),
    [
        pytest.param({}, {}, 0, None, "1 process, 0 of them ended and not reaped", id="nothing"),
        pytest.param(
            {"processes": 300, "threads": 300, "zombies": 299},
            {"processes_refused": 700},
            *(0, "processes", "300 processes, 299 of them ended and not reaped"),
            id="the limit of the lab on processes",
        ),
        pytest.param(
            {"threads": 300},
            {"processes_refused": 700, "address_space_bytes": 3 << 30},
            *(0, "threads", "300 threads, 3072 MiB of address space"),
            id="the same limit, for threads",
        ),
        pytest.param(
            {},
            {"refused": {"processes": 12, "descriptors": 0}},
            *(0, "processes", "the server refused 12 connections: processes"),
            id="what the server says itself",
        ),
        pytest.param(
            {},
            {"refused": {"connections_max": 12}},
            *(0, "descriptors", "the server refused 12 connections: connections max"),
            id="a limit that too few descriptors have lowered",
        ),
        pytest.param(
            {"descriptors": 63},
            {"descriptors": Used(10, 64)},
            *(0, "descriptors", "63 of 64 descriptors in one process"),
            id="descriptors that were open before the load ended",
        ),
        pytest.param(
            {"descriptors": 120, "processes": 4},
            {"descriptors": Used(30, 64)},
            *(0, None, "30 of 64 descriptors in one process"),
            id="the descriptors of several processes are not those of one",
        ),
        pytest.param(
            {}, {"memory_refused": 1}, 0, "memory", "the limit on memory ended 1 process", id="the limit on memory"
        ),
        pytest.param(
            {},
            {"ports": Used(27_000, 28_232)},
            0,
            "ports",
            "27000 of 28232 ports of the client in TIME-WAIT",
            id="ports",
        ),
        pytest.param({}, {"ports": Used(9_000, 28_232)}, 0, None, "10 MiB of resident memory", id="ports enough"),
        pytest.param(
            {},
            {"tasks": Used(32_700, 32_768)},
            *(0, "processes", "32700 of 32768 processes and threads of the machine"),
            id="the tasks of the machine",
        ),
        pytest.param(
            {},
            {},
            9,
            "backlog",
            f"listeners dropped 9 handshake packets (9 found the queue of accept full): {AGAIN}",
            id="backlog",
        ),
        pytest.param(
            {},
            {"processes_refused": 1},
            *(9, "processes", f"listeners dropped 9 handshake packets (9 found the queue of accept full): {AGAIN}"),
            id="what was refused is surer than a full queue",
        ),
    ],
)
def test_a_server_has_run_out_of_what_a_figure_shows(
    growth: dict[str, int], vitals: dict[str, Any], dropped: int, ran_out: str | None, evidence: str
) -> None:
    listening = ListenCounters(overflows=dropped, drops=dropped)
    found = how(FIRST, grown(**growth), Vitals(**vitals), listening, recovered=True)
    assert (found.ran_out, found.recovered) == (ran_out, True)
    assert evidence in found.evidence
    assert (found.request, found.connection, found.phase, found.saw) == (1_001, 1_001, "receive", "closed")


def test_drops_of_a_full_queue_of_handshakes_are_named_besides_those_of_accept() -> None:
    found = how(FIRST, grown(), Vitals(), ListenCounters(overflows=3, drops=35, syn_queue_drops=32), recovered=True)
    full = "3 found the queue of accept full, 32 too many handshakes under way"
    assert f"listeners dropped 35 handshake packets ({full}): {AGAIN}" in found.evidence


def test_a_connection_that_was_not_opened_has_no_request() -> None:
    first = FIRST.model_copy(update={"request": 0, "phase": "connect", "saw": "refused"})
    found = how(first, grown(), Vitals(), None, recovered=False)
    assert (found.request, found.connection, found.phase, found.saw) == (None, 1_001, "connect", "refused")
    unseen = how(None, grown(), Vitals(), None, recovered=False)
    assert (unseen.request, unseen.connection, unseen.phase, unseen.saw) == (None, None, None, None)


def test_what_a_server_may_run_out_of_is_read_where_it_runs() -> None:
    """Compares with what this process knows: it opens a descriptor, and closes its end of a connection first."""
    before = resources.descriptors([os.getpid()])
    with socket.create_server(("127.77.7.7", 0)) as listener:
        address = f"127.77.7.7:{listener.getsockname()[1]}"
        after = resources.descriptors([os.getpid()])
        assert before is not None
        assert after is not None
        assert after == before._replace(used=before.used + 1)
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        client.close()
        accepted.close()

        def waits() -> bool:
            waiting = resources.ports(os.getpid(), [address])
            assert waiting is not None
            return waiting.used == 1

        # A busy kernel handles the last packet later, and the table may miss a connection while it changes.
        wait_until(waits, "the port that closed first is in TIME-WAIT")
    tasks = resources.tasks()
    assert tasks is not None
    assert 0 < tasks.share < 1
    assert resources.address_space_bytes(os.getpid()) > resources.address_space_bytes(0x7FFFFFFF) == 0
