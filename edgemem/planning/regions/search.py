"""Chooses regions for items: rules, windows; then a sweep or a tree, which prove what nothing undercuts."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.planning.regions.filling import Filling
from edgemem.planning.regions.prices import Bound, bound_by_prices
from edgemem.planning.regions.sweep import sweep_sections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from edgemem.planning.regions.items import Items

__all__ = ["RegionChoice", "choose_accepted", "choose_regions", "improved_choice"]

_NODES: Final = 40_000
_FEW_NODES: Final = 2_000  # of a tree for the items of one window
_WINDOWS: Final = 200
_FREE: Final = 14  # items of a window


@dataclass(frozen=True, slots=True, eq=False)
class RegionChoice:
    """A region for each item.

    Attributes:
        where: int64 [items]; None if none was found.
        cost: of it; meaningless without one.
        bound: no choice costs less.
        is_proved: whether it is proved that nothing is cheaper, or that there is no choice at all.
        stuck: an item for which there was no room, and the bytes free in each region then, if none was found.
    """

    where: NDArray[np.int64] | None
    cost: int
    bound: int
    is_proved: bool
    stuck: tuple[int, tuple[int, ...]] | None = None


def choose_regions(items: Items) -> RegionChoice:
    """The cheapest choice that is found by the room at each section, with a lower bound of all choices."""
    best, stuck = _by_rules(items, items.cost.astype(np.float64), None)
    bound = bound_by_prices(items, best.cost if best else None)
    if best is None or best.cost > bound.value:
        best = _by_rules(items, bound.above, best)[0]
    where = _improved(items, bound, best.where) if best is not None else None
    cost = _cost(items, where) if where is not None else None
    is_proved = cost is not None and cost <= bound.value
    if not is_proved:
        found, is_proved = sweep_sections(items, bound, cost)
        where = found if found is not None else where
    return _settled(items, where, bound, is_proved=is_proved, stuck=stuck)


def choose_accepted(items: Items, accept: Callable[[NDArray[np.int64]], bool], start: RegionChoice) -> RegionChoice:
    """The cheapest choice that is found and that `accept` takes.

    Args:
        items: what there is to place, with the room that there is.
        accept: whether the items of each region have places there. It is asked for choices cheaper than all before.
        start: a choice that is not accepted, for which the bound is sought.
    """
    bound = bound_by_prices(items, start.cost)
    where, is_whole = _tree(Filling(items), _order(items, bound), bound, None, accept, _NODES)
    return _settled(items, where, bound, is_proved=is_whole)


def improved_choice(items: Items, accept: Callable[[NDArray[np.int64]], bool], choice: RegionChoice) -> RegionChoice:
    """A cheaper choice that is accepted, from one that is."""
    assert choice.where is not None
    bound = Bound(choice.bound, float(choice.bound), np.zeros(items.cost.shape), gcd(*items.cost.reshape(-1).tolist()))
    where = _improved(items, bound, choice.where, accept)
    return RegionChoice(where, _cost(items, where), choice.bound, is_proved=False)


def _settled(
    items: Items,
    where: NDArray[np.int64] | None,
    bound: Bound,
    *,
    is_proved: bool,
    stuck: tuple[int, tuple[int, ...]] | None = None,
) -> RegionChoice:
    if where is None:
        return RegionChoice(None, 0, bound.value, is_proved=is_proved, stuck=stuck)
    cost = _cost(items, where)
    return RegionChoice(where, cost, cost if is_proved else bound.value, is_proved=is_proved)


def _cost(items: Items, where: NDArray[np.int64]) -> int:
    return int(items.cost[np.arange(len(items)), where].sum())


def _by_rules(
    items: Items, rank: NDArray[np.float64], best: Filling | None
) -> tuple[Filling | None, tuple[int, tuple[int, ...]] | None]:
    """The cheapest placement of several orders, and where the last one without any was stuck."""
    ranked = np.where(items.allowed, rank, np.inf)
    ordered = np.sort(ranked, axis=1)
    second = ordered[:, 1] if ordered.shape[1] > 1 else np.full(len(items), np.inf)
    with np.errstate(invalid="ignore"):
        regret = np.where(np.isfinite(second), second - ordered[:, 0], np.inf)
    weight = np.array([int(profile.max()) for profile in items.profiles], np.float64)
    area = weight * (items.end - items.begin)
    stuck = None
    for key in (regret, regret / area, regret / weight, weight, area):
        filling = Filling(items)
        failed = filling.place(np.argsort(-key, kind="stable").tolist(), ranked)
        if failed is not None:
            stuck = (failed, tuple(filling.free(failed, r) for r in range(len(items.room))))
            continue
        if best is None or filling.cost < best.cost:
            best = filling
    return best, stuck


def _filled(items: Items, where: NDArray[np.int64]) -> Filling:
    """The regions with each item where it is said to be, -1 for none."""
    filling = Filling(items)
    for i in np.flatnonzero(where >= 0).tolist():
        filling.put(i, int(where[i]))
    return filling


def _improved(
    items: Items, bound: Bound, where: NDArray[np.int64], accept: Callable[[NDArray[np.int64]], bool] = lambda _: True
) -> NDArray[np.int64]:
    """A cheaper choice that is accepted: all items but a few keep their regions, and a tree finds the best for these.

    This is done again and again. The few are alive at about one time, and one of them costs more than it would
    elsewhere.
    """
    random, indices = Random(len(items)), np.arange(len(items))  # noqa: S311 - no secrets
    least = np.where(items.allowed, items.cost, items.cost.max(initial=0)).min(axis=1)
    for _ in range(_WINDOWS):
        cost = _cost(items, where)
        losing = np.flatnonzero(items.cost[indices, where] > least).tolist()
        if not losing or cost <= bound.value:
            break
        at = random.choice(losing)
        near = np.flatnonzero((items.begin < items.end[at]) & (items.end > items.begin[at])).tolist()
        chosen = sorted({at, *random.sample(near, min(len(near), _FREE - 1))})
        filling = _filled(items, np.where(np.isin(indices, chosen), -1, where))
        local = _beside(filling, chosen, bound.unit)
        found, _ = _tree(filling, _order(items, local, chosen), local, cost, accept, _FEW_NODES)
        if found is not None:
            where = found
    return where


def _beside(filling: Filling, free: Sequence[int], unit: int) -> Bound:
    """The bound of choices for a few items beside those that are placed: each costs least where it fits alone."""
    items = filling.items
    above, base = np.zeros(items.cost.shape), float(filling.cost)
    for i in free:
        fitting = [items.allowed[i, r] and filling.fits(i, r) for r in range(len(items.room))]
        costs = np.where(fitting, items.cost[i], np.inf)
        base += float(costs.min())
        above[i] = costs - costs.min()
    return Bound(0, base, above, unit)


def _order(items: Items, bound: Bound, chosen: Sequence[int] | None = None) -> list[int]:
    """All items, or those chosen: first those whose best region is clearest by the bound."""
    listed = np.arange(len(items)) if chosen is None else np.array(chosen)
    ordered = np.sort(bound.above[listed], axis=1)
    regret = ordered[:, 1] if ordered.shape[1] > 1 else np.full(len(listed), np.inf)
    first: list[int] = listed[np.lexsort((listed, -items.cost[listed].max(axis=1, initial=0), -regret))].tolist()
    return first


def _tree(
    filling: Filling,
    order: Sequence[int],
    bound: Bound,
    upper: int | None,
    accept: Callable[[NDArray[np.int64]], bool],
    most: int,
) -> tuple[NDArray[np.int64] | None, bool]:
    """The cheapest choice below `upper` that is accepted, and whether the whole tree was searched.

    Depth first: the items that are not placed are placed in this order, each in its best region first. At most so many
    nodes.
    """
    above, base = bound.above, bound.exact
    placed = np.flatnonzero(filling.where >= 0)
    base += float(above[placed, filling.where[placed]].sum())
    found: NDArray[np.int64] | None = None
    options = [
        [(float(above[i, r]), r) for r in np.argsort(above[i], kind="stable").tolist() if np.isfinite(above[i, r])]
        for i in order
    ]
    nodes, depth = 0, 0
    tried, sums = [0] * (len(order) + 1), [base] * (len(order) + 1)
    while depth >= 0:
        if nodes > most:
            return found, False
        went = False
        if depth == len(order):
            nodes += 1
            if (upper is None or filling.cost < upper) and accept(filling.where):
                found, upper = filling.where.copy(), filling.cost
        else:
            while tried[depth] < len(options[depth]):
                more, r = options[depth][tried[depth]]
                tried[depth] += 1
                if upper is not None and bound.rounded(sums[depth] + more) >= upper:
                    break  # what follows costs more
                nodes += 1
                if filling.fits(order[depth], r):
                    filling.put(order[depth], r)
                    sums[depth + 1], went = sums[depth] + more, True
                    tried[depth + 1] = 0
                    depth += 1
                    break
        if not went:
            depth -= 1
            if depth >= 0:
                filling.take(order[depth])
    return found, True
