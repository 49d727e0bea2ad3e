"""Strategies and other planners, side by side on the same instances."""
