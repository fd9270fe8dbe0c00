"""What may be said of a record: validity, statistics, verdicts and claims. Nothing here needs an engine."""
