"""Rematerialisation on random programs: the kernel against the oracle, and what always holds.

The oracle looks every fact up in the rules' own words; the simulator keeps sets, lists and counts up to date.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.remat.policies import POLICIES, Policy
from tests.bench.remat.library import cheapest_window, simulate_remat
from tests.extent import run_for_seeds
from tests.oracle.remat import Oracle, Rules, best_window
from tests.random_logs import random_log, training_log

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog

ENDS = ("done", "out of memory", "thrashing")
STEPS = ("run", "rerun", "place", "evict", "release", "take over")
Step = tuple[str, int, int]


def some_log(rng: Random) -> OperatorLog:
    return random_log(rng, rng.randint(2, 24)) if rng.random() < 0.6 else training_log(rng, rng.randint(1, 7))


def some_policy(rng: Random) -> Policy:
    if rng.random() < 0.5:
        return rng.choice(list(POLICIES.values()))
    return Policy(
        "any",
        heuristic=rng.choice(("dtr", "dte", "coop")),
        search=rng.choice(("one_by_one", "window", "window_per_byte")),
        fit=rng.choice(("leftmost", "best")),
        partition=rng.random() < 0.5,
        in_place=rng.random() < 0.5,
        constants_at_ends=rng.random() < 0.5,
        small_apart=rng.random() < 0.5,
    )


def rules_of(policy: Policy) -> Rules:
    return Rules(
        heuristic=policy.heuristic,
        search=policy.search,
        best_fit=policy.fit == "best",
        partition=policy.partition,
        in_place=policy.in_place,
        constants_at_ends=policy.constants_at_ends,
        small_apart=policy.small_apart,
    )


def run(
    log: OperatorLog, budget: int, policy: Policy, alignment: int, limit: float
) -> tuple[list[int], float, list[Step]]:
    """Counters, fragmentation and history of a simulation."""
    columns = (log.cost, log.reads.starts, log.reads.items, log.writes.starts, log.writes.items, log.takes, log.size)
    counters, fragmentation, history = simulate_remat(
        *columns, log.event_kind, log.event_index, budget, alignment, policy.rules, limit, with_history=True
    )
    rows = np.asarray(history).reshape(-1, 3).tolist()
    return counters.tolist(), fragmentation, [(STEPS[step], subject, address) for step, subject, address in rows]


def comparable(history: list[Step]) -> list[Step]:
    """Values that leave memory together in the order of their numbers, and no address but where one is taken."""
    found: list[Step] = []
    leaving: list[Step] = []
    for step, subject, address in history:
        if step == "release":
            leaving.append((step, subject, -1))
            continue
        found += [*sorted(leaving), (step, subject, address if step in ("place", "take over") else -1)]
        leaving = []
    return found + sorted(leaving)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 800, 100))
def test_programs_run_as_the_oracle_says(first: int) -> None:
    evictions = again = 0
    for seed in range(first, first + 100):
        rng = Random(seed)
        log, policy, alignment = some_log(rng), some_policy(rng), rng.choice((1, 1, 2))
        budget = int(log.peak * rng.uniform(0.6, 1.5)) + rng.randint(0, 6)
        oracle = Oracle(log, budget, rules_of(policy), alignment, limit=3.0).run()
        counters, fragmentation, history = run(log, budget, policy, alignment, 3.0)
        ended, event, _, cost, calls, requests, shortages, searches, evaluations, _, evicted, size, peak = counters
        where = f"seed {seed}: {policy}, {budget} bytes"
        assert comparable(history) == comparable(oracle.history), where
        assert (ENDS[ended], event, cost, calls) == (
            oracle.ended,
            oracle.event,
            oracle.recomputed,
            oracle.recomputed_calls,
        ), where
        assert (requests, shortages, searches, evaluations) == (
            oracle.requests,
            len(oracle.fragments),
            oracle.searches,
            oracle.evaluations,
        ), where
        assert (evicted, size, peak) == (oracle.evictions, oracle.evicted_bytes, oracle.peak), where
        assert fragmentation == pytest.approx(sum(oracle.fragments) / max(1, len(oracle.fragments))), where
        evictions += evicted
        again += calls
    assert evictions > 60
    assert again > 15


@pytest.mark.full
@pytest.mark.parametrize("policy", POLICIES)
def test_what_always_holds(policy: str) -> None:
    done = evictions = 0
    for seed in range(25):
        rng = Random(f"{policy} {seed}")
        log = random_log(rng, 150) if seed % 2 else training_log(rng, 25)
        budget = int(log.peak * rng.uniform(0.6, 1.1))
        counters, _, history = run(log, budget, POLICIES[policy], 1, 20.0)
        check(log, history, budget, is_done=counters[0] == 0)
        done += counters[0] == 0
        evictions += counters[10]
    assert done > 2
    assert evictions > 100


def check(log: OperatorLog, history: list[Step], budget: int, *, is_done: bool) -> None:
    """Replay a history: no two values in one place, none above the budget, and all that a call reads is in memory."""
    reads, writes, size = log.reads.rows(), log.writes.rows(), log.size.tolist()
    there: dict[int, int] = {}  # value -> address
    ran: list[int] = []
    for step, subject, address in history:
        if step in ("evict", "release"):
            # A value of no bytes lies nowhere, and takes part in no placement.
            assert subject in there or not size[subject]
            there.pop(subject, None)
        elif step == "place":
            assert subject not in there
            assert 0 <= address <= budget - size[subject]
            assert all(
                address >= at + size[other] or at >= address + size[subject]
                for other, at in there.items()
                if size[other]
            )
            there[subject] = address
        elif step == "take over":
            (old,) = (log.takes[k] for k, written in enumerate(writes) if written[:1] == (subject,))
            assert old in there or not size[old]
            if size[old]:
                assert there.pop(old) == address
                there[subject] = address
        else:
            lost = [v for v in reads[subject] if size[v] and v not in there and v != log.takes[subject]]
            assert not lost, (step, subject, lost)
            assert all(v in there for v in writes[subject] if size[v] and step == "run")
            ran += [subject] if step == "run" else []
            assert step == "run" or subject in ran
    if is_done:
        assert ran == list(range(len(log.cost)))
        gone = {*log.event_index[log.event_kind == 2].tolist(), *log.takes[log.takes >= 0].tolist()}
        assert all(v in there for v in range(len(size)) if size[v] and v not in gone)


@run_for_seeds(range(0, 400, 100), quick=3)
def test_the_window_is_the_cheapest_of_all(seed: int) -> None:
    found = 0
    for number in range(seed, seed + 100):
        rng = Random(number)
        count = rng.randint(1, 14)
        blocks = [some_block(rng) for _ in range(count)]
        for wanted in {1, rng.randint(1, 12), rng.randint(1, 40), sum(b[0] for b in blocks)} - {0}:
            columns = (
                np.array([size for size, _, _ in blocks], np.int64),
                np.array([-1.0 if h is None else h for _, h, _ in blocks], np.float64),
                np.array([is_free for _, _, is_free in blocks], np.int64),
            )
            for per_byte in (False, True):
                window = cheapest_window(*columns, wanted, per_byte)
                best = best_window(blocks, wanted, per_byte=per_byte)
                assert tuple(window) == (best or (-1, -1)), (blocks, wanted, per_byte)
            found += window[0] >= 0
    assert found > 100


def some_block(rng: Random) -> tuple[int, float | None, bool]:
    """Sums of heuristics so different in size that floating sums would lose the small ones; many ties."""
    kind = rng.random()
    if kind < 0.25:
        return rng.randint(1, 8), 0.0, True
    if kind < 0.35:
        return rng.randint(1, 8), None, False
    exact = rng.choice((0.0, 1.0, 1.0, 2.0, 0.1, 0.2, 0.3, 1e-9, 2.0**-30, 3e11, 1e12, 2.0**41, float("inf")))
    return rng.randint(1, 8), exact if rng.random() < 0.7 else rng.random() * 10 ** rng.randint(-8, 8), False
