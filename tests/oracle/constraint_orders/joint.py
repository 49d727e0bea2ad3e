"""The order and the places in memory at once (OLLA, Steiner et al. 2022, equation 9), for small graphs.

    offset
      |  +-----------+                    A class of memory is a box: as wide as the operators during which it is
      |  |     a     |+----------+        alive, which the order decides, and as high as its size. No two boxes may
      |  +-----+-----+|    d     |        overlap. A result that takes the memory of an input begins at the offset
      |  |  b  |  c  |+----------+        where the input's box ends.
      +---------------------------> place in the order

OLLA orders first and places then (section 4.4), and so does edgemem. The order with the lowest peak may have an arena
above that peak, while another order, even with a higher peak, has a smaller one; only this tells.

Deviation: the paper's pairs of 0-1 variables (equations 6-8) are one constraint here, for CP-SAT: no two boxes overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.records.lifetime import lifetimes
from edgemem.records.sizes import padded, tensor_bytes
from edgemem.schedule.order import find_order
from edgemem.schedule.precedence import is_reorderable
from edgemem.schedule.problem import order_problem
from edgemem.strategy.cp_sat import CpSat
from edgemem.strategy.offsets.search import search
from tests.oracle.constraint_orders.contraction import contract
from tests.oracle.constraint_orders.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.records.problem import Problem
    from edgemem.schedule.ordering import Stopped
    from edgemem.targets import Target

__all__ = ["Joint", "order_and_place"]

# In CP-SAT's own measure of work, for each question.
WORK = {"fast": 1.0, "default": 20.0, "max": 1000.0}
_MOST_OPERATORS = 100


@dataclass(frozen=True, slots=True)
class Joint:
    """An order with a plan of its memory. Sizes are bytes.

    Attributes:
        order: of the graph's operators.
        problem: the usage records of the graph in that order.
        offsets: int64, the place of each record.
        arena: the end of the record that lies highest.
        lower_bound: no order has a plan with a smaller arena.
        split: the arena where the order with the lowest peak is found first, and the places then.
        stopped: why the search ended.
    """

    order: tuple[int, ...]
    problem: Problem
    offsets: NDArray[np.int64]
    arena: int
    lower_bound: int
    split: int
    stopped: Stopped

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no order has a plan with a smaller arena."""
        return self.arena == self.lower_bound


def order_and_place(
    graph: Graph,
    target: Target,
    *,
    effort: str = "default",
    seed: int = 1,
    time_limit: float | None = None,
) -> Joint:
    """The order and the offsets with the smallest arena.

    It begins with the best order that `find_order` finds and the best plan for that, and asks for orders with smaller
    arenas, until there is none. 30 operators take seconds.

    Args:
        graph: in the order of its file.
        target: whose lifetimes and aliasing count.
        effort: "fast", "default" or "max".
        seed: of the solver's random choices.
        time_limit: seconds for the questions; with it the result depends on the machine.

    Raises:
        MissingDependencyError: ortools is not installed.
        UnsupportedError: the graph has bodies that are planned inline, operators that write what others wrote, or more
            than 100 operators; or the target has textures, pinned tensors, reserved ranges, overlaps or slots; or an
            activation's dtype has no fixed width.
    """
    _require_plain(graph, target)
    ordering = find_order(graph, target, effort=effort, seed=seed)
    problem = lifetimes(graph.reordered(ordering.order), target).problem
    offsets = search(problem, effort, seed).values
    arena = _end(problem, offsets)
    best = Joint(ordering.order, problem, offsets, arena, ordering.lower_bound, arena, "bound")
    if best.optimal:
        return best
    solver = CpSat("ordering and placing at once", seed, time_limit)
    boxes = _Boxes(graph, target)
    asked = best.lower_bound  # most often there is an answer; if not, orders below the best one are asked for
    while best.arena > best.lower_bound:
        status, found = boxes.ask(asked, best.order, solver, WORK[effort])
        if found is not None:
            problem, offsets = found.problem, found.offsets
            best = replace(best, order=found.order, problem=problem, offsets=offsets, arena=found.arena)
        elif status == "INFEASIBLE":
            best = replace(best, lower_bound=asked + 1)
        elif asked == best.arena - 1:
            return replace(best, stopped="time" if solver.is_late else "work")
        asked = best.arena - 1
    return replace(best, stopped="proof")


def _require_plain(graph: Graph, target: Target) -> None:
    """Raise UnsupportedError for what the boxes do not tell."""
    problem = lifetimes(graph, target).problem
    reasons = {
        "is too large": len(graph.ops) > _MOST_OPERATORS,
        "has operators with bodies": target.bodies == "inline" and any(op.bodies for op in graph.ops),
        "has operators that write what others wrote": not is_reorderable(graph),
        "is planned as textures": target.texels,
        **{f"has records that are {feature}": True for feature in sorted(problem.features - {"state"})},
    }
    for reason, holds in reasons.items():
        if holds:
            raise UnsupportedError(
                f"graph {graph.name!r} {reason}: order and places cannot be found at once; use find_order, then plan"
            )


