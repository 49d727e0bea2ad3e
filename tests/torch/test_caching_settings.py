"""Allocator settings as text against PyTorch's own parser, which is part of every build."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from edgemem.errors import ModelError
from edgemem.trace.caching import CachingSettings

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="settings hold for the process and all its devices")

# AcceleratorAllocatorConfig::roundup_power2_divisions(size_t), as compilers on Linux name it.
_DIVISIONS = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm"


def _is_taken(text: str) -> bool:
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except ValueError:
        return False
    return True


def _is_taken_here(text: str) -> bool:
    try:
        CachingSettings.parse(text)
    except ModelError:
        return False
    return True


@pytest.mark.skipif(not hasattr(torch._C, "_accelerator_setAllocatorSettings"), reason="another version of PyTorch")
@pytest.mark.parametrize(
    "text",
    [
        "expandable_segments:True",
        "expandable_segments:true",
        "expandable_segments:1",
        "max_split_size_mb:19",
        "max_split_size_mb:20",
        "max_split_size_mb: 40 , expandable_segments: False",
        "max_non_split_rounding_mb:19",
        "max_non_split_rounding_mb:21",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:0.5",
        "garbage_collection_threshold:1.0",
        "large_segment_size_mb:10",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:16",
        "roundup_power2_divisions:[100:4]",
        "roundup_power2_divisions:[256:3]",
    ],
)
def test_pytorch_takes_and_refuses_the_same_text(text: str) -> None:
    assert _is_taken_here(text) == _is_taken(text)


@pytest.mark.skipif(sys.platform != "linux", reason="names of C++ functions are those of Linux")
@pytest.mark.parametrize(
    "text",
    [
        "4",
        "1",
        "[256:1,512:2,1024:4,>:8]",
        "[64:8,>:1]",
        "[4:2,64:8]",
        "[512:2,4:8,>:1]",
        "[>:4]",
        "[131072:4]",
        "[1:0,2:16]",
    ],
)
def test_divisions_are_those_that_pytorch_reads(text: str) -> None:
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    if not hasattr(library, _DIVISIONS):
        pytest.skip("another version of PyTorch")
    read = getattr(library, _DIVISIONS)
    read.argtypes, read.restype = [ctypes.c_size_t], ctypes.c_size_t
    setting = f"roundup_power2_divisions:{text}"
    assert _is_taken(setting)
    expected = tuple(read(1 << power) for power in range(20, 36))
    assert CachingSettings.parse(setting).roundup_power2_divisions == expected
