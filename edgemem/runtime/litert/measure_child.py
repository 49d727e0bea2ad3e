"""One way to run a .tflite model in LiteRT, measured in a process of its own (`edgemem.runtime.measurement`).

The task has `model` (the file), `configuration` (litert, xnnpack), `threads`, and `shapes`: pairs of an input, by the
index of its tensor, and its shape.
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
    from edgemem.runtime.litert.package import interpreter_class, op_resolvers

    make, kinds = interpreter_class(), op_resolvers()
    kernels = kinds.AUTO if task["configuration"] == "xnnpack" else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return lambda: _Interpreted(make, task, kernels)


class _Interpreted:
    """An interpreter of LiteRT's."""

    def __init__(self, make: Any, task: Mapping[str, Any], kernels: Any) -> None:
        self._interpreter = make(
            model_path=task["model"], num_threads=task["threads"], experimental_op_resolver_type=kernels
        )
        for index, shape in task["shapes"]:
            self._interpreter.resize_tensor_input(index, shape)

    def allocate(self) -> None:
        self._interpreter.allocate_tensors()
        self._inputs = [d["index"] for d in self._interpreter.get_input_details()]
        self._outputs = [d["index"] for d in self._interpreter.get_output_details()]

    def feed(self, values: Sequence[NDArray[Any]]) -> None:
        for index, value in zip(self._inputs, values, strict=True):
            self._interpreter.set_tensor(index, value)

    def invoke(self) -> None:
        self._interpreter.invoke()

    def outputs(self) -> list[NDArray[Any]]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]

    def report(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    serve_measurement(_load)
