"""Judges a record: validity, statistics, verdicts and claims. Nothing here needs an engine."""
