"""What a search for an order of operators reads: which must come before which, and what each brings alive or releases.

Operators are numbered as in the graph. Memory comes in classes: a tensor with all views of it, which live and die
together. A class is alive from the operator that writes it to the last one that reads it:

    operator       0    1    2    3
    class a        w----r----r            2 is the last reader of a, so that it may write d over it (`over`)
    class b             w---------r
    class d                  w----r

Once an order is fixed, everything else follows: `OrderProblem.kernel` counts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from edgemem import native
from edgemem.model.steps import steps_of
from edgemem.model.topological_order import inverse
from edgemem.records.lifetime import find_lives, find_sharing, memory_size, merge
from edgemem.records.sizes import padded
from edgemem.records.tensor_requests import readers_before_writers
from edgemem.schedule.bodies import measure_bodies, owners_of
from edgemem.schedule.precedence import find_precedence

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.records.live_range import Life
    from edgemem.targets import Target

__all__ = ["OrderProblem", "order_problem"]


@dataclass(frozen=True)
class OrderProblem:
    """The search for an order, without graph or target. Sizes are bytes (or texels), each padded to the alignment.

    Attributes:
        before: for each operator those that must run before it, ascending.
        size: of each class.
        reads: for each operator the classes that it reads, each once.
        writes: for each operator the classes that it brings alive, each once; the first result's class first.
        over: for each operator the classes that its first result may take if no later operator reads them, in order of
            preference. The first result is then `writes[k][0]`, and equally large.
        start: the classes that are alive before the first operator.
        kept: the classes that are never released, such as graph outputs in the arena.
        lingers: the classes that nothing reads, and that stay to the end unless they took the memory of an input.
        guarded: the classes whose memory ends the search through `over` when it is met there, unless they took the
            memory of an input themselves.
        own: for each operator the workspace, and what its bodies still hold, while its results are there.
        inside: for each operator the most that its bodies hold while they run.
        early: for each operator the part of its results that is alive while its bodies run already.
        leaves: for each operator what its bodies leave alive for the rest of the run.
        entry: for each operator what it adds at its first step if it runs before all others. With bodies that is the
            first operator of the first one, otherwise its own.
        opening: what is alive at the first step only: inputs that nothing reads.
        padding: the most that `order_peak` may be above the lower bound of the usage records: what padding adds to one
            piece of memory, and memory of a graph that several operators run, which the last of them is done with
            before it is done itself.
        names: of each class the tensor that the others in it are views of; "" for what belongs to no tensor of the
            graph. Empty where the problem is not one of a graph.
        keeps_unread: whether any result that nothing reads lingers. It and `direct` are for operators that run twice
            (`edgemem.remat.program`), whose results may have fewer readers the second time.
        direct: for each operator the classes whose own tensor, not a view, it reads, once for each input; empty unless
            `guarded` is by the rule that only the sole reader of memory takes it.
    """

    before: tuple[tuple[int, ...], ...]
    size: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    over: tuple[tuple[int, ...], ...]
    start: tuple[int, ...] = ()
    kept: frozenset[int] = frozenset()
    lingers: frozenset[int] = frozenset()
    guarded: frozenset[int] = frozenset()
    own: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    early: tuple[int, ...] = ()
    leaves: tuple[int, ...] = ()
    entry: tuple[int, ...] = ()
    opening: int = 0
    padding: int = 0
    names: tuple[str, ...] = ()
    keeps_unread: bool = False
    direct: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        """Fill in zeros for what was not given."""
        for name in ("own", "inside", "early", "leaves", "entry"):
            if not getattr(self, name):
                object.__setattr__(self, name, (0,) * self.count)

    @property
    def count(self) -> int:
        """How many operators there are."""
        return len(self.before)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """For each operator those that wait for it, ascending."""
        return inverse(self.before, self.count)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each class the operators that read it, ascending."""
        return inverse(self.reads, len(self.size))

    @cached_property
    def born(self) -> tuple[int, ...]:
        """For each operator the size of all of its results."""
        return tuple(sum(self.size[c] for c in w) for w in self.writes)

    @cached_property
    def kernel(self) -> native.kernels.OrderProblem:
        """The same for the compiled solvers. Raises ValueError for a problem that contradicts itself."""
        return native.kernels.OrderProblem(
            before=self.before,
            size=self.size,
            reads=self.reads,
            writes=self.writes,
            over=self.over,
            start=self.start,
            kept=sorted(self.kept),
            lingers=sorted(self.lingers),
            guarded=sorted(self.guarded),
            own=self.own,
            inside=self.inside,
            early=self.early,
            leaves=self.leaves,
            entry=self.entry,
            opening=self.opening,
        )


