"""The files that have programs in them."""

from __future__ import annotations

import importlib
import pkgutil

from tests.torch import remat_programs
from tests.torch.remat_programs.registry import PROGRAMS

__all__ = ["load"]

NOT_FAMILIES = {"__main__", "contents", "families", "judge", "parts", "registry", "test_programs"}


def load() -> list[str]:
    """Import every family, and name all programs."""
    for module in pkgutil.iter_modules(remat_programs.__path__):
        if module.name not in NOT_FAMILIES:
            importlib.import_module(f"{remat_programs.__name__}.{module.name}")
    return list(PROGRAMS)
