"""What a plan says of a model's memory, as plain rows: what reports, differences and traces are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Literal

from edgemem.errors import UnsupportedError
from edgemem.model.macs import macs_of
from edgemem.model.steps import steps_of
from edgemem.plans import OffsetPlan
from edgemem.report.peak import find_peak
from edgemem.report.plan_text import strategy_text, subject_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph, Tensor
    from edgemem.model.steps import Step
    from edgemem.plans import Plan, PlanSet
    from edgemem.report.recorded_memory import RecordedMemory

__all__ = [
    "MemoryOperator",
    "MemoryRecord",
    "MemoryTensor",
    "PlanRow",
    "PlannedMemory",
    "planned_memory",
    "planned_steps",
]


@dataclass(frozen=True, slots=True)
class MemoryTensor:
    """A value that is no constant.

    Attributes:
        name: as in the model.
        dtype: of its elements; "" where no graph says it.
        shape: dimensions; () is a scalar, or not known.
        record: index of the record that it lies in; -1 where it is not in the plan.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    record: int = -1


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A usage record, and where the smallest plans place it.

    Attributes:
        name: of its first tensor, or of the workspace.
        first, last: operators, inclusive.
        size: bytes or texels.
        kind: as for `UsageRecord`.
        offset: bytes from the start of the arena; -1 without an offset plan.
        shared_object: index of the shared object; -1 without such a plan.
        region: index of the region that `offset` is in.
    """

    name: str
    first: int
    last: int
    size: int
    kind: str = "tensor"
    offset: int = -1
    shared_object: int = -1
    region: int = 0


@dataclass(frozen=True, slots=True)
class MemoryOperator:
    """What runs at one step.

    Attributes:
        label: its name with the path through the bodies that it is in.
        type: such as `Conv`; "" where no graph says it.
        reads, writes: indices of tensors.
        weights: bytes of the constants that it reads.
        macs: multiply-accumulate operations.
    """

    label: str
    type: str = ""
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    weights: int = 0
    macs: int = 0


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One of the plans that were made.

    Attributes:
        family: `offsets` or `shared_objects`.
        strategy: its name and options.
        size: bytes or texels.
        is_optimal: nothing smaller exists, as this process proved.
        stopped: why its search ended; "" for a fixed rule.
    """

    family: str
    strategy: str
    size: int
    is_optimal: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """The memory of one model (or of plain usage records) in its smallest plans.

    Attributes:
        name: of the file.
        subject: what was planned: `graph under TARGET`, `recording of RUNTIME VERSION` or `usage records`.
        target: name of the target; "" for usage records.
        digest: of the graph; "" for usage records.
        unit: of all sizes: `bytes` or `texels`.
        strategy: that of the plan whose size is `arena`.
        arena: size of the smallest offset plan, or of the shared objects where there is no other.
        objects: size of each shared object of the smallest such plan; () without one.
        lower_bound: what no plan can go below, as far as it is proved.
        naive: without sharing.
        tail: bytes of TensorFlow Lite Micro's arena besides, as predicted for the target's device;
            0 for other runtimes.
        whole: bytes of all of TensorFlow Lite Micro's arena as predicted: also what it takes to prepare the model, and
            rounding; 0 for other runtimes.
        peak_op: index of the first operator with the most alive.
        peak: the sum of what is alive there.
        operators, tensors, records, plans: rows.
        recorded: what a session takes of the recorded plans beside this one; None without any.
        unplanned: (tensor, reason) for what has no place.
        kernels: kernel profile and library that the plan is a claim about; "" for any.
        versions: of edgemem and what else the plan depends on.
    """

    name: str
    subject: str
    target: str
    digest: str
    unit: str
    strategy: str
    arena: int
    lower_bound: int
    naive: int
    peak_op: int
    peak: int
    operators: tuple[MemoryOperator, ...]
    tensors: tuple[MemoryTensor, ...]
    records: tuple[MemoryRecord, ...]
    plans: tuple[PlanRow, ...] = ()
    objects: tuple[int, ...] = ()
    tail: int = 0
    whole: int = 0
    recorded: RecordedMemory | None = None
    unplanned: tuple[tuple[str, str], ...] = ()
    kernels: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """What the runtime needs: of recorded plans the arena and the results, else `planned`."""
        return self.planned if self.recorded is None else self.recorded.session

    @property
    def counts(self) -> Literal["session", "plan"]:
        """What `memory` is of."""
        return "plan" if self.recorded is None else "session"

    @property
    def planned(self) -> int:
        """What this plan needs, as far as it is known: arena and tail, or what it takes to prepare the model."""
        return max(self.arena + self.tail, self.whole)

    @property
    def workspace(self) -> int:
        """The most workspace of kernels at one operator that is in the plan."""
        sizes: dict[int, int] = {}
        for record in self.records:
            if record.kind == "scratch":
                sizes[record.first] = sizes.get(record.first, 0) + record.size
        return max(sizes.values(), default=0)

    @property
    def is_optimal(self) -> bool:
        """Whether nothing smaller than `arena` exists."""
        return self.arena == self.lower_bound

    @property
    def steps(self) -> int:
        """Operators, or moments of usage records: one more than the last at which anything is alive."""
        return max(len(self.operators), max((r.last for r in self.records), default=-1) + 1)

    def label(self, op: int) -> str:
        """The operator's label, or "op N" where operators have no names."""
        return self.operators[op].label if 0 <= op < len(self.operators) else f"op {op}"

    def alive_at(self, op: int) -> list[MemoryRecord]:
        """The records that are alive at an operator, the largest first."""
        alive = [r for r in self.records if r.first <= op <= r.last and r.size]
        return sorted(alive, key=lambda r: -r.size)


