"""What the operators of all libraries have in common: random windows, and the call that comes of one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.oracle.kernel_guard.image import Image, Server

__all__ = ["Call", "Pair", "channels", "damage_of", "pair", "slid", "window"]

Pair: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True)
class Call:
    """A function, its arguments and its memory. `about` names the operator; `before` is a function called first."""

    function: str
    arguments: tuple[int, ...]
    image: Image
    about: str
    before: tuple[str, int] | None = None


def damage_of(draw: Callable[[Random], Call | None], rng: Random, server: Server, cases: int) -> list[str]:
    """The damage that random calls do, with the operators that did it."""
    found: list[str] = []
    while cases:
        call = draw(rng)
        if call is None:
            continue
        cases -= 1
        if call.before is not None:
            server.call(call.before[0], call.before[1:], call.image)
        _, damage = server.call(call.function, call.arguments, call.image)
        found += [f"{line}: {call.function} {call.about}" for line in damage]
    return found


def pair(rng: Random, *values: int) -> Pair:
    return rng.choice(values), rng.choice(values)


def window(rng: Random) -> tuple[Pair, Pair, Pair, Pair]:
    """Image, kernel, stride and dilation; each is (height, width)."""
    image = (rng.choice((1, rng.randint(1, 12))), rng.randint(1, 12))
    kernel = rng.choice(((1, 1), (3, 3), (1, rng.randint(1, 6)), pair(rng, 1, 2, 3, 4, 5)))
    stride = rng.choice(((1, 1), (1, 1), pair(rng, 1, 2, 3, 4)))
    return image, kernel, stride, rng.choice(((1, 1), (1, 1), pair(rng, 1, 2, 3)))


def channels(rng: Random) -> int:
    return rng.choice((1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 20, rng.randint(1, 40), 125, 130))


def slid(rng: Random, image: Pair, kernel: Pair, stride: Pair, spread: Pair) -> tuple[Pair, Pair] | None:
    """Size of the result and padding before it, as TensorFlow Lite has them; None if the window does not fit."""
    is_same = rng.random() < 0.6
    rows, columns = (_slid(image[k], (kernel[k] - 1) * spread[k] + 1, stride[k], is_same=is_same) for k in (0, 1))
    return ((rows[0], columns[0]), (rows[1], columns[1])) if min(rows[0], columns[0]) > 0 else None


def _slid(given: int, reach: int, step: int, *, is_same: bool) -> Pair:
    size = -(-given // step) if is_same else (given - reach) // step + 1
    return size, max(0, (size - 1) * step + reach - given) // 2
