"""Splits: runs of operators computed in parts along any axis of their tensors, such as channels, heads or tokens."""
