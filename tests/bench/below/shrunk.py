"""A model planned below the classical bound as `edgemem plan` does it, with the time that it took and its price."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import edgemem
from edgemem.commands.changed_model import change_model
from edgemem.commands.cost import classical_bound, price_of
from edgemem.formats import Foldable, Model, load

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.commands.cost import Price
    from edgemem.plans import PlanSet
    from edgemem.targets import Target

__all__ = ["Shrunk", "folded", "shrink"]


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A planned file.

    Attributes:
        path: of the file.
        planset: the plan in it.
        classical: bytes that no plan of the original goes below where all tensors in use are disjoint.
        change_s, plan_s: seconds of a processor to choose and make the change, and to plan its result.
        price: what the change costs; None if the graph was not changed.
    """

    path: Path
    planset: PlanSet
    classical: int
    change_s: float
    plan_s: float
    price: Price | None

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
) -> Shrunk:
    """Plan a file under a target and a kernel profile, streamed if stages are given (`auto`, `head`, or a list)."""
    wanted = {} if stages is None else {"stream": {"stages": stages}}
    begin = _seconds()
    prepared = change_model(path, folder, wanted, target=target, kernels=kernels)
    changed = _seconds()
    planset = edgemem.plan(prepared.model, target=prepared.target)
    end = _seconds()
    model = prepared.model
    assert isinstance(model, Model)
    assert prepared.target is not None
    rules = prepared.target
    what = f"{rules.name}-{rules.inputs}.{stages or 'whole'}.{kernels}".replace(":", "-").replace(",", "_")
    planned = folder / f"{path.stem}.{what}.tflite"
    edgemem.save(model, planset, planned)
    original = prepared.original or model
    return Shrunk(
        planned,
        planset,
        classical_bound(original, prepared.target),
        changed - begin,
        end - changed,
        price_of(original, model, prepared.target, path) if prepared.original is not None else None,
    )


def _seconds() -> float:
    """Time of a processor that this process and its children have taken: what else the machine does is not in it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
