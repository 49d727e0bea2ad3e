"""Small graphs that still show what a large one showed, and graphs as text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgemem import Target
    from edgemem.model.graph import Graph, Op

__all__ = ["smaller", "text"]

_MOST = 300  # graphs that are tried
_FORMS = (("int8", (1,)), ("int8", (64,)), ("int8", (256,)))


def smaller(graph: Graph, shows: Callable[[Graph], bool]) -> Graph:
    """The graph with whatever is not needed for `shows` left out, one thing after the other."""
    tried, again = 0, True
    while again and tried < _MOST:
        again = False
        for make in _simpler(graph):
            tried += 1
            if _holds(make, shows):
                graph, again = make(), True
                break
            if tried >= _MOST:
                break
    return graph


def _holds(make: Callable[[], Graph], shows: Callable[[Graph], bool]) -> bool:
    try:
        return shows(make())
    except (EdgememError, ValueError, StopIteration, KeyError, IndexError, AssertionError):  # no such graph
        return False


def _simpler(graph: Graph) -> Iterator[Callable[[], Graph]]:
    for k in reversed(range(len(graph.ops))):
        yield partial(_without, graph, k)
    for k, op in enumerate(graph.ops):
        for changed in _simpler_op(op):
            yield partial(_with_op, graph, k, changed)
        for number, body in enumerate(op.bodies):
            for simpler in _simpler(body):
                yield partial(_with_body, graph, k, number, simpler)
    for pair in graph.precedence:
        yield partial(replace, graph, precedence=tuple(p for p in graph.precedence if p != pair))
    for i in graph.outputs:
        yield partial(replace, graph, outputs=tuple(o for o in graph.outputs if o != i))
    if graph.number >= 0:
        yield partial(replace, graph, number=-1)
    for i, tensor in enumerate(graph.tensors):
        for dtype, shape in _FORMS:
            if (
                tensor.kind == "activation"
                and (dtype, shape) != (tensor.dtype, tensor.shape)
                and tensor.size > shape[0]
            ):
                new = replace(tensor, dtype=dtype, shape=shape)
                yield partial(replace, graph, tensors=(*graph.tensors[:i], new, *graph.tensors[i + 1 :]))
    used = {i for op in graph.ops for i in (*op.inputs, *op.outputs)} | {*graph.outputs}
    for i in graph.inputs:
        if i not in used:
            yield partial(replace, graph, inputs=tuple(n for n in graph.inputs if n != i))


def _simpler_op(op: Op) -> Iterator[Op]:
    if op.bodies:
        yield replace(op, bodies=())
    if op.scratch:
        yield replace(op, scratch=())
    if op.ordered and not op.bodies:
        yield replace(op, ordered=False)
    for at in reversed(range(len(op.inputs))):
        yield replace(op, inputs=(*op.inputs[:at], *op.inputs[at + 1 :]))
    for at in reversed(range(len(op.outputs))):
        yield replace(op, outputs=(*op.outputs[:at], *op.outputs[at + 1 :]))


def _with_op(graph: Graph, k: int, op: Op) -> Graph:
    return replace(graph, ops=(*graph.ops[:k], op, *graph.ops[k + 1 :]))


def _with_body(graph: Graph, k: int, number: int, make: Callable[[], Graph]) -> Graph:
    op = graph.ops[k]
    return _with_op(graph, k, replace(op, bodies=(*op.bodies[:number], make(), *op.bodies[number + 1 :])))


def _without(graph: Graph, k: int) -> Graph:
    """The graph without an operator; who reads its results reads its first input or a constant instead."""
    gone = {*graph.ops[k].outputs} - {-1}
    tensors = tuple(
        replace(t, kind="constant") if i in gone and t.kind == "activation" else t for i, t in enumerate(graph.tensors)
    )
    pairs = [(a - (a > k), b - (b > k)) for a, b in graph.precedence if k not in (a, b)]
    outputs = tuple(i for i in graph.outputs if i not in gone)
    ops = (*graph.ops[:k], *graph.ops[k + 1 :])
    return replace(graph, tensors=tensors, ops=ops, outputs=outputs, precedence=tuple(pairs))


def text(graph: Graph, target: Target | None = None, indent: str = "") -> str:
    """The graph in lines, one an operator, sizes with every tensor."""
    names = [f"{t.name}:{t.dtype}{list(t.shape)}" for t in graph.tensors]
    names = [n if t.kind == "activation" else f"{n}({t.kind})" for n, t in zip(names, graph.tensors, strict=True)]
    names.append("-")

    def listed(indices: tuple[int, ...]) -> str:
        return " ".join(names[i] for i in indices)

    lines = [f"target {target}"] if target else []
    head = f"graph {graph.number if graph.number >= 0 else ''} ({listed(graph.inputs)}) -> ({listed(graph.outputs)})"
    lines.append(f"{head} before {graph.precedence}" if graph.precedence else head)
    for k, op in enumerate(graph.ops):
        notes = f" scratch {op.scratch}" if op.scratch else ""
        notes += " ordered" if op.ordered else ""
        lines.append(f"  {k}: {listed(op.outputs)} = {op.type}({listed(op.inputs)}){notes}")
        lines += [text(body, indent="      ") for body in op.bodies]
    return "\n".join(f"{indent}{line}" for line in lines)
