"""The exact mixed-integer program (Sekiyama et al. 2018, §3.1, equations 1-6), solved by scipy's HiGHS."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import SolverError
from edgemem.native import kernels
from edgemem.strategy.offsets.greedy_by_size import greedy_by_size
from edgemem.strategy.registry import Solution, offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem
    from edgemem.strategy.highs import MixedIntegerProgram

# A limit counted in work: every machine ends with the same plan, or with the same error.
_NODES = 20_000
_TOLERANCE = 2e-6


@offsets_strategy(
    "mip",
    paper="Sekiyama et al. 2018, §3.1",
    complexity="exponential",
    extra="solvers",
    limit=40,
)
def mip(problem: Problem) -> Solution:
    """A smallest arena, up to the solver's tolerance of one millionth of it.

    What the solver proved is lowered by that tolerance, then raised to the next multiple of what all sizes share.
    `W` of the paper is the arena that Greedy by Size finds; where that equals the lower bound it is the answer.
    Raises MissingDependencyError without scipy, SolverError when the search fails or ends at its node limit.
    """
    greedy = greedy_by_size(problem)
    arena = int((greedy + problem.size).max(initial=0))
    bound = kernels.offset_lower_bound(problem.first_op, problem.last_op, problem.size, problem.alignment)
    if arena == bound:
        return Solution(greedy, bound, "bound")
    from edgemem.strategy.highs import minimize  # sessions plan with other strategies, and load none of it

    records = np.flatnonzero(problem.size)
    i, j = np.triu_indices(len(records), k=1)
    first, last = problem.first_op[records], problem.last_op[records]
    collide = np.maximum(first[i], first[j]) <= np.minimum(last[i], last[j])
    i, j = i[collide], j[collide]  # the paper's E

    unit = problem.alignment
    exact = problem.size[records] / unit
    padded = -(-problem.size[records] // unit)
    answer = minimize(_program(exact, padded, i, j, bound / unit, arena / unit), purpose="the strategy mip")
    if answer.status != "optimal" or answer.x is None:
        raise SolverError(
            f"HiGHS found no smallest arena for {len(records)} records within {_NODES} nodes: {answer.message} "
            "Use another strategy."
        )
    j_below = np.asarray(answer.x[1 + len(records) :]) > 0.5

    below, above = np.where(j_below, j, i), np.where(j_below, i, j)
    offsets = np.zeros(len(problem), dtype=np.int64)
    offsets[records] = _lowest_offsets(padded, below, above) * unit
    if (offsets + problem.size).max() > arena:
        raise SolverError("HiGHS returned an arena above its own upper limit; use another strategy")
    step = int(np.gcd.reduce(problem.size[records], initial=unit))
    least = math.ceil(answer.bound * unit * (1 - _TOLERANCE) / step) * step
    return Solution(offsets, max(bound, least), "proof")


def _program(
    exact: NDArray[np.float64],
    padded: NDArray[np.int64],
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    bound: float,
    arena: float,
) -> MixedIntegerProgram:
    """The paper's program in units of the alignment: u, x_1..x_n, z_1..z_m.

    x may be fractional: only the order z is read from the answer, and with z fixed the lowest x are sums of sizes.

    Args:
        exact: the size of each record.
        padded: that rounded up.
        i: of each pair of records that are alive together, the one.
        j: the other.
        bound: no arena is below it.
        arena: one that is known.
    """
    from edgemem.strategy.highs import MixedIntegerProgram

    n, m = len(exact), len(i)
    big = math.ceil(arena)
    rows = np.arange(n + 2 * m)
    z = 1 + n + np.arange(m)
    plus_one = np.concatenate([1 + np.arange(n), 1 + i, 1 + j])
    minus_one = np.concatenate([np.zeros(n, dtype=np.int64), 1 + j, 1 + i])
    choice = np.concatenate([np.full(m, -float(big)), np.full(m, float(big))])
    return MixedIntegerProgram(
        lower=[bound, *[0.0] * (n + m)],
        # A whole unit above the known arena: bounds that are tight to a rounding error make HiGHS give up.
        upper=[float(big)] * (1 + n) + [1.0] * m,
        integers=z.tolist(),
        row=np.concatenate([rows, rows, n + np.arange(2 * m)]).tolist(),
        column=np.concatenate([plus_one, minus_one, z, z]).tolist(),
        value=np.concatenate([np.ones(n + 2 * m), -np.ones(n + 2 * m), choice]).tolist(),
        row_lower=[-math.inf] * (n + 2 * m),
        row_upper=np.concatenate([-exact, -padded[i], big - padded[j]]).tolist(),
        nodes=_NODES,
    )


def _lowest_offsets(padded: NDArray[np.int64], below: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """The lowest integer offsets with record below[k] under record above[k] for every pair k."""
    offsets = np.zeros(len(padded), dtype=np.int64)
    for _ in range(len(padded)):
        raised = offsets.copy()
        np.maximum.at(raised, above, offsets[below] + padded[below])
        if (raised == offsets).all():
            return offsets
        offsets = raised
    raise SolverError("HiGHS returned an order of records that contains a cycle; use another strategy")
