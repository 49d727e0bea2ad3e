"""Greedy by Size Improved (Pisarchyk & Lee 2020, §4.4), as TFLite GPU's GREEDY_BY_SIZE for objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from edgemem.native import kernels
from edgemem.strategy.registry import shared_objects_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@shared_objects_strategy(
    "greedy_by_size_improved",
    paper="Pisarchyk & Lee 2020, §4.4",
    complexity="O(n^2)",
    options={"new_objects": ("last", "first")},
    limit=10_000,
)
def greedy_by_size_improved(problem: Problem, *, new_objects: Literal["last", "first"] = "last") -> NDArray[np.int64]:
    """Stages by positional maximum; in a stage the record and the free object with the shortest idle time between.

    A record's stage is the last positional maximum that is not smaller. Of equal pairs the largest record comes first,
    then the lowest index. A record that finds no free object opens one after all others of its stage
    (`new_objects="last"`, as TFLite GPU) or before them ("first").

    Deviation: the paper has stages of their own for sizes between two maxima; TFLite GPU has not, and with them
    DeepLab v3 needs 6.769 MiB instead of 6.437. `new_objects="first"` gives the paper's row of Table 1 (MobileNet v2:
    6.891 MiB), the default is better there (6.699).
    With texels, stages go by texels, and an object that would grow by more than the record's own is not free.
    """
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    maxima = kernels.positional_maxima(problem.first_op, problem.last_op, problem.size)
    stage = np.searchsorted(-maxima, -problem.size, side="right")
    return kernels.assign_nearest(problem.first_op, problem.last_op, extent, stage, new_objects == "first")
