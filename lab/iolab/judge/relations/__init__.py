"""The relations that decide claims, one file each: how a test is decided, and its reason in words."""
