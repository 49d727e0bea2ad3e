"""Packs the weights of a model into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, RuntimeLoadError
from edgemem.runtime.onnxruntime.weights.note import file_name
from edgemem.system.child_call import ChildError, Message, call_child

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pack"]

_CHILD: Final = "edgemem.runtime.onnxruntime.weights.packing_child"


def pack(model: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """Write the optimised graph of a model and its packed constants into a folder, in a process of its own.

    The same model gives the same files on processors with the same instructions, with any number of threads.

    Args:
        model: an .onnx file.
        folder: where to write.
        name: of the files without their suffixes. The name of the weights stands in the graph.

    Returns the two files. Raises RuntimeLoadError where ONNX Runtime cannot load the model or ends its process, and
    ModelError where the model has no constants to map.
    """
    try:
        call_child(_CHILD, Message({"model": str(model.absolute()), "folder": str(folder.absolute()), "name": name}))
    except ChildError as e:
        raise RuntimeLoadError(str(e) if e.kind else f"ONNX Runtime cannot pack {model.name}: {e}") from None
    graph, weights = folder / file_name(name, "graph"), folder / file_name(name, "weights")
    if not weights.is_file():
        raise ModelError(f"{model.name} has no constants of 1 KiB or more that could be mapped; use --weights plain")
    return graph, weights
