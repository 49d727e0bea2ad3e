"""One operator of an ONNX model as a model of its own, with its constants inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onnx import ModelProto, ValueInfoProto

from edgemem.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from onnx import NodeProto, SparseTensorProto, TensorProto

    from edgemem_converters.onnx.computation.constants import OnnxConstants
    from edgemem_converters.onnx.scopes import ScopeNode
    from edgemem_converters.onnx.shapes import InferredSizes

__all__ = ["single_model"]

_FIRST_IR: Final = 4  # of files whose initializers need not be inputs, too


def single_model(
    model: ModelProto,
    nodes: Sequence[ScopeNode],
    number: int,
    sizes: InferredSizes,
    values: OnnxConstants,
    constants: AbstractSet[str],
) -> bytes:
    """The bytes of a model of one operator.

    Its inputs are what the operator reads and is not known, in order and each once; its outputs what it writes. They
    have their names in the model. What is computed from constants in a way that is not known here is computed in it.

    Args:
        model: without functions of its own.
        nodes: its operators.
        number: of the operator.
        sizes: of all values.
        values: of constants.
        constants: names of the values that depend on constants alone.

    Raises UnsupportedError for an operator with bodies or of values of unknown types, ModelError for damaged constants.
    """
    node = nodes[number]
    if node.bodies:
        raise UnsupportedError(f"{node.label!r} has bodies, and is no model of one operator")
    made = ModelProto(ir_version=max(model.ir_version, _FIRST_IR), opset_import=model.opset_import)
    made.graph.name = "operator"
    needed = _Needed(model, nodes, values, constants)
    needed.add(number)
    made.graph.initializer.extend(needed.tensors)
    made.graph.sparse_initializer.extend(needed.sparse)
    made.graph.node.extend(needed.nodes)
    made.graph.input.extend(_info(name, sizes) for name in needed.inputs)
    made.graph.output.extend(_info(name, sizes) for name in node.outputs if name)
    return bytes(made.SerializeToString(deterministic=True))


class _Needed:
    """What an operator needs around it."""

    def __init__(
        self, model: ModelProto, nodes: Sequence[ScopeNode], values: OnnxConstants, constants: AbstractSet[str]
    ) -> None:
        self.inputs: list[str] = []
        self.tensors: list[TensorProto] = []
        self.sparse: list[SparseTensorProto] = []
        self.nodes: list[NodeProto] = []
        self._nodes, self._values = nodes, values
        self._sparse = {s.values.name: s for s in model.graph.sparse_initializer}
        self._writers = {n.output[0]: n for n in model.graph.node if n.op_type == "Constant" and len(n.output) == 1}
        self._makers = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
        self._constants = constants

    def add(self, number: int) -> None:
        """Add an operator, and what it reads."""
        numbers, names = {number}, list(self._nodes[number].inputs)
        seen: set[str] = {""}
        while names:
            name = names.pop(0)
            if name in seen:
                continue
            seen.add(name)
            tensor = self._values.tensor(name)
            if tensor is not None:
                self.tensors.append(tensor)
            elif name in self._sparse:
                self.sparse.append(self._sparse[name])
            elif name in self._writers:
                self.nodes.append(self._writers[name])
            elif name in self._constants:
                maker = self._makers[name]
                numbers.add(maker)
                names += self._nodes[maker].inputs
            else:
                self.inputs.append(name)
        self.nodes += [self._nodes[k].proto for k in sorted(numbers)]


def _info(name: str, sizes: InferredSizes) -> ValueInfoProto:
    made = sizes.types.get(name)
    if made is None or made.WhichOneof("value") is None:
        raise UnsupportedError(f"{name!r} is of an unknown type, and no input or output of a model of one operator")
    return ValueInfoProto(name=name, type=made)
