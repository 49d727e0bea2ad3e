"""The report of an interpreter in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgemem.errors import RuntimeBindError
from edgemem.formats import Bindings, open_bytes
from edgemem.runtime.litert.arena import arena_of
from edgemem.runtime.litert.memory import InterpreterMemory, litert_memory, unpredicted_memory
from edgemem.runtime.tflite_file import TfliteModel, input_forms

__all__ = ["report_of"]


def report_of(
    interpreter: Any,
    path: str | None,
    content: bytes | None,
    unpredicted: str,
    *,
    is_allocated: bool,
) -> InterpreterMemory:
    """The memory of an interpreter whose tensors are allocated.

    Args:
        interpreter: LiteRT's.
        path: of the model's file; None where it was given as `content`.
        content: the file.
        unpredicted: why edgemem cannot tell what LiteRT takes; "" if it can.
        is_allocated: no input was resized since tensors were allocated.

    Raises RuntimeBindError before tensors are allocated, and as `litert_memory`.
    """
    data = Path(path).read_bytes() if path is not None else content
    assert data is not None
    model = open_bytes(data, ".tflite")
    assert isinstance(model, TfliteModel)
    try:
        arena = arena_of(interpreter, model.wiring()) if is_allocated else None
    except ValueError:
        arena = None
    if arena is None:
        raise RuntimeBindError("memory is known once tensors are allocated: call allocate_tensors() first")
    if unpredicted:
        return unpredicted_memory(arena.size, unpredicted)
    # A runner of a signature resizes inputs by itself.
    now = [tuple(map(int, details["shape"])) for details in interpreter.get_input_details()]
    forms = input_forms(model.graph())
    resized = {str(k): shape for k, (shape, form) in enumerate(zip(now, forms, strict=True)) if shape != form[2]}
    if resized:
        model = open_bytes(data, ".tflite", Bindings(input_shapes=resized))
        assert isinstance(model, TfliteModel)
    return litert_memory(model, arena.size)
