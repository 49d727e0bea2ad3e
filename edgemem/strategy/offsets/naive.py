"""Naive: no sharing, all records end to end (the baseline of Pisarchyk & Lee 2020, §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.sizes import padded
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy("naive", paper="Pisarchyk & Lee 2020, §6 (baseline)", complexity="O(n)", auto={})
def naive(problem: Problem) -> NDArray[np.int64]:
    """Each record at the next aligned offset, in input order."""
    sizes = padded(problem.size, problem.alignment)
    return np.where(problem.size > 0, np.cumsum(sizes) - sizes, 0)
