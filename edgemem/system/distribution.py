"""The name and version under which edgemem is installed, and the optional packages that it uses.

The name `edgemem` on PyPI belongs to another project, and ours is not there yet: a hint names the packages themselves.
An installation of that project overwrites files of ours, `edgemem/__init__.py` among them. Importing this module, as
`edgemem.errors` does, raises ImportError then.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["DISTRIBUTION", "PACKAGES", "VERSION", "requirement"]

DISTRIBUTION: Final = "edgemem-planner"
try:
    from edgemem.system._version import VERSION as _BUILT  # written by the build, from git's tags
except ImportError:  # a checkout that is not installed
    _BUILT = "0+unknown"
VERSION: Final = _BUILT
# The packages that errors name, with the versions that the extras in pyproject.toml ask for.
PACKAGES: Final = {
    "ai-edge-litert": ">=2.1",
    "distributed": ">=2024.8",
    "fsspec": ">=2024.6",
    "onnxruntime": ">=1.23",
    "ortools": ">=9.15.6755",
    "pyarrow": ">=18",
    "resvg-py": ">=0.5",
    "scipy": ">=1.15",
    "tflite-micro": ">=0.dev20250101",
    "torch": ">=2.13",
    "wgpu": ">=0.32",
}
if getattr(sys.modules["edgemem"], "__distribution__", "") != DISTRIBUTION:
    raise ImportError(
        f"the package edgemem of another project was installed over {DISTRIBUTION}, and overwrote files of it; "
        f"run `pip uninstall edgemem {DISTRIBUTION}`, and install {DISTRIBUTION} again as you did before",
        name="edgemem",
    )
_SOLVERS: Final = ("ortools", "scipy")


def requirement(*packages: str) -> str:
    """What `pip install` takes for optional packages.

    `solvers`, the extra of strategies and orders that need a solver, stands for its packages.
    """
    named = [package for name in packages for package in (_SOLVERS if name == "solvers" else (name,))]
    return " ".join(f"'{p}{PACKAGES[p]}'" if p in PACKAGES else p for p in named)
