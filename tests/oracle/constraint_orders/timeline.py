"""An order as a constraint program: a place for each operator, and intervals of places at which memory is alive.

    place          0    1    2    3
    operator       a    c    b    d           place[a] = 0, place[c] = 1, ..., all different
    class of a     |---------|                 [place[a], place[its last reader] + 1)
    class of b               |---------|
    workspace of c      |----|                 [place[c], place[c] + 1)

The intervals at one place add up to what `edgemem.schedule.partial` counts there. A result that takes the memory of an
input has no interval at its operator's own place, because the input's interval is there for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from edgemem.schedule.peak import peak_unit

if TYPE_CHECKING:
    from tests.oracle.constraint_orders.contraction import Contraction

__all__ = ["Piece", "Timeline"]

# Parts of CP-SAT's programs; ortools has no types.
Program: TypeAlias = Any
Expression: TypeAlias = Any
# A literal of the program, or True or False.
Literal: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory that is alive in an interval of places.

    Attributes:
        interval: the interval of the program.
        size: bytes (or texels).
        owner: the class, or -1 for workspace and what bodies hold.
    """

    interval: Expression
    size: int
    owner: int


class Timeline:
    """The program of one problem. It says what an order is and what is alive, and limits nothing.

    Attributes:
        model: the program.
        count: how many operators have a place, those of the contraction: its nodes.
        place: for each node the variable of its place, from 0.
        pieces: all that is alive, but for `always` and what the first step adds.
        takes: for a node and a class the literal that the node's first result takes the memory of the class; without
            the pairs for which that is never so.
        always: what is alive at all places beside the pieces, in bytes (or texels).
        least: what is alive before all places.
        first: for each node that may be the first one what its first step adds to `always` and the classes that are
            there before it; empty if that never is more than what the pieces add up to.
    """

    def __init__(self, contraction: Contraction, model: Program) -> None:
        """Add everything to an empty `CpModel`."""
        problem = contraction.problem
        self.contraction = contraction
        self.model = model
        self.count = len(contraction.ops)
        self.pieces: list[Piece] = []
        self.takes: dict[tuple[int, int], Literal] = {}
        self.always = sum(problem.size[c] for c in problem.start if self._is_always_there(c))
        self._precedes: dict[tuple[int, int], Literal] = {}
        self.place = [
            model.new_int_var(contraction.earliest(node), contraction.latest(node), f"place{node}")
            for node in range(self.count)
        ]
        for node, earlier in enumerate(contraction.before):
            for b in earlier:
                model.add(self.place[b] < self.place[node])
        model.add_all_different(self.place)
        self._taken: list[Literal] = [False] * self.count
        for node in range(self.count):
            self._taken[node] = self._add_takes(node)
        for c in range(len(problem.size)):
            self._add_class(c)
        for node in range(self.count):
            self._add_workspace(node)
        self.first = self._opening()
        opened = problem.opening if contraction.is_opened else 0
        self.least = sum(problem.size[c] for c in problem.start) + opened

    def hint(self, nodes: list[int]) -> None:
        """Name an order of the nodes where the search for a better one begins."""
        for at, node in enumerate(nodes):
            self.model.add_hint(self.place[node], at)

    def limit(self, peak: int) -> None:
        """Let no more than `peak` be alive at any place."""
        unit = peak_unit(self.contraction.problem)
        room = (peak - self.always) // unit
        if peak < self.least or room < 0:
            self.model.add_bool_or([])
            return
        sizes = [piece.size // unit for piece in self.pieces]
        self.model.add_cumulative([piece.interval for piece in self.pieces], sizes, room)
        for node, rise in self.first.items():
            if self.always + rise > peak:
                self.model.add(self.place[node] > 0)

    def _is_always_there(self, c: int) -> bool:
        """Whether a class that is alive before all operators is alive to the end."""
        problem = self.contraction.problem
        return c in problem.kept or not problem.readers[c]

    def _add_takes(self, node: int) -> Literal:
        """The literal that the first result of a node takes the memory of an input, as `Partial` decides."""
        contraction, problem = self.contraction, self.contraction.problem
        pending: Literal = True  # whether no class was found yet
        takes = []
        for c in problem.over[contraction.ops[node]]:
            is_last = self._all_of([self._before(other, node) for other in contraction.other_readers(node, c)])
            writer = contraction.writer[c]
            is_free: Literal = True
            if c in problem.guarded:
                is_first_result = writer >= 0 and problem.writes[contraction.ops[writer]][0] == c
                is_free = self._taken[writer] if is_first_result else False
            literal = self._all_of([pending, is_last, is_free])
            if literal is not False:
                self.takes[node, c] = literal
                takes.append(literal)
            pending = self._all_of([pending, _not(is_last)])
        return _not(self._all_of([_not(literal) for literal in takes])) if takes else False

    def _add_class(self, c: int) -> None:
        contraction, problem, count = self.contraction, self.contraction.problem, self.count
        writer = contraction.writer[c]
        is_kept = c in problem.kept
        if not problem.size[c] or (writer < 0 and (self._is_always_there(c) or c not in problem.start)):
            return
        taken: Literal = False
        start: Expression = 0
        if writer >= 0:
            start = self.place[writer]
            taken = self._taken[writer] if problem.writes[contraction.ops[writer]][0] == c else False
        needed = contraction.needed[c]
        if is_kept or (not problem.readers[c] and c in problem.lingers):
            end: Expression = count + 1  # so that one which takes memory at the last place has a length after it
        elif not needed or needed == (writer,):
            if writer < 0:
                return  # operators that run before all places were the last to read it
            end = start + 1
        else:
            last = [self.place[node] + 1 for node in needed]
            end = last[0]
            if len(last) > 1:
                end = self.model.new_int_var(0, count, f"end{c}")
                for place in last:
                    self.model.add(end >= place)
        if not problem.readers[c] and not is_kept:
            self._add_piece(start, end, c, _not(taken))  # it has none if it takes the memory of an input
        elif taken is False:
            self._add_piece(start, end, c, True)
        else:
            self._add_piece(start, start + 1, c, _not(taken))
            if is_kept or needed != (writer,):
                # It is empty where the operator itself is the last to need the class.
                self._add_piece(start + 1, end, c, True, least=0)

    def _add_piece(self, start: Expression, end: Expression, c: int, present: Literal, *, least: int = 1) -> None:
        if present is False:
            return
        length = self.model.new_int_var(least, self.count + 1, "")
        if present is True:
            interval = self.model.new_interval_var(start, length, end, "")
        else:
            interval = self.model.new_optional_interval_var(start, length, end, present, "")
        self.pieces.append(Piece(interval, self.contraction.problem.size[c], c))

    def _add_workspace(self, node: int) -> None:
        """What an operator needs at its own place beside its results, and what its bodies leave alive."""
        problem, k, place = self.contraction.problem, self.contraction.ops[node], self.place[node]
        # While the bodies run, the results need not be there yet; so they count only as far as they need more.
        inside = problem.early[k] + problem.inside[k] - problem.born[k]
        least = max(problem.own[k], inside)
        if least:
            self.pieces.append(Piece(self.model.new_fixed_size_interval_var(place, 1, ""), least, -1))
        if self._taken[node] is not False:
            more = max(problem.own[k], inside + problem.size[problem.writes[k][0]]) - least
            if more:
                taken = self._taken[node]
                interval = self.model.new_optional_fixed_size_interval_var(place, 1, taken, "")
                self.pieces.append(Piece(interval, more, -1))
        if problem.leaves[k]:
            length = self.model.new_int_var(0, self.count, "")
            interval = self.model.new_interval_var(place + 1, length, self.count, "")
            self.pieces.append(Piece(interval, problem.leaves[k], -1))

    def _opening(self) -> dict[int, int]:
        contraction, problem = self.contraction, self.contraction.problem
        if not problem.opening or contraction.is_opened:
            return {}
        start = sum(problem.size[c] for c in problem.start) - self.always
        roots = [node for node, earlier in enumerate(contraction.before) if not earlier]
        return {node: start + problem.opening + problem.entry[contraction.ops[node]] for node in roots}

    def _before(self, one: int, other: int) -> Literal:
        """The literal that a node runs before another one; False for a node and itself."""
        if one == other or self.contraction.ancestors[one] >> other & 1:
            return False
        if self.contraction.ancestors[other] >> one & 1:
            return True
        if (other, one) in self._precedes:
            return _not(self._precedes[other, one])
        if (one, other) not in self._precedes:
            literal = self.model.new_bool_var("")
            self.model.add(self.place[one] < self.place[other]).only_enforce_if(literal)
            self.model.add(self.place[one] > self.place[other]).only_enforce_if(~literal)
            self._precedes[one, other] = literal
        return self._precedes[one, other]

    def _all_of(self, literals: list[Literal]) -> Literal:
        """The literal that all of them hold."""
        unknown = [literal for literal in literals if literal is not True]
        if any(literal is False for literal in unknown):
            return False
        if len(unknown) < 2:
            return unknown[0] if unknown else True
        literal = self.model.new_bool_var("")
        self.model.add_bool_and(unknown).only_enforce_if(literal)
        self.model.add_bool_or([literal, *map(_not, unknown)])
        return literal


def _not(literal: Literal) -> Literal:
    return not literal if isinstance(literal, bool) else ~literal
