"""The report of a run: one HTML file that needs no network and no script, made from the run's folder alone.

figures  what is shown, as plain numbers        charts   Vega-Lite specifications of it
drawing  charts as SVG that may stand in a page page     all of it as one document
commands how to repeat it                       picture  its ratios as a file of its own
"""

from __future__ import annotations

from pathlib import Path

from iolab.judge import results
from iolab.judge.results import Results
from iolab.judge.suite import SuiteResults
from iolab.report import suite_page
from iolab.report.page import render
from iolab.report.picture import ratios_svg
from iolab.results import store

__all__ = ["render", "save_picture", "write"]


def write(found: Results | SuiteResults) -> Path:
    """Writes `report.html` into the folder of a run, or of one of a suite, and returns its path.

    Raises StoreError with one line.

    The same results give the same bytes: the page holds no date of its own and nothing random.
    """
    html = suite_page.render(found) if isinstance(found, SuiteResults) else render(found)
    return store.write_report(found.folder, html)


def save_picture(run_dir: Path, path: Path) -> Path:
    """Saves the ratios of a run as one SVG file with its own background, such as for a README; raises StoreError."""
    picture = ratios_svg(results.read(run_dir))
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise store.StoreError(f"{path}: cannot be written: {error.strerror}: choose another folder") from error
    return path
