"""What a change of a model costs that made its memory smaller, and the bound of the memory without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds
from edgemem.model.macs import count_macs
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_tail import predicted_tail

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.targets import Target

__all__ = ["Price", "classical_bound", "price_of"]


@dataclass(frozen=True, slots=True)
class Price:
    """Figures before and after a change.

    Attributes:
        operators: in the graph.
        file: bytes, of the changed model without its plan.
        macs: multiply-accumulate operations of one run.
        bound: bytes that no plan of the original model goes below where all tensors in use are disjoint.
        tail: predicted bytes of the tail of TensorFlow Lite Micro's arena; None under the rules of another runtime.
    """

    operators: tuple[int, int]
    file: tuple[int, int]
    macs: tuple[int, int]
    bound: int
    tail: tuple[int, int] | None = None


def price_of(original: Model, changed: Model, target: Target) -> Price:
    """What the changed model costs. The bound is under the target's rules without overlaps and slots."""
    graphs = original.graph(), changed.graph()
    operators, macs = ((count(graphs[0]), count(graphs[1])) for count in (lambda g: len(g.ops), count_macs))
    file = len(original.content()), len(changed.content())
    micro = original.default_target == "tflm" and target.scratch == "unknown"
    tail = (predicted_tail(graphs[0]), predicted_tail(graphs[1])) if micro else None
    return Price(operators, file, macs, classical_bound(original, target), tail)


def classical_bound(model: Model, target: Target) -> int:
    """Bytes that no plan of the model goes below where all tensors in use are disjoint."""
    rules = replace(target, kernels="none", slots=False)
    return lower_bounds(lifetimes(model.graph(), rules).problem).offsets
