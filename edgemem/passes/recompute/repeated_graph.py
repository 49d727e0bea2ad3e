"""A graph whose operators run in a given sequence, some of them several times.

    runs   0    1    2    0                3
    writes a    b    c    a/again.1        d
    reads       a    b                     a/again.1 and c, so that a dies after operator 1

An operator reads the newest copy of what it reads. The first run of an operator writes the tensors of the old graph; of
one that gives a graph output it is the last run. So inputs, outputs and what is not computed twice keep their names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.model.rewrite import Rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph, Op

__all__ = ["repeat"]


def repeat(graph: Graph, runs: Sequence[int]) -> Rewrite:
    """The graph in which the operators `runs[0]`, `runs[1]`, ... run one after the other.

    A view has to run again, too, before what reads it finds the newer copy of what it is a view of
    (`edgemem.remat.program` counts memory in the same way).

    Args:
        graph: the graph.
        runs: indices of operators; each is there once or more.

    Raises ModelError for a sequence that leaves an operator out, runs one before what it reads is written, or runs one
    twice that writes a variable, has bodies or side effects, is in a pair of `graph.precedence`, or whose result an
    operator with bodies reads later.
    """
    if set(runs) != set(range(len(graph.ops))):
        raise ModelError(f"a sequence of runs has each of the {len(graph.ops)} operators once or more, and no others")
    count = Counter(runs)
    once = {k for pair in graph.precedence for k in pair}
    variables = {i for i, t in enumerate(graph.tensors) if t.kind == "variable"}
    for k, times in count.items():
        op = graph.ops[k]
        if times > 1 and (k in once or op.bodies or op.ordered or not variables.isdisjoint(op.outputs)):
            raise ModelError(f"operator {op.name!r} must run once: what it changes is there once")
    tensors, likes, names = list(graph.tensors), list(range(len(graph.tensors))), {t.name for t in graph.tensors}
    newest = list(range(len(graph.tensors)))  # the copy of each tensor that is read
    outputs = set(graph.outputs)

    def copied(tensor: int, times: int) -> int:
        name = f"{graph.tensors[tensor].name}/again.{times}"
        while name in names:
            name += "_"
        names.add(name)
        tensors.append(replace(graph.tensors[tensor], name=name))
        likes.append(tensor)
        return len(tensors) - 1

    ops: list[Op] = []
    done: Counter[int] = Counter()
    for k in runs:
        op, times = graph.ops[k], done[k]
        done[k] += 1
        name = f"{op.name}/again.{times}" if times else op.name
        inputs = tuple(newest[i] if i >= 0 else i for i in op.inputs)
        if op.bodies and inputs != op.inputs:
            raise ModelError(
                f"operator {op.name!r} has bodies, which know what they read by the name of its first copy"
            )
        own = count[k] - 1 if not outputs.isdisjoint(op.outputs) else 0
        made = op.outputs if times == own else tuple(copied(i, times) if i >= 0 else i for i in op.outputs)
        ops.append(replace(op, name=name, inputs=inputs, outputs=made))
        for old, new in zip(op.outputs, made, strict=True):
            if old >= 0:
                newest[old] = new
    place = {k: at for at, k in reversed(list(enumerate(runs)))}
    precedence = tuple(sorted((place[first], place[then]) for first, then in graph.precedence))
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops), precedence=precedence)
    return Rewrite(graph, tuple(runs), tuple(likes))
