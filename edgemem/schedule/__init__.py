"""The order in which a graph's operators run."""
