"""Bytes to PlanSet. Proves that the contents are well-formed, not that the plans are right: `edgemem.verify` does."""

from __future__ import annotations

import re
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, TypeVar, cast, get_args

import numpy as np

from edgemem.errors import EdgememError, PlanFileError
from edgemem.planfile.container import unwrap
from edgemem.planfile.reader import Table, root
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SearchReport, SharedObjectsPlan
from edgemem.records.problem import Kind, Problem, UsageRecord
from edgemem.targets import from_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.plans import OptionValue
    from edgemem.records.problem import Size
    from edgemem.targets import Target

__all__ = ["IDENTIFIER", "KINDS", "SLOTS", "VALUE_TYPES", "decode", "least_version", "parse"]

IDENTIFIER = b"EMPL"
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the schema's order
VALUE_TYPES: tuple[type[OptionValue], ...] = (int, bool, str, float)

_Items = TypeVar("_Items", bytes, tuple[str, ...], tuple[int, ...])
_Value = TypeVar("_Value")

# The fields of plan.fbs, in its order.
SLOTS = {
    table: {name: slot for slot, name in enumerate(fields.split())}
    for table, fields in {
        "Strings": "text ends",
        "Values": "keys types integers texts reals",
        "Search": "bound stopped work seed",
        "Problem": "names first_op last_op rank sizes kinds tensors tensor_ends alignment pinned reserved",
        "OffsetPlan": "strategy options offsets size optimal search",
        "SharedObjectsPlan": "strategy options assignment objects size optimal search",
        "PlanSet": "problem naive offsets_bound shared_objects_bound offsets shared_objects target regions digest "
        "steps unplanned unplanned_reasons order dims inputs input_dims input_ends versions",
    }.items()
}


def decode(data: bytes) -> PlanSet:
    """The plans that `encode` wrote.

    Safe for any bytes, also those made to do harm: it takes time and memory in proportion to them and raises nothing
    but PlanFileError. The plans it returns are complete and within range, and may still be wrong.
    """
    payload, version = unwrap(data)
    try:
        planset = parse(payload)
    except PlanFileError as e:
        raise PlanFileError(f"the plan file is malformed: {e}; plan again") from None
    least = least_version(planset)
    if version != least:
        raise PlanFileError(f"the plan file has version {version}, but holds what version {least} is for; plan again")
    return planset


def least_version(planset: PlanSet) -> int:
    """The first version of the format that can say all of this; a file has no other."""
    if planset.problem.constraints or (planset.target and planset.target.region.reserved):
        return 3
    return 2 if any(isinstance(v, float) for plan in planset.plans for v in plan.options.values()) else 1


def parse(payload: memoryview) -> PlanSet:
    """The plans in a FlatBuffer without its header. Raises PlanFileError saying what is not well-formed."""
    try:
        return _planset(root(payload, IDENTIFIER, SLOTS["PlanSet"]))
    except EdgememError as e:  # also what records and targets say of themselves
        raise PlanFileError(str(e)) from None


def _planset(table: Table) -> PlanSet:
    problem, rank = _problem(_required(table.table("problem", SLOTS["Problem"]), "problem"))
    offsets = tuple(_offset_plan(t, len(problem)) for t in table.tables("offsets", SLOTS["OffsetPlan"]))
    objects = tuple(
        _shared_objects_plan(t, len(problem), rank) for t in table.tables("shared_objects", SLOTS["SharedObjectsPlan"])
    )
    steps = _strings(table, "steps")
    if steps and int(problem.last_op.max(initial=-1)) >= len(steps):
        raise PlanFileError(f"{len(steps)} steps, but records until step {problem.last_op.max()}")
    unplanned, reasons = _strings(table, "unplanned"), _strings(table, "unplanned_reasons")
    _same_length("unplanned_reasons", len(reasons), len(unplanned))
    return PlanSet(
        problem=problem,
        naive=_natural(table, "naive"),
        bounds=LowerBounds(_natural(table, "offsets_bound"), _natural(table, "shared_objects_bound")),
        offsets=offsets,
        shared_objects=objects,
        target=_target(table),
        digest=table.string("digest") or "",
        steps=steps,
        unplanned=tuple(zip(unplanned, reasons, strict=True)),
        order=_order(table),
        dims=_dims(table),
        input_shapes=_input_shapes(table),
        versions=_versions(table),
    )


