"""The contract between the lab and an engine: its types, and the words that flags share with them."""
