"""Data for tests: the paper's networks, made here, and published instances, which are not part of the checkout.

Files of third parties are read from the folder `shared/data` beside the checkout, or from `$EDGEMEM_SHARED/data`. Their
digests are in `shared.sha256`, in the form of sha256sum.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from models.build import records

__all__ = ["PAPER_NETS", "paper_records", "shared_file", "shared_files"]

ROOT: Final = Path(__file__).parents[1]

# The networks of Pisarchyk & Lee 2020 whose tables are reproduced, in the order in which tests list the tables' cells.
PAPER_NETS: Final = ("mobilenet_v1", "mobilenet_v2", "deeplab_v3", "posenet")


@cache
def paper_records(net: str) -> list[tuple[int, int, int]]:
    """The usage records of a network of `models/` as (first_op, last_op, size in bytes); test_models.py pins them."""
    return [(first, last, size) for _, first, last, size in records(net)]


@cache
def _digests() -> dict[str, str]:
    lines = (ROOT / "tests" / "shared.sha256").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def shared_files(folder: str) -> list[str]:
    """The pinned files of a folder of the shared data, as `folder/name`."""
    return [name for name in _digests() if name.startswith(f"{folder}/")]


def shared_file(name: str) -> Path:
    """The path of a file of the shared data, `folder/name`.

    Skips the test where the file is absent; fails it where the file is not the pinned one.
    """
    folder = Path(os.environ.get("EDGEMEM_SHARED") or ROOT.parent / "shared") / "data"
    path = folder / name
    if not path.is_file():
        pytest.skip(f"no {name} in {folder}; set EDGEMEM_SHARED")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != _digests()[name]:
        pytest.fail(f"{path} has SHA-256 {digest}, not the one in tests/shared.sha256")
    return path
