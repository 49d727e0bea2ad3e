"""Usage records (Pisarchyk & Lee 2020, §3) and the problem they make.

`first_op` and `last_op` are inclusive operator indices: two records conflict when `max(first) <= min(last)`.
A size is bytes, or a texel extent (width, height[, depth]) for shared objects on textures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.pins import check_pins, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Constraints", "Extent", "Kind", "Problem", "Size", "UsageRecord"]

Extent: TypeAlias = tuple[int, int] | tuple[int, int, int]
Size: TypeAlias = int | Extent
Kind: TypeAlias = Literal["tensor", "input", "output", "variable", "scratch"]

INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One piece of memory and the operators during which it must stay untouched.

    Attributes:
        name: the tensor's name, or the first one's where several share the memory.
        first_op: index of the first operator that uses it (inclusive).
        last_op: index of the last operator that uses it (inclusive).
        size: bytes, or texels as (width, height[, depth]).
        kind: what it is to the model; `scratch` is an operator's own workspace.
        tensors: names of all tensors that live in it (views and in-place results).
        offset: bytes from the start of the arena where it must be, a multiple of the alignment; None: anywhere. Shared
            objects have no offsets and take no notice.
    """

    name: str
    first_op: int
    last_op: int
    size: Size
    kind: Kind = "tensor"
    tensors: tuple[str, ...] = ()
    offset: int | None = None


class Constraints(TypedDict, total=False):
    """What is pinned (int64 [n], -1 for free) and reserved (int64, begin and end by turns), as kernels take them."""

    pinned: NDArray[np.int64]
    reserved: NDArray[np.int64]


class Problem:
    """Usage records as columns: what every strategy, bound and verifier works on.

    Attributes:
        first_op, last_op: int64 [n], inclusive.
        size: int64 [n], bytes; for texel extents their product (texels).
        extents: int64 [n, 2 or 3] texels, or None when sizes are bytes.
        alignment: every offset is a multiple of it; a power of two.
        pinned: int64 [n], the offset of each record that has a fixed one, -1 for the others; None if all are free.
        reserved: ranges of bytes, [begin, end), that no record may use at any time. They are widened to multiples of
            the alignment, and those that meet are joined; ascending. A record of size 0 is nowhere.

    `pinned` and `reserved` concern offsets only: shared objects are planned without them.
    The arrays are read-only. Raises ModelError for intervals that end before they begin, negative values, an
    alignment that is no power of two, and totals beyond int64; and for pinned offsets that cannot be honoured: no
    multiple of the alignment, in a reserved range, or on each other while both are in use.
    """

    __slots__ = ("_names", "_records", "alignment", "extents", "first_op", "last_op", "pinned", "reserved", "size")

    first_op: NDArray[np.int64]
    last_op: NDArray[np.int64]
    size: NDArray[np.int64]
    extents: NDArray[np.int64] | None
    alignment: int
    pinned: NDArray[np.int64] | None
    reserved: tuple[tuple[int, int], ...]

    def __init__(
        self, records: Iterable[UsageRecord], *, alignment: int = 1, reserved: Iterable[tuple[int, int]] = ()
    ) -> None:
        rows = tuple(records)
        negative = next((r.name for r in rows if r.offset is not None and r.offset < 0), None)
        if negative is not None:
            raise ModelError(f"record {negative!r} has a negative offset")
        self._fill(
            [r.first_op for r in rows],
            [r.last_op for r in rows],
            [r.size for r in rows],
            alignment,
            lambda i: rows[i].name,
            [-1 if r.offset is None else r.offset for r in rows],
            reserved,
        )
        self._records: tuple[UsageRecord, ...] | None = rows
        self._names: tuple[str, ...] | None = None

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
    ) -> Problem:
        """A problem from columns: `size` is [n] bytes, or [n, 2 or 3] texels. Names default to the indices."""
        self = cls.__new__(cls)
        self._fill(first_op, last_op, size, alignment, lambda i: names[i] if names else str(i), pinned, reserved)
        self._records = None
        self._names = None if names is None else tuple(names)
        if self._names is not None and len(self._names) != len(self):
            raise ModelError(f"{len(self._names)} names for {len(self)} records")
        return self

    def _fill(
        self,
        first: ArrayLike,
        last: ArrayLike,
        size: ArrayLike,
        alignment: int,
        name: Callable[[int], str],
        pinned: ArrayLike | None,
        reserved: Iterable[tuple[int, int]],
    ) -> None:
        if alignment < 1 or alignment & (alignment - 1):
            raise ModelError(f"alignment {alignment} is not a power of two")
        try:
            self.first_op = _column(first)
            self.last_op = _column(last)
            sizes = _column(size)
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
        self.size = sizes if sizes.ndim == 1 else _column(_checked_product(sizes))
        self.alignment = alignment
        self.reserved = widened(reserved, alignment)
        self.pinned = None if pinned is None else self._pins(pinned, name)
        # What every plan stays below: all records end to end, each padded, above all that is pinned or reserved.
        above = float(max((end for _, end in self.reserved), default=0))
        if self.pinned is not None:
            above = max(above, float((self.pinned + self.size.astype(np.float64)).max()) + alignment)
        if above + float(self.size.sum(dtype=np.float64)) + float(alignment) * len(self) >= float(INT64_MAX) / 2:
            raise ModelError("the sizes add up to more than int64 holds")
        check_pins(self, name)

    def _pins(self, pinned: ArrayLike, name: Callable[[int], str]) -> NDArray[np.int64] | None:
        try:
            column = _column(pinned)
        except (OverflowError, ValueError, TypeError) as e:
            raise ModelError(f"pinned offsets must be integers within int64: {e}") from None
        if column.shape != self.first_op.shape:
            raise ModelError("first_op and pinned differ in length")
        if (column < -1).any():
            raise ModelError(f"record {name(int((column < -1).argmax()))!r} has a negative offset")
        return column if (column >= 0).any() else None

    @property
    def constraints(self) -> Constraints:
        """What is pinned and what is reserved; empty if nothing is."""
        given = Constraints()
        if self.pinned is not None:
            given["pinned"] = self.pinned
        if self.reserved:
            given["reserved"] = np.array(self.reserved, np.int64).reshape(-1)
        return given

    def __len__(self) -> int:
        return len(self.first_op)

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
            self._records = tuple(UsageRecord(*row, offset=pin) for row, pin in zip(columns, pins, strict=True))
        return self._records


def _column(values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and (array > INT64_MAX).any()):
        raise TypeError(f"not integers within int64: {array.dtype}")
    array = np.array(array, dtype=np.int64, order="C")
    array.flags.writeable = False
    return array


def _checked_product(extents: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(extents) and extents.astype(np.float64).prod(axis=1).max() >= INT64_MAX / 2:
        raise ModelError("an extent has more texels than int64 holds")
    return np.asarray(extents.prod(axis=1), dtype=np.int64)
