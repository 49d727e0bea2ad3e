"""Cases that should not be: a file with the bytes, and a text beside it that says what happened."""

from __future__ import annotations

import hashlib
import re
import traceback
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Kind", "describe", "listed", "record"]

Kind: TypeAlias = Literal["foreign", "crash", "slow", "hang", "memory"]

_MOST_ALIKE: Final = 3  # cases kept of one sort
_SOURCES: Final = re.compile(r'File "[^"]*?((?:edgemem|edgemem_converters|tests/fuzz)/[^"]*)", line (\d+)')


def record(folder: Path, target: str, kind: Kind, detail: str, data: bytes) -> Path | None:
    """Keep a case; None if enough of its sort are kept. `detail` ends with a stack of Python where there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    sort = _sort(kind, detail)
    if len(list(folder.glob(f"{target}-{kind}-{sort}-*.txt"))) >= _MOST_ALIKE:
        return None
    case = folder / f"{target}-{kind}-{sort}-{hashlib.sha256(data).hexdigest()[:10]}"
    case.with_suffix(".bin").write_bytes(data)
    again = f"python -m tests.fuzz --target {target} --repeat {case.with_suffix('.bin')}"
    case.with_suffix(".txt").write_text(f"{kind}: {len(data)} bytes\n{again}\n\n{detail}\n", "utf-8", "replace")
    return case.with_suffix(".txt")


def listed(folder: Path, target: str) -> tuple[Path, ...]:
    """The texts of what is kept, one of each sort."""
    sorts = {path.stem.rpartition("-")[0]: path for path in sorted(folder.glob(f"{target}-*.txt"))}
    return tuple(sorts.values())


def describe(error: BaseException) -> str:
    """The error and where it came from."""
    return "".join(traceback.format_exception(error, limit=-12))


def _sort(kind: Kind, detail: str) -> str:
    """Equal for cases that fail in one way: by the lines of edgemem nearest to the failure, else by the last line."""
    places = _SOURCES.findall(detail)
    # Python prints the innermost frame last, and faulthandler, which writes of crashes, first.
    near = places[:2] if "most recent call first" in detail else places[-2:]
    last = re.sub(r"[0-9]+|'[^']*'", "", detail.strip().rpartition("\n")[2])[:60]
    text = f"{kind}{near}" if near else f"{kind}{last}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]
