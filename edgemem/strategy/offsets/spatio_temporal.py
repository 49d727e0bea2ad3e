"""Spatio-temporal planning of training (Huang et al. 2026, STWeaver, §5.1).

Records that begin in one phase and end in one phase, such as the forward and backward pass of a microbatch, are a
HomoPhase group with a plan of its own. Groups are fused where the second one begins in the phase in which the first
one ends, if the fused group uses more of its box (equation 1). A group is then one request of the global plan, in which
requests of one size are a HomoSize group, placed from the largest size down.

    bytes  ┌────┐     ┌────┐     ┌────┐         one memory layer: groups of equal size, one after the other
           │F0B0│┌───┐│F2B2│     │F4B4│
           └────┘└───┘└────┘     └────┘         smaller requests fill its gaps
           ┌──────┐     ┌──────┐                the next layer
           │ F1B1 │     │ F3B3 │
           └──────┘     └──────┘──────── time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy(
    "spatio_temporal",
    paper="Huang et al. 2026 (STWeaver), §5.1",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
    options={"rules": ("improved", "paper")},
    auto={"rules": "improved"},
    honours=("pinned", "reserved"),
)
def spatio_temporal(problem: Problem, rules: str = "improved") -> NDArray[np.int64]:
    """The plan by groups of phases (`Problem.phases`) and of sizes."""
    phases = None if problem.phases is None else problem.phases.reshape(-1)
    columns = (problem.first_op, problem.last_op, problem.size, problem.alignment)
    return kernels.plan_spatio_temporal(*columns, rules == "paper", phases, **problem.constraints)
