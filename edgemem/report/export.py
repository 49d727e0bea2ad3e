"""A plan in the forms that other tools and firmware read: one file a form, and their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.report.c_header import as_c_header, prefix_of
from edgemem.report.csv import as_csv
from edgemem.report.document import document
from edgemem.report.svg import as_svg
from edgemem.report.tflm_bufferplan import as_tflm_bufferplan

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof import Proved

__all__ = ["FORMATS", "export"]


_FORMS: dict[str, Callable[[PlanSet, str, Graph | None], str]] = {
    "json": lambda planset, _name, graph: json.dumps(document(planset, graph), indent=1) + "\n",
    "csv": lambda planset, _name, _graph: as_csv(planset),
    "c-header": lambda planset, name, _graph: as_c_header(planset, name),
    "tflm-bufferplan": as_tflm_bufferplan,
    "svg": lambda planset, _name, _graph: as_svg(planset),
}
FORMATS = tuple(_FORMS)


def export(proved: Proved, form: str, *, name: str = "model", graph: Graph | None = None) -> str:
    """The plan as text in one of FORMATS.

    Args:
        proved: the plans; the smallest of each family is exported.
        form: one of FORMATS.
        name: becomes the prefix of C identifiers.
        graph: the graph planned for; `tflm-bufferplan` lists its tensors in order.

    Raises:
        PlanError: an unknown form, or one that needs an offset plan or a graph when there is none.
    """
    if form not in _FORMS:
        raise PlanError(f"no export format {form!r}; there are {', '.join(FORMATS)}")
    return _FORMS[form](proved.planset, prefix_of(name), graph)
