"""The fenced blocks of a Markdown page.

```LANGUAGE [FILE]            the first word says what the block is, the second one the file that it is saved as
```LANGUAGE no-ci: REASON     shown and not run
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Block", "blocks", "commands", "indented"]

_FENCE = re.compile(r"^( *)```(.*)$")
_LIST_ITEM = re.compile(r"^ *([-*+]|\d+[.)]) ")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        line: of its first line of text, counted from 1.
        language: the first word behind the fence, or "".
        file: the name that the text is saved under, or "".
        reason: why the block is not run, or "" for one that is.
        text: without the fences; ends with a line break unless it is empty.
    """

    line: int
    language: str
    file: str
    reason: str
    text: str


def blocks(page: str) -> tuple[Block, ...]:
    """The blocks in the text of a page, in order. Raises ValueError for a fence that is not closed."""
    found: list[Block] = []
    info, indent, begin = "", "", 0
    inside: list[str] | None = None
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if fence and not fence[2].strip():
                found.append(_block(begin, info, "".join(inside)))
                inside = None
            else:
                inside.append(line.removeprefix(indent) + "\n")
        elif fence:
            indent, info, begin, inside = fence[1], fence[2].strip(), number + 1, []
    if inside is not None:
        raise ValueError(f"the fence above line {begin} is not closed")
    return tuple(found)


def _block(line: int, info: str, text: str) -> Block:
    language, _, rest = info.partition(" ")
    mark, colon, reason = rest.partition("no-ci")
    if not colon:
        return Block(line, language, rest.strip(), "", text)
    return Block(line, language, mark.strip(), reason.removeprefix(":").strip() or "?", text)


def indented(page: str) -> tuple[int, ...]:
    """Numbers of the lines that Markdown shows as code because they are indented: nothing can say how to run them."""
    found: list[int] = []
    fenced = in_list = False
    before = ""
    for number, line in enumerate(page.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            if _LIST_ITEM.match(line):
                in_list = True
            elif line.strip() and not line.startswith(" "):
                in_list = False
            if not in_list and line.startswith("    ") and not before.strip():
                found.append(number)
        before = line
    return tuple(found)


def commands(text: str) -> list[str]:
    """The commands of a block of `sh`: its lines; one that ends in a backslash goes on in the next."""
    found: list[str] = []
    going_on = False
    for line in text.splitlines():
        if going_on:
            found[-1] += "\n" + line
        elif line.strip():
            found.append(line)
        going_on = line.endswith("\\")
    return found
