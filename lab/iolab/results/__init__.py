"""The record of a run: its trials, the files it is kept in, and the tables other tools read."""
