"""The order of stages, which any pass that runs operators in stages keeps to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ordered_stages"]


class _Stage(Protocol):
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


_S = TypeVar("_S", bound=_Stage)


def ordered_stages(stages: Iterable[_S], count: int) -> tuple[_S, ...]:
    """Stages in the order of a graph of `count` operators; `first` and `last` are inclusive.

    Raises ModelError where they overlap or are not in the graph.
    """
    ordered = tuple(sorted(stages, key=lambda stage: stage.first))
    end = -1
    for stage in ordered:
        if not 0 <= stage.first <= stage.last < count:
            raise ModelError(f"stage {stage} is not in the graph, whose operators are 0 to {count - 1}")
        if stage.first <= end:
            raise ModelError(f"stage {stage} overlaps the one before it; an operator is in one stage at most")
        end = stage.last
    return ordered
