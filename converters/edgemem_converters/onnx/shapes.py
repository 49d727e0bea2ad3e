"""The sizes of all values in an ONNX model, node by node from its inputs.

At each node, in this order: onnx's rule for the operator; onnxruntime's, where onnx's leaves gaps and onnxruntime is
installed; what the file declares; what the user bound. Small values that follow from shapes and constants are
computed on the way, because operators such as Reshape take sizes from them. No size is guessed. A size that depends on
the data (NonZero, a branch that data decides) stays unknown, and so does what is computed from it: a plan leaves these
values to the runtime. The user is asked for the open dimensions of the graph's inputs alone.

Values that are never computed are `dead`: those of a branch that a known condition excludes, and those of a branch with
an operator that does not accept the sizes it gets while the other branch does (for example a model with a branch for
each of two sample rates).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, TypeProto

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.onnx.bindings import bind_inputs
from edgemem_converters.onnx.constants import SMALL, may_be_size
from edgemem_converters.onnx.limits import MAX_TYPE_BYTES, MAX_VALUE_BYTES, Budget, inference_work
from edgemem_converters.onnx.operators import Inferred, TypeInference
from edgemem_converters.onnx.rules import dims_of, is_known
from edgemem_converters.onnx.scopes import op_type, tensor_type
from edgemem_converters.onnx.types import at, common, sliced, stacked, widened
from edgemem_converters.onnx.unknown_sizes import SizeOrigin, left_to_runtime, unknown_sizes
from edgemem_converters.onnx.values import BOUNDED, FOLDED, shape_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from onnx import ModelProto

    from edgemem.formats import Bindings
    from edgemem_converters.onnx.bindings import Symbols
    from edgemem_converters.onnx.scopes import Scope, ScopeNode

__all__ = ["InferredSizes", "infer"]


@dataclass(frozen=True, slots=True)
class InferredSizes:
    """The types of values by their unique names.

    Attributes:
        types: of every value; all dimensions are known unless the value is in `outside`.
        outside: why a plan has no place for a value: it is never computed, or its size depends on the data.
        values: small values that follow from shapes and constants, by name.
        dead: values that are never computed.
    """

    types: dict[str, TypeProto]
    outside: Mapping[str, str]
    values: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    dead: frozenset[str] = frozenset()


def infer(scope: Scope, model: ModelProto, bindings: Bindings) -> InferredSizes:
    """The sizes of everything in the main graph and in the bodies that can run, except what depends on the data.

    Raises UnknownShapeError naming tensors, symbols and flags if dimensions of inputs are open, or if an operator has
    no rule or does not take its inputs; and ModelError for bindings that contradict the model.
    """
    types, symbols = bind_inputs(scope, bindings)
    walk = _Walk(TypeInference(model, inference_work(_count(scope))), symbols, types)
    walk.origins |= {n: SizeOrigin("input") for n in scope.inputs if walk.lacks(n)}
    walk.scope(scope)
    symbols.check_used(bindings.dims)
    missing = [n for n in _names(scope) if walk.lacks(n)]
    origins = {n: walk.origins.get(n, SizeOrigin("fault")) for n in missing}
    if any(origin.kind != "data" for origin in origins.values()):
        raise unknown_sizes(origins, types, scope.inputs)
    outside = walk.dead | {n: left_to_runtime(origin) for n, origin in origins.items()}
    return InferredSizes(types, outside, walk.values, frozenset(walk.dead))


@dataclass(slots=True)
class _Walk:
    operators: TypeInference
    symbols: Symbols
    types: dict[str, TypeProto]
    values: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    origins: dict[str, SizeOrigin] = field(default_factory=dict)  # values whose size or content is unknown -> why
    dead: dict[str, str] = field(default_factory=dict)  # value -> why it is never computed
    contradicted: set[str] = field(default_factory=set)  # values whose operator cannot take inputs of known sizes
    type_bytes: Budget = field(
        default_factory=lambda: Budget(
            "MAX_TYPE_BYTES", MAX_TYPE_BYTES, "the types of the model's values have too many bytes"
        )
    )
    value_bytes: Budget = field(
        default_factory=lambda: Budget(
            "MAX_VALUE_BYTES", MAX_VALUE_BYTES, "the values that sizes may follow from have too many bytes"
        )
    )

    @property
    def work(self) -> Budget:
        return self.operators.work

    def scope(self, scope: Scope) -> None:
        self.work.spend(len(scope.constants) // 4)
        for name, constant in scope.constants.items():
            self.types[name] = tensor_type(constant.elem_type, constant.dims)
            if constant.values is not None:
                self.values[name] = constant.values
            elif may_be_size(constant):
                wrong = f"the values of constant {name!r} are in a file that is not there; put it beside the model"
                self.origins[name] = SizeOrigin("fault", wrong)
        for node in scope.nodes:
            for name in node.outputs:
                for known in (self.values, self.types, self.origins):
                    known.pop(name, None)  # of an earlier turn through a loop's body
                self.contradicted.discard(name)
            made = self._made(node)
            for name, inferred in zip(node.outputs, _padded(made.types, len(node.outputs)), strict=True):
                if name:
                    self._complete(name, inferred, scope.declared.get(name))
            self._fold(node, made)
            lacking = [n for n in node.outputs if n and self.lacks(n)]
            self.origins |= {n: self._origin(node, self.types.get(n), made) for n in lacking}

    def _complete(self, name: str, made: TypeProto | None, declared: TypeProto | None) -> None:
        completed = self.symbols.complete_type(name, made, declared)
        if completed is not None:
            self.type_bytes.spend(completed.ByteSize())
            self.types[name] = completed

    def _inherited(self, node: ScopeNode) -> SizeOrigin | None:
        """Why something that the node reads is unknown; None if everything is known."""
        results = [n for body in node.bodies for n in body.outputs if n not in self.dead]
        reads = (self.origins.get(n) for n in (*node.inputs, *node.captured, *results))
        return next((origin for origin in reads if origin), None)

    def _origin(self, node: ScopeNode, known: TypeProto | None, made: Inferred | None = None) -> SizeOrigin:
        """Why a value of this type, which the node makes or hands to its bodies, has an unknown size."""
        if made is not None and made.contradicted:
            return SizeOrigin("fault", f"the operators do not take these sizes: {node.label!r}: {made.reason}")
        if inherited := self._inherited(node):
            return inherited
        if node.proto.domain == "ai.onnx.ml" or (known is not None and known.tensor_type.elem_type):
            return SizeOrigin("data", op_type(node.proto))
        return SizeOrigin("fault", f"{node.label!r}: {made.reason}" if made is not None and made.reason else "")

    def _made(self, node: ScopeNode) -> Inferred:
        default = node.proto.domain in ("", "ai.onnx")
        control = {"If": self._if, "Loop": self._loop, "Scan": self._scan, "SequenceMap": self._sequence_map}
        if default and node.proto.op_type in control:
            return Inferred(control[node.proto.op_type](node))
        for body in node.bodies:
            self._enter(node, body, list(body.inputs.values()))
        return self._by_rule(node)

    def _by_rule(self, node: ScopeNode) -> Inferred:
        types = [self.types.get(n) if n else None for n in node.inputs]
        values = [self.values.get(n) for n in node.inputs]
        made = self.operators.infer(node, types, values)
        if made.contradicted:
            self.contradicted.update(filter(None, node.outputs))
        return made

    def _fold(self, node: ScopeNode, made: Inferred) -> None:
        """Compute the node's outputs if they are small and follow from what is known.

        What is unknown only because a size is, has the origin of that size.
        """
        if node.proto.domain not in ("", "ai.onnx") or node.proto.op_type not in FOLDED or not node.outputs:
            return
        inputs = [n for n in node.inputs if n]
        outputs = [n for n in node.outputs if n]
        if node.proto.op_type in ("Shape", "Size") and inputs and outputs:
            dims = dims_of(self.types.get(inputs[0]))
            sizes = [d for d in dims or () if isinstance(d, int)]
            if dims is not None and len(sizes) == len(dims):
                self.values[outputs[0]] = shape_value(node.proto, sizes)
                return
        if inherited := self._inherited(node):
            self.origins |= dict.fromkeys(outputs, inherited)
            return
        if not all(n in self.values for n in inputs):
            return
        counted = all(_elements(self.types.get(n)) <= SMALL for n in outputs)
        if not counted and node.proto.op_type not in BOUNDED:
            return
        found = self.operators.evaluate(node, made, [self.values.get(n) for n in node.inputs])
        for name, value in zip(outputs, found or (), strict=False):
            self.value_bytes.spend(value.nbytes)
            known = self.types.get(name)
            if not counted and known is not None:
                self.types[name] = tensor_type(known.tensor_type.elem_type, value.shape)
            if list(value.shape) == dims_of(self.types.get(name)):
                self.values[name] = value

    def _enter(self, node: ScopeNode, body: Scope, inputs: Sequence[TypeProto | None]) -> None:
        self.work.spend(1 + len(body.inputs))
        for (name, said), made in zip(body.inputs.items(), inputs, strict=False):
            self.types.pop(name, None)
            self.origins.pop(name, None)
            self._complete(name, made, said)
            if self.lacks(name):
                self.origins[name] = self._origin(node, self.types.get(name))
        self.scope(body)

    def _turns(
        self,
        node: ScopeNode,
        body: Scope,
        start: Sequence[TypeProto],
        carried: Sequence[TypeProto | None],
        after: Sequence[TypeProto | None],
        outputs: Sequence[str],
    ) -> list[TypeProto | None]:
        """Infer a body until its carried values keep their sizes between iterations; the types of its outputs."""
        current = list(carried)
        while True:
            self._enter(node, body, [*start, *current, *after])
            results = [self.types.get(n) for n in outputs]
            turned = [widened(c, r) for c, r in zip(current, results, strict=False)]
            if turned == current[: len(turned)]:
                return [common(c, r) for c, r in zip(carried, results, strict=False)]
            current = [*turned, *current[len(turned) :]]

    def _if(self, node: ScopeNode) -> Sequence[TypeProto | None]:
        self.work.spend(sum(map(_count, node.bodies)) // 4)  # names are looked at here
        condition = self.values.get(node.inputs[0]) if node.inputs else None
        chosen = None if condition is None else "then_branch" if condition.any() else "else_branch"
        live = [b for b in node.bodies if chosen in (None, b.name)]
        for body in node.bodies:
            if body in live:
                for name in _names(body, constants=True):
                    self.dead.pop(name, None)
                self._enter(node, body, [])
            else:
                self.dead |= dict.fromkeys(_names(body, constants=True), "in a branch that is never taken")
        possible = [b for b in live if not any(n in self.contradicted and self.lacks(n) for n in _names(b))]
        if len(live) == 2 and len(possible) == 1 and all(map(self._is_explained, _names(possible[0]))):
            for body in live:
                if body not in possible:
                    self.dead |= dict.fromkeys(_names(body, constants=True), "in a branch that fails at these sizes")
            live = possible
        made: list[TypeProto | None] = []
        for k, output in enumerate(node.outputs):
            names = [b.outputs[k] for b in live if k < len(b.outputs)]
            types = [self.types.get(n) for n in names]
            both = types[0] if types else None
            for other in types[1:]:
                both = common(both, other)
            made.append(both)
            if chosen and names and names[0] in self.values:
                self.values[output] = self.values[names[0]]
        return made

    def lacks(self, name: str) -> bool:
        return name not in self.dead and not is_known(self.types.get(name))

    def _is_explained(self, name: str) -> bool:
        """Whether the value's size is known, or depends on the data."""
        return not self.lacks(name) or self.origins.get(name, SizeOrigin("fault")).kind == "data"

    def _loop(self, node: ScopeNode) -> Sequence[TypeProto | None]:
        body = node.bodies[0] if node.bodies else None
        if body is None or len(body.inputs) < 2 or len(node.inputs) != len(body.inputs):
            raise UnsupportedError(f"Loop {node.label!r} and its body differ in their inputs")
        trips, condition = node.inputs[:2]
        start = [tensor_type(TensorProto.INT64, ()), tensor_type(TensorProto.BOOL, ())]
        carried = [self.types.get(n) for n in node.inputs[2:]]
        count = len(carried)
        self.values[list(body.inputs)[1]] = np.array(True)
        results = self._turns(node, body, start, carried, (), body.outputs[1 : 1 + count])
        always = (not condition or bool(np.any(self.values.get(condition, False)))) and bool(
            body.outputs and np.any(self.values.get(body.outputs[0], False))
        )
        limit = _count_of(self.values.get(trips), node.label)
        turns = limit if always else None
        stacks = [stacked(self.types.get(n), turns, 0) for n in body.outputs[1 + count :]]
        return _padded([*results, *stacks], len(node.outputs))

    def _scan(self, node: ScopeNode) -> Sequence[TypeProto | None]:
        version = next((o.version for o in self.operators.model.opset_import if o.domain in ("", "ai.onnx")), 0)
        ints = {a.name: a.i for a in node.proto.attribute}
        lists = {a.name: list(a.ints) for a in node.proto.attribute}
        body = node.bodies[0] if node.bodies else None
        if version < 9 or body is None or len(node.inputs) != len(body.inputs):
            raise UnsupportedError(f"Scan {node.label!r} is of opset 8 or differs from its body in inputs; convert it")
        count = len(node.inputs) - ints.get("num_scan_inputs", 0)
        if not 0 <= count <= len(node.inputs):
            raise ModelError(f"Scan {node.label!r} has {len(node.inputs)} inputs, and scans more or less than those")
        sequences = [self.types.get(n) for n in node.inputs[count:]]
        axes = lists.get("scan_input_axes") or [0] * len(sequences)
        slices = [sliced(t, axis) for t, axis in zip(sequences, axes, strict=False)]
        length = next((n for t, axis in zip(sequences, axes, strict=False) if (n := at(t, axis)) is not None), None)
        carried = [self.types.get(n) for n in node.inputs[:count]]
        results = self._turns(node, body, [], carried, slices, body.outputs[:count])
        out_axes = lists.get("scan_output_axes") or [0] * len(body.outputs[count:])
        stacks = [
            stacked(self.types.get(n), length, axis) for n, axis in zip(body.outputs[count:], out_axes, strict=False)
        ]
        return _padded([*results, *stacks], len(node.outputs))

    def _sequence_map(self, node: ScopeNode) -> Sequence[TypeProto | None]:
        if not node.bodies:
            return []
        body = node.bodies[0]
        inputs = [self.types.get(n) for n in node.inputs]
        elements = [t.sequence_type.elem_type if t and t.HasField("sequence_type") else t for t in inputs]
        self._enter(node, body, elements)
        made: list[TypeProto | None] = []
        for name in body.outputs:
            sequence = TypeProto()
            sequence.sequence_type.SetInParent()
            if element := self.types.get(name):
                sequence.sequence_type.elem_type.CopyFrom(element)
            made.append(sequence)
        return _padded(made, len(node.outputs))