def _problem(table: Table) -> tuple[Problem, int]:
    """The records, and how many numbers make a size."""
    rank = table.integer("rank", 1)
    if rank not in (1, 2, 3):
        raise PlanFileError(f"sizes of rank {rank}; there are bytes (1), WxH (2) and WxHxD (3)")
    names = _strings(table, "names")
    count = len(names)
    first, last, sizes = (_column(table, name) for name in ("first_op", "last_op", "sizes"))
    _same_length("first_op", len(first), count)
    _same_length("last_op", len(last), count)
    _same_length("sizes", len(sizes), count * rank)
    kinds = _codes(table, "kinds", len(KINDS))
    _same_length("kinds", len(kinds), count)
    tensors = _groups(_strings(table, "tensors"), table.int64s("tensor_ends"), "tensor_ends")
    if tensors:
        _same_length("tensor_ends", len(tensors), count)
    pinned, reserved = table.int64s("pinned"), _column(table, "reserved")
    if pinned is not None:
        _same_length("pinned", len(pinned), count)
        if (pinned < -1).any() or not (pinned >= 0).any():
            raise PlanFileError("pinned has a negative offset, or none at all")
    rows = zip(
        names,
        first.tolist(),
        last.tolist(),
        _sizes(sizes, rank),
        [KINDS[k] for k in kinds],
        tensors or [()] * count,
        [None] * count if pinned is None else [p if p >= 0 else None for p in pinned.tolist()],
        strict=True,
    )
    records = [UsageRecord(*row) for row in rows]
    if len(reserved) % 2:
        raise PlanFileError("a reserved range has no end")
    ranges = tuple((low, high) for low, high in reserved.reshape(-1, 2).tolist())
    problem = Problem(records, alignment=table.integer("alignment", 1), reserved=ranges)
    if problem.reserved != ranges:
        raise PlanFileError("the reserved ranges are not ascending multiples of the alignment, apart from each other")
    return problem, rank


def _offset_plan(table: Table, count: int) -> OffsetPlan:
    strategy = _required(table.string("strategy"), "strategy")
    offsets = _required(table.int64s("offsets"), "offsets")
    _same_length("offsets", len(offsets), count)
    _not_negative("offsets", offsets)
    size, optimal = _natural(table, "size"), table.boolean("optimal")
    return OffsetPlan(strategy, _values(table, "options"), offsets, size, optimal, _search(table))


def _search(table: Table) -> SearchReport | None:
    child = table.table("search", SLOTS["Search"])
    if child is None:
        return None
    stopped = _required(child.string("stopped"), "stopped")
    seed = child.integer("seed", -1)
    if seed < -1:
        raise PlanFileError(f"the seed is {seed}")
    return SearchReport(_natural(child, "bound"), stopped, _natural(child, "work"), None if seed == -1 else seed)


