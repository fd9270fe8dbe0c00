"""This machine: its processors, what it forbids, what else runs on it, and what its processes have used."""
