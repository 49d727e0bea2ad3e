"""docs/api.md and docs/cli.md are as the docstrings and the help texts say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.skips import needs_checkout

pytestmark = needs_checkout

ROOT = Path(__file__).parents[2]


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/api.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_has_every_public_name() -> None:
    import edgemem

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in edgemem.__all__ if f"## edgemem.{name}\n" not in page] == []
