"""The picture of the best offset plan as PNG: the SVG, drawn by resvg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import MissingDependencyError, PlanError
from edgemem.report.svg import as_svg

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_png"]

_ZOOM: Final = 2  # pixels for a unit of the SVG: sharp on dense displays and on paper
_LETTER: Final = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><text y="16">0</text></svg>'


def as_png(planset: PlanSet) -> bytes:
    """The picture of `as_svg` as a PNG file.

    Raises PlanError without an offset plan or any font, and MissingDependencyError if resvg-py is not installed.
    """
    try:
        import resvg_py
    except ModuleNotFoundError:
        raise MissingDependencyError("resvg-py", purpose="drawing a PNG") from None
    # Where no font is installed, resvg leaves texts out and says nothing.
    if resvg_py.svg_to_bytes(svg_string=_LETTER) == resvg_py.svg_to_bytes(svg_string=_LETTER.replace("0</", "</")):
        raise PlanError("no font is installed, and the picture would have no names: install one, or write .svg")
    return bytes(resvg_py.svg_to_bytes(svg_string=as_svg(planset), zoom=_ZOOM))
