"""A TOML file as a table: the size limit and error messages that experiments and registries share."""

from __future__ import annotations

import tomllib
from typing import Any

from iolab.errors import PlanError
from iolab.plan import mistakes

# Far beyond ordinary use: a larger file is not one of ours.
BYTES_MAX = 1 << 20


def table_of(text: bytes, what: str) -> dict[str, Any]:
    """Parses a file's bytes into a table; raises PlanError with one line. `what` names the kind, such as "a
    registry".
    """
    if len(text) > BYTES_MAX:
        raise PlanError(f"{what} has at most {BYTES_MAX >> 10} KiB")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise PlanError("is not UTF-8 text: save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"is not TOML: {mistakes.of_toml(str(error), text.decode())}") from None
