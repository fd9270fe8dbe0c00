"""Converts claims and published rows of plans stored by earlier versions to the present form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iolab.metrics import METRICS


def translated(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A stored plan whose claims have tests and whose published rows have figures; unchanged if it already does."""
    return {
        **plan,
        "claims": [_claim(claim) for claim in plan.get("claims", ())],
        "published": [_row(row) for row in plan.get("published", ())],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """`values` of one metric became `figures` of any metric."""
    kept = {key: value for key, value in row.items() if key not in ("setting", "metric", "values")}
    if "setting" in row:
        kept["at"] = row["setting"]
    if "values" in row:
        metric = row.get("metric", "throughput")
        kept["figures"] = {contestant: {metric: value} for contestant, value in row["values"].items()}
    return kept


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """`decide` was a single test, and some relations had other names."""
    kept = {key: value for key, value in claim.items() if key != "decide"}
    decide = claim.get("decide")
    if isinstance(decide, Mapping):
        kept["tests"] = OLDER.get(str(decide.get("relation")), _as_it_is)(decide)
    return kept


def _as_it_is(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(test)]


def _ratio(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "contestant" not in test:
        return [dict(test)]
    kept = {key: value for key, value in test.items() if key not in ("contestant", "reference", "setting")}
    return [{**kept, "at": test.get("setting", {}), "of": test["contestant"], "to": test["reference"]}]


def _wins(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The winner has more of some metrics and less of others."""
    metric = test.get("metric", "throughput")
    pair = [test["contestant"], test["reference"]]
    contestants = pair if METRICS[metric].more_is_better else pair[::-1]
    return [{"relation": "order", "metric": metric, "contestants": contestants}]


def _flat(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "relation": "trend",
            "metric": test.get("metric", "throughput"),
            "of": contestant,
            "along": test["axis"],
            "is": "flat",
            "within": test.get("at_most", 1.1),
        }
        for contestant in test["contestants"]
    ]


def _littles_law(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The law, and level tests of the published mean latencies."""
    latencies = [
        {
            "relation": "level",
            "metric": "latency_mean",
            "of": contestant,
            "at": test.get("setting", {}),
            "published": ms * 1e6,
            "tolerance": test.get("tolerance", 0.05),
        }
        for contestant, ms in test["published_ms"].items()
    ]
    return [{"relation": "identity", "law": "littles_law"}, *latencies]


OLDER = {"ratio": _ratio, "wins": _wins, "flat": _flat, "littles_law": _littles_law}
