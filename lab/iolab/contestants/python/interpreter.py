"""The interpreter of a server in Python, and its ready line, which every server of this folder prints.

The same version with other build flags or other extension modules is another interpreter, and importing an extension
without a free-threading slot turns the GIL on. So a server describes its interpreter after its imports.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES


def announce(addresses: Sequence[str]) -> None:
    """Prints one line on standard output once all of these addresses accept connections."""
    print(json.dumps({"event": "ready", "listen": addresses, "interpreter": document()}), flush=True)


def document() -> dict[str, object]:
    """The running interpreter, as it is after the program's imports."""
    return {
        "version": sys.version,
        "flags": sysconfig.get_config_var("CONFIG_ARGS"),
        "gil_built": not sysconfig.get_config_var("Py_GIL_DISABLED"),
        "gil": sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True,
        "extensions": _extensions(),
    }


def _extensions() -> list[str]:
    """The loaded compiled modules outside the standard library."""
    return sorted(
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in sys.stdlib_module_names
        and (getattr(module, "__file__", None) or "").endswith(tuple(EXTENSION_SUFFIXES))
    )
