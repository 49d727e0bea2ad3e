"""The text and the order of stages, for any pass that runs operators in stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from edgemem.errors import ModelError

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

__all__ = ["ordered_stages", "stage_numbers"]


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


def stage_numbers(text: str, form: re.Pattern[str], refusal: str) -> Iterator[tuple[int, ...]]:
    """The numbers of each stage in a text that has a + between stages.

    Args:
        text: as the command line has it.
        form: of a stage, with a group for each number; an absent one is 1.
        refusal: says what a stage is, with `{part!r}` for what is none.

    Raises ModelError for a stage of another form.
    """
    for part in map(str.strip, text.split("+")):
        found = form.fullmatch(part)
        if found is None:
            raise ModelError(refusal.format(part=part))
        yield tuple(map(int, found.groups("1")))