def _padded(types: Sequence[TypeProto | None], count: int) -> list[TypeProto | None]:
    return [*types[:count], *[None] * (count - len(types))]


def _count_of(trips: NDArray[np.generic] | None, label: str) -> int | None:
    """How often a loop runs by its first input, if that is known. Raises ModelError if it is not one integer."""
    if trips is None:
        return None
    if trips.size != 1 or trips.dtype.kind not in "iu":
        raise ModelError(f"the trip count of Loop {label!r} is not one integer; correct the model")
    return min(max(0, int(trips.item())), 2**63 - 1)


def _count(scope: Scope) -> int:
    """The nodes of a scope and its bodies."""
    return sum(1 + sum(map(_count, node.bodies)) for node in scope.nodes)


def _elements(made: TypeProto | None) -> int:
    """The number of elements, or more than SMALL if unknown."""
    dims = dims_of(made)
    sizes = [d for d in dims or () if isinstance(d, int)]
    return prod(sizes) if dims is not None and len(sizes) == len(dims) else SMALL + 1


def _names(scope: Scope, *, constants: bool = False) -> Iterator[str]:
    """All values of a scope and its bodies, with or without constants, in the order of the file."""
    yield from scope.inputs
    if constants:
        yield from scope.constants
    for node in scope.nodes:
        for body in node.bodies:
            yield from _names(body, constants=constants)
        yield from filter(None, node.outputs)
