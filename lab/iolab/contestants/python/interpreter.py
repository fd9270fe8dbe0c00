"""What runs a server in Python, and the line that says it is ready. Every server of this folder prints that line.

One version built with other flags, or with other extension modules, is another interpreter, and an extension without a
slot for free threading turns the GIL on when it is imported. So a server describes its interpreter after its imports.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES


def announce(addresses: Sequence[str]) -> None:
    """Says, in one line on standard output, that all of these addresses accept connections."""
    print(json.dumps({"event": "ready", "listen": addresses, "interpreter": document()}), flush=True)


def document() -> dict[str, object]:
    """The interpreter that runs this, as it is after the imports of the program."""
    return {
        "version": sys.version,
        "flags": sysconfig.get_config_var("CONFIG_ARGS"),
        "gil_built": not sysconfig.get_config_var("Py_GIL_DISABLED"),
        "gil": sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True,
        "extensions": _extensions(),
    }


def _extensions() -> list[str]:
    """The compiled modules that are loaded and are no part of the standard library."""
    return sorted(
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in sys.stdlib_module_names
        and (getattr(module, "__file__", None) or "").endswith(tuple(EXTENSION_SUFFIXES))
    )
