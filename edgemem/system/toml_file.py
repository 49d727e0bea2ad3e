"""TOML files that strangers may have made: as `tomllib` reads them, in time and memory in proportion to the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_toml"]

_MOST_BYTES: Final = 1 << 20
# tomllib keeps every beginning of a dotted key: a key of n parts takes n * n / 2 words.
_MOST_PARTS: Final = 16
# Comments and texts, in which dots mean nothing. One that does not end goes to the end of the file, or of its line.
_OPAQUE: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|' r"'''.*?(?:'''|\Z)|" r'"(?:\\.|[^"\\\n])*+"?|' r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_SIGNS: Final = re.compile(r"[\n,=\[\]{}]")


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file of at most 1 MiB, which may begin with a byte order mark.

    Raises OSError for what is no regular file or larger, and ValueError for what is no TOML, is nested too deep, or has
    a key of more than 16 parts.
    """
    import tomllib  # only for these files

    text = read_bounded(path, _MOST_BYTES).decode("utf-8-sig")
    if max(part.count(".") for part in _SIGNS.split(_OPAQUE.sub("_", text))) >= _MOST_PARTS:
        raise ValueError(f"a key in it has more than {_MOST_PARTS} parts; quote a name that has dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python reads no integer of thousands of digits
        raise ValueError("a number in it has more digits than any size") from None
