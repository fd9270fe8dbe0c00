"""The colours of a report, each by its role, in light and in dark.

Charts are drawn once, in the light colours. In the page each colour becomes a class of its role, so that one drawing
serves both schemes and print, without any script.
"""

from __future__ import annotations

from typing import NamedTuple


class Shade(NamedTuple):
    """One role's colour on a light and on a dark background, as #rrggbb. No two roles share a light colour."""

    light: str
    dark: str


SHADES: dict[str, Shade] = {
    "ground": Shade("#ffffff", "#12161c"),
    "raised": Shade("#f6f7f9", "#1a2028"),
    "ink": Shade("#1b2430", "#e7ebf0"),
    "muted": Shade("#5b6675", "#9aa7b6"),
    "grid": Shade("#e3e7ec", "#2b333e"),
    "band": Shade("#e9eef4", "#232c37"),
    "good": Shade("#1a7f4b", "#5cc98d"),
    "warn": Shade("#a85d00", "#f0b055"),
    "bad": Shade("#b3261e", "#ff8a80"),
    # Contestants, in the order of the comparison: colours that all kinds of colour vision distinguish.
    "c0": Shade("#2463c4", "#7fb0ff"),
    "c1": Shade("#b54f08", "#ff9d57"),
    "c2": Shade("#0e7561", "#4fd0b2"),
    "c3": Shade("#8d3fb5", "#d49af2"),
    "c4": Shade("#b02a5b", "#ff8fb5"),
    "c5": Shade("#76680c", "#d8c85a"),
    "c6": Shade("#2f6f8f", "#86c7e6"),
    "c7": Shade("#6b5b52", "#c4b1a5"),
}
CONTESTANTS = tuple(role for role in SHADES if role.startswith("c") and role[1:].isdigit())


def light(role: str) -> str:
    """The light colour of a role, in which charts are drawn."""
    return SHADES[role].light


def contestant(slot: int) -> str:
    """The role of a contestant's colour. The ninth shares the first's: its label distinguishes them."""
    return CONTESTANTS[slot % len(CONTESTANTS)]


def css() -> str:
    """The roles as CSS variables, dark in dark mode, and the classes that drawings use."""
    lights = "".join(f"--{role}:{shade.light};" for role, shade in SHADES.items())
    darks = "".join(f"--{role}:{shade.dark};" for role, shade in SHADES.items())
    classes = "".join(f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in SHADES)
    return (
        f":root{{color-scheme:light dark;{lights}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{darks}}}}}\n"
        f"{classes}\n"
    )
