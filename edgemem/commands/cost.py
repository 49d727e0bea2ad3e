"""What a change of a model costs that made its memory smaller, and the bound of the memory without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.formats import load_model
from edgemem.model.macs import count_macs
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.baking import bake_sized
from edgemem.runtime.onnxruntime.tile_comparison import measure_price
from edgemem.strategy.bounds import lower_bounds
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.runtime.onnxruntime.tile_comparison import SessionPrice
    from edgemem.targets import Target

__all__ = ["Price", "classical_bound", "price_of"]


@dataclass(frozen=True, slots=True)
class Price:
    """Figures before and after a change.

    Attributes:
        operators: in the graph.
        file: bytes, of the changed model without its plan.
        macs: multiply-accumulate operations of one run; of an ONNX model as kernels do them at the changed one's level.
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
    operators = len(graphs[0].ops), len(graphs[1].ops)
    macs = count_macs(_graph_like(original, changed, path, feeds)), count_macs(graphs[1])
    file = len(original.content()), len(changed.content())
    micro = original.default_target == "tflm" and target.scratch == "unknown"
    tail = (predicted_tail(graphs[0]), predicted_tail(graphs[1])) if micro else None
    return Price(
        operators, file, macs, classical_bound(original, target), tail, _session_price(original, changed, path, feeds)
    )


def _graph_like(original: Model, changed: Model, path: Path, feeds: Mapping[str, NDArray[Any]] | None) -> Graph:
    """The graph that the original has at the level of optimisation of the changed model.

    Kernels for blocks of channels compute what pads the last block, too, whether the model was changed or not.
    """
    note = baked_note(changed.content()) if ".onnx" in original.suffixes else None
    if note is None or baked_note(original.content()) is not None:
        return original.graph()
    with temporary_folder() as folder:
        bake_sized(path, folder / path.name, note.level, feeds=feeds, bindings=original.bindings)
        return load_model(folder / path.name).graph()


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
