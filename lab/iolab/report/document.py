"""The frame of a page: one HTML file that loads nothing and runs nothing, and its templates.

Its content security policy forbids both and allows only the one style sheet, by its digest. Every text goes through the
template's escaping; drawings are cleared by `drawing`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup

from iolab.report import commands, drawing, formats
from iolab.wording import BOUND_SIGNS, NOTHING, words_of

# Texts stored with older runs, from before the sign had a space in front of it.
PERCENT = re.compile(r"(?<=\d)%")


def policy_of(style: str) -> str:
    """The content security policy: nothing loads and nothing runs; the one style sheet is allowed by its digest."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def resource(name: str) -> str:
    return resources.files("iolab.report").joinpath(name).read_text(encoding="utf-8")


@cache
def templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: resource(f"templates/{name}")),
        autoescape=True,
        finalize=_seen,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: NOTHING if value is None else formats.number(value),
        "figure": formats.figure_cell,
        "bounded": lambda figure, bound, scale: BOUND_SIGNS[bound] + formats.figure_cell(figure, scale),
        "sign": lambda bound: BOUND_SIGNS[bound],
        "level": lambda level, shown: (
            BOUND_SIGNS[level.bound] + formats.stacked(level.median, level.low, level.high, shown.scale)
        ),
        "ratio": formats.ratio_text,
        "rank": formats.rank_text,
        "command": commands.folded,
        "percent": lambda value: NOTHING if value is None else f"{value * 100:.0f} %",
        "spaced": lambda text: PERCENT.sub(" %", text),
        "words": lambda text: words_of(str(text)),
    }
    return environment


def _seen(value: object) -> object:
    """A value for the page: texts from outside without invisible characters, our own markup unchanged."""
    return drawing.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
