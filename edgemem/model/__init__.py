"""Graphs and their rules: what lifetime, proof, ordering and executors read."""
