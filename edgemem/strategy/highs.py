"""Mixed-integer programs, solved by HiGHS as scipy brings it.

HiGHS hears no Ctrl-C. So it runs here for a fraction of a second, which is enough for most small programs; one that
takes longer it solves from the beginning in a process of its own, which an exception ends. The answers are the same.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.errors import MissingDependencyError, SolverError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MilpSolution", "MixedIntegerProgram", "minimize"]

# "nodes", "time": it ran out of them.
Status: TypeAlias = Literal["optimal", "infeasible", "nodes", "time", "failed"]

_HERE_S: Final = 0.2
_MOST_INTEGERS_HERE: Final = 2000  # with more of them, HiGHS looks at the clock too seldom
_STATUS: Final[dict[int, Status]] = {0: "optimal", 1: "nodes", 2: "infeasible"}


@dataclass(frozen=True, slots=True)
class MixedIntegerProgram:
    """Minimize the first variable under `row_lower <= matrix @ x <= row_upper`.

    Attributes:
        lower, upper: of each variable.
        integers: the variables that are whole numbers.
        row, column, value: of each entry of the matrix that is not zero.
        row_lower, row_upper: of each row.
        nodes: most nodes of the search.
    """

    lower: Sequence[float]
    upper: Sequence[float]
    integers: Sequence[int]
    row: Sequence[int]
    column: Sequence[int]
    value: Sequence[float]
    row_lower: Sequence[float]
    row_upper: Sequence[float]
    nodes: int


@dataclass(frozen=True, slots=True)
class MilpSolution:
    """What HiGHS found.

    Attributes:
        status: whether `x` is a best solution, whether there is none, or what ended the search.
        message: HiGHS's own words.
        x: the variables; None if there is no solution, or none was found.
        bound: what it proved that the first variable is at least; -inf if that is nothing.
    """

    status: Status
    message: str
    x: Sequence[float] | None
    bound: float


def minimize(program: MixedIntegerProgram, *, purpose: str, time_limit: float | None = None) -> MilpSolution:
    """Solve a program, within `time_limit` seconds if it is given.

    Raises MissingDependencyError without scipy, which `purpose` needs, and SolverError if its process fails.
    """
    seconds = math.inf if time_limit is None else time_limit
    if len(program.integers) <= _MOST_INTEGERS_HERE or seconds <= _HERE_S:
        answer = _minimize(program, min(seconds, _HERE_S), purpose)
        if answer.status != "time" or seconds <= _HERE_S:
            return answer
    return _minimize_in_child(program, seconds, purpose)


def _minimize_in_child(program: MixedIntegerProgram, seconds: float, purpose: str) -> MilpSolution:
    from edgemem.system.child_call import ChildError, Message, call_child  # loads much that only this needs

    try:
        made = call_child(__name__, Message({"program": asdict(program), "seconds": seconds, "purpose": purpose}))
    except ChildError as e:
        raise SolverError(f"HiGHS failed: {e}; use another strategy") from None
    return MilpSolution(**made.data)


def _minimize(program: MixedIntegerProgram, seconds: float, purpose: str) -> MilpSolution:
    import numpy as np

    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        raise MissingDependencyError("scipy", purpose=purpose) from None
    count = len(program.lower)
    cost = np.zeros(count)
    cost[0] = 1.0
    integrality = np.zeros(count, dtype=np.int8)
    integrality[np.array(program.integers, dtype=np.int64)] = 1
    entries = (np.array(program.row, dtype=np.int64), np.array(program.column, dtype=np.int64))
    matrix = csr_array((np.array(program.value, dtype=float), entries), shape=(len(program.row_lower), count))
    found = milp(
        cost,
        integrality=integrality,
        bounds=Bounds(np.array(program.lower, dtype=float), np.array(program.upper, dtype=float)),
        constraints=LinearConstraint(matrix, np.array(program.row_lower), np.array(program.row_upper)),
        options={"node_limit": program.nodes, "mip_rel_gap": 0.0, "time_limit": seconds},
    )
    bound = found.mip_dual_bound
    return MilpSolution(
        _status(found.status, found.message),
        found.message,
        None if found.x is None else found.x.tolist(),
        -math.inf if bound is None else float(bound),
    )


def _status(number: int, message: str) -> Status:
    """What scipy's number of a status stands for. HiGHS has more limits than scipy has numbers."""
    if "time limit" in message.lower():
        return "time"
    if "limit reached" in message.lower():
        return "nodes"
    return _STATUS.get(number, "failed")


def _answer(question: Message) -> Message:
    data = question.data
    return Message(asdict(_minimize(MixedIntegerProgram(**data["program"]), data["seconds"], data["purpose"])))


if __name__ == "__main__":
    from edgemem.system.child_call import Message, serve

    serve(_answer)
