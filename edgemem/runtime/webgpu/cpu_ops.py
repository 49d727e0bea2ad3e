"""Single operators on the CPU, in the runtime that the model's format belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.formats import Computable

__all__ = ["CpuOperator", "cpu_operator"]


class CpuOperator(Protocol):
    """An operator that runs on the CPU."""

    def run(self, values: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Its outputs for values of its inputs that are not known, by name, in order and each once."""


def cpu_operator(model: Computable, number: int, what: str) -> CpuOperator:
    """An operator of a model, by its number in the model's own order.

    Raises:
        UnsupportedError: it cannot run alone.
        MissingDependencyError: the runtime is not installed.
        RuntimeBindError: the runtime refuses it.
    """
    data = model.operator_model(number)
    return _LiteRT(data, what) if data[4:8] == b"TFL3" else _OnnxRuntime(data, what)


class _OnnxRuntime:
    def __init__(self, data: bytes, what: str) -> None:
        from edgemem.runtime.onnxruntime.baked_file import onnxruntime, quiet_options, runtime_errors

        ort, options = onnxruntime(), quiet_options()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._what = what
        self._errors = runtime_errors()
        try:
            self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except self._errors as e:
            raise RuntimeBindError(f"ONNX Runtime does not run {what} alone: {str(e).splitlines()[0]}") from None
        self._names = [a.name for a in self._session.get_inputs()]

    def run(self, values: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        try:
            return list(self._session.run(None, {name: values[name] for name in self._names}))
        except self._errors as e:
            raise RuntimeBindError(f"{self._what} fails on the CPU: {str(e).splitlines()[0]}") from None


class _LiteRT:
    def __init__(self, data: bytes, what: str) -> None:
        from edgemem.runtime.litert.package import interpreter_class, op_resolvers

        self._what = what
        try:
            self._interpreter = interpreter_class()(
                model_content=data,
                experimental_op_resolver_type=op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as e:
            raise RuntimeBindError(f"LiteRT does not run {what} alone: {str(e).splitlines()[0]}") from None
        self._inputs = [d["index"] for d in self._interpreter.get_input_details()]
        self._outputs = [d["index"] for d in self._interpreter.get_output_details()]

    def run(self, values: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        try:
            for index, value in zip(self._inputs, values.values(), strict=True):
                self._interpreter.set_tensor(index, value)
            self._interpreter.invoke()
            return [np.array(self._interpreter.get_tensor(index)) for index in self._outputs]
        except (RuntimeError, ValueError) as e:
            raise RuntimeBindError(f"{self._what} fails on the CPU: {str(e).splitlines()[0]}") from None
