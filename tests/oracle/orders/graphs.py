"""Random graphs: views, results in place, bodies, states, workspace, several outputs, results that nothing reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from edgemem import Target
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.targets import BUILT_IN, Region

if TYPE_CHECKING:
    from random import Random

    from edgemem.model.graph import Layout, TensorKind

__all__ = ["random_graph", "random_target"]

Item = TypeVar("Item")

_PLAIN = ("CONV_2D", "Conv", "MatMul", "Gelu", "Softmax", "SVDF")
_VIEWS = ("Reshape", "RESHAPE", "Squeeze", "EXPAND_DIMS")
_UNARY = ("Relu", "RELU", "Sigmoid", "SOFTMAX", "Cast", "TANH")
_BINARY = ("Add", "ADD", "MUL", "Sub", "DIV", "PRelu")
_DTYPES = ("float32",) * 8 + ("int8", "float16", "int4", "int64")
_ITEMS = ((16, 64), (16, 64), (1, 40), (64, 256))


def random_target(rng: Random, graph: Graph) -> Target:
    """A target whose peaks can be simulated; one in two is built in."""
    if rng.random() < 0.5:
        return rng.choice(list(BUILT_IN.values()))
    texels = rng.random() < 0.15
    target = Target(
        "random",
        alignment=rng.choice((1, 4, 16, 64, 256)),
        inputs=rng.choice(("outside", "until_last_use", "whole_run")),
        outputs=rng.choice(("outside", "to_end")),
        unread=rng.choice(("one_op", "to_end")),
        variables=rng.choice(("outside", "whole_run")),
        aliasing=rng.choice(("none", "elementwise", "elementwise", "litert")),
        bodies=rng.choice(("inline", "inline", "outside")),
        sub_byte=rng.choice(("packed", "unpacked")),
        texels=texels,
        regions=(Region("near"), Region("far")) if rng.random() < 0.1 else (Region("arena"),),
    )
    if rng.random() < 0.4 and not texels:
        target = replace(target, states=_states(rng, graph))
    return target


def _states(rng: Random, graph: Graph) -> dict[str, str]:
    """Inputs and values of the same form that an operator may write over them."""
    pairs: dict[str, str] = {}
    for i in graph.inputs:
        readers = [k for k, op in enumerate(graph.ops) if i in op.inputs]
        first = max(readers, default=-1) + 1
        found = [
            graph.tensors[out].name
            for op in graph.ops[first:]
            for out in op.outputs
            if out >= 0
            and graph.tensors[out].kind == "activation"
            and (graph.tensors[out].dtype, graph.tensors[out].shape) == (graph.tensors[i].dtype, graph.tensors[i].shape)
        ]
        found = [n for n in found if n not in pairs.values()]
        if found and i not in graph.outputs and graph.tensors[i].kind == "activation" and rng.random() < 0.7:
            pairs[graph.tensors[i].name] = rng.choice(found)
    return pairs


def random_graph(rng: Random, count: int, *, bodies: bool = True) -> Graph:
    """A graph of `count` operators."""
    return _Maker(rng, bodies).graph(count)


class _Maker:
    def __init__(self, rng: Random, bodies: bool) -> None:
        self.rng, self.bodies = rng, bodies
        self.made = 0
        low, high = rng.choice(_ITEMS)
        # Few sizes, so that views, results in place and states have partners.
        self.forms: list[tuple[str, tuple[int, ...]]] = [
            (rng.choice(_DTYPES), (rng.randint(low, high),)) for _ in range(rng.randint(2, 5))
        ]
        if rng.random() < 0.3:
            self.forms.append(("float32", (1, rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 9))))
        if rng.random() < 0.1:
            self.forms.append(("float32", (0,)))
        if rng.random() < 0.2:
            self.forms.append(("int8", (rng.randint(1, 5),)))
        self.reach = rng.choice((2, 4, 8))  # how far back operators read
        self.subgraphs: list[Graph] = []
        self.numbers = 0

    def tensor(self, form: tuple[str, tuple[int, ...]] | None = None, kind: TensorKind = "activation") -> Tensor:
        self.made += 1
        return Tensor(f"t{self.made}", *(form or self.rng.choice(self.forms)), kind)

    def graph(self, count: int, *, captured: tuple[Tensor, ...] = (), depth: int = 0, number: int = -1) -> Graph:
        rng = self.rng
        tensors = [self.tensor() for _ in range(rng.choice((1, 1, 2, 3)))]
        inputs = tuple(range(len(tensors)))
        tensors += [replace(t, kind="captured") for t in captured]
        if rng.random() < 0.25:
            tensors.append(self.tensor(kind="variable"))
        if rng.random() < 0.15:
            tensors.append(Tensor(f"o{self.made}{depth}", "string", (2,), "constant"))
        tensors.append(self.tensor(kind="constant"))
        known = [i for i, t in enumerate(tensors) if t.dtype != "string"]
        ops: list[Op] = []
        written: list[int] = []
        for k in range(count):
            op, new = self.operator(k, tensors, known, written, depth)
            written += range(len(tensors), len(tensors) + len(new))
            tensors += new
            known = [i for i, t in enumerate(tensors) if t.dtype != "string"]
            ops.append(op)
        ends = [i for i in written if tensors[i].kind == "activation"]
        outputs = {*ends[-1:], *rng.sample(ends, min(len(ends), rng.choice((0, 0, 1, 2))))}
        if rng.random() < 0.08:
            outputs.add(rng.choice(inputs))
        pairs = {
            tuple(sorted(rng.sample(range(count), 2))) for _ in range(rng.choice((0, 0, 1, 2)) if count > 1 else 0)
        }
        order = sorted(outputs, key=lambda _: rng.random())
        layout: Layout = rng.choice(("nhwc", "nchw"))
        precedence = tuple(sorted((a, b) for a, b in pairs)) if depth == 0 else ()
        return Graph(f"g{self.made}", tuple(tensors), tuple(ops), inputs, tuple(order), layout, precedence, number)

    def operator(
        self, k: int, tensors: list[Tensor], known: list[int], written: list[int], depth: int
    ) -> tuple[Op, list[Tensor]]:
        """One more operator, and the tensors that it writes."""
        rng = self.rng
        if self.bodies and depth < 2 and rng.random() < (0.12 if depth == 0 else 0.08):
            return self.control(k, tensors, known, written, depth)
        shape = rng.random()
        kind = rng.choice(_VIEWS if shape < 0.2 else _UNARY if shape < 0.4 else _BINARY if shape < 0.65 else _PLAIN)
        first = self.pick(known, written)
        ins = [first]
        form = None
        if kind not in _PLAIN:
            form = (tensors[first].dtype, tensors[first].shape)
        if kind in _BINARY:
            alike = [i for i in known if (tensors[i].dtype, tensors[i].shape) == form]
            ins.append(rng.choice(alike) if rng.random() < 0.8 else self.pick(known, written))
            if rng.random() < 0.3:
                ins.reverse()
        elif kind in _PLAIN:
            ins += [self.pick(known, written) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
        if rng.random() < 0.05:
            ins.append(-1)
        if rng.random() < 0.05:
            form = None  # broadcast, or converted
        many = 1 if kind not in _PLAIN else rng.choice((1, 1, 1, 1, 2, 3))
        new = [self.tensor(form if not n else None) for n in range(many)]
        if kind in _PLAIN and rng.random() < 0.02:
            new[-1] = replace(new[-1], kind="opaque", note="its size depends on data")
        outs = [*range(len(tensors), len(tensors) + many)]
        if rng.random() < 0.04:
            outs.insert(rng.choice((0, len(outs))), -1)
        variables = [i for i, t in enumerate(tensors) if t.kind == "variable"]
        if variables and kind in _PLAIN and rng.random() < 0.2 and variables[0] not in written:
            outs.append(variables[0])
            written.append(variables[0])
        work = tuple(self.rng.randint(1, 300) for _ in range(rng.choice((1, 1, 2)))) if rng.random() < 0.15 else ()
        return Op(f"op{k}", kind, tuple(ins), tuple(outs), (), work, ordered=rng.random() < 0.08), new

    def pick(self, known: list[int], written: list[int]) -> int:
        recent = written[-self.reach :]
        return self.rng.choice(recent if recent and self.rng.random() < 0.75 else known)

    # Operators that run graphs of their own.

    def control(
        self, k: int, tensors: list[Tensor], known: list[int], written: list[int], depth: int
    ) -> tuple[Op, list[Tensor]]:
        rng = self.rng
        kind = rng.choice(("IF", "WHILE", "If", "Loop", "CALL", "Scan"))
        outer = [
            i for i in {self.pick(known, written) for _ in range(2)} if tensors[i].kind in ("activation", "captured")
        ]
        captured = tuple(tensors[i] for i in outer) if kind in ("If", "Loop", "Scan") else ()
        ins = [self.pick(known, written) for _ in range(rng.randint(1, 3))]
        many = {"IF": 2, "If": 2, "WHILE": 2, "Loop": 1, "CALL": 1, "Scan": 1}[kind]
        bodies = tuple(self.body(tensors, ins, kind, captured, depth) for _ in range(many))
        forms = [bodies[-1].tensors[i] for i in bodies[-1].outputs]
        if kind == "WHILE":
            forms = [tensors[i] for i in ins]
        elif kind == "Loop":
            forms = forms[1:]
        new = [self.tensor((t.dtype, t.shape)) for t in forms]
        ins += [i for i in outer if captured and i not in ins]
        outs = tuple(range(len(tensors), len(tensors) + len(new)))
        return Op(f"op{k}", kind, tuple(ins), outs, bodies, (), ordered=kind.isupper()), new

    def body(self, tensors: list[Tensor], ins: list[int], kind: str, captured: tuple[Tensor, ...], depth: int) -> Graph:
        """A branch, condition or body; in one case of four one that another operator runs, too."""
        rng = self.rng
        if self.subgraphs and kind.isupper() and rng.random() < 0.4:
            return self.copied(rng.choice(self.subgraphs))
        number = -1
        if kind.isupper() and rng.random() < 0.5:
            self.numbers += 1
            number = self.numbers
        made = self.graph(
            rng.choice((0, 1, 1, 2, 3)),
            captured=captured,
            depth=depth + 1,
            number=number,
        )
        # What it takes in has the forms of what the operator reads, where the formats say so.
        first = {"IF": 1, "CALL": 0, "WHILE": 0}.get(kind, len(ins))
        mine = list(made.tensors)
        for i, source in zip(made.inputs, ins[first:], strict=False):
            mine[i] = replace(mine[i], dtype=tensors[source].dtype, shape=tensors[source].shape)
        if not made.outputs:
            made = replace(made, outputs=made.inputs[:1])
        made = replace(made, tensors=tuple(mine))
        if made.number >= 0:
            self.subgraphs.append(made)
        return made

    def copied(self, graph: Graph) -> Graph:
        """The same subgraph for another operator: names differ, and nothing else."""
        names: dict[str, str] = {}

        def again(g: Graph) -> Graph:
            for t in g.tensors:
                self.made += 1
                names.setdefault(t.name, f"{t.name}_{self.made}")
            tensors = tuple(replace(t, name=names[t.name]) for t in g.tensors)
            ops = tuple(replace(op, bodies=tuple(map(again, op.bodies))) for op in g.ops)
            return replace(g, tensors=tensors, ops=ops)

        return again(graph)
