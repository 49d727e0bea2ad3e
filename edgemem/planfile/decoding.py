"""Bytes to plan sets. Proves that the contents are well-formed, not that the plans are right: `edgemem.verify` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from edgemem.errors import EdgememError, PlanFileError
from edgemem.planfile.columns import (
    read_codes,
    read_column,
    read_groups,
    read_map,
    read_strings,
    read_values,
    required,
    strings_of,
)
from edgemem.planfile.conditions import check_ascending, check_length, check_plansets
from edgemem.planfile.container import unwrap
from edgemem.planfile.reader import root
from edgemem.planfile.recordings import read_recording
from edgemem.planfile.schema import KINDS, PLAN_FILE, PLAN_SET, slots
from edgemem.planfile.versions import SEVERAL, least_version
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SearchReport, Settings, SharedObjectsPlan
from edgemem.records.problem import Problem, UsageRecord, region_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.ranges import Dimension
    from edgemem.planfile.reader import Table
    from edgemem.records.problem import Size
    from edgemem.targets import Target
    from edgemem.trace.cycle import Cycle

__all__ = ["decode", "decode_all"]


def decode(data: bytes) -> PlanSet:
    """The plan set that `encode` wrote. Of a file with several, the one of a graph, or the first if there is none.

    Raises PlanFileError as `decode_all`.
    """
    plansets = decode_all(data)
    return next((p for p in plansets if p.recording is None and p.cycle is None), plansets[0])


def decode_all(data: bytes) -> tuple[PlanSet, ...]:
    """The plan sets that `encode_all` wrote, in its order.

    One at least, and at most one with neither a recording nor a cycle.

    Safe for any bytes, also those made to do harm: it takes time and memory in proportion to them and raises nothing
    but PlanFileError. The plans it returns are complete and within range, and may still be wrong.
    """
    payload, version = unwrap(data)
    try:
        plansets = _plansets(payload, version)
        check_plansets(plansets)
    except EdgememError as e:  # also what records, targets and traces say of themselves
        raise PlanFileError(f"the plan file is malformed: {e}; plan again") from None
    least = least_version(plansets)
    if version != least:
        raise PlanFileError(f"the plan file has version {version}, but holds what version {least} is for; plan again")
    return plansets


def _plansets(payload: memoryview, version: int) -> tuple[PlanSet, ...]:
    if version < SEVERAL:
        return (_planset(root(payload, PLAN_SET, slots("PlanSet"))),)
    file = root(payload, PLAN_FILE, slots("PlanFile"))
    return tuple(_planset(table) for table in file.tables("plan_sets", slots("PlanSet")))


def _planset(table: Table) -> PlanSet:
    problem, rank = _problem(required(table.table("problem", slots("Problem")), "problem"))
    unplanned, reasons = read_strings(table, "unplanned"), read_strings(table, "unplanned_reasons")
    check_length("unplanned_reasons", len(reasons), len(unplanned))
    order = table.int64s("order")
    bounds = LowerBounds(table.integer("offsets_bound"), table.integer("shared_objects_bound"))
    recording, cycle = table.table("recording", slots("Recording")), table.table("cycle", slots("Cycle"))
    return PlanSet(
        problem=problem,
        naive=table.integer("naive"),
        bounds=bounds,
        offsets=tuple(_offset_plan(t, bounds.offsets) for t in table.tables("offsets", slots("OffsetPlan"))),
        shared_objects=tuple(
            _shared_objects_plan(t, rank, bounds.shared_objects)
            for t in table.tables("shared_objects", slots("SharedObjectsPlan"))
        ),
        target=_target(table),
        digest=table.string("digest") or "",
        steps=read_strings(table, "steps"),
        unplanned=tuple(zip(unplanned, reasons, strict=True)),
        order=None if order is None else tuple(order.tolist()),
        # Whether the values are of these types is among the conditions.
        dims=cast("dict[str, int]", read_values(table, "dims")),
        input_shapes=_input_shapes(table),
        versions=cast("dict[str, str]", read_values(table, "versions")),
        settings=_settings(table),
        recording=None if recording is None else read_recording(recording, problem),
        ranges=_ranges(table),
        cycle=None if cycle is None else _cycle(cycle),
    )


def _cycle(table: Table) -> Cycle:
    from edgemem.planfile.cycles import read_cycle  # only plans of training programs have one

    return read_cycle(table)


def _problem(table: Table) -> tuple[Problem, int]:
    """The records, and how many numbers make a size."""
    rank = table.integer("rank", 1)
    if rank not in (1, 2, 3):
        raise PlanFileError(f"sizes of rank {rank}; there are bytes (1), WxH (2) and WxHxD (3)")
    names = read_strings(table, "names")
    count = len(names)
    first, last, sizes = (read_column(table, name) for name in ("first_op", "last_op", "sizes"))
    check_length("first_op", len(first), count)
    check_length("last_op", len(last), count)
    check_length("sizes", len(sizes), count * rank)
    kinds = read_codes(table, "kinds", len(KINDS))
    check_length("kinds", len(kinds), count)
    tensors = read_groups(read_strings(table, "tensors"), table.int64s("tensor_ends"), "tensor_ends")
    if tensors:
        check_length("tensor_ends", len(tensors), count)
    pinned, reserved = table.int64s("pinned"), read_column(table, "reserved")
    if pinned is not None:
        check_length("pinned", len(pinned), count)
        if (pinned < -1).any() or not (pinned >= 0).any():
            raise PlanFileError("pinned has a negative offset, or none at all")
    masks, traffic = table.int64s("regions"), table.int64s("traffic")
    for name, column, most in (("regions", masks, 2**62), ("traffic", traffic, 2**63)):
        if column is not None:
            check_length(name, len(column), count)
            if (column < 0).any() or not column.any() or int(column.max()) >= most:
                raise PlanFileError(f"{name} has a number out of range, or 0 only")
    rows = zip(
        names,
        first.tolist(),
        last.tolist(),
        _sizes(sizes, rank),
        [KINDS[k] for k in kinds],
        tensors or [()] * count,
        [None] * count if pinned is None else [p if p >= 0 else None for p in pinned.tolist()],
        [()] * count if masks is None else [region_indices(mask) for mask in masks.tolist()],
        [0] * count if traffic is None else traffic.tolist(),
        strict=True,
    )
    records = [UsageRecord(*row) for row in rows]
    if len(reserved) % 2:
        raise PlanFileError("a reserved range has no end")
    ranges = tuple((low, high) for low, high in reserved.reshape(-1, 2).tolist())
    problem = Problem(
        records,
        alignment=table.integer("alignment", 1),
        reserved=ranges,
        overlap=_relation(table, "overlap"),
        within=_relation(table, "within"),
    )
    if problem.reserved != ranges:
        raise PlanFileError("the reserved ranges are not ascending multiples of the alignment, apart from each other")
    return problem, rank


def _relation(table: Table, name: str) -> NDArray[np.int64]:
    """Rows of three numbers; absent is none."""
    column = table.int64s(name)
    if column is None:
        return np.zeros((0, 3), np.int64)
    if not len(column) or len(column) % 3:
        raise PlanFileError(f"{name} is not rows of three numbers")
    return column.reshape(-1, 3)


# Only the lower bound, which the proof computes again, makes a plan in a file optimal: not the file's own flag, which
# may rest on what a search proved elsewhere.


def _offset_plan(table: Table, bound: int) -> OffsetPlan:
    size = table.integer("size")
    return OffsetPlan(
        required(table.string("strategy"), "strategy"),
        read_values(table, "options"),
        required(table.int64s("offsets"), "offsets"),
        size,
        size == bound,
        _search(table),
        table.int64s("regions"),
        tuple(read_column(table, "region_sizes").tolist()),
    )


def _shared_objects_plan(table: Table, rank: int, bound: int) -> SharedObjectsPlan:
    size = table.integer("size")
    sizes = required(table.int64s("objects"), "objects")
    if len(sizes) % rank:
        raise PlanFileError(f"{len(sizes)} numbers are not objects of rank {rank}")
    return SharedObjectsPlan(
        required(table.string("strategy"), "strategy"),
        read_values(table, "options"),
        required(table.int64s("assignment"), "assignment"),
        tuple(_sizes(sizes, rank)),
        size,
        size == bound,
        _search(table),
    )


def _search(table: Table) -> SearchReport | None:
    child = table.table("search", slots("Search"))
    if child is None:
        return None
    seed = child.integer("seed", -1)
    stopped = required(child.string("stopped"), "stopped")
    return SearchReport(
        child.integer("bound"), stopped, child.integer("work"), None if seed == -1 else seed, claimed=True
    )


def _target(table: Table) -> Target | None:
    fields = table.table("target", slots("Values"))
    regions = [read_map(t, "regions") for t in table.tables("regions", slots("Values"))]
    pins, states = read_values(table, "pins"), read_values(table, "states")
    if fields is None:
        if regions or pins or states:
            raise PlanFileError("regions, pins or states without a target")
        return None
    from edgemem.planfile.target import TargetMaps, target_from  # plans of recordings have no target

    return target_from(TargetMaps(read_map(fields, "target"), regions, pins, states))


def _input_shapes(table: Table) -> dict[str, tuple[int, ...]]:
    names = read_strings(table, "inputs")
    check_ascending("inputs", names)
    flat: tuple[int, ...] = tuple(read_column(table, "input_dims").tolist())
    shapes = read_groups(flat, table.int64s("input_ends"), "input_ends")
    check_length("input_ends", len(shapes), len(names))
    return dict(zip(names, shapes, strict=True))


def _ranges(table: Table) -> dict[str, Dimension]:
    values = read_values(table, "ranges")
    if not values:
        return {}
    from edgemem.model.ranges import Range, Sum, parse_dimension  # most plans have none

    ranges: dict[str, Dimension] = {}
    for name, text in values.items():
        made = parse_dimension(text) if isinstance(text, str) else text
        if not isinstance(made, Range | Sum) or str(made) != text:
            raise PlanFileError(f"the range of {name[:60]!r} is none")
        ranges[name] = made
    return ranges


def _settings(table: Table) -> Settings:
    child = table.table("settings", slots("Settings"))
    if child is None:
        return Settings()
    strategies = required(child.table("strategies", slots("Strings")), "strategies")
    seed, time_limit = child.integer("seed", -1), child.real("time_limit", -1.0)
    return Settings(
        strategies=strings_of(strategies, "strategies"),
        effort=child.string("effort"),
        seed=None if seed == -1 else seed,
        time_limit=None if time_limit == -1.0 else time_limit,
        threads=child.integer("threads") or None,
        alignment=child.integer("alignment") or None,
    )


def _sizes(flat: NDArray[np.int64], rank: int) -> list[Size]:
    return flat.tolist() if rank == 1 else [cast("Size", tuple(row)) for row in flat.reshape(-1, rank).tolist()]
