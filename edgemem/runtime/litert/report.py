"""The report of an interpreter in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import RuntimeBindError
from edgemem.formats import Bindings, open_bytes
from edgemem.runtime.litert.arena import arena_of
from edgemem.runtime.litert.memory import InterpreterMemory, litert_memory, unpredicted_memory
from edgemem.runtime.tflite_file import TfliteModel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["report_of"]


def report_of(
    interpreter: Any,
    path: str | None,
    content: bytes | None,
    resized: Mapping[int, tuple[int, ...]],
    unpredicted: str,
) -> InterpreterMemory:
    """The memory of an interpreter whose tensors are allocated.

    Args:
        interpreter: LiteRT's.
        path: of the model's file; None where it was given as `content`.
        content: the file.
        resized: the shapes that inputs were given, by tensor index.
        unpredicted: why edgemem cannot tell what LiteRT takes; "" if it can.

    Raises RuntimeBindError before tensors are allocated, and as `litert_memory`.
    """
    data = Path(path).read_bytes() if path is not None else content
    assert data is not None
    inputs = [int(details["index"]) for details in interpreter.get_input_details()]
    positions = {str(k): resized[index] for k, index in enumerate(inputs) if index in resized}
    model = open_bytes(data, ".tflite", Bindings(input_shapes=positions))
    assert isinstance(model, TfliteModel)
    try:
        arena = arena_of(interpreter, model.wiring())
    except ValueError:
        raise RuntimeBindError("memory is known once tensors are allocated: call allocate_tensors() first") from None
    if unpredicted:
        return unpredicted_memory(arena.size, unpredicted)
    return litert_memory(model, arena.size)
