"""The relations a claim can be decided by, a file for each: what it takes, how it is decided, its words."""
