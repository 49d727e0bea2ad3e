"""The values of an ONNX model's constants, and of what operators compute from constants and shapes alone.

Values are read and computed when they are asked for. Large ones are computed only by operators that are cheap for their
size, up to a number of elements for the whole model; others count as unknown.
"""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgemem.errors import ModelError
from edgemem_converters.onnx.constants import ConstantReader
from edgemem_converters.onnx.values import FOLDED, elements_made, evaluator
from edgemem_converters.onnx.weights import external_content, with_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import NodeProto

    from edgemem_converters.onnx.scopes import ScopeNode

__all__ = ["OnnxConstants"]

MOST_COMPUTED: Final = 2**28  # elements of all values that are computed from others

_PRODUCTS: Final = frozenset(("MatMul", "Gemm", "Conv"))
_LOOPS: Final = frozenset(("GatherND", "ScatterND"))
_DEQUANTIZED: Final = 19  # the operator set from which on ONNX's evaluator computes DequantizeLinear
_LOOP_WORK: Final = 256  # an element that the evaluator takes by itself, in elements of an array

# Each takes time in proportion to its inputs and outputs, but for products. What sizes are computed with is also here:
# larger values are computed with it, too, such as masks and the indices of embeddings.
_COMPUTED: Final = FOLDED.union(
    ("DequantizeLinear", "Exp", "Log", "Sigmoid", "Tanh", "Relu", "Erf", "Sin", "Cos", "Tan", "Atan", "IsNaN", "IsInf"),
    (
        "ReduceMean",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
        "Trilu",
        "Pad",
        "OneHot",
        "Sum",
        "Mean",
    ),
    ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "Softmax", "LogSoftmax", "Mean"),
    ("LeakyRelu", "PRelu", "Elu", "HardSigmoid", "HardSwish", "Softplus", "Gelu", "DepthToSpace", "SpaceToDepth"),
    _PRODUCTS,
)
_SAME_ORDER: Final = frozenset(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"))
_PLAIN: Final = frozenset("?bBhHiIlLqQefd")  # NumPy's own types, as the files have them


class OnnxConstants:
    """Values of the main graph by name. Every method raises ModelError for constants that are damaged or missing."""

    def __init__(
        self,
        model: ModelProto,
        nodes: Sequence[ScopeNode],
        small: Mapping[str, NDArray[np.generic]],
        shapes: Mapping[str, tuple[int, ...]],
        folder: Path,
    ) -> None:
        """Of a model.

        Args:
            model: without functions of its own.
            nodes: its operators, in order.
            small: values that are known already.
            shapes: of all tensors of known size.
            folder: where weight files are.
        """
        self._model, self._folder, self._small, self._shapes = model, folder, small, shapes
        self._tensors = {t.name: t for t in model.graph.initializer}
        self._constants = {n.output[0]: n for n in model.graph.node if _is_constant(n)}
        self._found: dict[str, NDArray[np.generic] | None] = {}
        self._reader = ConstantReader(folder)
        self._left = MOST_COMPUTED
        self._makers: dict[str, int] = {}
        self._nodes = nodes
        known = {*self._tensors, *self._constants, *small}
        for number, node in enumerate(nodes):
            if not node.bodies and self._is_computed(node) and all(n in known for n in node.inputs if n):
                self._makers |= {n: number for n in node.outputs if n}
                known.update(node.outputs)
        self._known = known - {""}

    def is_known(self, name: str) -> bool:
        """Whether a value is a constant, or can be computed from constants."""
        return name in self._known

    def tensor(self, name: str) -> TensorProto | None:
        """A constant as it stands in the model, with its values; None for what is no dense constant of its own."""
        if name in self._tensors:
            try:
                return with_values(self._tensors[name], self._folder)
            except OSError as e:
                raise _unreadable(name, e) from None
        made = self.value(name)
        if made is None:
            return None
        try:
            return numpy_helper.from_array(made, name)
        except (TypeError, ValueError, KeyError, AttributeError):
            return None

    def value(self, name: str) -> NDArray[np.generic] | None:
        """A value in its own dtype; it is not to be written. None if it is unknown."""
        if name not in self._known:
            return None
        for number in self._needed(name):
            self._compute(self._nodes[number])
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def _is_computed(self, node: ScopeNode) -> bool:
        if node.proto.domain not in ("", "ai.onnx") or node.proto.op_type not in _COMPUTED:
            return False
        return all(n in self._shapes for n in node.outputs if n)

    def _needed(self, name: str) -> list[int]:
        """The operators that have to run before a value is known, in order."""
        needed: set[int] = set()
        names = [name]
        while names:
            one = names.pop()
            number = self._makers.get(one)
            if one in self._found or one in self._small or number is None or number in needed:
                continue
            needed.add(number)
            names += [n for n in self._nodes[number].inputs if n]
        return sorted(needed)

    def _read(self, name: str) -> NDArray[np.generic] | None:
        if name in self._small:
            return self._small[name]
        if name in self._constants:
            return self._of_node(self._constants[name])
        return self._of_tensor(self._tensors[name]) if name in self._tensors else None

    def _of_node(self, node: NodeProto) -> NDArray[np.generic] | None:
        for a in node.attribute:
            if a.name == "value" and a.HasField("t"):
                return self._of_tensor(a.t)
            if a.name in ("value_floats", "value_ints"):
                return np.array(a.floats, np.float32) if a.name == "value_floats" else np.array(a.ints, np.int64)
        return self._reader.from_node(node).values

    def _of_tensor(self, tensor: TensorProto) -> NDArray[np.generic] | None:
        if tensor.data_type == TensorProto.STRING:
            return None
        try:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            if tensor.data_location == TensorProto.EXTERNAL and dtype.char in _PLAIN:
                content = external_content(tensor, self._folder)
                return np.frombuffer(content, dtype.newbyteorder("<")).reshape(tuple(tensor.dims))
            return np.asarray(numpy_helper.to_array(with_values(tensor, self._folder)))
        except (ValueError, TypeError, KeyError, OSError, RuntimeError, onnx.checker.ValidationError) as e:
            raise _unreadable(tensor.name, e) from None

    def _compute(self, node: ScopeNode) -> None:
        inputs = {n: self.value(n) for n in node.inputs if n}
        made: Sequence[NDArray[np.generic]] | None = None
        feeds = {n: v for n, v in inputs.items() if v is not None}
        if len(feeds) == len(inputs):
            made = self._moved(node, feeds) or self._evaluated(node, feeds)
        outputs = [n for n in node.outputs if n]
        self._found |= dict.fromkeys(outputs)
        self._found |= {n: v for n, v in zip(outputs, made or (), strict=False) if v.shape == self._shapes[n]}

    def _moved(self, node: ScopeNode, feeds: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.generic]] | None:
        """The result of an operator that only gives its input another shape, without a copy; None for others."""
        if len(node.outputs) != 1 or not node.inputs:
            return None
        value, shape = feeds[node.inputs[0]], self._shapes[node.outputs[0]]
        if node.proto.op_type in _SAME_ORDER and value.size == prod(shape):
            return [value.reshape(shape)]
        return None

    def _evaluated(self, node: ScopeNode, feeds: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.generic]] | None:
        work = sum(prod(self._shapes[n]) for n in node.outputs if n) + sum(v.size for v in feeds.values())
        if node.proto.op_type in _PRODUCTS:
            inner = (v.shape[-1:] if node.proto.op_type == "MatMul" else v.shape[1:] for v in feeds.values())
            work *= max(map(prod, inner), default=1)
        if node.proto.op_type in _LOOPS:
            work *= _LOOP_WORK
        if work > self._left:
            return None
        model = ModelProto(ir_version=10, opset_import=self._model.opset_import)
        model.graph.name = "constant"
        if node.proto.op_type == "DequantizeLinear":
            for one in model.opset_import:  # the same of these inputs; the evaluator has none before
                one.version = max(one.version, _DEQUANTIZED) if one.domain in ("", "ai.onnx") else one.version
        model.graph.node.append(node.proto)
        try:
            if elements_made(node.proto, [feeds[n] for n in node.inputs if n]) > self._left:
                return None
            for name, value in feeds.items():
                elem = helper.np_dtype_to_tensor_dtype(value.dtype)
                model.graph.input.append(helper.make_tensor_value_info(name, elem, value.shape))
            model.graph.output.extend(helper.make_value_info(n, onnx.TypeProto()) for n in node.outputs if n)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                made = evaluator(model).run(None, dict(feeds))
        except ModelError:
            raise
        except Exception:  # noqa: BLE001 - an evaluator of foreign nodes; a value that is not found is only unknown
            return None
        self._left -= work
        return [np.asarray(v) for v in made] if all(isinstance(v, np.ndarray | np.generic) for v in made) else None


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1


def _unreadable(name: str, error: Exception) -> ModelError:
    return ModelError(f"the values of constant {name!r} cannot be read: {error}")
