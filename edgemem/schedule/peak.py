"""What each order of a graph's operators needs at its peak, one operator at a time.

The bytes alive between two operators depend only on which operators have run, not on their order: a piece of memory
is alive once something in it is written, until its last reader is done. What an operator adds while it runs (its
results before its inputs are released, its workspace, its bodies) is the same in every order, except that a result
that may overwrite an input needs no room of its own when that input dies there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from edgemem.bounds import lower_bounds
from edgemem.errors import UnsupportedError
from edgemem.model.aliasing import RULES
from edgemem.records.lifetime import lifetimes

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Tensor
    from edgemem.targets import Target

__all__ = ["PeakModel", "peak_of"]


def peak_of(graph: Graph, target: Target) -> int:
    """The lower bound of the graph's arena in bytes (texels for textures), in the order of its operators."""
    return lower_bounds(lifetimes(graph, target).problem).offsets


class PeakModel:
    """A graph as the searches see it. Sets of operators are integers with bit k for operator k.

    Attributes:
        count: operators.
        before: for each operator, the set of those that must run before it.
        start: bytes alive before the first operator.
        needs: for each operator, bytes that are alive while it runs in whatever order.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.count = len(graph.ops)
        self._graph = graph
        self._target = target
        self._rules = RULES[target.aliasing]
        self.before = _precedence(graph)
        self._readers = Counter(i for op in graph.ops for i in op.inputs)
        self._cell = self._cells()  # tensor -> the memory it shares with its views, by its first tensor; or absent
        self._size = {c: self._bytes(graph.tensors[c]) for c in set(self._cell.values())}
        self._kept = self._never_released()
        self._read_by: dict[int, int] = defaultdict(int)
        for k, op in enumerate(graph.ops):
            for i in op.inputs:
                if i in self._cell:
                    self._read_by[self._cell[i]] |= 1 << k
        present = {self._cell[i] for i in graph.inputs if i in self._cell}
        self.start = sum(self._size[c] for c in present if self._read_by[c] or c in self._kept)
        self._reads = [sorted({self._cell[i] for i in op.inputs if i in self._cell}) for op in graph.ops]
        self._writes = [self._written(k, present) for k in range(self.count)]
        self._over = [self._overwritable(k) for k in range(self.count)]
        self._extra = self._inner_peaks()
        always = sum(self._size[c] for c in present & self._kept)
        self.needs = [self._least(k, present & self._kept) + always for k in range(self.count)]

    def step(self, done: int, live: int, k: int) -> tuple[int, int]:
        """Bytes alive while operator `k` runs after the set `done`, and after it; `live` are those before it."""
        after_k = done | 1 << k
        born = sum(self._size[c] for c in self._writes[k])
        at_peak = live + born + self._extra[k]
        for c in self._over[k]:
            if not self._read_by[c] & ~after_k:
                at_peak -= self._size[c]
                break
        dead = 0
        for c in (*self._reads[k], *self._writes[k]):
            if c not in self._kept and not self._read_by[c] & ~after_k:
                dead += self._size[c]
        return at_peak, live + born - dead

    def _bytes(self, tensor: Tensor) -> int:
        alignment = self._target.alignment
        return -(-tensor.size // alignment) * alignment

    def _planned(self, index: int) -> bool:
        """Whether a tensor has a place in the plan that depends on the order."""
        graph, target = self._graph, self._target
        if index < 0 or graph.tensors[index].kind != "activation":
            return False
        if (index in self._inputs and target.inputs == "outside") or (
            index in self._outputs and target.outputs == "outside"
        ):
            return False
        try:
            return graph.tensors[index].size > 0
        except UnsupportedError:
            return False

    def _cells(self) -> dict[int, int]:
        graph, rules = self._graph, self._rules
        self._inputs, self._outputs = frozenset(graph.inputs), frozenset(graph.outputs)
        fixed = self._inputs | self._outputs
        cells = {i: i for i in range(len(graph.tensors)) if self._planned(i)}
        for op in graph.ops:
            if op.type not in rules.views or not op.outputs or not op.inputs:
                continue
            source, out = cells.get(op.inputs[0]), cells.get(op.outputs[0])
            if source is None or out is None or op.outputs[0] in fixed:
                continue
            if source in fixed and not (rules.views_of_outputs and source in self._outputs - self._inputs):
                continue
            if graph.tensors[source].size == graph.tensors[out].size:
                cells[op.outputs[0]] = source
        return cells

    def _never_released(self) -> frozenset[int]:
        kept = {self._cell[i] for i in self._outputs if i in self._cell}
        if self._target.inputs == "whole_run":
            kept |= {self._cell[i] for i in self._inputs if i in self._cell}
        if self._target.unread == "to_end":
            kept |= {c for c in self._size if not self._readers[c] and c not in self._inputs}
        return frozenset(kept)

    def _written(self, k: int, present: set[int]) -> tuple[int, ...]:
        """The memory that comes alive with an operator's results; views live in what is alive already."""
        outputs = self._graph.ops[k].outputs
        return tuple(dict.fromkeys(i for i in outputs if self._cell.get(i) == i and i not in present))

    def _overwritable(self, k: int) -> tuple[int, ...]:
        """The inputs whose memory the first result may take, if they die at the operator."""
        op, rules, tensors = self._graph.ops[k], self._rules, self._graph.tensors
        positions = rules.in_place.get(op.type, ())
        out = op.outputs[0] if op.outputs else -1
        if not positions or self._cell.get(out) != out or out in self._inputs | self._outputs:
            return ()
        found = []
        for position in positions:
            index = op.inputs[position] if position < len(op.inputs) else -1
            cell = self._cell.get(index)
            if cell is None or cell in self._kept or cell in self._inputs or tensors[cell].size != tensors[out].size:
                continue
            if tensors[out].size <= rules.over or (rules.sole_reader and self._readers[index] > 1):
                continue
            if not {p for p, i in enumerate(op.inputs) if self._cell.get(i) == cell} <= set(positions):
                continue
            if rules.sole_reader and self._readers[cell] > 1:
                break
            found.append(cell)
        return tuple(found)

    def _inner_peaks(self) -> list[int]:
        """The most that workspace and bodies of each operator hold at once, from a plan in the given order."""
        if not any(op.scratch or op.bodies for op in self._graph.ops):
            return [0] * self.count
        lives = lifetimes(self._graph, self._target)
        labels = {op.name or op.type for op in self._graph.ops}
        ends = [number for number, label in enumerate(lives.steps) if label in labels and "/" not in label]
        if len(ends) != self.count:
            return [0] * self.count
        outer = {t.name for t in self._graph.tensors}
        alignment = self._target.alignment
        breadth = [0] * len(lives.steps)
        for record in lives.problem.records:
            if isinstance(record.size, int) and not outer & {record.name, *record.tensors}:
                for number in range(record.first_op, record.last_op + 1):
                    breadth[number] += -(-record.size // alignment) * alignment
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [max(breadth[start : end + 1]) for start, end in zip(starts, ends, strict=True)]

    def _least(self, k: int, always: set[int] | frozenset[int]) -> int:
        touched = (set(self._reads[k]) | set(self._writes[k])) - always
        over = max((self._size[c] for c in self._over[k]), default=0)
        return sum(self._size[c] for c in touched) + self._extra[k] - over


def _precedence(graph: Graph) -> list[int]:
    """For each operator the set of those that must run before it: what it reads, side effects, shared state."""
    before = [0] * len(graph.ops)
    writer: dict[int, int] = {}
    state: dict[int, int] = {}
    effect = -1
    for k, op in enumerate(graph.ops):
        for i in op.inputs:
            if i in writer:
                before[k] |= 1 << writer[i]
        for i in {*op.inputs, *op.outputs}:
            if i >= 0 and graph.tensors[i].kind == "variable":
                if i in state:
                    before[k] |= 1 << state[i]
                state[i] = k
        if op.ordered:
            if effect >= 0:
                before[k] |= 1 << effect
            effect = k
        for i in op.outputs:
            if i >= 0:
                writer[i] = k
    return before
