"""What must hold of plan sets in a file: complete, and within range. The reader and the writer ask for the same.

Nothing here says that a plan is right; `edgemem.verify` does.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.plans import OffsetPlan, OptionValue, Plan, PlanSet, SearchReport, Settings, SharedObjectsPlan
    from edgemem.trace.recording import Signature

__all__ = ["check_ascending", "check_length", "check_planset", "check_plansets"]


def check_plansets(plansets: Sequence[PlanSet]) -> None:
    """Raise PlanFileError unless these plan sets can be in one file."""
    if not plansets:
        raise PlanFileError("there are no plan sets")
    if sum(p.recording is None and p.cycle is None for p in plansets) > 1:
        raise PlanFileError("there are several plan sets without a recording or a cycle; a file holds one of a graph")
    keys = [p.recording.fingerprint.key for p in plansets if p.recording is not None]
    if len(set(keys)) != len(keys):
        raise PlanFileError("two recordings have the same fingerprint")
    for planset in plansets:
        check_planset(planset)


def check_planset(p: PlanSet) -> None:
    """Raise PlanFileError unless each part of the plan set is complete and within range."""
    _natural("naive", p.naive)
    _natural("offsets_bound", p.bounds.offsets)
    _natural("shared_objects_bound", p.bounds.shared_objects)
    rank = 1 if p.problem.extents is None else p.problem.extents.shape[1]
    for plan in p.offsets:
        _offset_plan(plan, len(p.problem))
    for shared in p.shared_objects:
        _shared_objects_plan(shared, len(p.problem), rank)
    last = int(p.problem.last_op.max(initial=-1))
    if p.steps and last >= len(p.steps):
        raise PlanFileError(f"{len(p.steps)} steps, but records until step {last}")
    _order(p.order)
    if any(type(v) is not int or v < 0 for v in p.dims.values()):
        raise PlanFileError("dims has a value that is no dimension")
    if p.ranges:
        from edgemem.model.ranges import resolve  # plans of recordings have none

        if resolve(p.dims, p.ranges, {}) != dict(p.dims):
            raise PlanFileError("dims is not the highest value of each range")
    if any(type(v) is not str for v in p.versions.values()):
        raise PlanFileError("versions has a value that is no text")
    _naturals("input_dims", (d for shape in p.input_shapes.values() for d in shape))
    _settings(p.settings)
    if p.recording is not None:
        if len(p.offsets) != 1 or p.shared_objects:
            raise PlanFileError("the plan of a recording is not one offset plan")
        _options("options", p.recording.fingerprint.options)
        _signature(p.recording.fingerprint.signature)
    if p.cycle is not None:
        from edgemem.planfile.cycle_conditions import check_cycle  # only plans of training programs have one

        if len(p.offsets) != 1 or p.shared_objects or p.recording is not None:
            raise PlanFileError("the plan of a cycle is not one offset plan")
        check_cycle(p.cycle, p.problem)


def _offset_plan(plan: OffsetPlan, count: int) -> None:
    check_length("offsets", len(plan.offsets), count)
    _not_negative("offsets", plan.offsets)
    _naturals("region_sizes", plan.region_sizes)
    if plan.regions is not None:
        check_length("regions", len(plan.regions), count)
        if (plan.regions < 0).any() or (plan.regions >= len(plan.region_sizes)).any():
            raise PlanFileError(f"a record is in a region that is none of the {len(plan.region_sizes)}")
    _plan(plan)


def _shared_objects_plan(plan: SharedObjectsPlan, count: int, rank: int) -> None:
    check_length("assignment", len(plan.assignment), count)
    rows = [o if isinstance(o, tuple) else (o,) for o in plan.objects]
    if any(len(row) != rank for row in rows):
        raise PlanFileError(f"an object of {plan.strategy} is not {('bytes', 'WxH', 'WxHxD')[rank - 1]}")
    _naturals("objects", (side for row in rows for side in row))
    if (plan.assignment < 0).any() or (plan.assignment >= len(rows)).any():
        raise PlanFileError(f"a record is assigned to an object that is none of the {len(rows)}")
    _plan(plan)


def _plan(plan: Plan) -> None:
    """What both families of plans have."""
    _natural("size", plan.size)
    _options("options", plan.options)
    if plan.search is not None:
        _search(plan.search)


def _search(report: SearchReport) -> None:
    _natural("bound", report.bound)
    _natural("work", report.work)
    if report.seed is not None and report.seed < 0:
        raise PlanFileError(f"the seed is {report.seed}")


def _options(name: str, options: Mapping[str, OptionValue]) -> None:
    for key, value in options.items():
        if isinstance(value, float) and not isfinite(value):
            raise PlanFileError(f"{key!r} in {name} is {value}")


def _order(order: tuple[int, ...] | None) -> None:
    if order is None:
        return
    seen = np.zeros(len(order), bool)
    if all(0 <= k < len(order) for k in order):
        seen[list(order)] = True
    if not seen.all():
        raise PlanFileError(f"the order is no permutation of {len(order)} operators")


def _settings(s: Settings) -> None:
    if s.seed is not None:
        _natural("seed of the settings", s.seed)
    if s.time_limit is not None and not (isfinite(s.time_limit) and s.time_limit >= 0):
        raise PlanFileError(f"time_limit is {s.time_limit}")
    if s.threads is not None and s.threads < 1:
        raise PlanFileError(f"threads is {s.threads}")
    if s.alignment is not None and (s.alignment < 1 or s.alignment & (s.alignment - 1)):
        raise PlanFileError(f"the alignment of the settings is {s.alignment}, which is no power of two")


def _signature(s: Signature) -> None:
    check_ascending("inputs of the signature", [name for name, _, _ in s.inputs])
    _naturals("dims of the signature", (d for _, _, shape in s.inputs for d in shape))


def _natural(name: str, value: int) -> None:
    if value < 0:
        raise PlanFileError(f"{name} is {value}")


def _naturals(name: str, values: Iterable[int]) -> None:
    least = min(values, default=0)
    if least < 0:
        raise PlanFileError(f"{name} has {least}")


def _not_negative(name: str, column: NDArray[np.int64]) -> None:
    if (column < 0).any():
        raise PlanFileError(f"{name} has {column.min()}")


def check_length(name: str, length: int, expected: int) -> None:
    if length != expected:
        raise PlanFileError(f"{name} has {length} entries instead of {expected}")


def check_ascending(name: str, keys: Sequence[str]) -> None:
    if any(a >= b for a, b in pairwise(keys)):
        raise PlanFileError(f"{name} are not distinct and ascending")
