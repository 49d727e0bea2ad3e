"""Columns of a problem: int64 arrays that nobody changes, checked where they come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["INT64_MAX", "NumbersOf", "ProblemColumns", "int64_column"]

INT64_MAX = 2**63 - 1


class ProblemColumns:
    """The columns of `edgemem.Problem`, which says what they are: what its checks read."""

    __slots__ = (
        "alignment",
        "extents",
        "first_op",
        "given_reserved",
        "last_op",
        "overlap",
        "phases",
        "pinned",
        "regions",
        "reserved",
        "roles",
        "size",
        "traffic",
        "within",
    )

    first_op: NDArray[np.int64]
    last_op: NDArray[np.int64]
    size: NDArray[np.int64]
    extents: NDArray[np.int64] | None
    alignment: int
    pinned: NDArray[np.int64] | None
    reserved: tuple[tuple[int, int], ...]
    given_reserved: tuple[tuple[int, int], ...]
    overlap: NDArray[np.int64] | None
    within: NDArray[np.int64] | None
    regions: NDArray[np.int64] | None
    traffic: NDArray[np.int64] | None
    roles: NDArray[np.int64] | None
    phases: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.first_op)


@dataclass(frozen=True, slots=True)
class NumbersOf:
    """Checks optional columns of a problem with so many records.

    Attributes:
        count: records of the problem.
        name: of a record, for messages.
    """

    count: int
    name: Callable[[int], str]

    def __call__(
        self, what: str, values: ArrayLike | None, one: str, *, least: int = 0, width: int | None = None
    ) -> NDArray[np.int64] | None:
        """The column: int64 [count], or [count, width] with a width; None for None.

        Args:
            what: the column's name.
            values: its numbers.
            one: what one number is.
            least: the least number.
            width: numbers a record; None for one.

        Raises ModelError for another shape, numbers that are no integers within int64, and numbers below the least.
        """
        if values is None:
            return None
        try:
            column = int64_column(values)
        except (OverflowError, ValueError, TypeError) as e:
            raise ModelError(f"{what} must be integers within int64: {e}") from None
        shape = (self.count,) if width is None else (self.count, width)
        if width is not None and column.size == 0:
            column = column.reshape(-1, width)
        if column.shape != shape:
            wanted = f" {width} a record" if width is not None else ""
            raise ModelError(f"first_op and {what} differ in length{f'; give{wanted}' if wanted else ''}")
        below = (column < least) if width is None else (column < least).any(axis=1)
        if below.any():
            raise ModelError(f"record {self.name(int(below.argmax()))!r} has a negative {one}")
        return column


def int64_column(values: ArrayLike) -> NDArray[np.int64]:
    """A read-only copy. Raises OverflowError, ValueError or TypeError for what is no array of integers within int64."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and (array > INT64_MAX).any()):
        raise TypeError(f"not integers within int64: {array.dtype}")
    array = np.array(array, dtype=np.int64, order="C")
    array.flags.writeable = False
    return array
