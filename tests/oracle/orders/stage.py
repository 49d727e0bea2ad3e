"""What is the same in all orders of a graph: which tensors have memory, which are one, and how large they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from edgemem.model.aliasing import RULES
from edgemem.model.graph import RUN_ONCE
from tests.oracle.memory_plans.gpu import extent_of, places_of, size_of
from tests.oracle.memory_plans.program import BITS, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem import Target
    from edgemem.model.graph import Graph, Op, Tensor

__all__ = ["Stage", "filled_states"]


def _value(tensor: Tensor) -> Value:
    return Value(tensor.name, tensor.dtype, tensor.shape)


def filled_states(graph: Graph, target: Target) -> dict[str, str]:
    """The target's states by input, with each * filled in."""
    found: dict[str, str] = {}
    for past, present in target.states.items():
        head, star, tail = past.partition("*")
        for name in (graph.tensors[i].name for i in graph.inputs):
            fits = len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail)
            if (star and fits) or name == past:
                found[name] = present.replace("*", name[len(head) : len(name) - len(tail)])
    return found


@dataclass(eq=False)
class Stage:
    """What is the same in all orders of a graph.

    Attributes:
        sizes: of each root, by name; what is not in it has no memory in the plan.
        roots: of every tensor of the graph and its bodies that has memory, by name.
        fixed: roots whose memory is taken by nothing: inputs, outputs, variables, states, what bodies take in and give.
        readers: how many inputs of operators each tensor is, by name.
        shared: tensor of a graph that several operators run -> the name of the memory that is there once.
        members: how many tensors such memory has.
    """

    graph: Graph
    target: Target
    sizes: dict[str, int] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    readers: Counter[str] = field(default_factory=Counter)
    forms: dict[str, Tensor] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    members: Counter[str] = field(default_factory=Counter)
    uses: Counter[str] = field(default_factory=Counter)  # operators that read any name of a root
    always: dict[str, int] = field(default_factory=dict)  # there during the whole run
    results: set[str] = field(default_factory=set)  # of the graph itself, where they are in the arena
    given: dict[str, str] = field(default_factory=dict)  # a result of a branch -> the one of the first branch there

    def __post_init__(self) -> None:
        target = self.target
        if target.kernels != "none" or target.slots or target.pins or target.region.reserved:
            raise NotImplementedError("overlaps, slots, pins and reserved ranges are not simulated")
        self.rules = RULES[target.aliasing]
        self.inline = target.bodies == "inline"
        self.states = filled_states(self.graph, target)
        held = self.names(self.graph, self.graph.outputs) if target.outputs == "outside" else []
        self.written_states = {*self.states.values()}.difference(held)
        for g, op in self._walk(self.graph):
            self.readers.update(g.tensors[i].name for i in op.inputs if i >= 0)
        self._declare(self.graph, top=True)
        self._find_shared()
        for g, op in self._walk(self.graph):
            self._find_given(g, op)
        for g, op in self._walk(self.graph):
            self._find_homes(g, op)
        for g, op in self._walk(self.graph):
            self._find_view(g, op)
        for g, op in self._walk(self.graph):
            self.uses.update({self.roots[n] for n in self.names(g, op.inputs) if n in self.roots})

    def _walk(self, g: Graph) -> Iterator[tuple[Graph, Op]]:
        for op in g.ops:
            if self.inline:
                for body in op.bodies:
                    yield from self._walk(body)
            yield g, op

    @staticmethod
    def names(g: Graph, indices: Sequence[int]) -> list[str]:
        return [g.tensors[i].name if i >= 0 else "" for i in indices]

    def bytes_of(self, tensor: Tensor) -> int:
        if self.target.storage == "phwc4":
            return size_of(_value(tensor), self._form(), self.target)
        bits = BITS[tensor.dtype]
        if self.target.sub_byte == "unpacked":
            bits = max(bits, 8)
        return (prod(tensor.shape) * bits + 7) // 8

    def _units(self, tensor: Tensor) -> int:
        if not self.target.texels:
            return self.bytes_of(tensor)
        if self.target.storage == "phwc4":
            width, height = extent_of(_value(tensor), self._form(), self.target) or (0, 0)
            return width * height
        shape = tensor.shape
        if tensor.dtype not in ("float32", "float16") or len(shape) > 4 or not all(shape):
            return 0
        batch, *middle, channels = (1, *shape) if len(shape) < 2 else shape
        if len(shape) == 4 and self.graph.layout == "nchw":
            batch, channels, *middle = shape
        return batch * prod(middle) * -(-channels // 4) if shape else 1

    def _form(self) -> str:
        return "onnx" if self.graph.layout == "nchw" else ""

    def _declare(self, g: Graph, *, top: bool) -> None:
        """Which tensors have memory, and which of them keep it."""
        target, ends = self.target, {*g.inputs, *g.outputs}
        written = {i for op in g.ops for i in op.outputs}
        for index, tensor in enumerate(g.tensors):
            name, is_input = tensor.name, index in g.inputs
            if tensor.kind in ("constant", "captured", "opaque"):
                continue
            if tensor.kind == "variable":
                if target.variables == "whole_run" and self._units(tensor):
                    self.always[name] = self._units(tensor)
                continue
            state = top and (name in self.states or name in self.states.values())
            if state and is_input:
                self.always[name] = self._units(tensor)
            if state or not (is_input or index in written):
                continue
            if top and index in g.inputs and target.inputs == "outside":
                continue
            if top and index in g.outputs and not is_input and target.outputs == "outside":
                continue
            self.forms[name] = tensor
            self.sizes[name] = self._units(tensor)
            self.roots[name] = name
            if index in ends:
                self.fixed.add(name)
            if top and index in g.outputs:
                self.results.add(name)
        for op in g.ops if self.inline else ():
            for body in op.bodies:
                self._declare(body, top=False)

    def _find_shared(self) -> None:
        """A subgraph that several operators run is in memory once."""
        groups: dict[tuple[int, int], list[str]] = {}
        bodies = [body for _, op in self._walk(self.graph) if self.inline for body in op.bodies]
        for g in (self.graph, *bodies):
            for index, tensor in enumerate(g.tensors) if g.number >= 0 else ():
                if tensor.name in self.roots or (tensor.kind == "variable" and tensor.name in self.always):
                    groups.setdefault((g.number, index), []).append(tensor.name)
        for key, names in groups.items():
            if len(names) < 2:
                continue
            if names[0] in self.always:
                for other in names[1:]:
                    del self.always[other]
                continue
            self.fixed.update(names)
            self.shared.update(dict.fromkeys(names, f"tensor {key[1]} of graph {key[0]}"))
            self.members[self.shared[names[0]]] = len(names)

    def _find_given(self, g: Graph, op: Op) -> None:
        """Only one branch runs: what each gives back in one position is one piece of memory, if all can be."""
        if not (op.bodies and self.inline and op.type in RUN_ONCE):
            return
        if any(n not in self.roots and n not in self.written_states for n in self.names(g, op.outputs)):
            return
        found: dict[str, str] = {}
        for position in range(len(op.outputs)):
            first = None
            for body in op.bodies:
                if len(body.outputs) < len(op.outputs) or len(set(body.outputs)) < len(body.outputs):
                    return
                index = body.outputs[position]
                tensor = body.tensors[index]
                if tensor.name not in self.roots or index in body.inputs or tensor.name in self.shared:
                    return
                first = first or tensor
                if (tensor.dtype, tensor.shape) != (first.dtype, first.shape):
                    return
                found[tensor.name] = first.name
        self.given.update(found)

    def _find_homes(self, g: Graph, op: Op) -> None:
        """A copy from one place to the same is none: such inputs of bodies have no memory of their own."""
        if not (op.bodies and self.inline) or self.target.texels:
            return
        pairs: list[tuple[Graph, int, str]] = []
        if op.type == "IF":
            pairs += [
                (body, i, n)
                for body in op.bodies
                for i, n in zip(body.inputs, self.names(g, op.inputs)[1:], strict=False)
            ]
        elif op.type == "WHILE" and len(op.bodies) == 2:
            condition, body = op.bodies
            read = {i for inner in condition.ops for i in inner.inputs} | {*condition.outputs}
            ends = list(zip(op.outputs, self.names(g, op.outputs), strict=True))
            for i, (o, n) in zip(condition.inputs, ends, strict=False):
                if i not in read and op.outputs.count(o) == 1:
                    pairs.append((condition, i, n))
            for at, (i, (o, n)) in enumerate(zip(body.inputs, ends, strict=False)):
                elsewhere = {k for k, out in enumerate(body.outputs) if out == i} - {at}
                if op.outputs.count(o) == 1 and not elsewhere:
                    pairs.append((body, i, n))
        for body, i, original in pairs:
            tensor = body.tensors[i]
            name = tensor.name
            if body.inputs.count(i) > 1 or name in self.shared or name not in self.roots:
                continue
            home = self.forms.get(original)
            if home and home.dtype == tensor.dtype and self.bytes_of(home) == self.bytes_of(tensor):
                del self.roots[name], self.sizes[name]

    def _find_view(self, g: Graph, op: Op) -> None:
        out, source = (self.names(g, side)[0] if side else "" for side in (op.outputs, op.inputs))
        if op.type not in self.rules.views or out not in self.roots or out in self.fixed:
            return
        root = self.roots.get(source)
        if root is None or not self._alike(root, out, self._read_of(g, op, root), is_view=True):
            return
        if root not in self.fixed or (self.rules.views_of_outputs and self._is_result(root)):
            self.roots[out] = root
            del self.sizes[out]

    def _is_result(self, root: str) -> bool:
        return root in self.results and root not in {self.graph.tensors[i].name for i in self.graph.inputs}

    def _read_of(self, g: Graph, op: Op, root: str) -> list[Tensor]:
        """What an operator reads of a root, under any of its names."""
        return [self.forms[n] for n in self.names(g, op.inputs) if self.roots.get(n) == root]

    def _alike(self, a: str, b: str, read: Sequence[Tensor], *, is_view: bool = False) -> bool:
        one, other = self.forms[a], self.forms[b]
        if self.rules.same_storage:
            if self.bytes_of(one) != self.bytes_of(other):
                return False
            if is_view:
                return all(self._places(t) == self._places(other) for t in read)
            return all(t.shape == other.shape for t in read)
        if self.target.texels and one.shape != other.shape:
            return False
        return self.bytes_of(one) == self.bytes_of(other)

    def _places(self, tensor: Tensor) -> object:
        return places_of(_value(tensor), self._form(), self.target)

    def candidates(self, g: Graph, op: Op) -> list[str]:
        """Names of inputs that the first result may lie on if they die here, in order of preference."""
        out = self.names(g, op.outputs)[0] if op.outputs else ""
        if out not in self.sizes or out in self.fixed:
            return []
        positions = self.rules.in_place.get(op.type, ())
        reads = self.names(g, op.inputs)
        found = []
        for position in positions:
            name = reads[position] if position < len(reads) else ""
            root = self.roots.get(name)
            if root is None or root in self.fixed or not self._alike(root, out, self._read_of(g, op, root)):
                continue
            if not self.rules.same_storage and BITS[self.forms[root].dtype] != BITS[self.forms[out].dtype]:
                continue
            if self.bytes_of(self.forms[out]) <= self.rules.over:
                continue
            if self.rules.sole_reader and self.readers[name] > 1:
                continue
            if all(p in positions for p, n in enumerate(reads) if self.roots.get(n) == root):
                found.append(root)
        return found
