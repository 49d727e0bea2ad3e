"""Small training programs of PyTorch that a captured step must train as PyTorch does, or refuse.

They were written from PyTorch's documentation alone. `registry` says what a program is, `judge` runs it both ways.
"""
