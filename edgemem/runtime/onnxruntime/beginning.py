"""The lock of sessions that begin."""

from __future__ import annotations

import _thread  # as in file.py
import os
from typing import Final

__all__ = ["BEGINNING"]

# Held while a session makes its replayer, while the planner is imported, and by forks: a child has none of its parent's
# threads, so that it would wait for ever for a module that one of them was importing.
BEGINNING: Final = _thread.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=BEGINNING.acquire, after_in_parent=BEGINNING.release, after_in_child=BEGINNING.release)