def planned_memory(
    planset: PlanSet,
    graph: Graph | None = None,
    *,
    name: str = "model",
    tail: int = 0,
    whole: int = 0,
    recorded: RecordedMemory | None = None,
) -> PlannedMemory:
    """The rows of a plan set.

    Args:
        planset: proved plans.
        graph: what they are for, as `planning.verification.graph_for` gives it. With it operators have types, tensors
            and costs, and tensors have shapes.
        name: of the file, for people.
        tail: bytes of TensorFlow Lite Micro's arena besides.
        whole: bytes of all of that arena.
        recorded: what a session takes of the recorded plans beside this one.
    """
    offsets, shared = planset.best_offsets, planset.best_shared_objects
    texels = planset.problem.extents is not None
    main = shared if offsets is None or (texels and shared is not None) else offsets
    tensors, operators = _tensors_and_operators(planset, planned_steps(planset, graph) if graph else ())
    peak = find_peak(planset)
    return PlannedMemory(
        name=name,
        subject=subject_of(planset),
        target=planset.target.name if planset.target else "",
        digest=planset.digest,
        unit="texels" if texels else "bytes",
        strategy=strategy_text(main) if main else "",
        arena=main.size if main else 0,
        lower_bound=planset.proved.offsets if isinstance(main, OffsetPlan) else planset.proved.shared_objects,
        naive=planset.naive,
        peak_op=peak.op,
        peak=peak.size,
        operators=operators,
        tensors=tensors,
        records=_records(planset, offsets),
        plans=tuple(_plan_row(plan) for plan in planset.plans),
        objects=tuple(_area(size) for size in shared.objects) if shared else (),
        tail=tail,
        whole=whole,
        recorded=recorded,
        unplanned=planset.unplanned,
        kernels=planset.kernels,
        versions=dict(planset.versions),
    )


def planned_steps(planset: PlanSet, graph: Graph) -> tuple[Step, ...]:
    """The operators of a plan's graph as `PlannedMemory.operators` has them."""
    return steps_of(graph, bodies=planset.target is None or planset.target.bodies == "inline")


def _plan_row(plan: Plan) -> PlanRow:
    family = "offsets" if isinstance(plan, OffsetPlan) else "shared_objects"
    return PlanRow(family, strategy_text(plan), plan.size, plan.optimal, plan.search.stopped if plan.search else "")


def _area(size: int | tuple[int, ...]) -> int:
    return size if isinstance(size, int) else prod(size)


def _records(planset: PlanSet, offsets: OffsetPlan | None) -> tuple[MemoryRecord, ...]:
    problem, shared = planset.problem, planset.best_shared_objects
    count = len(problem)
    nowhere = [-1] * count
    columns = (
        problem.names,
        problem.first_op.tolist(),
        problem.last_op.tolist(),
        problem.size.tolist(),
        [r.kind for r in problem.records],
        offsets.offsets.tolist() if offsets else nowhere,
        shared.assignment.tolist() if shared else nowhere,
        offsets.regions.tolist() if offsets and offsets.regions is not None else [0] * count,
    )
    return tuple(MemoryRecord(*row) for row in zip(*columns, strict=True))


def _tensors_and_operators(
    planset: PlanSet, steps: Sequence[Step]
) -> tuple[tuple[MemoryTensor, ...], tuple[MemoryOperator, ...]]:
    """All tensors that are no constants, and the operators over them."""
    of_record = {t: i for i, r in enumerate(planset.problem.records) if r.kind != "scratch" for t in r.tensors}
    known: dict[str, Tensor] = {}
    for graph in {id(step.graph): step.graph for step in steps}.values():
        known |= {t.name: t for t in graph.tensors if t.kind not in ("captured", "constant")}
    names = [name for name in {**known, **of_record} if name]
    numbers = {name: k for k, name in enumerate(names)}
    tensors = tuple(
        MemoryTensor(name, known[name].dtype, known[name].shape, of_record.get(name, -1))
        if name in known
        else MemoryTensor(name, record=of_record[name])
        for name in names
    )
    if not steps:
        return tensors, tuple(MemoryOperator(label) for label in planset.steps)
    operators = []
    for step in steps:
        listed = step.graph.tensors
        constants = {i for i in step.op.inputs if i >= 0 and listed[i].kind == "constant"}
        operators.append(
            MemoryOperator(
                step.label,
                step.op.type,
                tuple(numbers[name] for name in step.reads if name in numbers),
                tuple(numbers[name] for name in step.writes if name in numbers),
                sum(_bytes(listed[i]) for i in constants),
                macs_of(step.graph, step.op),
            )
        )
    return tensors, tuple(operators)


def _bytes(tensor: Tensor) -> int:
    try:
        return tensor.size
    except UnsupportedError:
        return 0
