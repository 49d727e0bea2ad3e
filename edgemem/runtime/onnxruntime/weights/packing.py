"""Packs the weights of a model into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, RuntimeLoadError
from edgemem.runtime.onnxruntime.weights.note import file_name
from edgemem.system.child_call import ChildError, Message, call_child

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Packed", "pack"]

_CHILD: Final = "edgemem.runtime.onnxruntime.weights.packing_child"


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing gave.

    Attributes:
        graph: the optimised graph.
        weights: its packed constants.
        is_same: the graph computes what the other one does, if one was given.
    """

    graph: Path
    weights: Path
    is_same: bool


def pack(model: Path, folder: Path, name: str, other: Path | None = None) -> Packed:
    """Write the optimised graph of a model and its packed constants into a folder, in a process of its own.

    The constants are the same each time on processors with the same instructions, with any number of threads. The graph
    computes the same; ONNX Runtime calls what it inserts by other names, and orders free branches anew.

    Args:
        model: an .onnx file.
        folder: where to write.
        name: of the files without their suffixes. The name of the weights stands in the graph.
        other: a graph to compare with.

    Raises RuntimeLoadError where ONNX Runtime cannot load the model or ends its process, and ModelError where the model
    has no constants to map.
    """
    data = {"model": model.absolute(), "folder": folder.absolute(), "other": other.absolute() if other else ""}
    question = Message({"name": name, **{key: str(path) for key, path in data.items()}})
    try:
        answer = call_child(_CHILD, question)
    except ChildError as e:
        raise RuntimeLoadError(str(e) if e.kind else f"ONNX Runtime cannot pack {model.name}: {e}") from None
    graph, weights = folder / file_name(name, "graph"), folder / file_name(name, "weights")
    if not weights.is_file():
        raise ModelError(f"{model.name} has no constants of 1 KiB or more that could be mapped; use --weights plain")
    return Packed(graph, weights, is_same=answer.data["is_same"])
