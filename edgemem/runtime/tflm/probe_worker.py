"""Runs models of one operator at all distances, in a process of its own because the runtime may end it.

    python -m edgemem.runtime.tflm.probe_worker FOLDER

FOLDER holds jobs.json, model0.tflite, input0.npy, ... It prints a line [number, result] for each job as soon as it is
done: the least distance in bytes from which on all outputs were right, or why it did not run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

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


def main(folder: Path) -> None:
    """Do the jobs in the folder."""
    import numpy as np

    settings = json.loads((folder / "jobs.json").read_text())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the runtime writes a few lines for every model
    for job in settings["jobs"]:
        number = job.pop("number")
        model = _Model(
            (folder / f"model{number}.tflite").read_bytes(),
            tuple(settings["apart"]),
            np.load(folder / f"input{number}.npy"),
        )
        try:
            result: int | str = _least(model, **job, alignment=settings["alignment"])
        except RuntimeError as e:
            result = f"TensorFlow Lite Micro does not run it: {e}"
        print(json.dumps([number, result]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
