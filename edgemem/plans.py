"""Plans: where every record lives. Immutable, and without any opinion on how they were found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import MissingDependencyError
from edgemem.model.profiles import KERNELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from edgemem.model.ranges import Dimension
    from edgemem.records.problem import Problem, Size
    from edgemem.targets import Target
    from edgemem.trace.cycle import Cycle
    from edgemem.trace.recording import Recording

__all__ = [
    "DEPENDS_ON_DATA",
    "LEFT_TO_RUNTIME",
    "LowerBounds",
    "OffsetPlan",
    "OptionValue",
    "Plan",
    "PlanSet",
    "SearchReport",
    "Settings",
    "SharedObjectsPlan",
]

OptionValue: TypeAlias = str | int | bool | float

# Why a tensor has no place where a file has offsets for some tensors only: TensorFlow Lite Micro places the others.
LEFT_TO_RUNTIME: Final = "the file leaves it to the runtime"

# How the reason begins why a tensor has no place whose size depends on the data. The operators follow in brackets.
DEPENDS_ON_DATA: Final = "of a size that depends on the data"


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """What no plan can go below: the arena in bytes, and the shared objects' total in bytes (or texels)."""

    offsets: int
    shared_objects: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for when the plans were made. A plan of a recording of the same model is made with the same.

    Attributes:
        strategies: as for `edgemem.plan`; ("auto",) tries those that are best somewhere.
        effort, seed, time_limit, threads: of the searches; None is each strategy's own default.
        alignment: of every offset in bytes; None is the target's.
    """

    strategies: tuple[str, ...] = ("auto",)
    effort: str | None = None
    seed: int | None = None
    time_limit: float | None = None
    threads: int | None = None
    alignment: int | None = None


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What a strategy proved on the way to its plan, and why it ended.

    Attributes:
        bound: bytes (or texels) that it proved no plan can go below.
        stopped: "bound" (its plan is at the lower bound), "proof" (at a better bound), "work" or "time".
        work: steps it took.
        seed: of its random choices; None if it makes none.
        claimed: it was read from a file, so that nothing in this process proved it.
    """

    bound: int
    stopped: str
    work: int
    seed: int | None = None
    claimed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OffsetPlan:
    """Offsets (Pisarchyk & Lee 2020, §5): record i is at `offsets[i]` bytes from the start of its region's arena.

    Attributes:
        offsets: int64 [n], bytes.
        size: bytes of the arena; of all regions' arenas together.
        optimal: whether its size equals a lower bound that was proved in this process.
        search: None for a fixed rule.
        regions: int64 [n], the region of each record; None: all are in region 0.
        region_sizes: bytes of each region's arena; () stands for (size,).
        cost_bound: what the bytes that operators move cost in any plan in the target's regions, or more, as proved in
            this process; None where there is one region, or the plan comes from a file.
    """

    strategy: str
    options: Mapping[str, OptionValue]
    offsets: NDArray[np.int64]
    size: int
    optimal: bool
    search: SearchReport | None = None
    regions: NDArray[np.int64] | None = None
    region_sizes: tuple[int, ...] = ()
    cost_bound: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SharedObjectsPlan:
    """Shared objects (Pisarchyk & Lee 2020, §4): record i lives alone in object `assignment[i]` while it is used.

    `objects` holds each object's size in bytes, or its extent in texels; `size` is their total in bytes or texels.
    `optimal` and `search` are as for `OffsetPlan`.
    """

    strategy: str
    options: Mapping[str, OptionValue]
    assignment: NDArray[np.int64]
    objects: tuple[Size, ...]
    size: int
    optimal: bool
    search: SearchReport | None = None


