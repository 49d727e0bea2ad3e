"""Beam search: several partial orders are extended together, operator by operator, and the best ones go on."""

from __future__ import annotations

import random
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from edgemem.errors import PlanError
from edgemem.schedule.partial import Partial
from edgemem.schedule.registry import order_solver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.schedule.partial import Effect
    from edgemem.schedule.problem import OrderProblem

__all__ = ["WIDTH", "beam_order"]

WIDTH = 32
_SCANNED = 4  # ready operators that are looked at, for each one that may go on
_MOST = 2**63

_Path: TypeAlias = "tuple[_Path, int] | None"
# Peak, bytes alive, place in the front of the state that is extended, operator.
_Candidate: TypeAlias = tuple[int, int, int, int]


class _State(NamedTuple):
    """A partial order with the way there. `key` stands for the operators that have run and what was remembered."""

    partial: Partial
    key: int
    path: _Path


@order_solver(
    "beam",
    rank=1,
    paper="dominance between partial orders of the same operators as in Ahn et al. 2020 (SERENITY), section 3.1",
    complexity="O(n * width * (n + width)), n^2 in copies of counters",
    options={"width": WIDTH},
)
def beam_order(problem: OrderProblem, *, width: int = WIDTH) -> tuple[int, ...]:
    """The best order among `width` partial ones that are extended together.

    Partial orders of the same operators leave the same bytes alive, so only the one with the lowest peak goes on. With
    a width beyond the number of such sets the search is exhaustive. Raises PlanError for a width below 1.
    """
    if width < 1:
        raise PlanError(f"the width of a beam is 1 or more, not {width}")
    # Sets of operators are compared by the exclusive or of random numbers. Two sets with one number, which nobody
    # will see, would cost a candidate and no more.
    rng = random.Random(0)  # noqa: S311 - no secrets
    mark = [rng.getrandbits(96) for _ in range(problem.count)]
    remembered = [rng.getrandbits(96) for _ in problem.size]
    front = [_State(Partial(problem), 0, None)]
    for _ in range(problem.count):
        found: dict[int, _Candidate] = {}
        limit = (_MOST, 0)  # peak and bytes alive of the last candidate that can still go on
        for at, (partial, key, _) in enumerate(front):
            for effect in _extensions(partial, limit, _SCANNED * width):
                k = effect.op
                taken = partial.remembers(k) if problem.over[k] else -1
                extended = key ^ mark[k] ^ (remembered[taken] if taken >= 0 else 0)
                value = (partial.peak_after(effect), partial.live + effect.change, at, k)
                known = found.get(extended)
                if known is None or value < known:
                    found[extended] = value
            if len(found) > 2 * width:
                found = _best(found, width)
                limit = max(found.values())[:2]
        front = _extended(front, _best(found, width))
    return _unwound(front[0].path)


def _best(found: dict[int, _Candidate], width: int) -> dict[int, _Candidate]:
    """The candidates with the lowest peak, then the fewest bytes alive; then in the order of the front."""
    return dict(sorted(found.items(), key=itemgetter(1))[:width])


def _extended(front: list[_State], chosen: dict[int, _Candidate]) -> list[_State]:
    """The states after the chosen operators. The last extension of a state takes it over, the others copy it."""
    left = [0] * len(front)
    for _, _, at, _ in chosen.values():
        left[at] += 1
    made = []
    for key, (_, _, at, k) in chosen.items():
        left[at] -= 1
        partial = front[at].partial.copy() if left[at] else front[at].partial
        partial.run(k)
        made.append(_State(partial, key, (front[at].path, k)))
    return made


def _extensions(partial: Partial, limit: tuple[int, int], most: int) -> Iterator[Effect]:
    """The operators that a partial order may go on with, except those that come to the limit at least.

    An operator that neither raises the peak nor leaves more alive may as well run at once: whatever comes later
    finds no less room. Then it is the only way on. (The first one also pays for inputs that nothing reads.)
    """
    peak, live = partial.peak, partial.live
    room = peak - live
    for effect in partial.ready if not partial.opening else ():
        if effect.change > 0:
            break
        if effect.rise <= room and not partial.may_regret(effect.op):
            yield effect
            return
    for effect in partial.ready[:most]:
        change, rise, _ = effect
        if (peak, live + change) >= limit:
            return  # the others leave no less alive
        if rise <= room or (live + rise, live + change) < limit:
            yield effect


def _unwound(path: _Path) -> tuple[int, ...]:
    order = []
    while path is not None:
        path, k = path
        order.append(k)
    return tuple(reversed(order))
