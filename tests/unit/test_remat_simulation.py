"""Programs under budgets: what can be counted by hand, the metrics of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.errors import PlanError, UnknownStrategyError
from edgemem.remat.policies import POLICIES, Policy, find_policy
from tests.bench.remat.budgets import cutoff_budget, minimum_budget
from tests.bench.remat.log_files import load_operator_log
from tests.bench.remat.simulation import simulate
from tests.data import shared_file
from tests.operator_logs import LogBuilder, chain

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog

MIB = 1 << 20
BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5)


def dtr_log(name: str) -> OperatorLog:
    return load_operator_log(shared_file(f"dtr_logs/{name}.log.gz"))


@pytest.mark.parametrize("policy", POLICIES)
def test_with_enough_memory_nothing_is_evicted(policy: str) -> None:
    log = chain(10)
    run = simulate(log, 2 * log.peak, policy)
    assert (run.ended, run.evictions, run.recomputed_cost, run.shortages) == ("done", 0, 0, 0)
    assert (run.cost, run.overhead, run.peak) == (log.total_cost, 0.0, log.peak)


@pytest.mark.parametrize("policy", POLICIES)
def test_with_half_of_the_memory_a_chain_recomputes(policy: str) -> None:
    log = chain(20)
    run = simulate(log, log.peak // 2, policy)
    assert run.is_done
    assert run.peak <= run.budget
    assert run.recomputed_cost == 1000 * run.recomputed_calls > 0
    assert run.overhead == run.recomputed_cost / log.total_cost


@pytest.mark.parametrize("policy", POLICIES)
def test_a_budget_below_what_one_call_needs_is_out_of_memory(policy: str) -> None:
    made = LogBuilder()
    x = made.constant(MIB)
    made.call(5, (x,), 2 * MIB)
    run = simulate(made.log(), 3 * MIB - 1, policy)
    assert (run.ended, run.event, run.short_of) == ("out of memory", 1, 2 * MIB)
    assert simulate(made.log(), 3 * MIB, replace(find_policy(policy), small_apart=False)).is_done


def test_recomputing_without_end_is_thrashing() -> None:
    log = chain(40)
    tight = minimum_budget(log, "dtr")
    assert simulate(log, tight, "dtr").overhead > 0.5
    run = simulate(log, tight, "dtr", limit=0.5)
    assert run.ended == "thrashing"
    assert run.recomputed_cost > 0.5 * log.total_cost


def test_what_the_program_holds_at_the_end_must_be_in_memory() -> None:
    made = LogBuilder()
    x = made.constant(MIB)
    (first,) = made.call(5, (x,), 2 * MIB)
    (second,) = made.call(7, (x,), 2 * MIB)
    made.call(3, (first,))
    run = simulate(made.log(), 4 * MIB, "dtr")
    assert run.ended == "out of memory"
    made.let_go(second)
    run = simulate(made.log(), 4 * MIB, "dtr")
    # Both cannot be there at once: the first makes room for the second and is made again for the last call.
    assert (run.ended, run.evictions, run.recomputed_cost) == ("done", 2, 5)


def test_a_window_takes_neighbours_where_dtr_takes_what_is_cheap() -> None:
    """Values a, b, c, d of 1 MiB side by side, b and d cheap: for 2 MiB DTR evicts b and d, and then one more."""
    made = LogBuilder()
    x = made.constant(MIB)
    (a,) = made.call(90, (x,), MIB)
    (b,) = made.call(1, (x,), MIB)
    (c,) = made.call(50, (x,), MIB)
    (d,) = made.call(1, (x,), MIB)
    made.call(40, (x,), 2 * MIB)
    made.let_go(a, b, c, d)
    log = made.log()
    dtr, window = (simulate(log, 5 * MIB, replace(POLICIES[p], small_apart=False)) for p in ("dtr", "coop-window"))
    assert (dtr.evictions, dtr.searches) == (3, 3)
    assert (window.evictions, window.searches) == (2, 1)
    assert window.evaluations == 4 < dtr.evaluations


def test_in_place_needs_no_memory_for_the_new_version() -> None:
    made = LogBuilder()
    x = made.constant(MIB)
    (y,) = made.call(5, (x,), MIB)
    made.call(5, (y,), MIB, takes=y)
    assert simulate(made.log(), 2 * MIB, "coop-in-place").is_done
    copied = simulate(made.log(), 2 * MIB, "dtr")
    assert copied.ended == "out of memory"


def test_small_values_do_not_divide_the_pool() -> None:
    """Constants of 8 bytes come between large values; apart they leave room for a value of all that is left."""
    made = LogBuilder()
    x = made.constant(MIB)
    for _ in range(6):
        (y,) = made.call(5, (x,), 4 * MIB)
        made.constant(8)
        made.let_go(y)
    (y,) = made.call(5, (x,), 100 * MIB)
    log = made.log()
    coop = POLICIES["coop-window"]
    assert simulate(log, 110 * MIB, coop).is_done
    divided = simulate(log, 102 * MIB, replace(coop, small_apart=False))
    assert divided.ended == "out of memory"
    assert simulate(log, 102 * MIB, replace(coop, small_apart=True)).is_done


@pytest.mark.parametrize("name", ["lru", "", "COOP"])
def test_an_unknown_policy_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownStrategyError, match="there are dtr, dte, coop"):
        simulate(chain(2), MIB, name)


@pytest.mark.parametrize(("budget", "limit", "alignment"), [(-1, 10, 512), (1, -1, 512), (1, 1001, 512), (1, 10, 0)])
def test_settings_that_make_no_sense_are_refused(budget: int, limit: float, alignment: int) -> None:
    with pytest.raises(PlanError, match="cannot be simulated"):
        simulate(chain(2), budget, "dtr", limit=limit, alignment=alignment)


def test_a_policy_of_ones_own_is_taken() -> None:
    own = Policy("own", "dte", "window", partition=True)
    assert simulate(chain(10), 8 * MIB, own).policy is own
    assert own.rules.tolist() == [1, 1, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("policy", POLICIES)
def test_borders_are_where_they_say(policy: str) -> None:
    log = chain(30)
    least, cutoff = minimum_budget(log, policy), cutoff_budget(log, policy)
    assert least < cutoff
    assert simulate(log, least, policy).is_done
    assert not simulate(log, least - log.peak // 500, policy).is_done
    assert simulate(log, cutoff, policy).evictions == 0
    assert simulate(log, cutoff - log.peak // 500, policy).evictions > 0


def test_a_program_of_nothing_needs_nothing() -> None:
    log = LogBuilder().log()
    run = simulate(log, 0, "coop")
    assert (run.ended, run.overhead, run.fragmentation) == ("done", 0.0, 0.0)
    assert (run.evaluations_per_shortage, run.search_us_per_shortage) == (0.0, 0.0)
    assert minimum_budget(log, "coop") == cutoff_budget(log, "coop") == 0
