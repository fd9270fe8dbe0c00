"""One check of `doctor`: what it found, what that means for a user, and what would change it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Topic = Literal["noise", "processors", "limits", "features"]
Status = Literal["ok", "warn", "bad"]
# Prefix of a fix that no command on this machine can make.
CANNOT = "cannot be changed here: "


class Check(NamedTuple):
    """One check. `fix` is a command or begins with CANNOT; empty if the status is ok."""

    topic: Topic
    status: Status
    what: str
    found: str
    means: str = ""
    fix: str = ""


def check(topic: Topic, good: bool, what: str, found: str, means: str = "", fix: str = "") -> Check:
    """A check that is ok, or a warning with its fix."""
    return Check(topic, "ok", what, found, means) if good else Check(topic, "warn", what, found, means, fix)
