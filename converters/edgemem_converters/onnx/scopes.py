"""The contents of an ONNX model: nodes, constants and the graphs inside nodes, every value under a unique name.

In ONNX two branches may use the same name for different values. Here a value of the main graph keeps its name, and one
of a body keeps its name unless an earlier value has it; then the path of its body is put before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx import ModelProto, TypeProto

from edgemem.errors import ModelError
from edgemem_converters.onnx.constants import Constant, ConstantReader
from edgemem_converters.onnx.functions import bodies_of, has_functions, inlined
from edgemem_converters.onnx.limits import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_OPSETS,
    MAX_PATH_CHARACTERS,
    MAX_RANK,
    Budget,
    exceeds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from onnx import GraphProto, NodeProto

__all__ = ["Scope", "ScopeNode", "op_type", "scope_of", "tensor_type"]

_MAX_VERSION = 2**31 - 1  # of an operator set: onnx looks operators up by a C int


@dataclass(frozen=True, slots=True, eq=False)
class ScopeNode:
    """One node. `inputs` and `outputs` are unique names, "" for an absent one.

    Attributes:
        proto: as it stands in the (inlined) model.
        index: its place in `graph.node`.
        label: its name, or its first output's, or its type and place; for messages.
        captured: unique names of outer values that its bodies read, in the order of the reads.
        bodies: the graphs in its attributes, in the order of the attributes.
    """

    proto: NodeProto
    index: int
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    bodies: tuple[Scope, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One graph: the main one, or a body with the name of the attribute it stands in.

    Attributes:
        inputs: values that the caller feeds, with their declared types; initializers are constants even if they are
            inputs too.
        outputs: unique names.
        declared: the types that the file declares for inner values and outputs.
        constants: initializers and Constant nodes' outputs.
        nodes: all but the Constant nodes, in the order of the file.
    """

    name: str
    inputs: Mapping[str, TypeProto]
    outputs: tuple[str, ...]
    declared: Mapping[str, TypeProto]
    constants: Mapping[str, Constant]
    nodes: tuple[ScopeNode, ...]


def op_type(node: NodeProto) -> str:
    """The operator's type, with its domain before it unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def tensor_type(elem_type: int, dims: Iterable[int | str | None] | None) -> TypeProto:
    """A tensor's type; None for an unknown dimension, or for unknown dimensions altogether."""
    made = TypeProto()
    made.tensor_type.elem_type = elem_type
    if dims is not None:
        made.tensor_type.shape.SetInParent()
        for d in dims:
            dim = made.tensor_type.shape.dim.add()
            if isinstance(d, int):
                dim.dim_value = d
            elif d is not None:
                dim.dim_param = d
    return made


def scope_of(model: ModelProto, folder: Path) -> tuple[Scope, ModelProto]:
    """The main graph, and the model it is taken from: the same one, or with its own functions inlined.

    Small external constants are read from `folder` if they are there. Raises ModelError for nodes out of order, names
    written twice or never, damaged constants, functions that call themselves, and for what is beyond a limit.
    """
    texts: list[str | bytes] = [o.domain for o in model.opset_import]
    for f in model.functions:
        texts += (f.domain, f.name, f.overload, *(o.domain for o in f.opset_import))
    _check_text(texts)
    if len(model.opset_import) > MAX_OPSETS:
        raise exceeds(f"the model imports {len(model.opset_import)} operator sets", "MAX_OPSETS")
    for o in model.opset_import:
        if not 0 <= o.version <= _MAX_VERSION:
            raise ModelError(f"the file is damaged: no operator set {o.domain!r} has the version {o.version}")
    if has_functions(model):
        model = inlined(model)
    return _Reader(ConstantReader(folder)).scope(model.graph, model.graph.name, None, ())[0], model


@dataclass(slots=True)
class _Names:
    """The names that a graph's nodes may read: its own, and those of the graphs that it is in."""

    outer: _Names | None
    own: dict[str, str]  # as in the file -> unique

    def find(self, original: str) -> str | None:
        names: _Names | None = self
        while names is not None:
            if original in names.own:
                return names.own[original]
            names = names.outer
        return None


