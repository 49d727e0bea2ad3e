"""How the suite runs: which tests, with which edgemem, and with which examples.

`--full` runs what CI runs: of the cases of a test that are marked `full` every fifth; otherwise such tests are left
out. `--exhaustive` runs every case, and the tests that are marked so, too: hours. Hypothesis draws the same examples
at every run, and skips are allowed for known reasons only. `--hypothesis-profile=search` draws new examples, and more.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict

import pytest
from hypothesis import settings

import tests.webgpu_adapters  # noqa: F401 - sets the environment of Vulkan's loader
from tests import INSTALLED, ROOT, extent
from tests.skips import pytest_addoption as add_skip_options
from tests.skips import (
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_runtest_teardown",
    "pytest_terminal_summary",
]

settings.register_profile("quick", derandomize=True, deadline=None, print_blob=True, max_examples=25)
settings.register_profile("full", derandomize=True, deadline=None, print_blob=True, max_examples=50)
settings.register_profile("exhaustive", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_skip_options(parser)
    parser.addoption("--full", action="store_true", help="run what CI runs, not only the quick tests")
    parser.addoption("--exhaustive", action="store_true", help="run every test and every case: hours")


def pytest_configure(config: pytest.Config) -> None:
    extent.exhaustive = config.getoption("exhaustive")
    extent.full = extent.exhaustive or config.getoption("full")
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("exhaustive" if extent.exhaustive else "full" if extent.full else "quick")
    set_child_path()


def set_child_path() -> None:
    """Make child processes import what the tests import: the installed edgemem first, then `tests` and `models`.

    Hundreds of them import edgemem, and compile it once.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(INSTALLED), str(ROOT)]))
    os.environ["PYTHONSAFEPATH"] = "1"  # the working folder, which may be the checkout, does not come before them


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of tiers that are not asked for, and those of large models, unless they are named.

    Of the cases of one test that are marked `full`, `--full` has every fifth.
    """
    if extent.exhaustive or any("::" in argument for argument in config.args):
        return
    left_out = {item for item in items if item.get_closest_marker("exhaustive")}
    if extent.full:
        cases = defaultdict[str, list[pytest.Item]](list)
        for item in items:
            if item.get_closest_marker("full"):
                cases[item.nodeid.partition("[")[0]].append(item)
        left_out |= {item for each in cases.values() for k, item in enumerate(each) if k % 5}
    else:
        left_out |= {item for item in items if item.get_closest_marker("full") or _is_of_large_model(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last test of a file, and what was set up for it, there is more that stays: modules and their caches."""
    if nextitem is None or nextitem.path != item.path:
        freeze()


def freeze() -> None:
    """Keep garbage collections, which hundreds of tests ask for, from going through what stays: a million objects."""
    gc.collect()
    gc.freeze()


def _is_of_large_model(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(map(extent.is_large_model, parameters.params.values()))
