"""Settings of PyTorch's caching allocator, as PYTORCH_CUDA_ALLOC_CONF has them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

from edgemem.errors import ModelError

__all__ = ["CachingSettings"]

_MIB: Final = 1 << 20
_CLASSES: Final = 16  # powers of two from 1 MiB to 32 GiB
_ITEM: Final = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]*?)\s*(?:,|$)")
# What changes nothing about where requests lie.
_NO_MATTER: Final = ("pinned_", "release_lock_on_", "graph_capture_record_stream_reuse", "backend")


@dataclass(frozen=True, slots=True)
class CachingSettings:
    """How the allocator behaves; sizes in bytes. The defaults are PyTorch's.

    Attributes:
        large_segment_size: of segments for requests from 1 to 10 MiB, and of the pages by which expandable segments
            grow for all above 1 MiB.
        max_split_size: free blocks of this size and above are not split; None: all may be.
        max_non_split_rounding: a block that may not be split serves requests that leave less than this of it;
            None: `large_segment_size`.
        roundup_power2_divisions: requests are rounded up to this many equal steps between two powers of two; one number
            for each power of two from 1 MiB up (the first one for all smaller sizes, too, the last one for all larger
            sizes), 0 for none. () is 0 for all.
        expandable_segments: segments grow at their end.

    Raises ModelError for values that PyTorch refuses.
    """

    large_segment_size: int = 20 * _MIB
    max_split_size: int | None = None
    max_non_split_rounding: int | None = None
    roundup_power2_divisions: tuple[int, ...] = field(default=())
    expandable_segments: bool = False

    def __post_init__(self) -> None:
        sizes = {"max_split_size": self.max_split_size, "max_non_split_rounding": self.max_non_split_rounding}
        for name, size in sizes.items():
            if size is not None and size < self.large_segment_size:
                raise ModelError(f"{name} is {size}; give {self.large_segment_size} bytes (large_segment_size) or more")
        if self.large_segment_size <= 10 * _MIB or self.large_segment_size % _MIB:
            raise ModelError(f"large_segment_size is {self.large_segment_size}; give a multiple of 1 MiB above 10 MiB")
        divisions = self.roundup_power2_divisions
        if len(divisions) not in {0, _CLASSES} or any(d < 0 or d & (d - 1) for d in divisions):
            raise ModelError(
                f"roundup_power2_divisions are {divisions}; give {_CLASSES} numbers, each a power of two or 0"
            )

    @classmethod
    def parse(cls, text: str) -> CachingSettings:
        """Settings from the text of PYTORCH_CUDA_ALLOC_CONF, such as `max_split_size_mb:128,expandable_segments:True`.

        Options that change nothing about where requests lie while there is memory, such as those of pinned memory and
        of what is given back when there is none, are left out.

        Raises ModelError for text that PyTorch does not take, and for `backend:cudaMallocAsync`, which is another
        allocator.
        """
        values: dict[str, Any] = {}
        at = 0
        while at < len(text.rstrip()):
            item = _ITEM.match(text, at)
            if item is None:
                raise ModelError(f"allocator setting {text[at:]!r} is not NAME:VALUE[,NAME:VALUE...]")
            name, value = item.groups()
            at = item.end()
            try:
                values |= _setting(name, value)
            except ValueError as error:
                raise ModelError(f"allocator setting {name!r} cannot be {value!r}") from error
        return cls(**values)


def _setting(name: str, value: str) -> dict[str, Any]:
    if name in {"large_segment_size_mb", "max_split_size_mb", "max_non_split_rounding_mb"}:
        return {name.removesuffix("_mb"): int(value) * _MIB}
    if name == "garbage_collection_threshold" and 0 < float(value) < 1:
        return {}  # a share of the device's memory, which is without end here
    if name == "expandable_segments" and value in {"True", "False"}:
        return {name: value == "True"}
    if name == "roundup_power2_divisions":
        return {name: _divisions(value)}
    if name.startswith(_NO_MATTER) and (name != "backend" or value == "native"):
        return {}
    raise ModelError(f"allocator setting {name}:{value} cannot be simulated; leave it out")


def _divisions(value: str) -> tuple[int, ...]:
    """`4` for all powers, or `[256:1,512:2,>:4]`: a number for each power in MiB, and one for all above the last."""
    if not value.startswith("["):
        if int(value) < 1:
            raise ValueError(value)
        return (int(value),) * _CLASSES
    divisions = [0] * _CLASSES
    following = 1  # without any number before it, PyTorch leaves the first one out
    for number, part in enumerate(value[1:-1].split(",")):
        power, _, count = part.partition(":")
        if power.strip() == ">":
            divisions[following:] = [int(count)] * (_CLASSES - following)
            continue
        exponent = math.log2(int(power))
        if not exponent.is_integer():
            raise ValueError(power)
        at = min(int(exponent), _CLASSES - 1)
        if number == 0:
            divisions[:at] = [int(count)] * at
        divisions[at] = int(count)
        following = at + 1
    return tuple(divisions)
