"""An ONNX model as tensor operations, and its operators as models of their own.

Each operator type has a rule; what tensor operations do not express has a reason in words instead.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.tensor_ops import TensorProgram
from edgemem_converters.onnx.computation.axes import AXES
from edgemem_converters.onnx.computation.constants import OnnxConstants
from edgemem_converters.onnx.computation.functions import FUNCTIONS
from edgemem_converters.onnx.computation.matrices import MATRICES
from edgemem_converters.onnx.computation.moves import MOVES
from edgemem_converters.onnx.computation.operator import InexpressibleError, OnnxOperator, as_floats
from edgemem_converters.onnx.computation.operator_model import single_model
from edgemem_converters.onnx.computation.pairs import PAIRS
from edgemem_converters.onnx.computation.resize import RESIZES
from edgemem_converters.onnx.computation.windows import WINDOWS
from edgemem_converters.onnx.functions import has_functions, inlined
from edgemem_converters.onnx.graph import graph_of
from edgemem_converters.onnx.scopes import scope_of
from edgemem_converters.onnx.shapes import infer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import ModelProto

    from edgemem.formats import Bindings
    from edgemem.model.graph import Op
    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.operator import Rule

__all__ = ["RULES", "Computation"]

RULES: Final[Mapping[str, Rule]] = {**WINDOWS, **MATRICES, **FUNCTIONS, **PAIRS, **AXES, **MOVES, **RESIZES}


class Computation:
    """What the operators of one model compute."""

    def __init__(self, model: ModelProto, folder: Path, bindings: Bindings) -> None:
        """Of a model whose weight files lie in a folder. Raises as `OnnxConverter.graph`."""
        scope, without_functions = scope_of(model, folder)
        if has_functions(model):  # those of `scope_of` are without the values of large constants
            without_functions = inlined(model, values=True)
            scope, _ = scope_of(without_functions, folder)
        self._model, self._nodes = without_functions, scope.nodes
        self._sizes = infer(scope, without_functions, bindings)
        self._graph = graph_of(scope, self._sizes)
        self._read = frozenset((*self._graph.outputs, *(index for op in self._graph.ops for index in op.inputs)))
        imports = without_functions.opset_import
        self._opset = next((o.version for o in imports if o.domain in ("", "ai.onnx")), 1)
        shapes = {t.name: t.shape for t in self._graph.tensors if t.kind in ("activation", "constant")}
        self._values = OnnxConstants(without_functions, scope.nodes, self._sizes.values, shapes, folder)

    def program(self) -> TensorProgram:
        """The operators as tensor operations. Raises ModelError for damaged values of constants.

        Tensors whose value is known whatever the inputs are, are among the constants, and the operators that write
        nothing else have no operations.
        """
        constants: dict[int, NDArray[np.float32]] = {}
        steps = tuple(self._steps(k, op, constants) for k, op in enumerate(self._graph.ops))
        for index in self._graph.outputs:
            self._keep(index, constants)
        return TensorProgram(self._graph, steps, constants)

    def operator_model(self, number: int) -> bytes:
        """An operator of the graph as a model. Raises as `single_model`."""
        constants = {t.name for t in self._graph.tensors if t.kind == "constant"}
        return single_model(self._model, self._nodes, number, self._sizes, self._values, constants)

    def _steps(self, number: int, op: Op, constants: dict[int, NDArray[np.float32]]) -> tuple[TensorOp, ...] | str:
        """The tensor operations of an operator, or why it has none; adds the constants that they read."""
        if op.bodies:
            return f"{op.type} with bodies"
        outputs = [index for index in op.outputs if index >= 0]
        tensors = [self._graph.tensors[index] for index in outputs]
        if all(t.kind == "constant" or (t.kind == "activation" and not prod(t.shape)) for t in tensors):
            return ()
        known = [self._keep(index, constants) for index in outputs]
        if all(known):
            return ()
        rule = RULES.get(op.type)
        if rule is None:
            return op.type
        call = OnnxOperator(self._graph, op, self._nodes[number].proto, self._values, self._opset, self._read)
        try:
            with np.errstate(all="ignore"):  # weights may be any numbers
                made = tuple(rule(call))
        except InexpressibleError as e:
            return f"{op.type} {e}"
        except (IndexError, OverflowError, ValueError):  # of files in which shapes and attributes contradict each other
            return f"{op.type} with attributes that do not fit its tensors"
        for index in call.constants:
            self._keep(index, constants)
        return made

    def _keep(self, index: int, constants: dict[int, NDArray[np.float32]]) -> bool:
        """Add the value of a tensor to the constants, if it is known and of numbers; returns whether it is."""
        if index not in constants:
            value = self._values.value(self._graph.tensors[index].name)
            if value is None or value.dtype.kind in "OSUc":
                return False
            constants[index] = as_floats(value)
        return True