Plan: TypeAlias = OffsetPlan | SharedObjectsPlan


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PlanSet:
    """Every plan made for one problem, with all that is needed to prove and to use them.

    Attributes:
        problem: the usage records.
        naive: bytes (or texels) without any sharing.
        bounds: what no plan can go below, by the sizes alive together; the proof computes them again. A search of this
            process may have proved more (`proved`), and a file may say that one did (`claimed`).
        offsets, shared_objects: the plans, in the order they were made; empty if the family was not asked for.
        target: the rules they were made for; None for plain usage records.
        digest: of the graph they belong to; "" for plain usage records.
        steps: the operator at each op index; () for plain usage records.
        unplanned: (tensor, reason) for what has no place in the plan.
        order: the graph's operators in the order planned for, or None for the file's own order.
        dims, input_shapes: what the user bound the model's symbols and inputs to, and the sizes that stand in a file
            which leaves them open.
        versions: of edgemem and of whatever else the plan depends on, such as the library of a kernel profile.
        settings: what the user asked for.
        recording: the recorded stream that this is a plan of; None for a plan of a graph or of plain usage records.
        ranges: symbols for which the plan holds at other values than those in `dims`, which are the highest.
        cycle: the period of a training program that this is a plan of; None for all other plans.
    """

    problem: Problem
    naive: int
    bounds: LowerBounds
    offsets: tuple[OffsetPlan, ...]
    shared_objects: tuple[SharedObjectsPlan, ...]
    target: Target | None = None
    digest: str = ""
    steps: tuple[str, ...] = ()
    unplanned: tuple[tuple[str, str], ...] = ()
    order: tuple[int, ...] | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()
    recording: Recording | None = None
    ranges: Mapping[str, Dimension] = field(default_factory=dict)
    cycle: Cycle | None = None

    def __repr__(self) -> str:
        """The records, the bound and the best plans, in one line."""
        best = [
            f"{name}={plan.strategy}:{plan.size}"
            for name, plan in (("offsets", self.best_offsets), ("shared_objects", self.best_shared_objects))
            if plan is not None
        ]
        target = f"target={self.target.name!r}, " if self.target is not None else ""
        of = f"{target}records={len(self.problem)}, lower_bound={self.proved.offsets}"
        return f"PlanSet({', '.join([of, *best])}, plans={len(self.plans)})"

    def _repr_html_(self) -> str:
        """For notebooks: the answer, a picture of the arena, and the smallest plans."""
        from edgemem.notebook.card import html_card, html_table, svg_map  # sessions need none of it

        best, problem = self.best_offsets, self.problem
        unit = "bytes" if problem.extents is None else "texels"
        shared = self.best_shared_objects
        facts = [
            *([("arena", f"{best.size:,} {unit}, {best.strategy}")] if best is not None else []),
            *([("shared objects", f"{shared.size:,} {unit}, {shared.strategy}")] if shared is not None else []),
            ("lower bound", f"{self.proved.offsets if best is not None else self.proved.shared_objects:,}"),
            ("without sharing", f"{self.naive:,}"),
            ("records", f"{len(problem):,}"),
        ]
        drawn = ""
        if best is not None and problem.extents is None and not self.has_regions:
            columns = (problem.names, problem.first_op, problem.last_op, best.offsets, problem.size)
            rows = [(str(n), int(f), int(last), int(o), int(s)) for n, f, last, o, s in zip(*columns, strict=True)]
            steps = int(problem.last_op.max(initial=-1)) + 1
            drawn = svg_map(rows, steps, best.size, self.proved.offsets)
        listed = [
            (plan.strategy, f"{plan.size:,}", "optimal" if plan.optimal else "")
            for plan in sorted(self.plans, key=lambda plan: plan.size)[:6]
        ]
        title = f"Plan for {self.target.name}" if self.target is not None else "Plan of usage records"
        return html_card(title, facts, drawn, html_table(("strategy", unit, ""), listed))

    def to_frame(self) -> pd.DataFrame:
        """The records as a table of pandas, a row each.

        Columns: `name`, `first_op` and `last_op` (inclusive), `size` in bytes or texels, `kind`, `tensors`, and where
        there are such plans `offset` (bytes) and `shared_object` (index) of the smallest ones.

        Raises MissingDependencyError without pandas.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingDependencyError("pandas", purpose="a plan as a table") from None
        problem = self.problem
        columns: dict[str, object] = {
            "name": pd.Series(problem.names, dtype=object),  # strings of Arrow hold no lone surrogates
            "first_op": problem.first_op,
            "last_op": problem.last_op,
            "size": problem.size,
            "kind": [r.kind for r in problem.records],
            "tensors": [r.tensors or (r.name,) for r in problem.records],
        }
        if self.best_offsets is not None:
            columns["offset"] = self.best_offsets.offsets
        if self.best_shared_objects is not None:
            columns["shared_object"] = self.best_shared_objects.assignment
        return pd.DataFrame(columns)

    @property
    def proved(self) -> LowerBounds:
        """The best lower bounds that were proved in this process."""
        return LowerBounds(
            _most(self.bounds.offsets, self.offsets), _most(self.bounds.shared_objects, self.shared_objects)
        )

    @property
    def claimed(self) -> LowerBounds:
        """`proved`, or more where the file that the plans come from says that a search proved more."""
        return LowerBounds(
            _most(self.bounds.offsets, self.offsets, claimed=True),
            _most(self.bounds.shared_objects, self.shared_objects, claimed=True),
        )

    @property
    def kernels(self) -> str:
        """For people: the kernel profile, with the version of the library that it is a claim about; "" for none."""
        if self.target is None or self.target.kernels == "none":
            return ""
        return f"{self.target.kernels} ({self.versions.get(KERNELS, 'of a version that the plan does not name')})"

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of both families, offsets first."""
        return (*self.offsets, *self.shared_objects)

    @property
    def best_offsets(self) -> OffsetPlan | None:
        """The smallest arena; the one made first on ties."""
        return min(self.offsets, key=lambda p: p.size, default=None)

    @property
    def has_regions(self) -> bool:
        """Whether the smallest arena lies in more than one region."""
        best = self.best_offsets
        if best is None or best.regions is None:
            return False
        used = best.regions[self.problem.size > 0]
        return bool((used != used[:1]).any())

    @property
    def best_shared_objects(self) -> SharedObjectsPlan | None:
        """The smallest total of objects; the one made first on ties."""
        return min(self.shared_objects, key=lambda p: p.size, default=None)


def _most(bound: int, plans: Iterable[Plan], *, claimed: bool = False) -> int:
    return max([bound, *(p.search.bound for p in plans if p.search and (claimed or not p.search.claimed))])
