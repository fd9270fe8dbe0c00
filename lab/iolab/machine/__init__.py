"""This machine: its processors, its restrictions, its background load, and what its processes have used."""
