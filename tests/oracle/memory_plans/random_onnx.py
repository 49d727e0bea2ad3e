"""Random .onnx files: views, results in place, broadcasts, casts, Pow of two dtypes, int4, If, Loop and Scan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from onnx import GraphProto, ModelProto

__all__ = ["random_onnx"]

Form = tuple[str, tuple[int, ...]]

_TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "int8": TensorProto.INT8,
    "bool": TensorProto.BOOL,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "uint8": TensorProto.UINT8,
}
_SHAPES = ((1, 4), (4,), (2, 3), (1, 2, 2, 3), (2, 1), (6, 1), (8,), (1, 8, 1, 1), ())
_UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "Softmax", "Sin", "Floor", "Exp", "Elu", "LeakyRelu")
_BINARY = ("Add", "Mul", "Sub", "Max", "Div")


def random_onnx(rng: Random, *, runs: bool = False) -> tuple[bytes, dict[str, Form]]:
    """A random model, and the dtype and shape of what its operators write, of which the file says nothing.

    `runs`: only what ONNX Runtime runs whatever the values are.
    """
    maker = _Maker(rng, runs)
    return maker.make().SerializeToString(), maker.forms


@dataclass(eq=False)
class _Scope:
    """A graph in the making. `known` has the form of every value that can be read, those around it included."""

    known: dict[str, Form]
    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    own: list[str] = field(default_factory=list)


class _Maker:
    def __init__(self, rng: Random, runs: bool) -> None:
        self.rng, self.runs, self.count = rng, runs, 0
        self.forms: dict[str, Form] = {}

    def make(self) -> ModelProto:
        rng = self.rng
        inputs: dict[str, Form] = {}
        for k in range(rng.choice((1, 2, 2, 3))):
            inputs[f"in{k}"] = ("float32", rng.choice(_SHAPES))
        if rng.random() < 0.3:
            inputs["flag"] = ("bool", ())
        if rng.random() < 0.2:
            inputs["whole"] = (rng.choice(("int64", "int32", "float64")), rng.choice(((2,), (4,))))
        scope = _Scope(dict(inputs))
        if rng.random() < 0.15 and len(inputs) > 1:  # an input that nothing reads
            del scope.known["in0"]
        if not any(dtype == "float32" for dtype, _ in scope.known.values()):
            scope.known["in0"] = inputs["in0"]
        self.fill(scope, rng.randint(2, 15), rng.choice((0, 0, 1, 1, 2)))
        made = scope.own or list(scope.known)
        ends = {made[-1], *(rng.choice(made) for _ in range(rng.choice((0, 1, 2))))}
        outputs = [(n, scope.known[n]) for n in sorted(ends)]
        graph = self.graph("g", scope, list(inputs.items()), outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def graph(
        self, name: str, scope: _Scope, inputs: Sequence[tuple[str, Form]], outputs: Sequence[tuple[str, Form]]
    ) -> GraphProto:
        def info(name: str, form: Form) -> Any:
            return helper.make_tensor_value_info(name, _TYPES[form[0]], form[1])

        return helper.make_graph(
            scope.nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs], scope.initializers
        )

    def fill(self, s: _Scope, count: int, depth: int) -> None:
        steps: list[Any] = (
            [self.unary] * 6 + [self.binary] * 7 + [self.view] * 4 + [self.cast] * 2 + [self.join, self.split]
        )
        steps += [self.reduce, self.compare, self.clip, self.matmul, self.power, self.dropout, self.transpose]
        if not self.runs:
            steps += [self.quantise, self.logic]
        if depth:
            steps += [self.branch] * 3 + [self.loop] * 3 + [self.scan]
        for _ in range(count):
            self.rng.choice(steps)(s, depth)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def node(self, s: _Scope, kind: str, inputs: Sequence[str], forms: Sequence[Form], **attributes: Any) -> list[str]:
        outs = [self.fresh() for _ in forms]
        s.nodes.append(helper.make_node(kind, list(inputs), outs, name=f"n{self.count}", **attributes))
        made = dict(zip(outs, forms, strict=True))
        self.forms |= made
        s.known |= made
        s.own += outs
        return outs

    def constant(self, s: _Scope, values: Any) -> str:
        name = self.fresh()
        s.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def pick(self, s: _Scope, *dtypes: str, shape: tuple[int, ...] | None = None) -> str | None:
        fit = [n for n, (d, h) in s.known.items() if (not dtypes or d in dtypes) and (shape is None or h == shape)]
        return fit[max(self.rng.randrange(len(fit)), self.rng.randrange(len(fit)))] if fit else None

    def some(self, s: _Scope) -> tuple[str, tuple[int, ...]]:
        """A float32 value and its shape."""
        name = self.pick(s, "float32")
        if name is None:
            name = self.constant(s, np.ones((1, 4), np.float32))
            s.known[name] = ("float32", (1, 4))
        return name, s.known[name][1]

    def unary(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        kind = self.rng.choice(_UNARY)
        if kind == "Softmax" and not shape:
            kind = "Relu"
        self.node(s, kind, [x], [("float32", shape)])

    def binary(self, s: _Scope, _: int) -> None:
        a, shape = self.some(s)
        b = self.pick(s, "float32", shape=shape)
        if b is None or self.rng.random() < 0.4:
            fit = [n for n, (d, h) in s.known.items() if d == "float32" and _together(shape, h) is not None]
            b = self.rng.choice(fit) if fit else a
            if self.rng.random() < 0.3:
                b = self.constant(s, np.ones(self.rng.choice((shape, (3, *shape), ())), np.float32))
                s.known[b] = ("float32", numpy_helper.to_array(s.initializers[-1]).shape)
        out = _together(shape, s.known[b][1])
        assert out is not None
        if self.rng.random() < 0.4:
            a, b = b, a
        self.node(s, self.rng.choice(_BINARY), [a, b], [("float32", out)])

    def view(self, s: _Scope, _: int) -> None:
        x = self.pick(s)
        if x is None:
            return
        dtype, shape = s.known[x]
        n = int(np.prod(shape))
        kind = self.rng.choice(("Reshape", "Reshape", "Unsqueeze", "Flatten", "Identity"))
        if kind == "Reshape":
            to = self.rng.choice([(n,), (1, n), (n, 1)])
            self.node(s, kind, [x, self.constant(s, np.array(to, np.int64))], [(dtype, to)])
        elif kind == "Unsqueeze":
            self.node(s, kind, [x, self.constant(s, np.array([0], np.int64))], [(dtype, (1, *shape))])
        elif kind == "Flatten" and shape:
            self.node(s, kind, [x], [(dtype, (shape[0], n // shape[0] if shape[0] else 0))], axis=1)
        else:
            self.node(s, "Identity", [x], [(dtype, shape)])

    def cast(self, s: _Scope, _: int) -> None:
        x = self.pick(s, "float32", "float64", "int32", "int64", "bool", "float16", "int8")
        if x is None:
            return
        to = self.rng.choice(("float32", "float32", "float64", "int32", "int64", "int8", "bool", "float16"))
        self.node(s, "Cast", [x], [(to, s.known[x][1])], to=_TYPES[to])

    def join(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        if shape:
            others = [n for n, form in s.known.items() if form == ("float32", shape)]
            parts = [x, self.rng.choice(others), self.rng.choice(others)]
            self.node(s, "Concat", parts, [("float32", (3 * shape[0], *shape[1:]))], axis=0)

    def split(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        even = [k for k, d in enumerate(shape) if d and d % 2 == 0]
        if even:
            k = self.rng.choice(even)
            half = ("float32", (*shape[:k], shape[k] // 2, *shape[k + 1 :]))
            self.node(s, "Split", [x], [half, half], axis=k, num_outputs=2)

    def reduce(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        if shape:
            self.node(s, "ReduceMax", [x, self.constant(s, np.array([0], np.int64))], [("float32", (1, *shape[1:]))])

    def compare(self, s: _Scope, _: int) -> None:
        a, shape = self.some(s)
        b = self.pick(s, "float32", shape=shape) or a
        (mask,) = self.node(s, self.rng.choice(("Less", "Equal", "Greater")), [a, b], [("bool", shape)])
        if self.rng.random() < 0.6:
            self.node(s, "Where", [mask, a, b], [("float32", shape)])

    def logic(self, s: _Scope, _: int) -> None:
        a = self.pick(s, "bool")
        if a is not None:
            b = self.pick(s, "bool", shape=s.known[a][1]) or a
            self.node(s, *self.rng.choice((("Not", [a]), ("And", [a, b]), ("Xor", [a, b]))), [("bool", s.known[a][1])])

    def clip(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        low, high = (self.pick(s, "float32", shape=()) or "" for _ in range(2))
        if self.rng.random() < 0.5:
            low = self.constant(s, np.float32(-1))
        self.node(s, "Clip", [x, low, high], [("float32", shape)])

    def matmul(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        if len(shape) == 2:
            w = self.constant(s, np.ones((shape[1], self.rng.choice((1, 3, 4))), np.float32))
            self.node(
                s, "MatMul", [x, w], [("float32", (shape[0], numpy_helper.to_array(s.initializers[-1]).shape[1]))]
            )

    def power(self, s: _Scope, _: int) -> None:
        """An exponent may have another dtype, and be as many bytes as the result without being as many elements."""
        x, shape = self.some(s)
        fit = [
            n
            for n, (d, h) in s.known.items()
            if d in ("int64", "int32", "float64", "float32") and _together(shape, h) == shape
        ]
        if fit and self.rng.random() < 0.7:
            e = self.rng.choice(fit)
        else:
            flat = self.node(s, "Cast", [x], [("int64", shape)], to=_TYPES["int64"])[0]
            e = flat
            if shape and shape[0] % 2 == 0 and shape[0]:
                half = ("int64", (shape[0] // 2, *shape[1:]))
                e = self.node(s, "Split", [flat], [half, half], axis=0, num_outputs=2)[0]
                if half[1][0] != 1:
                    e = flat
        self.node(s, "Pow", [x, e], [("float32", shape)])

    def dropout(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        self.node(s, "Dropout", [x], [("float32", shape), ("bool", shape)])

    def transpose(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        self.node(s, "Transpose", [x], [("float32", shape[::-1])])

    def quantise(self, s: _Scope, _: int) -> None:
        x, shape = self.some(s)
        dtype = self.rng.choice(("int4", "uint4", "int8"))
        zero = self.fresh()
        s.initializers.append(helper.make_tensor(zero, _TYPES[dtype], (), [0]))
        scale = self.constant(s, np.float32(0.5))
        (q,) = self.node(s, "QuantizeLinear", [x, scale, zero], [(dtype, shape)])
        if self.rng.random() < 0.4:
            (q,) = self.node(s, "Identity", [q], [(dtype, shape)])
        if self.rng.random() < 0.7:
            self.node(s, "DequantizeLinear", [q, scale, zero], [("float32", shape)])

    # Control flow. A body sees what is around it.

    def body(self, s: _Scope, count: int, depth: int, inputs: dict[str, Form]) -> _Scope:
        inner = _Scope({**s.known, **inputs})
        self.fill(inner, count, depth)
        return inner

    def result(self, inner: _Scope, form: Form, handed: Sequence[str] = ()) -> str:
        """A value of a form that a body gives: made there, or one of its own inputs as it is."""
        through = [n for n in handed if inner.known[n] == form]
        if through and self.rng.random() < 0.2:
            return self.rng.choice(through)
        fit = [n for n, f in inner.known.items() if f == form]
        own = [n for n in inner.own if inner.known[n] == form]
        if own and self.rng.random() < 0.4:
            return self.rng.choice(own)
        kind = self.rng.choice(("Tanh", "Identity", "Softmax")) if form[0] == "float32" and form[1] else "Identity"
        return self.node(inner, kind, [self.rng.choice(fit)], [form])[0]

    def flag(self, s: _Scope) -> str:
        name = self.pick(s, "bool", shape=())
        if name is None or self.rng.random() < 0.3:
            x, _ = self.some(s)
            (peak,) = self.node(s, "ReduceMax", [x], [("float32", ())], keepdims=0)
            (name,) = self.node(s, "Less", [peak, self.constant(s, np.float32(0.3))], [("bool", ())])
        return name

    def branch(self, s: _Scope, depth: int) -> None:
        condition = self.flag(s)
        forms = [("float32", self.some(s)[1]) for _ in range(self.rng.choice((1, 2)))]
        sides = {}
        for side in ("then_branch", "else_branch"):
            inner = self.body(s, self.rng.randint(0, 4), depth - 1, {})
            ends = []
            for form in forms:
                end = self.result(inner, form)
                if end in ends:
                    end = self.node(inner, "Identity", [end], [form])[0]
                ends.append(end)
            sides[side] = self.graph(f"{side}{self.count}", inner, [], list(zip(ends, forms, strict=True)))
        self.node(s, "If", [condition], forms, **sides)

    def loop(self, s: _Scope, depth: int) -> None:
        starts = [self.some(s)[0] for _ in range(self.rng.choice((1, 2, 2, 3)))]
        forms = [s.known[n] for n in starts]
        names = [self.fresh() for _ in starts]
        turn, on = self.fresh(), self.fresh()
        inner = self.body(s, self.rng.randint(0, 5), depth - 1, dict(zip(names, forms, strict=True)))
        ends = [self.result(inner, form, names) for form in forms]
        for k, end in enumerate(ends):
            if end in ends[:k]:
                ends[k] = self.node(inner, "Identity", [end], [forms[k]])[0]
        inner.known[on] = ("bool", ())
        (still,) = self.node(inner, "Identity", [on], [("bool", ())])
        rows = []
        if self.rng.random() < 0.4:
            x, shape = self.some(inner)
            rows.append((self.node(inner, "Identity", [x], [("float32", shape)])[0], ("float32", shape)))
        head = [(turn, ("int64", ())), (on, ("bool", ()))]
        body = self.graph(
            f"body{self.count}",
            inner,
            [*head, *zip(names, forms, strict=True)],
            [(still, ("bool", ())), *zip(ends, forms, strict=True), *rows],
        )
        turns = self.rng.choice((0, 1, 2, 3))
        count = self.constant(s, np.int64(turns))
        condition = "" if self.rng.random() < 0.5 or rows else self.flag(s)
        made: list[Form] = [*forms, *((d, (turns, *h)) for _, (d, h) in rows)]
        self.node(s, "Loop", [count, condition, *starts], made, body=body)

    def scan(self, s: _Scope, depth: int) -> None:
        rows = [n for n, (d, h) in s.known.items() if d == "float32" and h and h[0]]
        if not rows:
            return
        start, shape = self.some(s)
        source = self.rng.choice(rows)
        turns, *row = s.known[source][1]
        state, part = self.fresh(), self.fresh()
        one, other = ("float32", shape), ("float32", tuple(row))
        inner = self.body(s, self.rng.randint(0, 4), depth - 1, {state: one, part: other})
        ends = [self.result(inner, one, [state]), self.node(inner, "Tanh", [part], [other])[0]]
        forms = [one, other]
        body = self.graph(
            f"scan{self.count}", inner, [(state, one), (part, other)], list(zip(ends, forms, strict=True))
        )
        self.node(s, "Scan", [start, source], [one, ("float32", (turns, *row))], body=body, num_scan_inputs=1)


def _together(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that two broadcast to; None if they do not."""
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None
