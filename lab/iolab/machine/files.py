"""The files in which the kernel describes a machine, and how to read them."""

from __future__ import annotations

from pathlib import Path

SYS_CPU = Path("/sys/devices/system/cpu")
PROC = Path("/proc")


def read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
