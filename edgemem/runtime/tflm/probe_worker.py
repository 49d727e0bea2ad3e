"""Runs models of one operator at all distances, in a process of its own because the runtime may end it.

The question's arrays are, for each job, the bytes of a model and its inputs. There is an answer for each job as soon as
it is done: the least distance in bytes from which on all outputs were right, or why it did not run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from edgemem.system.child_call import Message, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__: list[str] = []


class _Model:
    """A file whose two offsets may be changed."""

    def __init__(self, content: bytes, apart: tuple[int, int], inputs: Any) -> None:
        self._content = bytearray(content)
        self._places = [content.index(number.to_bytes(4, "little")) for number in apart]
        self._inputs = inputs

    def run(self, offsets: tuple[int, int], arena: int) -> list[bytes]:
        """The outputs for all inputs, one after the other in one interpreter."""
        from tflite_micro import runtime

        for place, offset in zip(self._places, offsets, strict=True):
            self._content[place : place + 4] = offset.to_bytes(4, "little")
        interpreter = runtime.Interpreter.from_bytes(bytes(self._content), arena_size=arena)
        outputs = []
        for value in self._inputs:
            interpreter.set_input(value, 0)
            interpreter.invoke()
            outputs.append(interpreter.get_output(0).tobytes())
        return outputs


def _least(model: _Model, read: int, made: int, step: int, alignment: int) -> int:
    """The least distance from which on the outputs are those of a run with input and output apart."""
    base = -(-read // alignment) * alignment  # the output's offset: the input may begin `read` bytes before it
    arena = base + read + made + (1 << 16)
    expected = model.run((base + -(-made // alignment) * alignment, base), arena)
    least = made
    for distance in range(made - (made + read) % step, -read - 1, -step):
        if model.run((base + distance, base), arena) != expected:
            return least
        least = distance
    return least


def _answers(question: Message) -> Iterator[Message]:
    settings, arrays = question.data, question.arrays
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the runtime writes a few lines for every model
    for job, content, inputs in zip(settings["jobs"], arrays[::2], arrays[1::2], strict=True):
        model = _Model(content.tobytes(), tuple(settings["apart"]), inputs)
        try:
            result: int | str = _least(model, **job, alignment=settings["alignment"])
        except RuntimeError as e:
            result = f"TensorFlow Lite Micro does not run it: {e}"
        yield Message({"result": result})


if __name__ == "__main__":
    serve(_answers)
