"""A .tflite model in TensorFlow Lite Micro, measured in a process of its own (`edgemem.runtime.measurement`).

The task has `model` (the file), `arena` (its bytes) and `outputs`, how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.runtime.measurement import serve_measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.measurement import MeasuredModel

__all__: list[str] = []


def _load(task: Mapping[str, Any]) -> Callable[[], MeasuredModel]:
    from tflite_micro import runtime

    return lambda: _Interpreted(runtime, task)


class _Interpreted:
    """An interpreter with its arena."""

    def __init__(self, runtime: Any, task: Mapping[str, Any]) -> None:
        self._interpreter = runtime.Interpreter.from_file(task["model"], arena_size=task["arena"])
        self._count = task["outputs"]

    def allocate(self) -> None:
        """Making the interpreter has done it."""

    def feed(self, values: Sequence[NDArray[Any]]) -> None:
        for place, value in enumerate(values):
            self._interpreter.set_input(value, place)

    def invoke(self) -> None:
        self._interpreter.invoke()

    def outputs(self) -> list[NDArray[Any]]:
        return [self._interpreter.get_output(place) for place in range(self._count)]

    def report(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    serve_measurement(_load)
