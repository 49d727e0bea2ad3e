"""Strategies of other packages: loaded when they are named, proved like all others, and never part of `auto`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import edgemem
from edgemem.errors import InvalidPlanError, PlanError, UnknownStrategyError
from edgemem.planning.limits import bounded
from edgemem.plans import Settings
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.catalogue import registered
from edgemem.strategy.registry import REGISTRY
from edgemem.system.entry_points import entries
from tests.installed import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Offer: TypeAlias = Callable[..., None]

RECORDS = Problem([UsageRecord("a", 0, 1, 16), UsageRecord("b", 1, 2, 24), UsageRecord("c", 2, 3, 16)])
HEAD = """
import numpy as np
from edgemem.strategy.registry import offsets_strategy
@offsets_strategy("{name}", paper="a test", complexity="O(n)")
def {name}(problem):
"""


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Installs a package with one strategy: its name, the module's source, and the package's name."""
    before, modules = dict(REGISTRY), set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def offer(name: str, source: str, package: str = "foreign") -> None:
        entry = f'[project.entry-points."edgemem.strategies"]\n{name} = "{package}_module"'
        install(f'[project]\nname = "{package}"\nversion = "1"\n{entry}', {f"{package}_module": source}, tmp_path)
        entries.cache_clear()

    yield offer
    REGISTRY.clear()
    REGISTRY.update(before)
    for added in set(sys.modules) - modules:
        if added.endswith("_module"):
            del sys.modules[added]
    entries.cache_clear()


def test_a_strategy_is_loaded_when_it_is_named(offer: Offer) -> None:
    offer("stacked", HEAD.format(name="stacked") + "    return np.cumsum(problem.size) - problem.size")
    assert "stacked" not in {s.name for s in registered()}
    (plan,) = edgemem.plan(RECORDS, strategy="stacked").offsets
    assert (plan.strategy, plan.size, plan.offsets.tolist()) == ("stacked", 56, [0, 16, 40])
    assert "foreign_module" in sys.modules


def test_auto_does_not_depend_on_what_is_installed_and_loaded(offer: Offer) -> None:
    before = {p.strategy for p in edgemem.plan(RECORDS).offsets}
    offer("stacked", HEAD.format(name="stacked") + "    return np.cumsum(problem.size) - problem.size")
    edgemem.plan(RECORDS, strategy="stacked")
    assert {p.strategy for p in edgemem.plan(RECORDS).offsets} == before


def test_a_wrong_plan_is_refused(offer: Offer) -> None:
    offer("pile", HEAD.format(name="pile") + "    return np.zeros(len(problem), np.int64)")
    with pytest.raises(InvalidPlanError, match="pile"):
        edgemem.plan(RECORDS, strategy="pile")


@pytest.mark.parametrize(
    ("body", "error", "what"),
    [
        ("    return problem.size.astype(np.float64)", InvalidPlanError, "the strategy odd gave no int64 array"),
        (
            "    return problem.sizes",
            PlanError,
            "the strategy odd of the package foreign_module failed",
        ),
    ],
)
def test_a_strategy_that_fails_is_named(offer: Offer, body: str, error: type[Exception], what: str) -> None:
    offer("odd", HEAD.format(name="odd") + body)
    with pytest.raises(error, match=what):
        edgemem.plan(RECORDS, strategy="odd")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (
            "import nothing_of_that_name",
            "cannot be loaded: ModuleNotFoundError: No module named",
        ),
        (HEAD.format(name="late") + "    return 0\n1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("", "does not register it"),
    ],
)
def test_a_faulty_package_is_named(offer: Offer, source: str, what: str) -> None:
    offer("late", source)
    for _ in range(2):  # what a faulty package registered before it failed is not there the second time
        with pytest.raises(UnknownStrategyError, match=f"the package foreign offers the strategy 'late' and {what}"):
            edgemem.plan(RECORDS, strategy="late")
    assert edgemem.plan(RECORDS, strategy="naive").offsets


def test_two_packages_with_one_name(offer: Offer) -> None:
    offer("twin", "", "first")
    offer("twin", "", "second")
    with pytest.raises(UnknownStrategyError, match=r"several packages .* 'twin'; keep one of first, second"):
        edgemem.plan(RECORDS, strategy="twin")


def test_an_unknown_name_lists_those_of_packages(offer: Offer) -> None:
    offer("stacked", "raise RuntimeError")
    with pytest.raises(UnknownStrategyError, match=r"(?m)there are auto, naive, .*, stacked$"):
        edgemem.plan(RECORDS, strategy="stackd")
    assert "foreign_module" not in sys.modules


def test_settings_of_a_file_load_no_package(offer: Offer) -> None:
    offer("stacked", HEAD.format(name="stacked") + "    return np.cumsum(problem.size) - problem.size")
    asked = Settings(("offsets/stacked", "greedy_by_size"))
    assert not any("stacked" in text for text in bounded(asked).strategies)
    assert "foreign_module" not in sys.modules
    edgemem.plan(RECORDS, strategy="stacked")
    assert bounded(asked).strategies[0] == "offsets/stacked"
