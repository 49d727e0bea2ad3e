"""Tests that compile what was exported."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["needs_compilers"]

_THERE = all(map(shutil.which, ("cc", "c++", "gcc", "g++")))
needs_compilers = pytest.mark.skipif(not _THERE, reason="needs gcc and g++")
