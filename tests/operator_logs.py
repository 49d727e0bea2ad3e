"""Operator logs for tests: small ones by hand, random ones, and those of DTR's prototype."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np

from tests.bench.remat.operator_log import APPEARS, LETS_GO, RUNS, OperatorLog

__all__ = ["DTR_LOGS", "LogBuilder", "chain", "flat", "random_log"]

DTR_LOGS: Final = ("unet-6", "resnet32-56", "transformer-10", "lstm-128")


class LogBuilder:
    """Makes a log step by step; values are numbered as they appear."""

    def __init__(self) -> None:
        self.size: list[int] = []
        self.calls: list[tuple[str, int, tuple[int, ...], tuple[int, ...], int]] = []
        self.events: list[tuple[int, int]] = []

    def constant(self, size: int) -> int:
        self.size.append(size)
        self.events.append((APPEARS, len(self.size) - 1))
        return len(self.size) - 1

    def call(
        self, cost: int, reads: tuple[int, ...], *sizes: int, takes: int = -1, name: str = "op"
    ) -> tuple[int, ...]:
        """The values that the call writes."""
        first = len(self.size)
        self.size += sizes
        written = tuple(range(first, len(self.size)))
        self.events.append((RUNS, len(self.calls)))
        self.calls.append((name, cost, reads, written, takes))
        return written

    def let_go(self, *values: int) -> None:
        self.events += [(LETS_GO, value) for value in values]

    def log(self) -> OperatorLog:
        names = list(dict.fromkeys(call[0] for call in self.calls))
        return OperatorLog.from_columns(
            names=names,
            name=[names.index(call[0]) for call in self.calls],
            cost=[call[1] for call in self.calls],
            reads=[call[2] for call in self.calls],
            writes=[call[3] for call in self.calls],
            takes=[call[4] for call in self.calls],
            size=self.size,
            event_kind=[kind for kind, _ in self.events],
            event_index=[index for _, index in self.events],
        )


def chain(length: int, *, size: int = 1 << 20, cost: int = 1000) -> OperatorLog:
    """A network of layers of equal size and cost: forward, then a gradient for each layer, from the last to the first.

    The gradient of a layer reads the layer's input and the gradient of the layer behind it.
    """
    made = LogBuilder()
    values = [made.constant(size)]
    for _ in range(length):
        values += made.call(cost, (values[-1],), size, name="forward")
    (gradient,) = made.call(cost, (values[-1],), size, name="loss")
    made.let_go(values.pop())
    while len(values) > 1:
        (new,) = made.call(cost, (values[-1], gradient), size, name="backward")
        made.let_go(gradient, values.pop())
        gradient = new
    return made.log()


def random_log(seed: int, calls: int = 30) -> OperatorLog:
    """A program with values of many sizes, operators in place, several results and none."""
    rng = random.Random(seed)
    made = LogBuilder()
    sizes = [rng.choice((1 << 20, 3 << 19, 1 << 21)) + rng.randrange(0, 4096) for _ in range(4)] + [8, 0]
    held = [made.constant(rng.choice(sizes)) for _ in range(rng.randint(1, 3))]
    for _ in range(calls):
        reads = tuple(rng.sample(held, min(len(held), rng.randint(1, 3))))
        cost = rng.randint(1, 5000)
        kind = rng.random()
        if kind < 0.1:
            made.call(cost, reads)
        elif kind < 0.3:
            (new,) = made.call(cost, reads, made.size[reads[0]], takes=reads[0])
            held[held.index(reads[0])] = new
        else:
            held += made.call(cost, reads, *(rng.choice(sizes) for _ in range(rng.randint(1, 3))))
        if rng.random() < 0.1:
            held.append(made.constant(rng.choice(sizes)))
        while len(held) > 2 and rng.random() < 0.45:
            made.let_go(held.pop(rng.randrange(len(held))))
    return made.log()


def flat(log: OperatorLog) -> list[Any]:
    """All columns as lists, to compare logs."""
    return [log.names, *(np.asarray(column).tolist() for column in (log.name, *log.columns))]
