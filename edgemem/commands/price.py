"""What a change of a model costs that made its memory smaller, and the bound of the memory without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds
from edgemem.errors import EdgememError
from edgemem.model.macs import count_macs
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.onnxruntime.tiled import measure_price

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.runtime.onnxruntime.tiled import SessionPrice
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
        session: the time of a run in ONNX Runtime beside a default session, and how far the outputs are from its;
            None for other formats, and where one of the two does not run here.
    """

    operators: tuple[int, int]
    file: tuple[int, int]
    macs: tuple[int, int]
    bound: int
    tail: tuple[int, int] | None = None
    session: SessionPrice | None = None


def price_of(
    original: Model,
    changed: Model,
    target: Target,
    path: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> Price:
    """What the changed model costs. The bound is under the target's rules without overlaps and slots.

    Args:
        original: the model as the user gave it.
        changed: made from it.
        target: whose rules count memory.
        path: of the original; an .onnx file is run.
        feeds: inputs of a run; made up otherwise.
    """
    graphs = original.graph(), changed.graph()
    operators, macs = ((count(graphs[0]), count(graphs[1])) for count in (lambda g: len(g.ops), count_macs))
    file = len(original.content()), len(changed.content())
    micro = original.default_target == "tflm" and target.scratch == "unknown"
    tail = (predicted_tail(graphs[0]), predicted_tail(graphs[1])) if micro else None
    return Price(
        operators, file, macs, classical_bound(original, target), tail, _session_price(original, changed, path, feeds)
    )


def _session_price(
    original: Model, changed: Model, path: Path, feeds: Mapping[str, NDArray[Any]] | None
) -> SessionPrice | None:
    if ".onnx" not in original.suffixes:
        return None
    try:
        return measure_price(path, changed, bindings=original.bindings, feeds=feeds)
    except EdgememError:
        return None


def classical_bound(model: Model, target: Target) -> int:
    """Bytes that no plan of the model goes below where all tensors in use are disjoint."""
    rules = replace(target, kernels="none", slots=False)
    return lower_bounds(lifetimes(model.graph(), rules).problem).offsets
