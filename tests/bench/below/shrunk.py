"""A model planned below the classical bound with the time that it took and what it costs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import edgemem
from edgemem.formats import Foldable, Model, Rewritable, load
from edgemem.passes.streaming.stages import choose_stages
from edgemem.passes.streaming.stream import stream
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.targets import Target, find_target

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.passes.streaming.stages import Objective
    from edgemem.plans import PlanSet

__all__ = ["ShrunkFile", "folded", "shrink"]


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkFile:
    """A planned file.

    Attributes:
        path: of the file.
        planset: the plan in it.
        classical: bytes that no plan of the original goes below where all tensors in use are disjoint.
        change_s, plan_s: seconds of a processor to choose and make the change, and to plan its result.
        operators, file: of the original and of the changed model; the file in bytes without its plan.
    """

    path: Path
    planset: PlanSet
    classical: int
    change_s: float
    plan_s: float
    operators: tuple[int, int]
    file: tuple[int, int]

    @property
    def planned(self) -> int:
        """Bytes of the arena."""
        best = self.planset.best_offsets
        assert best is not None
        return best.size

    @property
    def bound(self) -> int:
        """Bytes that no plan of the changed graph under its relations goes below."""
        return self.planset.bounds.offsets


def folded(path: Path, folder: Path) -> Path:
    """The file with plain constants, as TensorFlow Lite Micro needs them."""
    model = load(path)
    assert isinstance(model, Foldable)
    plain = folder / f"{path.stem}.plain.tflite"
    model.folded().save(plain)
    return plain


def shrink(
    path: Path, folder: Path, *, target: str | Target, kernels: str | None = None, stages: str | None = None
) -> ShrunkFile:
    """Plan a file under a target and a kernel profile, streamed if stages are given (`auto`, `head`, or a list)."""
    begin = _seconds()
    original = load(path)
    assert isinstance(original, Rewritable)
    assert isinstance(original, Model)
    rules = (target if isinstance(target, Target) else find_target(target)).changed(
        kernels=kernels, slots=kernels not in (None, "none") or stages is not None
    )
    graph = original.graph()
    model: Model = original
    if stages is not None:
        objective: Objective = "head" if stages == "head" else "arena"
        chosen = (
            choose_stages(graph, rules, objective=objective).stages
            if stages in ("auto", "head")
            else StreamOperators.parse(stages.replace(",", "+")).stages
        )
        model = original.rewritten(stream(graph, chosen, rules.alignment)) if chosen else original
    changed = _seconds()
    planset = edgemem.plan(model, target=rules)
    end = _seconds()
    what = f"{rules.name}-{rules.inputs}.{stages or 'whole'}.{kernels}".replace(":", "-").replace(",", "_")
    planned = folder / f"{path.stem}.{what}.tflite"
    edgemem.save(model, planset, planned)
    bound = edgemem.plan(original, target=rules.changed(kernels="none")).bounds.offsets
    return ShrunkFile(
        planned,
        planset,
        bound,
        changed - begin,
        end - changed,
        (len(graph.ops), len(model.graph().ops)),
        (len(original.content()), len(model.content())),
    )


def _seconds() -> float:
    """Time of a processor that this process and its children have taken: what else the machine does is not in it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
