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
from edgemem.strategy.options import TIME_LIMIT
from edgemem.strategy.registry import Solution, offsets_strategy

if TYPE_CHECKING:
    from edgemem.records.problem import Problem


@offsets_strategy(
    "spatio_temporal",
    paper="Huang et al. 2026 (STWeaver), §5.1",
    complexity="O(n log n (log n + g)), g gaps that hold a record",
    options={"rules": ("improved", "paper"), "time_limit": TIME_LIMIT},
    auto={"rules": "improved"},
    honours=("pinned", "reserved"),
)
def spatio_temporal(problem: Problem, rules: str = "improved", time_limit: float | None = None) -> Solution:
    """The plan by groups of phases (`Problem.phases`) and of sizes; `rules="paper"` follows the paper's words.

    Where the problem has no phases, one ends wherever the bytes alive turn from rising to falling, or from falling to
    rising, by a sixteenth of their maximum: in training those are forward and backward passes.

    What the paper leaves open is decided so. A group lies end to end, the record that ends last at the bottom. Groups
    are looked at in the order in which they begin; each takes in all others that begin in the phase in which it ends.
    Products are averaged with the weight of the boxes. A smaller request goes to the bottom of the lowest layer that
    is free as long as it is in use, and has that layer for itself then. Pinned records and reserved ranges, which the
    paper does not have, stay free: all layers lie above them.

    Deviation: with the default rules
    - records of a group that are never in use together share bytes, as do records of two groups in a fusion. Stacked,
      the buffers of one backward pass alone are up to 4.3 times the lower bound of the whole iteration;
    - sizes that differ by at most an eighth (or a sixteenth) are of one HomoSize group, and the room above the smaller
      ones is taken out in the end. Where sizes vary by a few percent, as lengths of sequences do, groups of exactly
      equal size have one member each, and plans are 10 to 18 % above the bound instead of 0.2 to 0.6 %;
    - a request goes into the smallest gap of addresses that is free as long as it is in use: gaps of several layers
      count as one, and what is left of a gap is a gap;
    - plans are also made of groups with a product of at least 0.7 alone, and of no groups. The smallest plan is the
      answer; without a time limit (seconds) it is the same on every machine.
    """
    phases = None if problem.phases is None else problem.phases.reshape(-1)
    columns = (problem.first_op, problem.last_op, problem.size, problem.alignment)
    return Solution(
        *kernels.plan_spatio_temporal(*columns, rules == "paper", time_limit, phases, **problem.constraints)
    )
