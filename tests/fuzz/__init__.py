"""Fuzzers: what edgemem does with files that strangers made.

    python -m tests.fuzz --target onnx --minutes 30
    python -m tests.fuzz --target all --minutes 5

Each target reads bytes as one kind of file and may raise nothing but edgemem's own errors. `cases.py` says what a
target is, `TARGETS` there lists them, `child.py` runs cases, and `watch.py` watches the process that does.
"""
