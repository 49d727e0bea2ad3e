"""Messages of a few lines: lists, of which a reader sees the beginning and the number of the rest, and long texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["abridged", "listed"]

_NAMED = 10
_CHARACTERS = 240  # three lines of a terminal


def listed(items: Iterable[object], *, most: int = _NAMED, separator: str = ", ") -> str:
    """The first items as text, and how many more there are: at most so many, and three lines of a terminal.

    One item is always there; its middle is left out if it alone is longer than that.
    """
    texts = [str(item) for item in items]
    shown: list[str] = []
    for text in texts[:most]:
        if shown and sum(map(len, shown)) + len(separator) * len(shown) + len(text) > _CHARACTERS:
            break
        shown.append(text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS // 2]}...{text[-_CHARACTERS // 2 :]}")
    more = f" and {len(texts) - len(shown)} more" if len(texts) > len(shown) else ""
    return separator.join(shown) + more


def abridged(text: str, *, most: int = 760) -> str:
    """A text, or its first two thirds and its end if it has more characters than that: nine lines of a terminal.

    The end of an error says what the user can do.
    """
    if len(text) <= most:
        return text
    first = most * 2 // 3
    return f"{text[:first]} ... {text[first + 5 - most :]}"
