"""Runs `structs_check` in a process of its own, and prints what is wrong.

python -m edgemem.runtime.litert.structs_child
"""

from __future__ import annotations

import sys

from edgemem.runtime.litert.structs_check import difference

__all__: list[str] = []

if __name__ == "__main__":
    sys.stdout.write(f"\nverdict:{difference()}")
