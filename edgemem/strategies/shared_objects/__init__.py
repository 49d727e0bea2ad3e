"""Shared objects (Pisarchyk & Lee 2020, §4): one file a strategy, imported here in the order they are listed."""
