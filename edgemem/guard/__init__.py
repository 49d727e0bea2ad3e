"""Budgets and baselines of the models in a repository: which of them takes more memory than it may."""
