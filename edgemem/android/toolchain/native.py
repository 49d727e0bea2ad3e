"""libedgemem.so: built once for each ABI, set of sources and compiler, with the Android NDK or with zig."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from edgemem.android import sources
from edgemem.android.toolchain import zig
from edgemem.android.toolchain.jdk import jdk
from edgemem.android.toolchain.ndk import ndk
from edgemem.android.toolchain.runtime import ABIS
from edgemem.android.toolchain.store import entry, hash_of
from edgemem.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["library"]


def library(abi: str) -> bytes:
    """As `edgemem.android.toolchain.native_library`."""
    if abi not in ABIS:
        raise ToolError(f"libedgemem.so is not built for {abi}; the ABIs are {' and '.join(ABIS)}")
    root = sources.folder("kernels").parent
    files = sources.native_sources()
    parts = [part for f in files for part in (f, (root / f).read_bytes())]
    kit = ndk()
    if kit is not None:
        return _stored(abi, hash_of([kit.identity(), *parts]), partial(kit.build, abi))
    includes = jdk().headers()
    headers = [header.read_bytes() for folder in includes for header in sorted(folder.glob("jni*.h"))]
    compiled = [f for f in files if f.endswith(".cpp")]
    return _stored(abi, hash_of([zig.identity(), *parts, *headers]), partial(zig.build, abi, compiled, includes))


def _stored(abi: str, key: str, make: Callable[[], bytes]) -> bytes:
    path: Path = entry(f"native/{key[:32]}/{abi}/libedgemem.so", make)
    return path.read_bytes()
