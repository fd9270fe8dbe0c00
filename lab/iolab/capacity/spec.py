"""The spec of `iolab capacity`: the server, the limits, the load, and the precision of the answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from iolab.capacity import limits
from iolab.capacity.limits import Limit
from iolab.capacity.search import Settings
from iolab.capacity.target import Target
from iolab.contract.literals import Arrivals, Driver
from iolab.contract.types import WORKLOADS, Connections, Count, DurationMs, Frozen, HttpWorkload, Threads, Tls, Workload
from iolab.errors import PlanError
from iolab.plan import mistakes

# The warm-up of a run is WARMUP_MS, or twice the longest time that a limit allows: then equally many requests are in
# flight when the window begins and when it ends. A probe lasts at least 20 times that limit.
WARMUP_MS, WARMUP_LIMITS, PROBE_LIMITS = 500, 2, 20
# Random arrivals make the rate itself random. The precision covers at least this many of its standard errors.
ARRIVALS_ERRORS = 3.0


class CapacitySpec(Frozen):
    """Everything that decides what is measured. The same spec has the same folder.

    The first schema used another search procedure: its runs are read but never resumed. Without `cpus`, the generator
    gets other processors than a server on this machine.
    """

    schema_: Literal[1, 2] = Field(default=2, alias="schema")
    url: str
    workload: Workload
    connect: str
    tls: Tls | None = None
    limits: tuple[str, ...] = Field(min_length=1)
    connections: Connections = 50
    threads: Threads = 1
    driver: Driver = "epoll"
    cpus: tuple[Count, ...] = ()
    arrivals: Arrivals = "poisson"
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    precision: float = Field(default=0.05, ge=0.005, le=0.25)
    probe_ms: int = Field(default=1_000, ge=100, le=600_000)
    timeout_ms: DurationMs = 10_000

    @model_validator(mode="after")
    def _limits_parse(self) -> Self:
        for text in self.limits:
            limits.parse_limit(text)
        return self

    @property
    def digest(self) -> str:
        """A digest of all settings, which names the folder.

        Settings added later count only if they are not at their defaults, so earlier folders keep their names.
        """
        workload = self.workload
        later = {"reply_status"} if isinstance(workload, HttpWorkload) and workload.reply_status == 200 else set()
        return hashlib.sha256(self.model_dump_json(exclude={"workload": later}).encode()).hexdigest()[:16]

    @property
    def parsed(self) -> tuple[Limit, ...]:
        """The limits as numbers."""
        return tuple(limits.parse_limit(text) for text in self.limits)

    @property
    def longest_ms(self) -> float:
        """The longest time that a limit allows a request; 0 if no limit is a time."""
        return max((limit.below for limit in self.parsed if limit.metric != limits.ERRORS), default=0.0) / 1e6

    @property
    def warmup_ms(self) -> int:
        """The warm-up of each run."""
        return max(WARMUP_MS, math.ceil(WARMUP_LIMITS * self.longest_ms))

    @property
    def settings(self) -> Settings:
        """The settings of the search."""
        probe_ms = max(self.probe_ms, math.ceil(PROBE_LIMITS * self.longest_ms))
        # n random arrivals have a standard deviation of sqrt(n), so the relative error of the rate is 1 / sqrt(n).
        requests_min = (ARRIVALS_ERRORS / self.precision) ** 2 if self.arrivals == "poisson" else 1
        return Settings(self.parsed, self.precision, probe_ms, round(requests_min))


def spec_of(target: Target, request: Mapping[str, Any], **settings: Any) -> CapacitySpec:
    """The spec for a target, from settings of its protocol and of the search; raises PlanError with one line.

    Headers are lines such as `Accept: text/plain`. A request with a body is a POST unless a method is given.
    """
    kind = WORKLOADS[target.protocol]
    alien = next((name for name in request if name not in kind.model_fields), None)
    if alien is not None:
        raise PlanError(f"--{alien.replace('_', '-')}: is not a setting of {target.protocol}")
    fields = dict(request)
    if "headers" in fields:
        fields["headers"] = _headers(fields["headers"])
    if "body" in fields:
        fields.setdefault("method", "POST")
    try:
        return CapacitySpec(
            workload=kind(**target.workload, **fields), connect=target.connect, tls=target.tls, **settings
        )
    except ValidationError as error:
        raise PlanError(mistakes.of_settings(error)) from None


def _headers(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The names and values of header lines; raises PlanError for a line that is not a header."""
    parted = [line.partition(":") for line in lines]
    for line, (name, colon, _) in zip(lines, parted, strict=True):
        if not colon or not name.strip():
            raise PlanError(f"{line!r} is not a header: write it as in 'Accept: text/plain'")
    return tuple((name.strip(), value.strip()) for name, _, value in parted)