def _shared_objects_plan(table: Table, count: int, rank: int) -> SharedObjectsPlan:
    strategy = _required(table.string("strategy"), "strategy")
    assignment = _required(table.int64s("assignment"), "assignment")
    sizes = _required(table.int64s("objects"), "objects")
    _not_negative("objects", sizes)
    if len(sizes) % rank:
        raise PlanFileError(f"{len(sizes)} numbers are not objects of rank {rank}")
    _same_length("assignment", len(assignment), count)
    if (assignment < 0).any() or (assignment >= len(sizes) // rank).any():
        raise PlanFileError(f"a record is assigned to an object that is none of the {len(sizes) // rank}")
    return SharedObjectsPlan(
        strategy,
        _values(table, "options"),
        assignment,
        tuple(_sizes(sizes, rank)),
        _natural(table, "size"),
        table.boolean("optimal"),
        _search(table),
    )


def _target(table: Table) -> Target | None:
    fields = table.table("target", SLOTS["Values"])
    regions = [_entries(t, "regions") for t in table.tables("regions", SLOTS["Values"])]
    if fields is None:
        if regions:
            raise PlanFileError("regions without a target")
        return None
    # What `from_table` takes from TOML is wider than what `to_table` gives: sizes with units, names of any type.
    for region in regions:
        capacity, reserved = region.get("capacity", 0), region.get("reserved", "0..0")
        if type(region.get("name")) is not str or type(capacity) is not int or capacity < 0:
            raise PlanFileError("a region is not a name and a capacity in bytes")
        if type(reserved) is not str or not all(re.fullmatch(r"\d+\.\.\d+", r) for r in reserved.split(" ")):
            raise PlanFileError("what a region reserves is not ranges of bytes")
    lists = [{k: str(v).split(" ") if k == "reserved" else v for k, v in region.items()} for region in regions]
    values = _entries(fields, "target")
    if "name" not in values or "region" in values:
        raise PlanFileError("the target is not the attributes of one")
    return from_table({**values, "region": lists}, where="target")


def _order(table: Table) -> tuple[int, ...] | None:
    order = table.int64s("order")
    if order is None:
        return None
    seen = np.zeros(len(order), bool)
    if not ((order < 0) | (order >= len(order))).any():
        seen[order] = True
    if not seen.all():
        raise PlanFileError(f"the order is no permutation of {len(order)} operators")
    return tuple(order.tolist())


def _dims(table: Table) -> dict[str, int]:
    values = _values(table, "dims")
    if any(type(v) is not int or v < 0 for v in values.values()):
        raise PlanFileError("dims has a value that is no dimension")
    return cast("dict[str, int]", values)


def _versions(table: Table) -> dict[str, str]:
    values = _values(table, "versions")
    if any(type(v) is not str for v in values.values()):
        raise PlanFileError("versions has a value that is no text")
    return cast("dict[str, str]", values)


def _input_shapes(table: Table) -> dict[str, tuple[int, ...]]:
    names = _strings(table, "inputs")
    _ascending("inputs", names)
    dims = _column(table, "input_dims")
    _not_negative("input_dims", dims)
    flat: tuple[int, ...] = tuple(dims.tolist())
    shapes = _groups(flat, table.int64s("input_ends"), "input_ends")
    _same_length("input_ends", len(shapes), len(names))
    return dict(zip(names, shapes, strict=True))


def _values(table: Table, name: str) -> dict[str, OptionValue]:
    """A map; absent is empty."""
    child = table.table(name, SLOTS["Values"])
    return {} if child is None else _entries(child, name)


def _entries(table: Table, name: str) -> dict[str, OptionValue]:
    keys, texts = _strings(table, "keys"), _strings(table, "texts")
    types, integers = _codes(table, "types", len(VALUE_TYPES)), _column(table, "integers")
    reals = table.doubles("reals")
    if reals is None:
        reals = np.zeros(len(keys))
    for column in (types, integers, texts, reals):
        _same_length(f"a column of {name}", len(column), len(keys))
    _ascending(f"keys of {name}", keys)
    entries: dict[str, OptionValue] = {}
    for key, code, integer, text, real in zip(keys, types, integers.tolist(), texts, reals.tolist(), strict=True):
        kind = VALUE_TYPES[code]
        others = [v for v, kinds in ((integer, (int, bool)), (text, (str,)), (real, (float,))) if kind not in kinds]
        if any(others) or (kind is bool and integer not in (0, 1)):
            raise PlanFileError(f"{key!r} in {name} has a value of two types")
        if not isfinite(real):
            raise PlanFileError(f"{key!r} in {name} is {real}")
        entries[key] = text if kind is str else real if kind is float else kind(integer)
    return entries


def _strings(table: Table, name: str) -> tuple[str, ...]:
    """A column of strings; absent is empty."""
    child = table.table(name, SLOTS["Strings"])
    if child is None:
        return ()
    try:
        pieces = _groups(_required(child.octets("text"), "text"), child.int64s("ends"), f"ends of {name}")
        return tuple(str(piece, "utf-8") for piece in pieces)
    except UnicodeDecodeError as e:
        raise PlanFileError(f"{name} has a string that is not UTF-8: {e.reason}") from None


def _groups(items: _Items, ends: NDArray[np.int64] | None, name: str) -> list[_Items]:
    """The items cut at `ends`: group i is what lies before ends[i] and in no group before. Absent is no group."""
    cuts: list[int] = [] if ends is None else ends.tolist()
    bounds = [0, *cuts]
    if any(a > b for a, b in pairwise(bounds)) or bounds[-1] != len(items):
        raise PlanFileError(f"{name} do not cut {len(items)} items into consecutive pieces")
    return [items[a:b] for a, b in pairwise(bounds)]


def _codes(table: Table, name: str, count: int) -> bytes:
    codes = table.octets(name) or b""
    if codes and max(codes) >= count:
        raise PlanFileError(f"{name} has the code {max(codes)}; there are {count}")
    return codes


def _sizes(flat: NDArray[np.int64], rank: int) -> list[Size]:
    return flat.tolist() if rank == 1 else [cast("Size", tuple(row)) for row in flat.reshape(-1, rank).tolist()]


def _column(table: Table, name: str) -> NDArray[np.int64]:
    """A vector of int64; absent is empty."""
    column = table.int64s(name)
    return np.zeros(0, np.int64) if column is None else column


def _natural(table: Table, name: str) -> int:
    value = table.integer(name)
    if value < 0:
        raise PlanFileError(f"{name} is {value}")
    return value


def _not_negative(name: str, column: NDArray[np.int64]) -> None:
    if (column < 0).any():
        raise PlanFileError(f"{name} has {column.min()}")


def _same_length(name: str, length: int, expected: int) -> None:
    if length != expected:
        raise PlanFileError(f"{name} has {length} entries instead of {expected}")


def _ascending(name: str, keys: Sequence[str]) -> None:
    if any(a >= b for a, b in pairwise(keys)):
        raise PlanFileError(f"{name} are not distinct and ascending")


def _required(value: _Value | None, name: str) -> _Value:
    if value is None:
        raise PlanFileError(f"{name} is missing")
    return value
