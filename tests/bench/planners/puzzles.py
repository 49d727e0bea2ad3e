"""Offset problems made from a seed: puzzles whose optimum is known, and random ones.

A puzzle is a rectangle, operators wide and bytes high, cut into pieces that fill it: its height is both the smallest
arena and the lower bound. The pieces are shuffled, because their order would give the solution away. With some pieces
removed the height is only an upper bound of the smallest arena. Pieces may be pinned where they were cut.

A count and a seed always give the same records, so that figures of different versions are comparable.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["HEIGHT", "PUZZLES", "RANDOM", "guillotine", "pinwheels", "random_dense", "random_sparse"]

HEIGHT = 2**28
WIDTH = 2**20

# Operators begin..end and bytes low..high, both half-open. There may be a million, so they are plain tuples, which the
# garbage collector does not track.
Piece = tuple[int, int, int, int]


def guillotine(count: int, seed: int, *, removed: float = 0.0, pinned: int = 0) -> Problem:
    """A rectangle cut in two repeatedly, into `count` pieces, of which the share `removed` is taken out.

    So many of the rest are `pinned` at their offsets.
    """

    def cut(piece: Piece, rng: np.random.Generator) -> Iterable[Piece]:
        begin, end, low, high = piece
        # Across the side that is longer in proportion to the whole rectangle, not close to the edges.
        share = rng.uniform(0.25, 0.75)
        if (end - begin) * HEIGHT > (high - low) * WIDTH:
            middle = begin + max(1, int((end - begin) * share))
            return (begin, middle, low, high), (middle, end, low, high)
        middle = low + max(1, int((high - low) * share))
        return (begin, end, low, middle), (begin, end, middle, high)

    return _puzzle(count, seed, cut, removed, pinned)


def pinwheels(count: int, seed: int, *, removed: float = 0.0, pinned: int = 0) -> Problem:
    """A rectangle cut repeatedly into five, four around one in the middle, so that no cut crosses a whole rectangle.

    `count` is rounded up to a multiple of four plus one.
    """

    def cut(piece: Piece, rng: np.random.Generator) -> Iterable[Piece]:
        begin, end, low, high = piece
        left, right = (begin + max(i, int((end - begin) * s)) for i, s in ((1, rng.uniform(0.2, 0.45)), (2, 0.7)))
        lower, upper = (low + max(i, int((high - low) * s)) for i, s in ((1, rng.uniform(0.2, 0.45)), (2, 0.7)))
        return (
            (begin, right, low, lower),
            (right, end, low, upper),
            (left, end, upper, high),
            (begin, left, lower, high),
            (left, right, lower, upper),
        )

    return _puzzle(count, seed, cut, removed, pinned)


def _puzzle(
    count: int, seed: int, cut: Callable[[Piece, np.random.Generator], Iterable[Piece]], removed: float, pinned: int
) -> Problem:
    rng = np.random.default_rng([seed, count])
    pieces = [(-WIDTH * HEIGHT, 0, WIDTH, 0, HEIGHT)]
    while len(pieces) < count:
        # Not always the largest piece, because then all pieces would be of similar size.
        larger = [heappop(pieces) for _ in range(min(len(pieces), int(rng.integers(1, 4))))]
        _, begin, end, low, high = larger.pop()
        for entry in larger:
            heappush(pieces, entry)
        for piece in cut((begin, end, low, high), rng):
            heappush(pieces, ((piece[0] - piece[1]) * (piece[3] - piece[2]), *piece))
    table = np.array(pieces, dtype=np.int64)[:, 1:]
    rng.shuffle(table)
    table = table[round(removed * len(table)) :]
    pins = np.where(np.arange(len(table)) < pinned, table[:, 2], -1)
    return Problem.from_arrays(table[:, 0], table[:, 1] - 1, table[:, 3] - table[:, 2], pinned=pins)


def random_sparse(count: int, seed: int) -> Problem:
    """About a hundred records alive at a time for every count: lifetimes of 1 to 500 operators."""
    return _random(count, seed, operators=count * 5 // 2)


def random_dense(count: int, seed: int) -> Problem:
    """About a fortieth of all records alive at a time."""
    return _random(count, seed, operators=10_000)


def _random(count: int, seed: int, *, operators: int) -> Problem:
    rng = np.random.default_rng([seed, count, operators])
    first = rng.integers(0, operators, count)
    last = first + rng.integers(0, 500, count)
    return Problem.from_arrays(first, last, rng.integers(1, 10**6, count, endpoint=True))


PUZZLES: dict[str, Callable[..., Problem]] = {"guillotine": guillotine, "pinwheels": pinwheels}
RANDOM: dict[str, Callable[[int, int], Problem]] = {"sparse": random_sparse, "dense": random_dense}
