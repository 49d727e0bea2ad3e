"""Usage records (Pisarchyk & Lee 2020, §3) and the problem they make.

`first_op` and `last_op` are inclusive operator indices: two records conflict when `max(first) <= min(last)`.
A size is bytes, or a texel extent (width, height[, depth]) for shared objects on textures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.columns import INT64_MAX, NumbersOf, ProblemColumns, int64_column
from edgemem.records.relations import check_overlap, check_within, relation_rows
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Constraints",
    "Extent",
    "Feature",
    "Kind",
    "Problem",
    "Size",
    "UsageRecord",
    "check_fixed_places",
    "region_indices",
]

Extent: TypeAlias = tuple[int, int] | tuple[int, int, int]
Size: TypeAlias = int | Extent
Kind: TypeAlias = Literal["tensor", "input", "output", "variable", "scratch", "state"]
Feature: TypeAlias = Literal["pinned", "reserved", "overlap", "within", "state", "regions"]

Rows: TypeAlias = "NDArray[np.int64] | Iterable[tuple[int, int, int]]"

MOST_ALIGNMENT = 2**62
MOST_REGIONS = 62  # a region is a bit of an int64


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One piece of memory and the operators during which it must stay untouched.

    Attributes:
        name: the tensor's name, or the first one's where several share the memory.
        first_op: index of the first operator that uses it (inclusive).
        last_op: index of the last operator that uses it (inclusive).
        size: bytes, or texels as (width, height[, depth]).
        kind: what it is to the model; `scratch` is an operator's own workspace, `state` keeps its bytes from run to
            run (a KV cache) and is alive for the whole run.
        tensors: names of all tensors that live in it (views and in-place results; input and output of a state).
        offset: bytes from the start of the arena where it must be, a multiple of the alignment; None: anywhere. Shared
            objects have no offsets and take no notice.
        regions: indices of the regions it may lie in, ascending; () is any.
        traffic: bytes that operators read and write in it in a run; what it costs where depends on the region.
    """

    name: str
    first_op: int
    last_op: int
    size: Size
    kind: Kind = "tensor"
    tensors: tuple[str, ...] = ()
    offset: int | None = None
    regions: tuple[int, ...] = ()
    traffic: int = 0


class Constraints(TypedDict, total=False):
    """`pinned` (int64 [n], -1 for free) and `reserved` (int64: begin, end, begin, end, ...), as kernels take them."""

    pinned: NDArray[np.int64]
    reserved: NDArray[np.int64]


