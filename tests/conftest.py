"""How the suite runs: hypothesis with the same examples every time and no clock, and skips only for known reasons.

`--hypothesis-profile=search` looks further, with new examples at every run.
"""

from hypothesis import settings

import tests.webgpu_adapters  # noqa: F401 - sets the environment of Vulkan's loader
from tests.skips import (
    pytest_addoption,
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addoption",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
]

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("same")
