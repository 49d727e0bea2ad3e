"""Seeded traces of large-model training, for tests and benchmarks of planners of allocations."""