class Problem(ProblemColumns):
    """Usage records as columns: what every strategy, bound and verifier works on.

    Attributes:
        first_op, last_op: int64 [n], inclusive.
        size: int64 [n], bytes; for texel extents their product (texels).
        extents: int64 [n, 2 or 3] texels, or None when sizes are bytes.
        alignment: every offset is a multiple of it; a power of two.
        pinned: int64 [n], the offset of each record that has a fixed one, -1 for the others; None if all are free. A
            pinned record is in the first region it may lie in.
        reserved: ranges of bytes, [begin, end), of the first region that no record may use at any time. They are
            widened to multiples of the alignment, and adjacent ones are joined; ascending. A record of size 0 is
            nowhere.
        given_reserved: the ranges as they were given.
        overlap: int64 [m, 3], rows (i, j, distance): record i is an input that dies in the operator that makes j; the
            two may be disjoint, or offset_i - offset_j >= distance. None without any.
        within: int64 [m, 3], rows (i, j, delta): record i lies inside j, offset_i == offset_j + delta, a multiple of
            the alignment. All that lie inside one record, by chains, hold parts of one value, and may share bytes with
            each other. None without any.
        regions: int64 [n], bit k is set where record i may lie in region k; 0 is any region. None if all may.
        traffic: int64 [n], as for `UsageRecord`; None if all are 0.
        roles: int64 [n], -1 for none: records of one role are the same tensor of different stripes. A search may try
            them at one offset; no plan has to, so it is no feature of the problem. None if no record has one.
        phases: int64 [n, 2], the phases of a program (such as the forward pass of a microbatch) in which a record
            begins and ends, -1 -1 for none. A hint as `roles` are. None if no record has one.

    `pinned`, `reserved` and the relations concern offsets only: shared objects are planned without them, and refuse
    `within`. The arrays are read-only. Raises ModelError for intervals that end before they begin, negative values, an
    alignment that is no power of two, and totals beyond int64; for a state that is not alive for the whole run; and
    for pins and relations that no plan can honour: no multiple of the alignment, in a reserved range, on each other
    while both are in use, or rows that do not say what an overlap or a container is (`edgemem.records.relations`).
    """

    __slots__ = ("_has_states", "_names", "_records")

    def __init__(
        self,
        records: Iterable[UsageRecord],
        *,
        alignment: int = 1,
        reserved: Iterable[tuple[int, int]] = (),
        overlap: Rows = (),
        within: Rows = (),
        roles: ArrayLike | None = None,
        phases: ArrayLike | None = None,
    ) -> None:
        rows = tuple(records)
        negative = next((r.name for r in rows if r.offset is not None and r.offset < 0), None)
        if negative is not None:
            raise ModelError(f"record {negative!r} has a negative offset")
        # Few records are of these, so that one pass over all of them is enough for most problems.
        special = [i for i, r in enumerate(rows) if r.kind == "state" or r.regions or r.traffic]
        self._names: tuple[str, ...] | None = None
        self._records: tuple[UsageRecord, ...] | None = rows
        self._fill(
            ([r.first_op for r in rows], [r.last_op for r in rows], [r.size for r in rows]),
            alignment,
            lambda i: rows[i].name,
            pinned=[-1 if r.offset is None else r.offset for r in rows],
            reserved=reserved,
            relations=(overlap, within),
            regions=[_mask(r) for r in rows] if any(rows[i].regions for i in special) else None,
            traffic=[r.traffic for r in rows] if any(rows[i].traffic for i in special) else None,
            hints=(roles, phases),
            states=[i for i in special if rows[i].kind == "state"],
        )

    @classmethod
    def from_arrays(
        cls,
        first_op: ArrayLike,
        last_op: ArrayLike,
        size: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        alignment: int = 1,
        pinned: ArrayLike | None = None,
        reserved: Iterable[tuple[int, int]] = (),
        overlap: Rows = (),
        within: Rows = (),
        regions: ArrayLike | None = None,
        traffic: ArrayLike | None = None,
        roles: ArrayLike | None = None,
        phases: ArrayLike | None = None,
    ) -> Problem:
        """A problem from columns: `size` is [n] bytes, or [n, 2 or 3] texels. Names default to the indices."""
        self = cls.__new__(cls)
        self._records = None
        self._names = None if names is None else tuple(names)
        self._fill(
            (first_op, last_op, size),
            alignment,
            lambda i: names[i] if names else str(i),
            pinned=pinned,
            reserved=reserved,
            relations=(overlap, within),
            regions=regions,
            traffic=traffic,
            hints=(roles, phases),
        )
        if self._names is not None and len(self._names) != len(self):
            raise ModelError(f"{len(self._names)} names for {len(self)} records")
        return self

    def aligned(self, alignment: int) -> Problem:
        """The same records at another alignment, around the ranges that were given as reserved."""
        relations = {"overlap": self.overlap, "within": self.within}
        given = {key: rows for key, rows in relations.items() if rows is not None}
        return Problem(
            self.records,
            alignment=alignment,
            reserved=self.given_reserved,
            roles=self.roles,
            phases=self.phases,
            **given,
        )

    def _fill(
        self,
        columns: tuple[ArrayLike, ArrayLike, ArrayLike],
        alignment: int,
        name: Callable[[int], str],
        *,
        pinned: ArrayLike | None,
        reserved: Iterable[tuple[int, int]],
        relations: tuple[Rows, Rows],
        regions: ArrayLike | None,
        traffic: ArrayLike | None,
        hints: tuple[ArrayLike | None, ArrayLike | None],
        states: Sequence[int] = (),
    ) -> None:
        if not 0 < alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
            raise ModelError(f"alignment {short_repr(alignment)} is not a power of two up to 2**62")
        try:
            self.first_op, self.last_op, sizes = map(int64_column, columns)
        except (OverflowError, ValueError, TypeError) as e:
            raise ModelError(f"usage records must be integers within int64, with extents of one rank: {e}") from None
        if sizes.size == 0:
            sizes = sizes.reshape(-1)
        if self.first_op.ndim != 1 or self.first_op.shape != self.last_op.shape or len(sizes) != len(self.first_op):
            raise ModelError("first_op, last_op and size differ in length")
        if sizes.ndim > 2 or (sizes.ndim == 2 and sizes.shape[1] not in (2, 3)):
            raise ModelError("a size is bytes, WxH or WxHxD texels")
        for bad, what in (
            (self.first_op < 0, "a negative first_op"),
            (self.first_op > self.last_op, "last_op before first_op"),
            ((sizes < 0) if sizes.ndim == 1 else (sizes < 0).any(axis=1), "a negative size"),
        ):
            if bad.any():
                raise ModelError(f"record {name(int(bad.argmax()))!r} has {what}")
        self.extents = sizes if sizes.ndim == 2 else None
        self.size = sizes if sizes.ndim == 1 else int64_column(_checked_product(sizes))
        self.alignment = alignment
        self.given_reserved = tuple((begin, end) for begin, end in reserved)
        self.reserved: tuple[tuple[int, int], ...] = ()
        if self.given_reserved:
            from edgemem.records.pins import widened  # recordings have none, and sessions load none of it

            self.reserved = widened(self.given_reserved, alignment)
        check = NumbersOf(len(self.first_op), name)
        pins = check("pinned", pinned, "offset", least=-1)
        self.pinned = pins if pins is not None and (pins >= 0).any() else None
        masks = check("regions", regions, "region")
        if masks is not None and (masks >> MOST_REGIONS).any():
            raise ModelError(f"regions are numbered 0 to {MOST_REGIONS - 1}, a bit each")
        self.regions = masks if masks is not None and masks.any() else None
        moved = check("traffic", traffic, "traffic")
        self.traffic = moved if moved is not None and moved.any() else None
        same = check("roles", hints[0], "role", least=-1)
        self.roles = same if same is not None and (same >= 0).any() else None
        phases = check("phases", hints[1], "phase", least=-1, width=2)
        self.phases = phases if phases is not None and (phases >= 0).any() else None
        # What every plan stays below: all records end to end, each padded, above all that is pinned or reserved.
        above = float(max((end for _, end in self.reserved), default=0))
        if self.pinned is not None:
            above = max(above, float((self.pinned + self.size.astype(np.float64)).max()) + alignment)
        if above + float(self.size.sum(dtype=np.float64)) + float(alignment) * len(self) >= float(INT64_MAX) / 2:
            raise ModelError("the sizes add up to more than int64 holds")
        self._has_states = bool(states)
        self._check_states(states, name)
        self.overlap, self.within = relation_rows(relations[0], "overlap"), relation_rows(relations[1], "within")
        check_overlap(self, name)
        check_within(self, name)
        check_fixed_places(self, name)

    def _check_states(self, states: Sequence[int], name: Callable[[int], str]) -> None:
        end = int(self.last_op.max(initial=0))
        for i in states:
            if self.first_op[i] != 0 or self.last_op[i] != end:
                raise ModelError(
                    f"record {name(i)!r} is a state, which is in use for the whole run, 0 to {end}, "
                    f"not {self.first_op[i]} to {self.last_op[i]}"
                )

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the problem besides intervals and sizes. A plan must honour all of them but `overlap`."""
        used: dict[Feature, bool] = {
            "pinned": self.pinned is not None,
            "reserved": bool(self.reserved),
            "overlap": self.overlap is not None,
            "within": self.within is not None,
            "state": self._has_states,
            "regions": self.regions is not None,
        }
        return frozenset(feature for feature, uses in used.items() if uses)

    @property
    def needs_overlap(self) -> bool:
        """Whether no plan is right without an overlap, because two records are pinned onto each other by one."""
        if self.overlap is None or self.pinned is None:
            return False
        i, j, _ = self.overlap.T
        a, b = self.pinned[i], self.pinned[j]
        meet = (a < b + self.size[j]) & (b < a + self.size[i]) & (a >= 0) & (b >= 0)
        return bool(meet.any())

    @property
    def constraints(self) -> Constraints:
        """What is pinned and what is reserved; empty if nothing is."""
        given = Constraints()
        if self.pinned is not None:
            given["pinned"] = self.pinned
        if self.reserved:
            given["reserved"] = np.array(self.reserved, np.int64).reshape(-1)
        return given

    def __repr__(self) -> str:
        unit = "texels" if self.extents is not None else "bytes"
        return f"Problem({len(self)} records, {int(self.size.sum())} {unit}, alignment {self.alignment})"

    @property
    def names(self) -> tuple[str, ...]:
        """The records' names, in order."""
        if self._names is None:
            rows = self._records
            self._names = tuple(str(i) for i in range(len(self))) if rows is None else tuple(r.name for r in rows)
        return self._names

    @property
    def records(self) -> tuple[UsageRecord, ...]:
        """The records as rows."""
        if self._records is None:
            sizes = self.size.tolist() if self.extents is None else [tuple(e) for e in self.extents.tolist()]
            columns = zip(self.names, self.first_op.tolist(), self.last_op.tolist(), sizes, strict=True)
            pins = [None] * len(self) if self.pinned is None else [p if p >= 0 else None for p in self.pinned.tolist()]
            masks = [0] * len(self) if self.regions is None else self.regions.tolist()
            traffic = [0] * len(self) if self.traffic is None else self.traffic.tolist()
            self._records = tuple(
                UsageRecord(*row, offset=pin, regions=region_indices(mask), traffic=moved)
                for row, pin, mask, moved in zip(columns, pins, masks, traffic, strict=True)
            )
        return self._records


def _mask(record: UsageRecord) -> int:
    """The record's regions as bits; 0 is any."""
    listed = record.regions
    if any(not 0 <= k < MOST_REGIONS for k in listed) or list(listed) != sorted(set(listed)):
        raise ModelError(
            f"record {record.name!r} has the regions {listed}; give their indices, 0 to {MOST_REGIONS - 1}, ascending"
        )
    return sum(1 << k for k in listed)


def region_indices(mask: int) -> tuple[int, ...]:
    """The regions whose bits are set in a mask of `Problem.regions`."""
    return tuple(k for k in range(mask.bit_length()) if mask >> k & 1)


def _checked_product(extents: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(extents) and extents.astype(np.float64).prod(axis=1).max() >= INT64_MAX / 2:
        raise ModelError("an extent has more texels than int64 holds")
    return np.asarray(extents.prod(axis=1), dtype=np.int64)


def check_fixed_places(problem: Problem, name: Callable[[int], str]) -> None:
    """`edgemem.records.fixed_places.check_places` where any place is fixed; sessions have none, and load none of it."""
    if any(given is not None for given in (problem.pinned, problem.overlap, problem.within, problem.regions)):
        from edgemem.records.fixed_places import check_places

        check_places(problem, name)
