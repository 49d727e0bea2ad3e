"""Every record in an object of its own: the baseline of Pisarchyk & Lee 2020, Table 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy("naive", paper="Pisarchyk & Lee 2020, §6", complexity="O(n)", auto={})
def naive(problem: Problem) -> NDArray[np.int64]:
    """No sharing."""
    return np.arange(len(problem), dtype=np.int64)
