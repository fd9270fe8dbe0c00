"""The words that flags and the contract share. They are not in `types`, which is slow to load."""

from __future__ import annotations

from typing import Literal

Protocol = Literal["http", "echo", "line", "rpc"]
Driver = Literal["epoll", "io_uring", "thread"]
Framing = Literal["raw", "prefix", "crlf"]
# A server's workers are threads of one process, or processes under a supervisor.
WorkerKind = Literal["thread", "process"]
# When connections are opened: before the run, or when the first request on them is due.
Opening = Literal["before", "as_needed"]
# Which part of a reply is verified: all of it, or what the first receive returned.
Verification = Literal["whole", "one_receive"]
# What a connection was doing when a request went wrong, and what the client saw.
Phase = Literal["connect", "send", "receive", "close"]
Saw = Literal["refused", "reset", "timeout", "closed", "wrong", "malformed", "status"]
# The distribution of due times in an open loop.
Arrivals = Literal["poisson", "even"]
# Whether server and generator run on separate processors.
Processors = Literal["apart", "shared"]
