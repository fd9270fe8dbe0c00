"""The contract between the lab and an engine: its types, and the words it shares with flags."""
