"""The mixed-integer program of `mip`, and HiGHS as its solver.

HiGHS hears no Ctrl-C. So it runs here for a fraction of a second, which is enough for most small problems; one that
takes longer it solves from the beginning in a process of its own, which an exception ends. The answers are the same.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.child import run_child
from edgemem.errors import MissingDependencyError, SolverError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Program", "solve"]

_HERE_S: Final = 0.2
_MOST_PAIRS_HERE: Final = 2000  # with more of them, HiGHS looks at the clock too seldom
_TIME_LIMIT: Final = 1  # scipy's status


@dataclass(frozen=True, slots=True)
class Program:
    """The paper's program; sizes and addresses are in units of the alignment.

    Attributes:
        exact: the size of each record. padded: that rounded up.
        i, j: the pairs of records that are alive together, the paper's E.
        bound, arena: what no arena goes below, and one that is known.
        nodes: most nodes of the search.
    """

    exact: Sequence[float]
    padded: Sequence[int]
    i: Sequence[int]
    j: Sequence[int]
    bound: float
    arena: float
    nodes: int


def solve(program: Program) -> tuple[NDArray[np.bool_], float]:
    """Whether j lies below i, for every pair (the paper's z), and the bound proved.

    Raises MissingDependencyError without scipy, SolverError when the search fails or ends at its node limit.
    """
    answer = _solve(program, _HERE_S) if len(program.i) <= _MOST_PAIRS_HERE else None
    if answer is None:
        answer = _solve_in_child(program)
    if "failed" in answer:
        raise SolverError(
            f"HiGHS found no smallest arena for {len(program.exact)} records within {program.nodes} nodes: "
            f"{answer['failed']} Use another strategy."
        )
    return np.asarray(answer["below"], dtype=np.bool_), answer["bound"]


def _solve_in_child(program: Program) -> dict[str, Any]:
    done = run_child(__name__, stdin=json.dumps(asdict(program)))
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise SolverError(f"HiGHS failed: {why[0]}; use another strategy")
    # HiGHS may print lines of its own, before and after.
    answer: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return answer


def _solve(program: Program, seconds: float) -> dict[str, Any] | None:
    """`below` and `bound`, or `failed`: why; None if the seconds were not enough."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        raise MissingDependencyError("scipy", extra="solvers", purpose="the strategy mip") from None

    # Variables: u, x_1..x_n, z_1..z_m. x may be fractional: only the order z is read from the answer, and with z fixed
    # the lowest x are sums of sizes.
    exact, padded = np.array(program.exact), np.array(program.padded)
    i, j = np.array(program.i, dtype=np.int64), np.array(program.j, dtype=np.int64)
    n, m = len(exact), len(i)
    big = np.ceil(program.arena)
    rows = np.arange(n + 2 * m)
    z = 1 + n + np.arange(m)
    plus_one = np.concatenate([1 + np.arange(n), 1 + i, 1 + j])
    minus_one = np.concatenate([np.zeros(n, dtype=np.int64), 1 + j, 1 + i])
    choice = np.concatenate([np.full(m, -big), np.full(m, big)])
    matrix = csr_array(
        (
            np.concatenate([np.ones(n + 2 * m), -np.ones(n + 2 * m), choice]),
            (
                np.concatenate([rows, rows, n + np.arange(2 * m)]),
                np.concatenate([plus_one, minus_one, z, z]),
            ),
        ),
        shape=(n + 2 * m, 1 + n + m),
    )
    upper = np.concatenate([-exact, -padded[i], big - padded[j]])
    answer = milp(
        np.concatenate([[1.0], np.zeros(n + m)]),
        integrality=np.concatenate([np.zeros(1 + n), np.ones(m)]),
        bounds=Bounds(
            np.concatenate([[program.bound], np.zeros(n + m)]),
            # A whole unit above the known arena: bounds that are tight to a rounding error make HiGHS give up.
            np.concatenate([[big], np.full(n, big), np.ones(m)]),
        ),
        constraints=LinearConstraint(matrix, -np.inf, upper),
        options={"node_limit": program.nodes, "mip_rel_gap": 0.0, "time_limit": seconds},
    )
    if seconds < math.inf and answer.status == _TIME_LIMIT:
        return None
    if not answer.success:
        return {"failed": answer.message}
    return {"below": (answer.x[1 + n :] > 0.5).tolist(), "bound": float(answer.mip_dual_bound)}


def main() -> None:
    """Solve the program on stdin and print the answer."""
    fields = json.loads(sys.stdin.read())
    sys.stdout.write(f"\n{json.dumps(_solve(Program(**fields), math.inf))}\n")


if __name__ == "__main__":
    main()
