# The C++ kernels. Arrays are contiguous int64; a wrong length or value is a ValueError.

from typing import Literal

import numpy as np
from numpy.typing import NDArray

# Shared objects: kernels/planner/shared_objects.h, kernels/planner/positional_maxima.h. `extent` is [n, 1 to 3].
def assign_in_order(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    order: NDArray[np.int64],
    pick: Literal["first", "closest"],
) -> NDArray[np.int64]: ...
def assign_nearest(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    stage: NDArray[np.int64],
    new_first: bool,
) -> NDArray[np.int64]: ...
def assign_by_min_cost_flow(
    first_op: NDArray[np.int64], last_op: NDArray[np.int64], extent: NDArray[np.int64]
) -> NDArray[np.int64]: ...
def positional_maxima(
    first_op: NDArray[np.int64], last_op: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.int64]: ...
