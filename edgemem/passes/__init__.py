"""Passes: each gives a model with the same outputs and a smaller memory problem."""
