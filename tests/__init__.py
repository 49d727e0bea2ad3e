"""Tests of the edgemem that is installed, which is the checkout only where it is installed as editable.

The root of the checkout, from which `tests` and `models` are imported, is the last entry of `sys.path`: the folder
`edgemem` beside them has no compiled modules and must not come before an installed package.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

sys.path[:] = [*(folder for folder in sys.path if Path(folder).resolve() != ROOT), str(ROOT)]

_spec = importlib.util.find_spec("edgemem")
assert _spec is not None
assert _spec.origin is not None, "edgemem is not installed"
INSTALLED = Path(_spec.origin).parents[1]  # the folder with the package: that of site-packages, or the checkout
