"""Offset calculation (Pisarchyk & Lee 2020, §5): one file a strategy, imported here in the order they are listed."""
