"""What memory costs in operators: ways to run a .tflite model with less of one and more of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem import api
from edgemem.commands.measure_tflite import measure_tflite
from edgemem.errors import ModelError
from edgemem.formats import Foldable, Model, Rewritable
from edgemem.model.macs import count_macs
from edgemem.passes.streaming.stages import StripeLimits, choose_stages, find_front, measure_stages
from edgemem.passes.streaming.stream import stream
from edgemem.report.curve import CurvePoint
from edgemem.runtime.tflite_file import open_model
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.passes.streaming.stages import StripeChoice
    from edgemem.targets import Target

__all__ = ["find_curve"]

_ROUNDS, _REPEATS = 3, 10  # processes and timed runs of each point


def find_curve(
    path: Path,
    target: Target,
    *,
    most: int = 8,
    operators: int | None = None,
    measure: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[CurvePoint, ...]:
    """Ways to run a .tflite model, from the fewest operators to the least arena; none is beaten in both by another.

    Args:
        path: the file. Compressed constants are stored plain first.
        target: the rules of the memory, with the overlaps and slots that the runtime honours.
        most: points.
        operators: most of a model.
        measure: run every point in TensorFlow Lite Micro, beside the model as it is.
        progress: called with what is done next.

    Raises:
        ModelError: the file is no .tflite model.
        UnsupportedError: the model as it is has more than `operators`.
        MissingDependencyError, RuntimeBindError: as the runtime does, where it is to measure.
    """
    model: Model = open_model(path)
    if isinstance(model, Foldable):
        model = model.folded()
    if not isinstance(model, Rewritable):
        raise ModelError(f"{path.name}: operators of this format cannot be replaced")
    graph = model.graph()
    progress("stages")
    limits = StripeLimits(operators)
    least = choose_stages(graph, target, limits=limits)
    choices = _with(least, find_front(graph, target, limits=limits), most)
    before = count_macs(graph)
    points: list[CurvePoint] = []
    with temporary_folder() as folder:
        original = folder / "original.tflite"
        if measure:
            model.save(original)
        for number, choice in enumerate(choices):
            progress(f"point {number + 1}")
            planned = measure_stages(graph, target, choice.stages)
            if points and planned.arena >= points[-1].arena:
                continue
            assert planned.head is not None
            alignment = target.alignment if target.slots else 0
            changed = model.rewritten(stream(graph, choice.stages, alignment)) if choice.stages else model
            stages = ",".join(f"{s.first_op}:{s.last_op}:{s.stripes}" for s in choice.stages)
            macs = count_macs(changed.graph()) / before if before else 1.0
            size = len(changed.content())
            point = CurvePoint(stages, planned.operators, size, planned.head, planned.tail, macs)
            points.append(
                _measured(point, changed, target, folder / f"{number}.tflite", original) if measure else point
            )
    return tuple(points)


def _measured(point: CurvePoint, model: Model, target: Target, path: Path, original: Path) -> CurvePoint:
    """The point with what TensorFlow Lite Micro says, which runs it and the original by turns."""
    api.save(model, api.plan(model, target=target, strategy="offsets/search"), path, offsets_only=True)
    rows = measure_tflite(
        path, against=original, configurations=("tflm", "tflm_planned"), rounds=_ROUNDS, repeats=_REPEATS
    )
    row = next((r for r in rows if r.number == 1 and r.configuration == "tflm_planned"), None)
    if row is None or row.arena is None or row.tail is None:
        return point
    return replace(
        point, head=row.arena, tail=row.tail, latency_ratio=row.latency_ratio, exact=row.exact, is_measured=True
    )


def _with(least: StripeChoice, front: Sequence[StripeChoice], most: int) -> list[StripeChoice]:
    """`_spread` with the choice of `edgemem plan --stream auto`: its plan may be the least though its bound is not."""
    for count in (most, most - 1):
        chosen = _spread(front, count)
        if any(choice.stages == least.stages for choice in chosen):
            return chosen
    return sorted([*chosen, least], key=lambda choice: choice.operators)


def _spread(front: Sequence[StripeChoice], most: int) -> list[StripeChoice]:
    """Up to `most` choices of a front down to the least arena, with evenly growing costs; both ends are among them."""
    falling: list[StripeChoice] = []
    for choice in front:
        if not falling or choice.arena < falling[-1].arena:
            falling.append(choice)
    if len(falling) <= most:
        return falling
    places = sorted({round(k * (len(falling) - 1) / max(most - 1, 1)) for k in range(most)})
    return [falling[place] for place in places]
