"""Operators that read an element right before they write the one at the same place, and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case

__all__ = ["conversion", "elementwise"]


def elementwise(case: Case) -> int | None:
    """Input and output have one shape and elements of one type; any other operand may be broadcast.

    Of a broadcast operand an element is read more than once: None.
    """
    same = case.input.shape == case.output.shape and case.input.dtype == case.output.dtype
    return 0 if same else None


def conversion(case: Case) -> int | None:
    """The elements differ in width: element i is written to its end before element i + 1 is read.

    None if neither type is a byte wide: then a C compiler may take for granted that they do not overlap.
    """
    if case.input.count != case.output.count or 1 not in (case.input.width, case.output.width):
        return None
    wider = case.output.width - case.input.width
    last = case.output.count - 1
    return wider * (last if wider > 0 else min(last, 1))
