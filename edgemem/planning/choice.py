"""A strategy with its options, as a user names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnknownStrategyError
from edgemem.strategy.catalogue import find_strategies, known_names
from edgemem.strategy.options import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import OptionValue
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["Choice", "choices"]

_FAMILIES: Final[dict[str, Family | None]] = {"": None, "offsets": "offsets", "shared_objects": "shared_objects"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy with its options, as asked for."""

    strategy: Strategy
    options: Mapping[str, OptionValue] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.strategy.name}{f':{options}' if options else ''}"


def choices(text: str) -> tuple[Choice, ...]:
    """What `--strategy` names: `auto`, or `[FAMILY/]NAME[:OPTION=VALUE,...]` in every family that has the name.

    Returns () for `auto`. Raises UnknownStrategyError for a name or option that is not registered.
    """
    if text == "auto":
        return ()
    if text.rpartition("/")[2] == "auto":
        raise UnknownStrategyError(f"{text!r}: auto covers both families; name it alone, without others")
    name, _, tail = text.partition(":")
    family, _, bare = name.rpartition("/")
    if family not in _FAMILIES:
        raise UnknownStrategyError(f"{family!r} is no family; there are offsets and shared_objects")
    found = find_strategies(bare, _FAMILIES[family])
    if not found:
        known = ", ".join(known_names(family))
        raise UnknownStrategyError(f"no strategy {bare!r}; there are auto, {known}")
    given = dict(part.partition("=")[::2] for part in tail.split(",") if part)
    chosen = []
    for strategy in found:
        if not family and not given.keys() <= strategy.options.keys() and len(found) > 1:
            continue  # the options belong to the strategy of that name in the other family
        values = {k: parsed(strategy.options[k], v) if k in strategy.options else v for k, v in given.items()}
        chosen.append(Choice(strategy, strategy.check(values)))
    if not chosen:
        found[0].check(given)
    return tuple(chosen)
