"""The output types of a model's nodes, from the types and known values of their inputs.

Equal operators with equal inputs have equal outputs: a rule is applied to them once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from onnx import ModelProto, numpy_helper

from edgemem_converters.onnx.contrib import Imports, contrib_types
from edgemem_converters.onnx.corrections import guessed, made_explicit, said_by_the_specification
from edgemem_converters.onnx.preconditions import malformed
from edgemem_converters.onnx.rules import is_known, onnx_types, onnxruntime_types
from edgemem_converters.onnx.types import merged
from edgemem_converters.onnx.values import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from onnx import NodeProto, TypeProto

    from edgemem_converters.onnx.limits import Budget
    from edgemem_converters.onnx.scopes import ScopeNode

__all__ = ["Inferred", "TypeInference"]

_IR_VERSION = 10  # of the models of one node: initializers need not be inputs
_TYPE_BYTES = 1024  # that are a step of work to read, of types
_VALUE_BYTES = 16384  # and of values and attributes
_ELEMENTS = 64  # that are a step of work to compute
_MOST_KEPT = 100_000  # results


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a rule gives.

    Attributes:
        types: of the outputs; None for one that it does not give.
        reason: why the rule failed, or "".
        contradicted: whether it failed although all inputs are known: the operator cannot take these sizes.
        key: equal for operators with equal inputs; b"" if unknown.
    """

    types: Sequence[TypeProto | None]
    reason: str = ""
    contradicted: bool = False
    key: bytes = b""


@dataclass(slots=True)
class TypeInference:
    """Applies rules to the nodes of one model.

    Attributes:
        model: the model, without functions of its own.
        work: what may be spent.
    """

    model: ModelProto
    work: Budget
    _known: dict[bytes, Inferred] = field(default_factory=dict)
    _values: dict[bytes, list[NDArray[np.generic]] | None] = field(default_factory=dict)
    _imports: Imports | None = None
    _operators: dict[int, tuple[bytes, int]] = field(default_factory=dict)  # id of a Node -> its operator, its length

    def infer(
        self, node: ScopeNode, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
    ) -> Inferred:
        """The output types of a node. `types` and `values` are those of its inputs, None for what is unknown.

        Raises ModelError when the work is spent.
        """
        if (partly := guessed(node.proto, types, values)) is not None:
            self.work.spend(1)
            return Inferred(partly)
        key = self._key(node, types, values)
        if key not in self._known:
            made = replace(self._apply(node, types, values), key=key)
            if made.reason or node.bodies or len(self._known) == _MOST_KEPT:  # reasons name the node
                return made
            self._known[key] = made
        return self._known[key]

    def evaluate(
        self, node: ScopeNode, inferred: Inferred, values: Sequence[NDArray[np.generic] | None]
    ) -> list[NDArray[np.generic]] | None:
        """The outputs of a node whose inputs are all known; None if they are no small tensors, or cannot be computed.

        `inferred` is what `infer` gave for this node and these values. Raises ModelError when the work is spent.
        """
        if inferred.key not in self._values:
            made = evaluate(self._single(node, [None] * len(values), values), values)
            self.work.spend(1 + sum(v.size for v in (*values, *(made or ())) if v is not None) // _ELEMENTS)
            if not inferred.key or len(self._values) == _MOST_KEPT:
                return made
            self._values[inferred.key] = made
        return self._values[inferred.key]

    def _key(
        self, node: ScopeNode, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
    ) -> bytes:
        """Equal for operators with equal inputs; spends the work of reading them."""
        digest, length = self._operator(node)
        hashed = blake2b(digest)
        work = 1 + (len(node.inputs) + len(node.outputs)) // 16 + length // _VALUE_BYTES
        for name, known, value in zip(node.inputs, types, values, strict=True):
            if value is not None:
                content, about = value.tobytes(), f"{value.dtype} {value.shape}"
                work += len(content) // _VALUE_BYTES
            else:
                content = known.SerializeToString(deterministic=True) if known is not None else b""
                about = f"{known is not None}"
                work += len(content) // _TYPE_BYTES
            hashed.update(f"{bool(name)} {about} {len(content)};".encode())
            hashed.update(content)
        hashed.update("".join(str(int(bool(n))) for n in node.outputs).encode())
        self.work.spend(work)
        return hashed.digest()

    def _operator(self, node: ScopeNode) -> tuple[bytes, int]:
        """A digest of the operator and its attributes, and the bytes that are read again: 0 when it is met first."""
        if found := self._operators.get(id(node)):
            return found
        operator = node.proto
        if not node.bodies:
            operator = type(operator)(op_type=operator.op_type, domain=operator.domain, overload=operator.overload)
            operator.attribute.extend(node.proto.attribute)
        content = operator.SerializeToString(deterministic=True)
        digest = blake2b(content).digest()
        self._operators[id(node)] = digest, len(content)
        return digest, 0

    def _apply(
        self, node: ScopeNode, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
    ) -> Inferred:
        known = all(is_known(t) for n, t in zip(node.inputs, types, strict=True) if n)
        if known and (found := contrib_types(node.proto, self._imported(), types, values)) is not None:
            made, reason = found
            return Inferred(made, reason, contradicted=bool(reason))
        model = self._single(node, types, values)
        if reason := malformed(model):
            return Inferred([None] * len(node.outputs), reason)
        made_explicit(model.graph.node[0])
        made, reason = onnx_types(model)
        made = said_by_the_specification(node.proto, self.model, types, made)
        if known and not all(is_known(t) for n, t in zip(node.outputs, made, strict=True) if n):
            made = [merged(a, b) for a, b in zip(made, onnxruntime_types(model), strict=True)]
        return Inferred(made, reason if known else "", contradicted=bool(reason) and known)

    def _imported(self) -> Imports:
        if self._imports is None:
            self._imports = Imports.of(self.model)
        return self._imports

    def _single(
        self, node: ScopeNode, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
    ) -> ModelProto:
        """A model of the node alone, inputs `i0, i1, ...`, outputs `o0, o1, ...`; known values are initializers."""
        made = ModelProto(ir_version=_IR_VERSION)
        made.opset_import.extend(self.model.opset_import)
        made.graph.name = "single"
        copy: NodeProto = made.graph.node.add()
        copy.CopyFrom(node.proto)
        del copy.input[:], copy.output[:]
        for k, (name, known, value) in enumerate(zip(node.inputs, types, values, strict=True)):
            copy.input.append(f"i{k}" if name else "")
            if name and value is not None:
                made.graph.initializer.append(numpy_helper.from_array(value, f"i{k}"))
            elif name and known is not None:
                made.graph.input.add(name=f"i{k}").type.CopyFrom(known)
        for k, name in enumerate(node.outputs):
            copy.output.append(f"o{k}" if name else "")
            if name:
                made.graph.output.add(name=f"o{k}")
        return made
