"""How a server broke: what is said to have run out, from figures alone."""

from __future__ import annotations

from typing import Any

import pytest

from iolab.machine.netstat import ListenCounters
from iolab.machine.resources import Used
from iolab.measure.broken import First, Vitals, first_seen, how
from iolab.plan.experiment import vs_plan
from iolab.results.records import Growth
from made import report

CELL = vs_plan(["epoll", "thread"], {"protocol": "echo"}).comparisons[0].cells[0]
FIRST = First(request=1_001, connection=1_001, phase="receive", saw="closed")


def grown(**most: int) -> Growth:
    """A server that was small and became as large as this, and then smaller again."""
    peak = {"rss_bytes": 10 << 20, "threads": 1, "processes": 1, "zombies": 0, "descriptors": 6} | most
    return Growth(times_ns=(0, 1, 2), **{name: (min(1, value), value, min(1, value)) for name, value in peak.items()})


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
            *(0, None, "the server refused 12 connections: connections max"),
            id="a limit of its own, of which it has not run out",
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
            {}, {"memory_refused": 1}, 0, "memory", "the limit on memory ended 1 processes", id="the limit on memory"
        ),
        pytest.param(
            {},
            {"ports": Used(27_000, 28_232)},
            0,
            "ports",
            "27000 connections in TIME-WAIT for 28232 ports",
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
            "listeners dropped 9 connections, 9 because the queue of accept was full",
            id="backlog",
        ),
        pytest.param(
            {},
            {"processes_refused": 1},
            *(9, "processes", "listeners dropped 9 connections, 9 because the queue of accept was full"),
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
    assert (found.request, found.connection, found.phase, found.saw) == FIRST


@pytest.mark.parametrize(
    ("errors", "phase", "saw"),
    [
        ({}, None, None),
        ({"connect": 3, "timeout": 9}, "connect", "refused"),
        ({"timeout": 1}, "receive", "timeout"),
        ({"reset": 1, "timeout": 5}, "receive", "reset"),
        ({"closed": 2}, "receive", "closed"),
        ({"malformed": 1}, "receive", "wrong"),
    ],
)
def test_counts_of_errors_tell_what_the_client_saw(errors: dict[str, int], phase: str | None, saw: str | None) -> None:
    first = first_seen(report(CELL, errors=errors))
    assert (first.phase, first.saw) == (phase, saw)
