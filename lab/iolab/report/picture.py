"""A run as one standalone SVG file, such as for the head of a README: its ratios with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

from iolab.judge import stats
from iolab.judge.results import Results
from iolab.metrics import METRICS, RANKED_BY
from iolab.report import charts, drawing
from iolab.report.headline import headline
from iolab.report.pictures import only_pair, ratio_rows
from iolab.results.store import StoreError

EFFECT = f"±{stats.EFFECT * 100:.0f} %"
KEY = f"Dot and bar: ratio and its 95 % interval; full where it differs. Line: no difference. Band: {EFFECT}."


def ratios_svg(run: Results) -> str:
    """Requests per second and CPU per request over all comparisons; raises StoreError if there is none yet."""
    plan, verdicts = run.plan, run.verdicts
    panels, said = [], []
    for metric in RANKED_BY:
        rows = ratio_rows(verdicts, metric)
        if rows:
            shown = METRICS[metric]
            pair = only_pair(verdicts)
            name = "Requests per second" if metric == "throughput" else shown.title
            panels.append(
                (f"{name}, {pair}" if pair else name, charts.ratios(rows, f"ratio ({shown.better} is better)"))
            )
            said += [f"{name} {row.heading} {row.label} {row.text}" for row in rows]
    if not panels:
        raise StoreError(f"{plan.name}: has no ratio yet: run more blocks first")
    return drawing.standalone(panels, plan.question, headline(verdicts), (KEY, _circumstances(run)), "; ".join(said))


def _circumstances(run: Results) -> str:
    """The machine, the day of the first trial and how much was run, as far as recorded."""
    plan, cpu, system = run.plan, run.machine.get("cpu"), run.machine.get("system")
    parts = []
    if isinstance(cpu, Mapping) and cpu.get("model"):
        parts.append(f"{cpu['model']}, {cpu.get('logical', '?')} CPUs")
    if isinstance(system, Mapping) and system.get("kernel"):
        parts.append(f"{system.get('os', '')} {system['kernel']}".strip())
    parts.append(run.began[:10])
    each = "of each server" if len(plan.comparisons) == 1 else "of each server per setting"
    parts.append(f"iolab {plan.name}, {plan.blocks} paired trials {each}, seed {plan.seed}")
    return "; ".join(parts)
