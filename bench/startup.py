#!/usr/bin/env python3
"""How long commands take to start, relative to `true` and to `python3 -c pass`, as a Markdown table.

Each round runs every command once, in random order. Ratios are taken within a round, so a slow phase of the machine
affects both sides. The table has the median [min, max] of all rounds. A command that becomes the engine is timed to its
end: the engine prints its help within a few milliseconds.

Each command runs once before the rounds to warm the caches.

It only prints: the exit code is 0 whatever the figures.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

SCRIPTS = Path(sysconfig.get_path("scripts"))
# The other commands are compared with these two.
REFERENCES = {"true": ["true"], "python3 -c pass": [sys.executable, "-c", "pass"]}
COMMANDS = (
    "load --help",
    "serve --help",
    "merge --help",
    "--help",
    "vs --help",
    "run --help",
    "capacity --help",
    "report --help",
    "list models",
    "list experiments",
    "list runs",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print how long commands take to start.")
    parser.add_argument("--rounds", type=int, default=11, help="runs of each command (default 11)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order within rounds (default 1)")
    parser.add_argument("--iolab", default=str(SCRIPTS / "iolab"), help="the command (default: the installed one)")
    flags = parser.parse_args()
    commands = REFERENCES | {f"iolab {words}": [flags.iolab, *words.split()] for words in COMMANDS}
    for command in commands.values():
        seconds(command)
    rounds = measured(commands, flags.rounds, random.Random(flags.seed))
    print("| command | ms | times `true` | times `python3 -c pass` |\n| --- | --- | --- | --- |")
    for name in commands:
        times = [each[name] for each in rounds]
        ratios = [[each[name] / each[reference] for each in rounds] for reference in REFERENCES]
        print(f"| `{name}` | {spread([1_000 * time for time in times])} | {' | '.join(map(spread, ratios))} |")
    return 0


def measured(commands: dict[str, list[str]], rounds: int, order: random.Random) -> list[dict[str, float]]:
    """The seconds of each command in each round."""
    names = list(commands)
    return [{name: seconds(commands[name]) for name in order.sample(names, len(names))} for _ in range(rounds)]


def seconds(command: list[str]) -> float:
    """The duration of a command, from start to end."""
    begin = time.perf_counter()
    subprocess.run(
        command,
        env=os.environ | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - begin


def spread(values: list[float]) -> str:
    """The median, with the minimum and maximum in brackets."""
    return f"{statistics.median(values):.1f} [{min(values):.1f}, {max(values):.1f}]"


if __name__ == "__main__":
    sys.exit(main())
