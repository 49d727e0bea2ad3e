"""Tests that compile what was exported."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["needs_compilers"]

needs_compilers = pytest.mark.skipif(
    not all(map(shutil.which, ("cc", "c++", "gcc", "g++"))), reason="needs gcc and g++"
)