def order_problem(graph: Graph, target: Target) -> OrderProblem:
    """The problem of a graph that `is_reorderable`, with the lifetimes and alias rules of the target.

    Raises UnsupportedError for an activation whose dtype has no fixed width.
    """
    steps = steps_of(graph, bodies=target.bodies == "inline")
    lives = find_lives(graph, steps, target)
    sharing = find_sharing(lives, steps, target)
    outer = [t.name for t in graph.tensors if t.name in lives]

    # In each of several regions a record lies highest, which needs no padding: as `lower_bounds` has it.
    alignment = 1 if target.has_choice else target.alignment

    def pad(size: int) -> int:
        return padded(size, alignment)

    def size_of(life: Life) -> int:
        size = memory_size(life, graph.layout, target)
        return 0 if isinstance(size, str) else size if isinstance(size, int) else prod(size)

    names = [n for n in outer if sharing.root[n] == n and not lives[n].outside]
    number = {name: c for c, name in enumerate(names)}
    unpadded = [size_of(lives[n]) for n in names]
    size = [pad(s) for s in unpadded]
    owners = owners_of(steps)
    reads: list[dict[int, None]] = [{} for _ in graph.ops]
    writes: list[tuple[int, ...]] = [()] * len(graph.ops)
    over: list[tuple[int, ...]] = [()] * len(graph.ops)
    early = [0] * len(graph.ops)
    direct: list[list[int]] = [[] for _ in graph.ops]
    for at, (owner, step) in enumerate(zip(owners, steps, strict=True)):
        reads[owner] |= dict.fromkeys(number[r] for n in step.reads if (r := sharing.root.get(n, "")) in number)
        direct[owner] += [number[n] for n in step.reads if n in number]
        if step.depth:
            continue
        made = [n for n in dict.fromkeys(step.writes) if n in number and not lives[n].present]
        writes[owner] = tuple(number[n] for n in made)
        over[owner] = tuple(dict.fromkeys(number[n] for n in sharing.over[at]))
        early[owner] = sum(size[number[n]] for n in made if lives[n].first < at)
    read = {c for classes in reads for c in classes}
    present = [c for c, n in enumerate(names) if lives[n].present]
    kept = {c for c, n in enumerate(names) if lives[n].kept}
    unread = {c for c, n in enumerate(names) if not sharing.readers[n] and not lives[n].fixed}
    many = {c for c, n in enumerate(names) if sharing.readers[n] > 1}
    classes = merge(lives, steps, sharing, target)
    of_graph = set(outer)
    inner = [life for n, life in lives.items() if classes[n] is life and not life.outside and n not in of_graph]
    scratch = [sum(map(pad, step.op.scratch)) for step in steps]
    bodies = measure_bodies(steps, scratch, [(life, pad(size_of(life))) for life in inner])
    unpadded += [size_of(life) for life in inner]
    unpadded += [work for step in steps for work in step.op.scratch]
    with_bodies = {owner for owner, step in zip(owners, steps, strict=True) if step.depth}
    results = [early[k] if k in with_bodies else sum(size[c] for c in born) for k, born in enumerate(writes)]
    for first, then, held in bodies.shared:
        writes[first] += (len(size),)
        reads[then][len(size)] = None
        size.append(held)
    if bodies.always:
        present.append(len(size))
        kept.add(len(size))
        size.append(bodies.always)
    return OrderProblem(
        before=find_precedence(graph, readers_before_writers(graph, target)),
        size=tuple(size),
        reads=tuple(map(tuple, reads)),
        writes=tuple(writes),
        over=tuple(over),
        start=tuple(c for c in present if c in read or c in kept),
        kept=frozenset(kept),
        lingers=frozenset(unread if target.unread == "to_end" else ()),
        guarded=frozenset(many if sharing.sole_reader else ()),
        own=bodies.own,
        inside=bodies.inside,
        early=tuple(early),
        leaves=bodies.leaves,
        entry=tuple(first + born for first, born in zip(bodies.first, results, strict=True)),
        padding=max((pad(s) - s for s in unpadded), default=0) + sum(held for *_, held in bodies.shared),
        opening=sum(size[c] for c in present if c not in read and c not in kept),
        names=(*names, *[""] * (len(size) - len(names))),
        keeps_unread=target.unread == "to_end",
        direct=tuple(map(tuple, direct)) if sharing.sole_reader else (),
    )
