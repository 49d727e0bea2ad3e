"""Java class files without what an older D8 stumbles over.

javac 21 and later writes down the parameters that it adds itself, without names, in the attribute `MethodParameters`;
R8 3.3 ends with an error there. No code needs the attribute.

    magic, versions | constants | flags, class, super | interfaces | fields | methods | attributes
                                                                      ^ each: flags, name, type, attributes
"""

from __future__ import annotations

import struct
from typing import Final

from edgemem.errors import ToolError

__all__ = ["without_parameters"]

_MAGIC: Final = b"\xca\xfe\xba\xbe"
_UNWANTED: Final = b"MethodParameters"
_UTF8: Final = 1
_LARGE: Final = (5, 6)  # long and double take two places in the table of constants
# Bytes of a constant after its tag.
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}


def without_parameters(content: bytes) -> bytes:
    """The class without the attribute `MethodParameters` of its methods. Raises ToolError for what is no class file."""
    try:
        return _stripped(content)
    except (struct.error, IndexError, KeyError) as e:
        raise ToolError(f"javac wrote a class file that cannot be read ({e}); install another JDK") from e


def _stripped(content: bytes) -> bytes:
    if content[:4] != _MAGIC:
        raise ToolError("javac wrote a file that is no class file; install another JDK")
    unwanted, at = _constants(content)
    at += 6
    at += 2 + 2 * _u2(content, at)
    _, at = _members(content, at, frozenset())  # fields
    methods, after = _members(content, at, unwanted)
    return content[:at] + methods + content[after:]


def _constants(content: bytes) -> tuple[frozenset[int], int]:
    """The numbers of the constants that are the unwanted attribute's name, and where the table ends."""
    count, at, number = _u2(content, 8), 10, 1
    found = set()
    while number < count:
        tag = content[at]
        if tag == _UTF8:
            size = 2 + _u2(content, at + 1)
            if content[at + 3 : at + 1 + size] == _UNWANTED:
                found.add(number)
        else:
            size = _SIZES[tag]
        at += 1 + size
        number += 2 if tag in _LARGE else 1
    return frozenset(found), at


def _members(content: bytes, at: int, unwanted: frozenset[int]) -> tuple[bytes, int]:
    """A table of fields or methods without attributes of these names, and where the table ends in `content`."""
    parts = [content[at : at + 2]]
    count = _u2(content, at)
    at += 2
    for _ in range(count):
        head, kept = content[at : at + 6], []
        left = _u2(content, at + 6)
        at += 8
        for _ in range(left):
            name, size = struct.unpack_from(">HI", content, at)
            if name not in unwanted:
                kept.append(content[at : at + 6 + size])
            at += 6 + size
        parts += [head, struct.pack(">H", len(kept)), *kept]
    return b"".join(parts), at


def _u2(content: bytes, at: int) -> int:
    (number,) = struct.unpack_from(">H", content, at)
    return int(number)
