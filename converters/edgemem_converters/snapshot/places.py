"""Where in a program an allocation came from: a line of the user's own code, from the stack that PyTorch noted."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from edgemem_converters.snapshot.fields import integer, mapping, rows, text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Places"]

_MOST_FRAMES: Final = 100  # of a stack that are looked at
_MOST_TEXT: Final = 200  # characters of a place
_LIBRARIES: Final = ("/torch/", "/site-packages/", "/dist-packages/")


class Places:
    """Numbers places as they come; equal ones have one number. `texts` are the places by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[object, int]] = {}  # of a list of frames, which is kept: its id is not used again

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def of(self, entry: Mapping[str | int, Any]) -> int:
        """The number of an entry's place; -1 without a stack."""
        frames = rows(entry.get("frames", []), "frames")
        if not frames:
            return -1
        if id(frames) not in self._known:
            place = _place([mapping(frame, "a frame") for frame in islice(frames, _MOST_FRAMES)])
            self._known[id(frames)] = frames, self._numbers.setdefault(place, len(self._numbers))
        return self._known[id(frames)][1]


def _place(frames: list[Mapping[str | int, Any]]) -> str:
    """The innermost Python line outside of libraries, or the innermost line at all: `train.py:12 forward`."""
    python = [frame for frame in frames if text(frame, "filename").endswith(".py")]
    own = [frame for frame in python if not any(part in text(frame, "filename") for part in _LIBRARIES)]
    frame = (own or python or frames)[0]
    name = text(frame, "filename").replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{integer(frame, 'line', 0)} {text(frame, 'name')}"[:_MOST_TEXT]
