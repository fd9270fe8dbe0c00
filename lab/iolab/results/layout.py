"""Where runs are, and the names of the files in a run's folder."""

from __future__ import annotations

from pathlib import Path

# The folder of all runs, relative to the working directory.
RUNS = Path("runs")

# The file that makes a folder a run: of a comparison or an experiment, of a search for a capacity, or of a suite.
PLAN, QUESTION, SUITE = "plan.json", "question.json", "suite.json"
# The rest of its record.
MACHINE, TRIALS, COUNTS, PROBES = "machine.json", "trials.jsonl", "costs.jsonl", "probes.jsonl"
MINUTES = "minutes.jsonl"
# Files made from the record, and no part of it.
SUMMARY, REPORT = "summary.json", "report.html"
