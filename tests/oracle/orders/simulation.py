"""What is alive while a graph runs in an order, step by step, and the peak of it.

A *root* is a tensor with memory of its own; views of it are other names for it. A root lives from the operator that
writes it to the last one that reads any of its names. An operator that works in place takes the memory of an input that
dies in it, so that the two count once while it runs. A body runs before its operator, as docs/targets.md says.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from edgemem.model.graph import RUN_ONCE
from tests.oracle.orders.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem import Target
    from edgemem.model.graph import Graph, Op

__all__ = ["Machine", "simulate"]


def simulate(graph: Graph, target: Target, order: Sequence[int] | None = None, *, padded: bool = False) -> int:
    """The peak of an order: the bytes (texels) that no arena for it can do without.

    What lies highest in the arena needs no padding; `padded` counts it with the rest.
    """
    machine = Machine(Stage(graph, target), padded=padded)
    for k in range(len(graph.ops)) if order is None else order:
        machine.run(k)
    return machine.end()


class Machine:
    """A run of the graph, from operator to operator; `peak` is that of the steps so far."""

    def __init__(self, stage: Stage, *, padded: bool = False) -> None:
        self.stage, self.padded = stage, padded
        self.peak = 0
        self.left = dict(stage.uses)
        self.alive = dict(stage.always)  # root -> units
        self.once: set[str] = set()  # dies after the next step
        self.gone: Counter[str] = Counter()
        self.steps = 0
        graph, target = stage.graph, stage.target
        for index in graph.inputs:
            name = graph.tensors[index].name
            if name in stage.sizes:
                self._bear(name)
                if target.inputs == "whole_run" or name in stage.results:
                    self.left[name] = self.left.get(name, 0) + 1
                elif not self.left.get(name):
                    self.once.add(name)

    def copy(self) -> Machine:
        other = object.__new__(Machine)
        other.stage, other.padded = self.stage, self.padded
        other.peak, other.steps = self.peak, self.steps
        other.left, other.alive = dict(self.left), dict(self.alive)
        other.once, other.gone = set(self.once), Counter(self.gone)
        return other

    def end(self) -> int:
        """The peak of the whole run."""
        if not self.steps:
            self._step({}, ())
        return self.peak

    def run(self, k: int) -> None:
        """Run one operator of the graph."""
        self._operator(self.stage.graph, self.stage.graph.ops[k], top=True)

    def _bear(self, root: str) -> None:
        root = self.stage.given.get(root, root)
        self.alive.setdefault(self.stage.shared.get(root, root), self.stage.sizes[root])

    def _die(self, root: str) -> None:
        root = self.stage.given.get(root, root)
        key = self.stage.shared.get(root)
        if key is None:
            self.alive.pop(root, None)
            return
        self.gone[key] += 1
        if self.gone[key] == self.stage.members[key]:
            self.alive.pop(key, None)

    def _step(self, taken: dict[str, str], scratch: Sequence[int]) -> None:
        """Count what is alive now; `taken` are results and what they lie on."""
        target = self.stage.target
        # In each of several regions a record lies highest, which needs no padding; textures are in the first region.
        alignment = target.alignment if len(target.regions) == 1 or target.texels else 1
        sizes = [size for root, size in self.alive.items() if root not in taken and size]
        sizes += [size for size in scratch if size]
        padded = [-(-size // alignment) * alignment for size in sizes]
        most = max((p - s for p, s in zip(padded, sizes, strict=True)), default=0)
        self.peak = max(self.peak, sum(padded) - (0 if self.padded else most))
        self.steps += 1
        for root in self.once:
            self._die(root)
        self.once.clear()

    def _operator(self, g: Graph, op: Op, *, top: bool) -> None:
        stage = self.stage
        outputs = list(dict.fromkeys(n for n in stage.names(g, op.outputs) if n in stage.sizes))
        results: list[str] = []
        if op.bodies and stage.inline:
            results = self._bodies(op, outputs)
        reads = {stage.roots[n] for n in stage.names(g, op.inputs) if n in stage.roots}
        for name in outputs:
            self._bear(name)
        taken = self._in_place(g, op, reads)
        self._step(taken, op.scratch)
        for name in results:
            self._die(name)
        for root in reads:
            self.left[root] -= 1
            if not self.left[root]:
                self._die(root)
        for name in outputs:
            self._keep(g, name, top=top, is_taken=name in taken)

    def _keep(self, g: Graph, name: str, *, top: bool, is_taken: bool) -> None:
        """What becomes of a new result: it stays for its readers, to the end, or not at all."""
        stage = self.stage
        if (top and name in stage.results) or (not top and name in stage.names(g, g.outputs)):
            self.left[name] = self.left.get(name, 0) + 1
        elif not self.left.get(name):
            keeps = stage.target.unread == "to_end" and not stage.readers[name] and name not in stage.fixed
            if is_taken or not keeps:
                self._die(name)

    def _in_place(self, g: Graph, op: Op, reads: set[str]) -> dict[str, str]:
        stage = self.stage
        for root in stage.candidates(g, op):
            if root not in reads or self.left[root] != 1:
                continue
            if stage.rules.sole_reader and stage.readers[root] > 1:
                return {}
            return {stage.names(g, op.outputs)[0]: root}
        return {}

    def _bodies(self, op: Op, outputs: list[str]) -> list[str]:
        """Run the bodies of an operator; gives back the memory that what they give back holds until it is done."""
        stage = self.stage
        given = [n for body in op.bodies for n in stage.names(body, body.outputs) if n in stage.given]
        joined = op.type in RUN_ONCE and bool(given)
        if not joined:
            for name in outputs:
                self._bear(name)
        for body in op.bodies:
            inputs = list(dict.fromkeys(n for n in stage.names(body, body.inputs) if n in stage.sizes))
            ends = list(dict.fromkeys(n for n in stage.names(body, body.outputs) if n in stage.sizes))
            for name in inputs:
                self._bear(name)
                if name in ends:
                    self.left[name] = self.left.get(name, 0) + 1
                elif not self.left.get(name):
                    self.once.add(name)
            for inner in body.ops:
                self._operator(body, inner, top=False)
            if not body.ops:
                self.once.update(n for n in ends if n in inputs)
                continue
            for name in ends:
                if name not in stage.given:
                    self._die(name)
        return given
