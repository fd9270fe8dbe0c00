"""The words that flags and the contract share, apart from the contract's types, which are slow to load."""

from __future__ import annotations

from typing import Literal

Protocol = Literal["http", "echo", "line", "rpc"]
Driver = Literal["epoll", "io_uring", "thread"]
Framing = Literal["raw", "prefix", "crlf"]
# What carries a server's workers: threads of one process, or processes under one that watches over them.
WorkerKind = Literal["thread", "process"]
# When connections are opened: before the run, or when the first request on them is due.
Opening = Literal["before", "as_needed"]
# What of a reply is compared: all of it, or what its first receive brought.
Verification = Literal["whole", "one_receive"]
# What a connection was doing when a request went wrong, and what the client saw.
Phase = Literal["connect", "send", "receive", "close"]
Saw = Literal["refused", "reset", "timeout", "closed", "wrong", "malformed", "status"]
# How the requests of an open loop fall due.
Arrivals = Literal["poisson", "even"]
# Whether server and generator have processors of their own.
Processors = Literal["apart", "shared"]