@dataclass(slots=True)
class _Reader:
    constants: ConstantReader
    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)  # name with a path -> how often it was asked for
    characters: Budget = field(
        default_factory=lambda: Budget(
            "MAX_PATH_CHARACTERS", MAX_PATH_CHARACTERS, "the model's bodies use the same long names again and again"
        )
    )

    def scope(
        self, graph: GraphProto, name: str, outer: _Names | None, path: tuple[str, ...]
    ) -> tuple[Scope, tuple[str, ...]]:
        """A graph and the outer values it reads. `outer` are the names visible there."""
        if len(path) > 2 * MAX_DEPTH:
            raise exceeds(f"the model has graphs in graphs, {len(path) // 2} deep", "MAX_DEPTH")
        _check_text(_texts(graph))
        constants = {t.name: self.constants.from_tensor(t) for t in graph.initializer}
        for sparse in graph.sparse_initializer:
            what = f"{_where(path)}: constant {sparse.values.name!r}"
            constants[sparse.values.name] = self.constants.from_sparse(sparse, what)
        inputs = [i for i in graph.input if i.name not in constants]
        nodes = []
        for index, node in enumerate(graph.node):
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                if len(node.output) != 1 or not node.output[0]:
                    raise ModelError(f"{_where(path)}: node {index}, a Constant, has not one output but {node.output}")
                constants[node.output[0]] = self.constants.from_node(node)
            else:
                nodes.append((index, node))
        written = [*(i.name for i in inputs), *(t.name for t in graph.initializer)]
        written += [s.values.name for s in graph.sparse_initializer]
        written += [n for node in graph.node for n in node.output if n]
        local: dict[str, str] = {}
        for original in written:
            if original in local or not original:
                wrong = f"{original!r} is written twice" if original else "a value has no name"
                raise ModelError(f"{_where(path)}: {wrong}")
            local[original] = self._unique(original, path)
        mine = set(local.values())
        captured: dict[str, None] = {}
        visible = _Names(outer, {n: local[n] for n in (*(i.name for i in inputs), *constants)})

        def resolve(original: str, reader: str) -> str:
            if original in visible.own:
                return visible.own[original]
            if original in local:
                wrong = f"{reader} reads {original!r} before it is written; sort the nodes first"
                raise ModelError(f"{_where(path)}: {wrong}")
            if outer is None or (found := outer.find(original)) is None:
                raise ModelError(f"{_where(path)}: {reader} reads {original!r}, which nothing writes")
            captured[found] = None
            return found

        made = []
        for index, node in nodes:
            kind = op_type(node)
            label = node.name or next(filter(None, node.output), f"{kind}_{index}")
            ins = tuple(resolve(n, f"{kind} {label!r}") if n else "" for n in node.input)
            inner: dict[str, None] = {}
            bodies = []
            for body, attribute in bodies_of(node):
                scope, taken = self.scope(body, attribute, visible, (*path, label, attribute))
                bodies.append(scope)
                inner |= dict.fromkeys(taken)
            captured |= dict.fromkeys(n for n in inner if n not in mine)
            outs = tuple(local[n] if n else "" for n in node.output)
            visible.own |= {n: local[n] for n in node.output if n}
            made.append(ScopeNode(node, index, label, ins, outs, tuple(inner), tuple(bodies)))
        outputs = tuple(resolve(o.name, "an output") for o in graph.output)
        declared = {
            local[v.name]: v.type for v in (*graph.output, *graph.value_info) if v.name in local and v.HasField("type")
        }
        scope = Scope(
            name,
            {local[i.name]: i.type for i in inputs},
            outputs,
            declared,
            {local[n]: c for n, c in constants.items()},
            tuple(made),
        )
        return scope, tuple(captured)

    def _unique(self, name: str, path: tuple[str, ...]) -> str:
        """The name itself, else with the path of its body before it, else with a number after that, too."""
        unique, base = name, ""
        while unique in self.taken:
            if not base:
                base = "/".join((*path, name)) if path else name
            count = self.counts[base] = self.counts.get(base, 0) + 1
            unique = base if count == 1 else f"{base}~{count}"
            self.characters.spend(len(unique))
        self.taken.add(unique)
        return unique


def _where(path: tuple[str, ...]) -> str:
    return f"graph {'/'.join(path)!r}" if path else "the graph"


def _check_text(texts: Iterable[str | bytes]) -> None:
    """Raise ModelError for names that are too long, or no UTF-8: protobuf returns those as bytes."""
    for text in texts:
        if not isinstance(text, str):
            raise ModelError(f"the file is damaged: the name {bytes(text)[:80]!r} is no UTF-8")
        if len(text) > MAX_NAME_LENGTH:
            raise exceeds(f"the name {text[:40]!r}... has {len(text):,} characters", "MAX_NAME_LENGTH")


def _texts(graph: GraphProto) -> list[str | bytes]:
    texts: list[str | bytes] = [graph.name]
    for node in graph.node:
        texts += (node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute))
    texts += (t.name for t in graph.initializer)
    texts += (s.values.name for s in graph.sparse_initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        texts.append(value.name)
        texts += _symbols(value.type, value.name)
    return texts


def _symbols(made: TypeProto, name: str) -> Iterator[str]:
    """The symbols in a type, which may be one of sequences or optional values."""
    field_name = made.WhichOneof("value")
    if field_name in ("tensor_type", "sparse_tensor_type"):
        dims = getattr(made, field_name).shape.dim
        if len(dims) > MAX_RANK:
            raise exceeds(f"{name!r} has {len(dims)} dimensions", "MAX_RANK")
        yield from (d.dim_param for d in dims)
    elif field_name in ("sequence_type", "optional_type"):
        yield from _symbols(getattr(made, field_name).elem_type, name)
    elif field_name == "map_type":
        yield from _symbols(made.map_type.value_type, name)
