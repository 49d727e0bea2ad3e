"""OR-tools' CP-SAT, with work and time that several programs share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any

from edgemem.errors import MissingDependencyError, SolverError

__all__ = ["CpSat"]


class CpSat:
    """The solver with what it may still use up, over several programs.

    Attributes:
        work: what all programs together have taken.
        is_late: whether the time is up.
    """

    def __init__(self, purpose: str, seed: int, time_limit: float | None) -> None:
        """Raises MissingDependencyError without ortools; `purpose` needs it."""
        self.cp_model: Any = _import_cp_sat(purpose)
        self.work = 0.0
        self._seed = seed
        self._end = inf if time_limit is None else time.monotonic() + time_limit

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._end

    def solve(self, model: Any, work: float) -> tuple[str, Any]:
        """The status of a program, as CP-SAT names it, and the solver with its values.

        Raises SolverError for a program that CP-SAT refuses.
        """
        solver = self.cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = self._seed % 2**31
        parameters.max_deterministic_time = work
        if self._end < inf:
            parameters.max_time_in_seconds = max(0.0, self._end - time.monotonic())
        # Relaxations to linear programs cost more here than they prove: measured, 30 times as much work for a random
        # wiring of 32 nodes.
        parameters.linearization_level = 0
        parameters.catch_sigint_signal = False
        with ThreadPoolExecutor(1) as pool:  # a thread that waits hears Ctrl-C
            answer = pool.submit(solver.solve, model)
            try:
                status = solver.status_name(answer.result())
            except BaseException:
                solver.stop_search()
                raise
        if status == "MODEL_INVALID":
            raise SolverError(f"CP-SAT refused the program: {model.validate()}; use another method")
        self.work += solver.deterministic_time
        return status, solver


def _import_cp_sat(purpose: str) -> Any:
    """The module of CP-SAT. Raises MissingDependencyError without ortools; `purpose` needs it."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingDependencyError("ortools", purpose=purpose) from None
    return cp_model
