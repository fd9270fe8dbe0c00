"""What others published: rows of tables, and sentences with the test that decides each on our figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from iolab.contract.types import Frozen
from iolab.metrics import Metric
from iolab.plan.settings import Setting


class Published(Frozen):
    """One row of a published table: the value of `metric` for each contestant, at one setting of the axes.

    Values are in the metric's base unit: requests per second, nanoseconds, bytes.
    """

    id: str = Field(min_length=1, max_length=40)
    setting: Setting = Field(default={})
    metric: Metric = "throughput"
    values: dict[str, float] = Field(min_length=1)
    note: str = ""


class RatioTest(Frozen):
    """`metric` of contestant / reference, pooled over the comparisons that `setting` selects (all, when empty).

    `tolerance` is relative: a measured interval that touches published * (1 ± tolerance) agrees in magnitude.
    """

    relation: Literal["ratio"] = "ratio"
    metric: Metric = "throughput"
    contestant: str
    reference: str
    published: float = Field(gt=0)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    setting: Setting = Field(default={})


class WinsTest(Frozen):
    """In every comparison the interval of contestant / reference lies on the better side of 1."""

    relation: Literal["wins"] = "wins"
    metric: Metric = "throughput"
    contestant: str
    reference: str


class FlatTest(Frozen):
    """Over the values of `axis`, the largest median of `metric` is at most `at_most` times the smallest."""

    relation: Literal["flat"] = "flat"
    metric: Metric = "throughput"
    axis: str
    contestants: tuple[str, ...] = Field(min_length=1)
    at_most: float = Field(default=1.1, gt=1)
    published: dict[str, float] = Field(default={})


class LittlesLawTest(Frozen):
    """Mean latency is connections / throughput in every trial; `published_ms` is what the source's table implies.

    The published means are held against those of the comparisons that `setting` selects (all, when empty).
    """

    relation: Literal["littles_law"] = "littles_law"
    published_ms: dict[str, float] = Field(min_length=1)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    setting: Setting = Field(default={})


Test = Annotated[RatioTest | WinsTest | FlatTest | LittlesLawTest, Field(discriminator="relation")]


class Claim(Frozen):
    """A sentence somebody published, where it stands, and the test that decides it on our figures."""

    id: str = Field(min_length=1, max_length=40)
    text: str = Field(min_length=1)
    source: str = ""
    decide: Test


def named_by(test: Test) -> dict[str, Iterable[str]]:
    """The contestants a claim's test speaks of, by the keys that name them."""
    if isinstance(test, FlatTest):
        return {"contestants": test.contestants, "published": test.published}
    if isinstance(test, LittlesLawTest):
        return {"published_ms": test.published_ms}
    return {"contestant": [test.contestant], "reference": [test.reference]}
