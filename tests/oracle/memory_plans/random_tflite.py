"""Random .tflite files: views, results in place, broadcasts, branches, loops, variables, shared subgraphs, int4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracle.memory_plans.tflite_builder import File

if TYPE_CHECKING:
    from random import Random

    from tests.oracle.memory_plans.tflite_builder import Graph

__all__ = ["random_tflite"]

_SHAPES = ((1, 4), (4,), (2, 3), (1, 2, 2, 3), (1, 6), (1, 1), (8,), (1, 3, 4), (2, 1, 3))
_UNARY = ("RELU", "LOGISTIC", "TANH", "ABS", "NEG", "RELU6", "SQUARE", "SIN", "SOFTMAX", "FLOOR", "LEAKY_RELU")
_BINARY = ("ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")


def random_tflite(rng: Random, *, runs: bool = False) -> bytes:
    """A random model.

    Args:
        rng: what decides.
        runs: only operators and forms that TensorFlow Lite Micro runs, and loops that end.
    """
    return _Maker(rng, runs).make()


class _Maker:
    def __init__(self, rng: Random, runs: bool) -> None:
        self.rng, self.runs, self.file = rng, runs, File()
        self.handles = 0

    def make(self) -> bytes:
        rng = self.rng
        main = self.file.graph("m")
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            main.inputs.append(main.tensor("float32", rng.choice(_SHAPES)))
        if not self.runs and rng.random() < 0.2:
            main.inputs.append(main.tensor(rng.choice(("int4", "int8", "int32")), (rng.choice((4, 7)),)))
        known = list(main.inputs)
        if rng.random() < 0.15:  # an input that nothing reads
            known.remove(rng.choice(main.inputs[1:] or main.inputs)) if len(known) > 1 else None
        depth = rng.choice((0, 0, 1, 1, 2))
        self.fill(main, known, rng.randint(2, 14), depth)
        made = [t for op in main.operators for t in op.outputs]
        dense = [t for t in made if main.form(t)[0] != "resource"] or list(main.inputs)
        ends = {dense[-1], *(rng.choice(dense) for _ in range(rng.choice((0, 1, 2))))}
        if rng.random() < 0.08 and not self.runs:
            ends.add(rng.choice(main.inputs))
        main.outputs = sorted(ends, key=lambda _: rng.random())
        return self.file.content()

    def fill(self, g: Graph, known: list[int], count: int, depth: int) -> None:
        """Add operators that read known tensors and make new ones known."""
        steps: list[Any] = [self.unary] * 6 + [self.binary] * 6 + [self.view] * 4 + [self.join, self.reduce, self.cast]
        steps += [self.dense, self.split, self.convolve]
        if not self.runs:
            steps += [self.tiny]
            if self.rng.random() < 0.2:
                steps += [self.variable] * 2
        if depth:
            steps += [self.loop] * 3 + [self.branch] * 2
        if depth and self.rng.random() < 0.2:
            steps += [self.once] * 2
        if depth and not self.runs:
            steps += [self.subgraph]
        for _ in range(count):
            made = self.rng.choice(steps)(g, known, depth) or ()
            known.extend(made)

    def pick(self, g: Graph, known: list[int], dtype: str | None = "float32") -> int:
        """A known tensor, more likely a young one."""
        fit = [t for t in known if dtype is None or g.form(t)[0] == dtype]
        if not fit:
            return g.tensor("float32", (1, 4), self.values((1, 4)))
        return fit[max(self.rng.randrange(len(fit)), self.rng.randrange(len(fit)))]

    def values(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        return np.array([self.rng.uniform(-1, 1) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)

    def unary(self, g: Graph, known: list[int], _: int) -> list[int]:
        kind = self.rng.choice(_UNARY)
        x = self.pick(g, known)
        dtype, shape = g.form(x)
        out = g.tensor(dtype, shape)
        g.call(kind, [x], [out], **({"beta": 1.0} if kind == "SOFTMAX" else {}))
        return [out]

    def binary(self, g: Graph, known: list[int], _: int) -> list[int]:
        a = self.pick(g, known)
        dtype, shape = g.form(a)
        alike = [t for t in known if g.form(t) == (dtype, shape)]
        other = self.rng.random()
        if other < 0.6 and alike:
            b = self.rng.choice(alike)
        elif other < 0.8:
            b = g.tensor(dtype, shape, self.values(shape))
        else:  # a broadcast: the result is larger than one of them
            wide = (*shape[:-1], shape[-1] * 1)
            thin = tuple(1 for _ in shape)
            if self.rng.random() < 0.5:
                b = next((t for t in known if g.form(t) == (dtype, thin)), g.tensor(dtype, thin, self.values(thin)))
            else:
                wide = (3, *shape) if len(shape) < 4 else shape
                b = g.tensor(dtype, wide, self.values(wide))
                shape = wide
        if self.rng.random() < 0.3:
            a, b = b, a
        out = g.tensor(dtype, shape)
        g.call(self.rng.choice(_BINARY), [a, b], [out])
        return [out]

    def view(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known, None)
        dtype, shape = g.form(x)
        n = int(np.prod(shape))
        if dtype not in ("float32", "int8", "int32") or n < 1:
            return []
        if self.rng.random() < 0.25:
            axis = g.tensor("int32", (1,), np.zeros(1, np.int32))
            out = g.tensor(dtype, (1, *shape))
            g.call("EXPAND_DIMS", [x, axis], [out])
        else:
            to = self.rng.choice([(n,), (1, n), (n, 1)])
            out = g.tensor(dtype, to)
            size = g.tensor("int32", (len(to),), np.array(to, np.int32))
            g.call("RESHAPE", [x, size], [out], newShape=list(to))
        return [out]

    def join(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        dtype, shape = g.form(x)
        parts = [x, *(self.rng.choice([t for t in known if g.form(t) == (dtype, shape)] or [x]) for _ in range(2))]
        out = g.tensor(dtype, (shape[0] * 3, *shape[1:]))
        g.call("CONCATENATION", parts, [out], axis=0)
        return [out]

    def reduce(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        dtype, shape = g.form(x)
        axis = g.tensor("int32", (1,), np.array([len(shape) - 1], np.int32))
        out = g.tensor(dtype, (*shape[:-1], 1))
        g.call("MEAN", [x, axis], [out], keepDims=True)
        return [out]

    def cast(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known, None)
        dtype, shape = g.form(x)
        to = self.rng.choice(
            ("int8", "int32", "float32", "int16") if self.runs else ("int8", "int64", "float64", "float32", "bool")
        )
        if to == dtype or (self.runs and dtype not in ("float32", "int8", "int32", "int16")):
            return []
        out = g.tensor(to, shape)
        numbers = {label: number for number, label in self.file.dtypes.items()}
        g.call("CAST", [x], [out], inDataType=numbers[dtype], outDataType=numbers[to])
        return [out]

    def dense(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        shape = g.form(x)[1]
        if len(shape) != 2:
            return []
        units = self.rng.choice((1, 3, 4))
        w = g.tensor("float32", (units, shape[1]), self.values((units, shape[1])))
        out = g.tensor("float32", (shape[0], units))
        g.call("FULLY_CONNECTED", [x, w, -1], [out])
        return [out]

    def split(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        dtype, shape = g.form(x)
        even = [k for k, d in enumerate(shape) if d % 2 == 0]
        if not even:
            return []
        k = self.rng.choice(even)
        axis = g.tensor("int32", (1,) if self.rng.random() < 0.5 and not self.runs else (), np.array([k], np.int32))
        outs = [g.tensor(dtype, (*shape[:k], shape[k] // 2, *shape[k + 1 :])) for _ in range(2)]
        g.call("SPLIT", [axis, x], outs, numSplits=2)
        return outs

    def tiny(self, g: Graph, known: list[int], _: int) -> list[int]:
        """Elements narrower than a byte, strange dtypes, empty tensors; no kernel has to know them."""
        x = self.pick(g, known, None)
        dtype = self.rng.choice(("int4", "int4", "uint8", "int16", "float16", "float64"))
        out = g.tensor(dtype, self.rng.choice(((5,), (2, 7), (0, 3), (1, 9))))
        g.call(self.rng.choice(("QUANTIZE", "GATHER", "GELU")), [x], [out])
        if dtype == "int4" and self.rng.random() < 0.7:
            after = g.tensor("int4", g.form(out)[1])
            g.call(self.rng.choice(("RELU", "ABS", "CUMSUM", "ADD")), [out], [after])
            return [after]
        return [out]

    def convolve(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        shape = g.form(x)[1]
        if len(shape) != 4 or not all(shape):
            return []
        w, b = (g.tensor("float32", s, self.values(s)) for s in ((2, 2, 2, shape[3]), (2,)))
        out = g.tensor("float32", (*shape[:3], 2))
        g.call("CONV_2D", [x, w, b], [out], strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
        return [out]

    def variable(self, g: Graph, known: list[int], _: int) -> list[int]:
        x = self.pick(g, known)
        state = g.tensor("float32", (2, 4), variable=True)
        w, v = (g.tensor("float32", s, self.values(s)) for s in ((2, 4), (2, 2)))
        out = g.tensor("float32", (1, 2))
        g.call("SVDF", [x, w, v, -1, state], [out], rank=1)
        return [out]

    # Control flow.

    def loop(self, g: Graph, known: list[int], depth: int) -> list[int]:
        """A WHILE over a counter and some values, with arithmetic in its condition or without."""
        rng = self.rng
        start = g.tensor("int32", (1,), np.zeros(1, np.int32))
        if rng.random() < 0.5:  # the counter lives in the arena
            moved = g.tensor("int32", (1,))
            g.call("ADD", [start, g.tensor("int32", (1,), np.zeros(1, np.int32))], [moved])
            start = moved
        values = [self.pick(g, known) for _ in range(rng.choice((1, 2, 2, 3)))]
        forms = [g.form(t) for t in (start, *values)]
        condition, body = self.file.graph(f"c{len(self.file.graphs)}_"), self.file.graph(f"b{len(self.file.graphs)}_")
        cond_number, body_number = len(self.file.graphs) - 2, len(self.file.graphs) - 1
        condition.inputs = [condition.tensor(*f) for f in forms]
        body.inputs = [body.tensor(*f) for f in forms]
        limit = condition.tensor("int32", (1,), np.array([rng.choice((0, 1, 2, 3))], np.int32))
        count = condition.inputs[0]
        for _ in range(rng.choice((0, 0, 1, 2))):  # temporaries that meet what is alive around the condition
            temporary = condition.tensor("int32", (1,))
            condition.call("ADD", [count, condition.tensor("int32", (1,), np.zeros(1, np.int32))], [temporary])
            count = temporary
        self.fill(condition, list(condition.inputs[1:]), rng.choice((0, 0, 1, 2)), 0)
        verdict = condition.tensor("bool", (1,))
        condition.call("LESS", [count, limit], [verdict])
        condition.outputs = [verdict]
        inner = list(body.inputs[1:])
        self.fill(body, inner, rng.randint(0, 5), depth - 1)
        counted = body.tensor("int32", (1,))
        body.call("ADD", [body.inputs[0], body.tensor("int32", (1,), np.ones(1, np.int32))], [counted])
        body.outputs = [counted, *self.results(body, inner, forms[1:])]
        outs = [g.tensor(*f) for f in forms]
        g.call("WHILE", [start, *values], outs, condSubgraphIndex=cond_number, bodySubgraphIndex=body_number)
        return outs[1:]

    def results(self, body: Graph, inner: list[int], forms: list[tuple[str, tuple[int, ...]]]) -> list[int]:
        """Results of a body, of given forms: made there, or handed through, also under another's place."""
        found = []
        for form in forms:
            fit = [t for t in inner if body.form(t) == form] or [body.tensor(*form, self.values(form[1]))]
            source = self.rng.choice(fit)
            if self.rng.random() < 0.75:
                out = body.tensor(*form)
                body.call(self.rng.choice(("TANH", "RELU", "SOFTMAX")), [source], [out])
                source = out
            found.append(source)
        return found

    def branch(self, g: Graph, known: list[int], depth: int) -> list[int]:
        rng = self.rng
        values = [self.pick(g, known) for _ in range(rng.choice((1, 2)))]
        forms = [g.form(t) for t in values]
        peak, verdict = (g.tensor(dtype, (1,)) for dtype in ("float32", "bool"))
        flat = g.tensor("int32", (len(forms[0][1]),), np.arange(len(forms[0][1]), dtype=np.int32))
        g.call("MEAN", [values[0], flat], [peak], keepDims=False)
        g.call("LESS", [peak, g.tensor("float32", (1,), np.zeros(1, np.float32))], [verdict])
        numbers = []
        for side in "te":
            body = self.file.graph(f"{side}{len(self.file.graphs)}_")
            numbers.append(len(self.file.graphs) - 1)
            body.inputs = [body.tensor(*f) for f in forms]
            inner = list(body.inputs)
            self.fill(body, inner, rng.randint(0, 4), depth - 1)
            body.outputs = self.results(body, inner, forms)
        if rng.random() < 0.15:
            numbers[1] = numbers[0]  # one subgraph for both
        outs = [g.tensor(*f) for f in forms]
        g.call("IF", [verdict, *values], outs, thenSubgraphIndex=numbers[0], elseSubgraphIndex=numbers[1])
        return outs

    def subgraph(self, g: Graph, known: list[int], depth: int) -> list[int]:
        x = self.pick(g, known)
        body = self.file.graph(f"s{len(self.file.graphs)}_")
        number = len(self.file.graphs) - 1
        body.inputs = [body.tensor(*g.form(x))]
        inner = list(body.inputs)
        self.fill(body, inner, self.rng.randint(1, 3), depth - 1)
        body.outputs = self.results(body, inner, [g.form(x)])
        outs = []
        for _ in range(self.rng.choice((1, 2))):
            outs.append(g.tensor(*g.form(x)))
            g.call("CALL", [x], [outs[-1]], subgraph=number)
            x = outs[-1]
        return outs

    def once(self, g: Graph, known: list[int], _: int) -> list[int]:
        """A resource variable that CALL_ONCE fills, and that is read and assigned."""
        name, form = f"r{self.handles}", ("float32", (1, 4))
        self.handles += 1
        body = self.file.graph(f"o{len(self.file.graphs)}_")
        number = len(self.file.graphs) - 1
        handles = []
        for graph in (body, g):
            handle = graph.tensor("resource", (1,))
            handles.append(handle)
            graph.call("VAR_HANDLE", [], [handle], container=b"", sharedName=name.encode())
            if graph is body:
                fresh = body.tensor(*form)
                constant = body.tensor(*form, self.values(form[1]))
                body.call("TANH", [constant], [fresh])
                body.call("ASSIGN_VARIABLE", [handle, fresh], [])
                g.call("CALL_ONCE", [], [], initSubgraphIndex=number)
        out = g.tensor(*form)
        g.call("READ_VARIABLE", [handles[1]], [out])
        fit = [t for t in known if g.form(t) == form]
        if fit:
            total = g.tensor(*form)
            g.call("ADD", [out, self.rng.choice(fit)], [total])
            g.call("ASSIGN_VARIABLE", [handles[1], total], [])
        return [out]
