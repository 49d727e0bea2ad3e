"""One run of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.families import Family
    from edgemem.trace.recording import Signature

__all__ = ["Call"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Call(Generic[_Result]):
    """One run, which is done by calling this."""

    family: Family
    generation: int  # of the learner's plans, before one of them was chosen
    described: Callable[[], Signature]  # with the shapes of this run
    call: Callable[..., _Result]
    arguments: tuple[object, ...]

    def __call__(self) -> _Result:
        return self.call(*self.arguments)
