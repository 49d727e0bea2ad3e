"""What less memory costs in arithmetic: ways to run a model in which operators run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.commands.changed_model import change_model
from edgemem.commands.largest_operator import widest_operator
from edgemem.errors import ModelError
from edgemem.formats import Bindings, Model
from edgemem.formats.workspace import graph_under
from edgemem.passes.recompute.ways import Search, find_front
from edgemem.report.recompute_curve import RecomputeCurve, RecomputePoint
from edgemem.runtime.onnxruntime.tile_pass import TILED_LEVEL
from edgemem.schedule.peak import peak_of
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from edgemem.targets import Target

__all__ = ["find_recompute_curve"]


def find_recompute_curve(
    path: Path,
    target: Target | str | None,
    *,
    max_macs: float,
    points: int = 8,
    bindings: Bindings | None = None,
    effort: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> RecomputeCurve:
    """Ways to run a model in its best order, from its own arithmetic to the lowest peak.

    Of an ONNX model these are ways to run ONNX Runtime's optimised graph, which alone keeps to an order.

    Args:
        path: the file.
        target: the rules of the memory; None for the format's own.
        max_macs: the most multiply-accumulate operations, as a multiple of the model's.
        points: of the curve, at most.
        bindings: values for open dimensions and shapes.
        effort: of the searches.
        progress: called with what is done next.

    Raises ModelError for usage records, and as `change_model`.
    """
    order = {"method": "auto"} if effort is None else {"method": "auto", "effort": effort}
    optimise = {"optimize": {"level": TILED_LEVEL}} if path.suffix.lower() == ".onnx" else {}
    with temporary_folder() as folder:
        prepared = change_model(
            path, folder, {**optimise, "order": order}, bindings=bindings, target=target, progress=progress
        )
        model, rules = prepared.model, prepared.target
        if not isinstance(model, Model) or rules is None:
            raise ModelError(f"{path.name} holds usage records: there is no graph whose operators could run again")
        progress("recompute")
        graph = graph_under(model, rules)
        front = find_front(graph, rules, max_macs=max_macs, points=points - 2, search=Search(effort or "fast"))
    before = front.ways[0]
    given = prepared.ordering.given_peak if prepared.ordering is not None else peak_of(graph, rules)
    ways = tuple(
        RecomputePoint(way.peak, way.macs, way.macs / before.macs if before.macs else 1.0, len(way.runs))
        for way in front.ways
    )
    widest = widest_operator(graph, rules)
    return RecomputeCurve(ways, front.lower_bound, given, widest.name if widest is not None else "")
