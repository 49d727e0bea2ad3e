"""What memory a run took and which plan it kept to: one report for all executors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from edgemem.report.plan_text import strategy_text, subject_of
from edgemem.report.sizes import ratio_text, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import Plan, PlanSet

__all__ = [
    "MemoryReport",
    "Origin",
    "Source",
    "as_data",
    "memory_line",
    "origin_of",
    "report_from",
]

Source: TypeAlias = Literal["file", "cache", "made now", "given", "runtime's own"]

_FROM: dict[Source, str] = {
    "file": "from the file",
    "cache": "from the cache",
    "made now": "made now",
    "given": "given by the caller",
    "runtime's own": "made by the runtime itself",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Which plan an executor ran.

    Attributes:
        source: where the plan came from: the model `file`, the plan `cache`, `made now` for this session, `given` by
            the caller, or the `runtime's own`.
        of: what it is a plan of: `graph under TARGET`, or `recording of RUNTIME VERSION`.
        strategy: the strategy that made it, with its options, such as `search effort=max`.
    """

    source: Source
    of: str
    strategy: str


@dataclass(frozen=True, slots=True, repr=False)
class MemoryReport:
    """The memory of an executor's runs. Sizes are bytes.

    Attributes:
        executor: `replay`, `io-binding`, `litert`, `tflm`, ...
        mode: what it did, in one word: `record`, `replay`, `planned`, `plain`, ...
        origin: the plan it ran; None if it ran none.
        planned: the arena of that plan; 0 without a plan.
        lower_bound: what no plan of the same tensors or requests can go below; None if it is not known. Always a true
            lower bound of what `planned` holds.
        reserved: memory that is really reserved for the arena, or for all arenas.
        outside: the model's results that are not in the arena.
        reason: why (part of) the run was not inside the plan, or why a stored plan was not used; "" otherwise.
        details: further counts and sizes of this executor, by name.
    """

    executor: str
    mode: str
    origin: Origin | None = None
    planned: int = 0
    lower_bound: int | None = None
    reserved: int = 0
    outside: int = 0
    reason: str = ""
    details: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return memory_line(self)

    def __repr__(self) -> str:
        """The class and the line that says what a run took."""
        return f"{type(self).__name__}({self.executor}: {self})"

    def _repr_html_(self) -> str:
        """For notebooks: the sizes of the run, and which plan it kept to."""
        from edgemem.notebook.card import html_card  # its tables of HTML take 0.5 MiB of every process

        sizes = {"planned": self.planned, "lower bound": self.lower_bound, "reserved": self.reserved}
        sizes |= {"outside": self.outside, **self.details}
        facts = [(name, f"{size:,}") for name, size in sizes.items() if size]
        return html_card(f"{self.executor}: {self.mode}", [*facts, ("in words", str(self))])


def origin_of(planset: PlanSet, plan: Plan, source: Source) -> Origin:
    """The origin of a plan out of a plan set."""
    return Origin(source, subject_of(planset), strategy_text(plan))


def memory_line(report: MemoryReport) -> str:
    """One line that says the same.

    `arena 25.48 MiB (4.438x of the lower bound), naive, plan of the graph under generic, from the file`
    """
    bound = ""
    if report.lower_bound == report.planned:
        bound = " = lower bound"
    elif report.lower_bound:
        bound = f" ({ratio_text(report.planned, report.lower_bound)} of the lower bound)"
    arena = f"{'textures' if report.details.get('textures') else 'arena'} {size_text(report.planned)}{bound}"
    if report.origin is None:
        without = "no plan yet" if report.mode == "record" else f"no plan, {report.mode}"
        return ", ".join(filter(None, (f"{arena}, {report.mode}" if report.planned else without, report.reason)))
    made = f"plan of the {report.origin.of}, {_FROM[report.origin.source]}"
    left = "the last run was outside of it" if report.mode == "plain" else ""
    return ", ".join(filter(None, (arena, report.origin.strategy, made, left, report.reason)))


_Report = TypeVar("_Report", bound=MemoryReport)


def report_from(data: Mapping[str, Any], kind: type[_Report]) -> _Report:
    """The report of a class that `as_data` has written."""
    origin = data["origin"]
    return kind(**{**data, "origin": None if origin is None else Origin(**origin)})


def as_data(report: MemoryReport) -> dict[str, Any]:
    """The report as plain data for JSON."""
    return asdict(report)
