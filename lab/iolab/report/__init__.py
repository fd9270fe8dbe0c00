"""The report of a run: one HTML file that needs no network and no script, made from the run's folder alone.

figures  what is shown, as plain numbers        charts   Vega-Lite specifications of it
drawing  charts as SVG that may stand in a page page     all of it as one document
commands how to repeat it                       picture  its ratios as a file of its own
"""

from __future__ import annotations

from pathlib import Path

from iolab import store
from iolab.report.page import render
from iolab.report.picture import ratios_svg

__all__ = ["render", "save_picture", "write"]


def write(run_dir: Path) -> Path:
    """Writes `report.html` into a run's folder and returns its path; raises StoreError with one line.

    The same folder gives the same bytes: the page holds no date of its own and nothing random.
    """
    plan, machine, trials = store.read_plan(run_dir), store.read_machine(run_dir), store.read_trials(run_dir)
    return store.write_report(run_dir, render(plan, machine, trials))


def save_picture(run_dir: Path, path: Path) -> Path:
    """Saves the ratios of a run as one SVG file with a ground of its own, as for a README; raises StoreError."""
    plan, machine, trials = store.read_plan(run_dir), store.read_machine(run_dir), store.read_trials(run_dir)
    picture = ratios_svg(plan, machine, [result for result in trials.results if plan.holds(result.trial)])
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise store.StoreError(f"{path}: cannot be written: {error.strerror}: choose another folder") from error
    return path
