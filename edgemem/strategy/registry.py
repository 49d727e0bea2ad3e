"""The table of strategies: one entry a strategy, filled by the decorators below.

A strategy is a pure function of a `Problem` (and its options) to an int64 array: `offsets` bytes, or the object
index of every record with objects numbered in order of creation. One that can prove a bound returns `Solution` instead.
Everything else (sizes, bounds, `optimal`) is computed from that, once, in edgemem.planning.strategy_plan.
`Strategy.solve` checks every call: before it, that the strategy honours what the problem asks for; after it, the form
of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from edgemem.errors import EdgememError, InvalidPlanError, PlanError, UnknownStrategyError
from edgemem.strategy.options import default_of, normal, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.plans import OptionValue
    from edgemem.records.problem import Feature, Problem
    from edgemem.strategy.options import Option

__all__ = ["REGISTRY", "Family", "Solution", "Strategy", "in_words", "offsets_strategy", "shared_objects_strategy"]

Family: TypeAlias = Literal["offsets", "shared_objects"]
Function: TypeAlias = Callable[..., "NDArray[np.int64] | Solution"]
Registered = TypeVar("Registered", bound=Function)

# What a strategy need not honour. A plan that makes no use of an overlap is right, only larger; shared objects have no
# offsets that could be pinned, reserved or nearer to each other.
_OPTIONAL: dict[Family, frozenset[Feature]] = {
    "offsets": frozenset({"overlap"}),
    "shared_objects": frozenset({"overlap", "pinned", "reserved"}),
}
_WORDS: dict[Feature, str] = {
    "pinned": "pinned offsets",
    "reserved": "reserved ranges",
    "overlap": "overlaps of inputs and results",
    "within": "records within others",
    "state": "states",
    "regions": "regions that records may lie in",
}


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer of a strategy.

    Attributes:
        values: int64 [n], the offsets or the object indices.
        bound: the lower bound that it proved, in bytes (or texels); None if it proved none.
        stopped: why it ended: "bound" (the plan is at the lower bound), "proof", "work" or "time"; "" for a fixed rule.
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
        paper: its source, with the section.
        complexity: of the implementation, in n records (k objects).
        options: each option's choices, the default first, or a range of numbers. `auto` tries all choices.
        extra: the optional dependency it needs, or None.
        limit: it takes long above this many records (None: for no number of them).
        auto: values that `auto` uses for these options instead of all choices; None: it leaves the strategy out.
        honours: the features of a problem (`Problem.features`) that its plans honour. Every strategy honours `state`,
            which only says in which interval a record is alive.
    """

    name: str
    family: Family
    paper: str
    complexity: str
    options: Mapping[str, Option]
    extra: str | None
    limit: int | None
    auto: Mapping[str, OptionValue] | None
    honours: frozenset[Feature]
    function: Function = field(repr=False, compare=False)

    @property
    def package(self) -> str:
        """The top-level package of its code, "edgemem" for built-in ones."""
        return self.function.__module__.partition(".")[0]

    def can_plan(self, problem: Problem) -> bool:
        """Whether it honours every feature of the problem that a plan must honour."""
        return not self._missing(problem)

    def solve(self, problem: Problem, **options: OptionValue) -> Solution:
        """The strategy's answer, with the lower bound it proved.

        A bound that a strategy proved without regard to overlaps does not hold with overlaps, and is left out.
        Raises PlanError for a problem with a feature that the strategy does not honour; names strategies that do.
        Raises PlanError for any error in a strategy of another package; names the package.
        Raises InvalidPlanError for a malformed answer: another length or type, a negative number, an arena beyond
        int64, or a record that is not where it is pinned.
        """
        missing = self._missing(problem)
        if missing:
            able = ", ".join(s.name for s in REGISTRY.values() if s.family == self.family and s.can_plan(problem))
            remedy = f"these can: {able}" if able else f"no other strategy for {self.family} can, either"
            raise PlanError(f"{self.name} cannot honour {in_words(missing)}; {remedy}")
        try:
            found = self.function(problem, **options)
        except Exception as e:
            if self.package == "edgemem" or isinstance(e, EdgememError):
                raise
            what = f"the strategy {self.name} of the package {self.package} failed: {type(e).__name__}: {e}"
            raise PlanError(f"{what}; use another strategy, and report this one") from e
        if not isinstance(found, Solution):
            found = Solution(found)
        fault = _fault(self.family, problem, found.values)
        if fault:
            raise InvalidPlanError(f"the strategy {self.name} gave {fault}; use another strategy, and report this one")
        if self.family == "offsets" and "overlap" in problem.features - self.honours:
            return Solution(found.values, None, found.stopped, found.work)
        return found

    def _missing(self, problem: Problem) -> frozenset[Feature]:
        optional = _OPTIONAL[self.family]
        if self.family == "offsets" and problem.needs_overlap:
            optional -= {"overlap"}
        return problem.features - optional - self.honours

    def variants(self) -> Iterator[dict[str, OptionValue]]:
        """Every combination of options that `auto` tries, the default first; of a strategy that it leaves out, all.

        Default values are left out.
        """
        fixed = self.auto or {}
        tried = [(fixed[k],) if k in fixed else values_of(option) for k, option in self.options.items()]
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


def in_words(features: Iterable[Feature]) -> str:
    """Features of a problem as a message says them, such as "pinned offsets or reserved ranges"."""
    return " or ".join(words for feature, words in _WORDS.items() if feature in features)


def _fault(family: Family, problem: Problem, values: object) -> str:
    """What is wrong with the form of an answer, or ""."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape != (len(problem),):
        return f"no int64 array of {len(problem)} numbers"
    if (values < 0).any():
        return f"the number {values.min()}"
    if family != "offsets" or not len(values):
        return ""
    if (values > np.iinfo(np.int64).max - problem.size).any():
        return "an arena beyond int64"
    if problem.pinned is not None:
        moved = (problem.pinned >= 0) & (problem.size > 0) & (values != problem.pinned)
        if moved.any():
            i = int(moved.argmax())
            return f"record {problem.names[i]!r} the offset {values[i]} instead of {problem.pinned[i]}"
    return ""


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
    honours: Iterable[Feature] = (),
) -> Callable[[Registered], Registered]:
    def decorate(function: Registered) -> Registered:
        if (family, name) in REGISTRY:
            raise ValueError(f"strategy {family}/{name} is registered twice")
        able: frozenset[Feature] = frozenset((*honours, "state"))
        REGISTRY[family, name] = Strategy(
            name, family, paper, complexity, dict(options or {}), extra, limit, auto, able, function
        )
        return function

    return decorate


def offsets_strategy(name: str, **about: Any) -> Callable[[Registered], Registered]:
    """Register a function `(problem, **options) -> offsets` (bytes, int64 [n], every record of size > 0 placed)."""
    return _register("offsets", name, **about)


def shared_objects_strategy(name: str, **about: Any) -> Callable[[Registered], Registered]:
    """Register a function `(problem, **options) -> assignment` (object index per record, int64 [n])."""
    return _register("shared_objects", name, **about)
