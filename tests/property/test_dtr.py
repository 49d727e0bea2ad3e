"""`dtr` on programs whose values are equally large, so that addresses do not matter: the simulator evicts and repeats
exactly what the rules of the paper do, in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.remat.policies import POLICIES
from tests.bench.remat.library import simulate_remat
from tests.operator_logs import LogBuilder
from tests.oracle.dtr import Dtr, OutOfMemory

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog

RERUN, EVICT = 1, 3
POLICY = replace(POLICIES["dtr"], small_apart=False)


def program(rng: Random) -> OperatorLog:
    """Calls of one result each, of costs so different that no two heuristics are equal; releases by chance."""
    log = LogBuilder()
    held = [log.constant(1)]
    for _ in range(rng.randint(10, 80)):
        near = held[-5:]
        reads = {rng.choice(near if rng.random() < 0.6 else held) for _ in range(rng.randint(1, 3))}
        takes = max(reads) if rng.random() < 0.1 else 0
        takes = takes or -1  # the constant 0 is not copied on write
        held += log.call(rng.randint(1, 10**6), tuple(sorted(reads)), 1, takes=takes)
        held = [v for v in held if v != takes]
        while len(held) > 2 and rng.random() < 0.48:
            log.let_go(held.pop(rng.randrange(len(held))))
    for value in held:
        if rng.random() < 0.8:
            log.let_go(value)
    return log.log()


def simulated(log: OperatorLog, budget: int) -> tuple[bool, list[int], list[int]]:
    """Whether it ran out of memory; the values that were evicted, and the calls that ran again, in their order."""
    counters, _, history = simulate_remat(*log.columns, budget, 1, POLICY.rules, 1000.0, with_history=True)
    rows = np.asarray(history).reshape(-1, 3)
    return bool(counters[0]), rows[rows[:, 0] == EVICT, 1].tolist(), rows[rows[:, 0] == RERUN, 1].tolist()


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_dtr_is_the_papers_where_addresses_do_not_matter(first: int) -> None:
    again = done = 0
    for seed in range(first, first + 100):
        rng = Random(seed)
        log = program(rng)
        budget = max(4, int(log.peak * rng.uniform(0.4, 0.9)))
        paper = Dtr(log, budget, locks_early=False)
        try:
            paper.run()
            is_short = False
        except OutOfMemory:
            is_short = True
        assert simulated(log, budget) == (is_short, paper.evictions, paper.again), seed
        again += len(paper.again)
        done += not is_short
    assert again > 1000
    assert done >= 30
