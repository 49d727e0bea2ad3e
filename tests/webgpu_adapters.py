"""The WebGPU adapters that tests run on: software drivers of Vulkan, so that no GPU is needed.

lavapipe is in Debian's package mesa-vulkan-drivers. SwiftShader is in chromium-common, from which .ci/run takes the
library alone into `$EDGEMEM_CACHE/swiftshader`. The loader of Vulkan reads its environment once, when wgpu first asks
it: conftest.py imports this module before any test does.

`EDGEMEM_TEST_ADAPTERS` names others instead, with commas between them: `NVIDIA` runs the same tests on such a GPU.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

__all__ = ["ADAPTERS", "names", "need_adapter"]

_LAVAPIPE: Final = "llvmpipe"
_SWIFTSHADER: Final = "SwiftShader"
# Parts of the adapters' names, as `--adapter` takes them. Most tests run on the first alone.
ADAPTERS: Final = tuple(os.environ.get("EDGEMEM_TEST_ADAPTERS", f"{_LAVAPIPE},{_SWIFTSHADER}").split(","))

_DRIVER: Final = "vk_swiftshader_icd.json"
_REMEDIES: Final = {
    _LAVAPIPE: "apt-get install libvulkan1 mesa-vulkan-drivers",
    _SWIFTSHADER: "apt-get install chromium, or run .ci/run",
}


def _add_swiftshader() -> None:
    cached = Path(os.environ.get("EDGEMEM_CACHE") or Path.home() / ".cache" / "edgemem")
    found = [f for f in (cached / "swiftshader" / _DRIVER, Path("/usr/lib/chromium", _DRIVER)) if f.is_file()]
    if found:
        os.environ.setdefault("VK_ADD_DRIVER_FILES", str(found[0]))
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # without it the drivers complain


_add_swiftshader()


@cache
def names() -> tuple[str, ...]:
    """The names of the adapters that wgpu finds through Vulkan. Skips the test where there is no wgpu."""
    wgpu = pytest.importorskip("wgpu")
    infos = [adapter.info for adapter in wgpu.gpu.enumerate_adapters_sync()]
    return tuple(info["device"] for info in infos if info["backend_type"] == "Vulkan")


def need_adapter(name: str = ADAPTERS[0]) -> str:
    """The whole name of the adapter of which this is a part. Skips the test, with the remedy, where there is none."""
    found = [full for full in names() if name.lower() in full.lower()]
    if not found:
        pytest.skip(f"no WebGPU adapter {name} ({_REMEDIES.get(name, 'a driver of Vulkan')})")
    return found[0]
