#!/usr/bin/env python3
"""How long commands take to start, as ratios to `true` and to `python3 -c pass`: a Markdown table.

Every round runs each command once, in random order, and the ratios are made within a round, so that what slows the
machine for a while slows both sides of a ratio. Printed are medians and, in brackets, the least and the most of all
rounds. A command that becomes the engine is timed to its end: the engine prints its help within a few milliseconds.

Each command that is timed is run once before the rounds, which warms the caches; its output is thrown away.

This prints and never judges: the exit code is 0 whatever comes out.
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
# The first two are what the others are compared with.
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
    parser.add_argument("--seed", type=int, default=1, help="decides the order within the rounds (default 1)")
    parser.add_argument("--iolab", default=str(SCRIPTS / "iolab"), help="the command (default: the one installed here)")
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
    """The seconds that each command took in each round."""
    names = list(commands)
    return [{name: seconds(commands[name]) for name in order.sample(names, len(names))} for _ in range(rounds)]


def seconds(command: list[str]) -> float:
    """How long a command takes from its start to its end."""
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
    """The median, and the least and the most in brackets."""
    return f"{statistics.median(values):.1f} [{min(values):.1f}, {max(values):.1f}]"


if __name__ == "__main__":
    sys.exit(main())
