"""Changes between two runs, in words and in other formats: Markdown, JUnit, GitHub annotations.

A and B are the runs in the order of the command. Within one run they are two of its contestants: B and its reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree

from iolab.judge.comparison import Change, Kind, RunComparison, where
from iolab.judge.levels import Level
from iolab.judge.sentences import MORE_BLOCKS_MAX
from iolab.metrics import METRICS, RANKED_BY
from iolab.report.formats import count
from iolab.wording import BOUND_SIGNS, number, when

UNPAIRED = (
    "Unpaired: drift is not removed. The runs share no contestant whose program is the same, so the speed of the "
    "machine is in every ratio but that of memory"
)
SIDE_BY_SIDE = (
    "to decide smaller differences, measure both builds in one run, iolab vs 'cmd:OLD ...' 'cmd:NEW ...', and give "
    "that run alone to iolab compare; or measure a server that does not change beside each build"
)
PLURALS: dict[Kind, tuple[str, str]] = {
    "regression": ("regression", "regressions"),
    "improvement": ("improvement", "improvements"),
    "same": ("the same", "the same"),
    "not decided": ("not decided", "not decided"),
}


def document(found: RunComparison) -> dict[str, Any]:
    """The comparison as a JSON document."""
    changes = [
        {**change.model_dump(mode="json"), "kind": change.kind, "verdict": verdict(change)} for change in found.changes
    ]
    summary = {"inconclusive": found.is_inconclusive, "headline": headline(found)}
    return {"schema": 1, **found.model_dump(mode="json", exclude={"changes"}), **summary, "changes": changes}


def verdict(change: Change) -> str:
    """The verdict on a change, with its direction and bound, or what would decide it."""
    if change.kind == "same":
        return f"same within {share(change.effect)}"
    if change.kind != "not decided":
        return f"differs: {'worse' if change.kind == 'regression' else 'better'}"
    if change.blocks_more is None:
        return f"not decided: {change.why_not}"
    if change.blocks_more > MORE_BLOCKS_MAX:
        return f"not decided: over {MORE_BLOCKS_MAX} more blocks"
    return f"not decided: about {count(change.blocks_more, 'more block')}"


def share(value: float) -> str:
    """A threshold or an effect with as many digits as it has: `3 %`, `2.5 %`."""
    return f"{number(100 * value)} %"


def level(of: Level) -> str:
    """A median with its unit."""
    return BOUND_SIGNS[of.bound] + METRICS[of.metric].shown(of.median)


def heading(change: Change) -> str:
    """The contestant and setting of a table, and the number of its blocks."""
    a, b = change.blocks
    blocks = count(a, "block") if a == b else f"{count(a, 'block')} of A, {b} of B"
    return f"{where(change.comparison, change.contestant)} ({blocks})"


def preamble(found: RunComparison) -> list[str]:
    """What is compared, and notes on how."""
    if found.is_within:
        lines = [
            f"{_run(found.folder_a, found.began_a)}; A → B are two of its contestants, and each block pairs B with its "
            "reference A"
        ]
    else:
        lines = [f"{name}: {_run(*run)}" for name, run in zip("AB", _runs(found), strict=True)]
    lines += [f"allowed: {difference}" for difference in found.differences]
    references = dict.fromkeys(change.reference for change in found.changes if change.reference is not None)
    lines += [
        f"Each ratio is beside {name}, whose program is the same in both runs, block by block: drift cancels"
        for name in references
    ]
    if _is_unpaired(found):
        least = max(change.effect for change in found.changes)
        lines.append(f"{UNPAIRED}: differences below {share(least)} are not decided")
    return [*lines, *(each.line for each in (*found.left_out, *found.missing))]


def headline(found: RunComparison) -> str:
    """The answer in one line."""
    beyond = f"beyond {share(found.threshold)}"
    if not found.changes:
        return "Nothing could be compared"
    if found.is_inconclusive and found.missing:
        return f"Inconclusive: {count(len(found.missing), 'server')} could not be compared"
    if found.is_inconclusive:
        what = "Unpaired runs" if _is_unpaired(found) else "Too noisy: these blocks"
        return f"{what} cannot show a change of {share(found.threshold)}"
    parts = [f"{number or 'no'} {PLURALS[kind][number != 1]}" for kind, number in found.kinds.items() if number]
    if not found.regressions:
        shown = f"{found.cells_blind} of {len(found.cells)} pairs of server and setting could not show one"
        blind = f" ({shown})" if found.cells_blind else ""
        parts.insert(0, f"no regression {beyond}{blind}")
    else:
        parts[0] = f"{parts[0]} {beyond}"
    line = ", ".join(parts)
    return f"{line[0].upper()}{line[1:]}"


def sentences(found: RunComparison) -> list[str]:
    """Every regression and improvement, in the direction of "more"; then the smallest change that could be seen."""
    lines = [
        f"{kind}: {where(change.comparison, change.contestant)}: {change.clause}"
        for kind in ("regression", "improvement")
        for change in found.changes
        if change.kind == kind
    ]
    seen = [
        f"{number(100 * max(of), 2)} % of {METRICS[metric].noun}"
        for metric in RANKED_BY
        if (of := [change.effect_min for change in found.changes if change.metric == metric])
    ]
    if seen:
        lines.append(f"smallest detectable change, for every server and setting: {', '.join(seen)}")
    return [*lines, *_advice(found)]


def _is_unpaired(found: RunComparison) -> bool:
    return any(not change.without_drift for change in found.changes)


def _advice(found: RunComparison) -> list[str]:
    """What to do if these blocks cannot show a change as small as the threshold."""
    if not found.changes or found.regressions or not found.is_blind:
        return []
    if _is_unpaired(found):
        return [SIDE_BY_SIDE]
    best = min(
        (change for change in found.changes if change.metric in RANKED_BY and change.bound == "exact"),
        key=lambda change: change.effect_min,
        default=None,
    )
    if best is None:
        return ["no server was the limit: use more connections, or more threads of the generator"]
    blocks = math.ceil(min(best.blocks) * (best.effect_min / found.threshold) ** 2)
    runs = "run it" if found.is_within else "run each"
    shown = math.ceil(100 * best.effect_min)
    return [f"to decide, {runs} with about {blocks} blocks, or raise the threshold to {shown} %"]


def markdown(found: RunComparison) -> str:
    """The comparison for a pull request."""
    lines = [f"### {headline(found)}", ""]
    lines += [f"- {_escaped(line)}" for line in sentences(found)]
    lines += ["", "| | metric | A | B | B / A | verdict |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for change in found.changes:
        bold = "**" if change.kind == "regression" else ""
        figures = (
            where(change.comparison, change.contestant),
            METRICS[change.metric].title,
            level(change.level_a),
            level(change.level_b),
            str(change.interval),
        )
        cells = (*map(_escaped, figures), f"{bold}{_escaped(verdict(change))}{bold}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {_escaped(line)}" for line in preamble(found))]
    return "\n".join(lines) + "\n"


def junit(found: RunComparison) -> str:
    """The comparison as JUnit XML: a test case for each change; a regression fails it.

    A missing server is a case with an error, and one left out is skipped.
    """
    kinds = found.kinds
    suite = ElementTree.Element(
        "testsuite",
        name="iolab compare",
        tests=str(len(found.changes) + len(found.missing) + len(found.left_out)),
        failures=str(kinds["regression"]),
        errors=str(len(found.missing)),
        skipped=str(kinds["not decided"] + len(found.left_out)),
    )
    for change in found.changes:
        name, title = where(change.comparison, change.contestant), METRICS[change.metric].title
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=title)
        said = f"{verdict(change)}: B / A is {change.interval}"
        if change.kind == "regression":
            ElementTree.SubElement(case, "failure", message=f"{title}: {change.clause}").text = said
        elif change.kind == "not decided":
            ElementTree.SubElement(case, "skipped", message=said)
        else:
            ElementTree.SubElement(case, "system-out").text = said
    for kind, absent in (("error", found.missing), ("skipped", found.left_out)):
        for each in absent:
            case = ElementTree.SubElement(suite, "testcase", classname=each.what, name="is compared")
            ElementTree.SubElement(case, kind, message=each.line)
    ElementTree.SubElement(suite, "system-out").text = "\n".join([headline(found), *sentences(found), *preamble(found)])
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def github(found: RunComparison) -> Iterator[str]:
    """Workflow commands for a GitHub log: an error for each regression and each missing server.

    An undecided comparison and a server left out are warnings.
    """
    for change in found.regressions:
        yield _command("error", "iolab regression", f"{where(change.comparison, change.contestant)}: {change.clause}")
    if found.is_inconclusive:
        yield _command("warning", "iolab", "; ".join([headline(found), *_advice(found)]))
    for each in found.missing:
        yield _command("error", "iolab not compared", each.line)
    for each in found.left_out:
        yield _command("warning", "iolab", each.line)


def _command(kind: str, title: str, message: str) -> str:
    """A workflow command is one line, in which GitHub expects these characters percent-encoded."""
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{kind} title={title}::{data}"


def _runs(found: RunComparison) -> tuple[tuple[str, str], tuple[str, str]]:
    return (found.folder_a, found.began_a), (found.folder_b, found.began_b)


def _run(folder: str, began: str) -> str:
    return f"{PurePath(folder)}, measured {when(began)}" if began else str(PurePath(folder))


def _escaped(text: str) -> str:
    """Text escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
