"""Random operator logs: any program, with operators in place and values of no bytes, and steps of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.remat.operator_log import PINS, SPARES
from tests.operator_logs import LogBuilder

if TYPE_CHECKING:
    from random import Random

    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["random_log", "training_log"]


class _Program(LogBuilder):
    """A log that knows what the program holds."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[int] = []

    def constant(self, size: int) -> int:
        self.held.append(super().constant(size))
        return self.held[-1]

    def call(
        self, cost: int, reads: tuple[int, ...], *sizes: int, takes: int = -1, name: str = "op"
    ) -> tuple[int, ...]:
        made = super().call(cost, reads, *sizes, takes=takes, name=name)
        self.held += made
        if takes >= 0:
            self.held.remove(takes)
        return made

    def let_go(self, *values: int) -> None:
        super().let_go(*values)
        for value in values:
            self.held.remove(value)


def random_log(rng: Random, calls: int) -> OperatorLog:
    """Any program: values are read, taken and let go of by chance. Few distinct sizes and costs make ties.

    Half of the programs have large values and some that are tiny beside them.
    """
    log = _Program()
    unit, tiny = rng.choice(((1, 0.0), (1 << 16, 0.3)))

    def size() -> int:
        return rng.randint(1, 40) if rng.random() < tiny else unit * rng.choice((0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6))

    for _ in range(rng.randint(1, 3)):
        log.constant(size())
    for _ in range(calls):
        if not log.held or rng.random() < 0.05:
            log.constant(size())
        recent = log.held[-4:]
        reads = {rng.choice(recent if rng.random() < 0.6 else log.held) for _ in range(rng.randint(1, 3))}
        order = sorted(reads)
        rng.shuffle(order)
        takes = rng.choice(order) if rng.random() < 0.25 else -1
        sizes = [size() for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))]
        if takes >= 0:
            sizes = [log.size[takes], *sizes[1:]]
        log.call(rng.choice((0, 1, 1, 2, 5, 20)), tuple(order), *sizes, takes=takes)
        if log.held and rng.random() < 0.1:
            log.events.append((rng.choice((PINS, SPARES)), rng.choice(log.held)))
        while len(log.held) > 1 and rng.random() < 0.45:
            log.let_go(rng.choice(log.held))
    return log.log()


def training_log(rng: Random, layers: int) -> OperatorLog:
    """Layers forwards, backwards with the activations of each, and an update of each parameter in place."""
    log = _Program()
    parameters = [log.constant(rng.randint(1, 3)) for _ in range(layers)]
    value = log.constant(rng.randint(1, 8))
    kept = [value]
    for parameter in parameters:
        size = rng.randint(2, 12)
        (value,) = log.call(rng.randint(5, 50), (value, parameter), size)
        if rng.random() < 0.5:
            (value,) = log.call(1, (value,), size, takes=value)
        kept.append(value)
    (gradient,) = log.call(1, (value,), log.size[value])
    for parameter, before, after in reversed(list(zip(parameters, kept, kept[1:], strict=False))):
        reads = list(dict.fromkeys((gradient, parameter, after, before)))
        there = tuple(v for v in reads if v in log.held)
        made = log.call(rng.randint(5, 50), there, log.size[before], log.size[parameter])
        log.let_go(gradient)
        if after in log.held:
            log.let_go(after)
        gradient, update = made
        log.call(1, (parameter, update), log.size[parameter], takes=parameter)
        if rng.random() < 0.7:
            log.let_go(update)
    return log.log()
