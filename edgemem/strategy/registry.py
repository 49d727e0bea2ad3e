"""The table of strategies: one entry a strategy, filled by the decorators below.

A strategy is a pure function of a `Problem` (and its options) to an int64 array: `offsets` bytes, or the object
index of every record with objects numbered in order of creation. One that can prove a bound returns `Found` instead.
Everything else (sizes, bounds, `optimal`) is computed from that, once, in edgemem.planning.solving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from edgemem.errors import PlanError, UnknownStrategyError
from edgemem.strategy.options import default_of, normal, values_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.plans import OptionValue
    from edgemem.records.problem import Problem
    from edgemem.strategy.options import Option


__all__ = ["REGISTRY", "Family", "Found", "Strategy", "offsets_strategy", "shared_objects_strategy"]

Family: TypeAlias = Literal["offsets", "shared_objects"]
Function: TypeAlias = Callable[..., "NDArray[np.int64] | Found"]
Registered = TypeVar("Registered", bound=Function)


@dataclass(frozen=True, slots=True)
class Found:
    """What a strategy found out.

    Attributes:
        values: int64 [n], the offsets or the object indices.
        bound: bytes (or texels) that it proved no plan can go below; None: it proved nothing.
        stopped: why it ended: "bound" (nothing smaller by the load), "proof", "work" or "time"; "" for a fixed rule.
        work: steps it took, 0 for a fixed rule.
    """

    values: NDArray[np.int64]
    bound: int | None = None
    stopped: str = ""
    work: int = 0


@dataclass(frozen=True, slots=True)
class Strategy:
    """A registered strategy.

    Attributes:
        name: unique within its family.
        family: which problem it solves.
        paper: where it is from, with the section.
        complexity: of the implementation, in n records (k objects).
        options: each option's choices, the default first, of which `auto` tries all; or a range of numbers.
        extra: the optional dependency it needs, or None.
        limit: `auto` leaves it out above this many records (None: never).
        auto: options that `auto` sets so, rather than trying them all.
        pins: it honours pinned offsets and reserved ranges; of a problem that has any, the other strategies for offsets
            make no plan.
    """

    name: str
    family: Family
    paper: str
    complexity: str
    options: Mapping[str, Option]
    extra: str | None
    limit: int | None
    auto: Mapping[str, OptionValue]
    pins: bool
    function: Function = field(repr=False, compare=False)

    def honours(self, problem: Problem) -> bool:
        """Whether its plans keep to what is pinned and reserved. Shared objects have no offsets to keep to."""
        return self.pins or self.family != "offsets" or not problem.constraints

    def solve(self, problem: Problem, **options: OptionValue) -> Found:
        """The strategy's answer, with whatever it proved.

        Raises PlanError for a problem with pinned offsets or reserved ranges that the strategy would not honour.
        """
        if not self.honours(problem):
            able = ", ".join(s.name for s in REGISTRY.values() if s.family == self.family and s.pins)
            raise PlanError(f"{self.name} cannot honour pinned offsets or reserved ranges; these can: {able}")
        found = self.function(problem, **options)
        return found if isinstance(found, Found) else Found(found)

    def run(self, problem: Problem, **options: OptionValue) -> NDArray[np.int64]:
        """The strategy's offsets or object indices."""
        return self.solve(problem, **options).values

    def variants(self) -> Iterator[dict[str, OptionValue]]:
        """Every combination of options that `auto` tries, the default first. Values equal to it are left out."""
        tried = [(self.auto[k],) if k in self.auto else values_of(option) for k, option in self.options.items()]
        for values in product(*tried):
            yield {
                name: value
                for (name, option), value in zip(self.options.items(), values, strict=True)
                if value is not None and value != default_of(option)
            }

    def check(self, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
        """The options, each in its type. Raises UnknownStrategyError for an option or value that is not registered."""
        checked = {}
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise UnknownStrategyError(f"{self.name} has no option {name!r}; it has: {known}")
            try:
                checked[name] = normal(self.options[name], value)
            except ValueError as e:
                raise UnknownStrategyError(f"{self.name}: {name} {e}") from None
        return checked


REGISTRY: dict[tuple[Family, str], Strategy] = {}


def _register(
    family: Family,
    name: str,
    *,
    paper: str,
    complexity: str,
    options: Mapping[str, Option] | None = None,
    extra: str | None = None,
    limit: int | None = None,
    auto: Mapping[str, OptionValue] | None = None,
    pins: bool = False,
) -> Callable[[Registered], Registered]:
    def decorate(function: Registered) -> Registered:
        if (family, name) in REGISTRY:
            raise ValueError(f"strategy {family}/{name} is registered twice")
        REGISTRY[family, name] = Strategy(
            name, family, paper, complexity, dict(options or {}), extra, limit, dict(auto or {}), pins, function
        )
        return function

    return decorate


def offsets_strategy(name: str, **about: Any) -> Callable[[Registered], Registered]:
    """Register a function `(problem, **options) -> offsets` (bytes, int64 [n], every record of size > 0 placed)."""
    return _register("offsets", name, **about)


def shared_objects_strategy(name: str, **about: Any) -> Callable[[Registered], Registered]:
    """Register a function `(problem, **options) -> assignment` (object index per record, int64 [n])."""
    return _register("shared_objects", name, **about)
