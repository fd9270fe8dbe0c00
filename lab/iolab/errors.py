"""What a failure that is no fault of ours has in common: one line for a person, and the exit code of a command."""

from __future__ import annotations


class IolabError(Exception):
    """Something cannot be done. The message is one line: what is wrong, and what to do."""

    code = 1


class BadInput(IolabError):
    """What was asked for cannot be."""

    code = 2


class PlanError(BadInput, ValueError):
    """A plan that cannot be. The message is one line: where, which key, and what to do."""


class StoreError(IolabError):
    """A run cannot be stored or read. The message is one line: the file, what is wrong, and what to do."""


class NotResumable(BadInput, StoreError):
    """A stored run cannot be continued as asked. The message is one line: the file, what is wrong, and what to do."""
