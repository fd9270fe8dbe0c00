"""The search for the highest rate that holds a limit: its rule, its record, and its runs."""
