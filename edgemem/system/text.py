"""Text of messages that stays short: joined names, long texts, values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["abbreviate", "count_text", "join_names", "short_repr", "without_name"]

_NAMED = 10
_CHARACTERS = 240  # three lines of a terminal
_REPR_CHARACTERS = 60


def join_names(items: Iterable[object], *, most: int = _NAMED, separator: str = ", ") -> str:
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


def abbreviate(text: str, *, most: int = 760) -> str:
    """A text, or its first two thirds and its end if it has more characters than that: nine lines of a terminal.

    The end of an error says what the user can do.
    """
    if len(text) <= most:
        return text
    first = most * 2 // 3
    return f"{text[:first]} ... {text[first + 5 - most :]}"


def count_text(number: int, total: int, failed: int) -> str:
    """How far work on several things is: `3 of 8, 1 failed`."""
    return f"{number} of {total}{f', {failed} failed' if failed else ''}"


def without_name(message: str, path: Path) -> str:
    """A message about a file for where its name stands already: without the name that the message begins with."""
    return message.removeprefix(f"{path}: ").removeprefix(f"{path.name}: ")


def short_repr(value: object) -> str:
    """The value as a message shows it: in one line, and cut off where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or what is nested as deep
        return "a value too long to show"
    return text if len(text) <= _REPR_CHARACTERS else f"{text[: _REPR_CHARACTERS - 3]}..."