def _end(problem: Problem, offsets: NDArray[np.int64]) -> int:
    return int((offsets + problem.size)[problem.size > 0].max(initial=0))


@dataclass(frozen=True, slots=True)
class _Placed:
    order: tuple[int, ...]
    problem: Problem
    offsets: NDArray[np.int64]
    arena: int


class _Boxes:
    """The program of one graph, made anew for each question."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self._graph, self._target = graph, target
        self._problem = order_problem(graph, target)
        contraction = contract(self._problem)
        # An operator that is left out has no place, and what is there only before the first place has no box.
        self._contraction = contract(self._problem, leave_out=False) if contraction.is_opened else contraction
        tensors = {
            t.name: tensor_bytes(t, target, graph.layout) for t in graph.tensors if t.name in set(self._problem.names)
        }
        self._size = [tensors.get(name, 0) for name in self._problem.names]

    def ask(self, arena: int, hint: tuple[int, ...], solver: CpSat, work: float) -> tuple[str, _Placed | None]:
        """Ask for an order and places whose arena is so large at most. Returns the solver's status, and them."""
        model = solver.cp_model.CpModel()
        timeline = Timeline(self._contraction, model)
        alignment = self._target.alignment
        timeline.limit(padded(arena, alignment))
        timeline.hint(self._contraction.nodes(hint))
        wide: list[Any] = []
        high: list[Any] = []

        def add_place(size: int) -> Any:
            """The variable of an offset, in units of the alignment."""
            return model.new_int_var(0, max(arena - size, -1) // alignment, "")

        def add_box(interval: Any, place: Any, size: int) -> None:
            wide.append(interval)
            high.append(model.new_fixed_size_interval_var(place, -(-size // alignment), ""))

        if arena < max(self._size, default=0):
            return "INFEASIBLE", None
        places = [add_place(size) for size in self._size]
        for piece in timeline.pieces:
            if piece.owner >= 0:
                add_box(piece.interval, places[piece.owner], self._size[piece.owner])
        for c, until in self._from_the_start():
            add_box(model.new_fixed_size_interval_var(0, until, ""), places[c], self._size[c])
        scratch: dict[int, list[Any]] = {}
        for node, k in enumerate(self._contraction.ops):
            for size in filter(None, self._graph.ops[k].scratch):
                if size > arena:
                    return "INFEASIBLE", None
                scratch.setdefault(k, []).append(add_place(size))
                add_box(model.new_fixed_size_interval_var(timeline.place[node], 1, ""), scratch[k][-1], size)
        for (node, c), literal in timeline.takes.items():
            same = model.add(places[self._problem.writes[self._contraction.ops[node]][0]] == places[c])
            if literal is not True:
                same.only_enforce_if(literal)
        model.add_no_overlap_2d(wide, high)
        status, found = solver.solve(model, work)
        if status not in ("OPTIMAL", "FEASIBLE"):
            return status, None
        at = [found.value(variable) for variable in timeline.place]
        order = self._contraction.expand(sorted(range(len(at)), key=at.__getitem__))
        offset = {c: alignment * found.value(place) for c, place in enumerate(places)}
        work_offsets = {k: [alignment * found.value(place) for place in pieces] for k, pieces in scratch.items()}
        return status, self._placed(order, offset, work_offsets)

    def _from_the_start(self) -> list[tuple[int, int]]:
        """The classes that are there from the start and are no pieces of a timeline, and until which place."""
        problem = self._problem
        count = len(self._contraction.ops)
        found = []
        for c in range(len(problem.size)):
            if self._contraction.writer[c] >= 0 or (problem.readers[c] and c not in problem.kept):
                continue
            found.append((c, count + 1 if c in problem.start else 1))
        return found

    def _placed(self, order: tuple[int, ...], offset: Mapping[int, int], scratch: Mapping[int, list[int]]) -> _Placed:
        """The records of the graph in an order, where the boxes are."""
        problem = lifetimes(self._graph.reordered(order), self._target).problem
        number = {name: c for c, name in enumerate(self._problem.names)}
        work = iter([place for k in order for place in scratch.get(k, ())])
        offsets = np.zeros(len(problem), np.int64)
        for at, record in enumerate(problem.records):
            known = [number[name] for name in record.tensors if name in number]
            offsets[at] = next(work) if record.kind == "scratch" else offset[known[0]]
        return _Placed(order, problem, offsets, _end(problem, offsets))
