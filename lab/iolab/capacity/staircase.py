"""An up-and-down staircase: the rate goes up after a probe that held, and down after one that did not.

It follows PEST (Taylor and Creelman, 1967): a step in the other direction is half as long, and the third one in the
same direction twice as long. So it approaches a distant capacity in a few probes, follows one that has moved, and
settles around the rate at which half of the probes hold, where a probe is most informative. Steps are factors of the
rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

# The first step, and the longest: a factor of five.
FIRST, LONGEST = math.log(1.25), math.log(5.0)

Direction = Literal[-1, 0, 1]


@dataclass(frozen=True, slots=True)
class Staircase:
    """The next rate, the length of the last step (the logarithm of a factor) and its direction.

    `in_row` counts the last steps in this direction, `reversals` the changes of direction.
    """

    rate_per_s: float
    step: float = FIRST
    direction: Direction = 0
    in_row: int = 0
    reversals: int = 0


def after(stairs: Staircase, *, held: bool, shortest: float) -> Staircase:
    """The staircase after a probe at its rate; no step is shorter than `shortest`."""
    direction: Direction = 1 if held else -1
    if direction == -stairs.direction:
        step, in_row, reversals = max(stairs.step / 2, shortest), 1, stairs.reversals + 1
    else:
        in_row, reversals = stairs.in_row + 1, stairs.reversals
        # Before the first reversal the capacity may be far away, so each step is twice as long as the one before.
        longer = in_row > (2 if reversals else 1)
        step = min(2 * stairs.step, LONGEST) if longer else stairs.step
    rate_per_s = stairs.rate_per_s * math.exp(direction * step)
    return replace(stairs, rate_per_s=rate_per_s, step=step, direction=direction, in_row=in_row, reversals=reversals)
