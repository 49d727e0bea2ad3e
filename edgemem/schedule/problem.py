"""What a search for an order of operators reads: which must come before which, and what each brings alive or releases.

Operators are numbered as in the graph. Memory comes in classes: a tensor with all views of it, which live and die
together. A class is alive from the operator that writes it to the last one that reads it:

    operator       0    1    2    3
    class a        w----r----r            2 is the last reader of a, so that it may write d over it (`over`)
    class b             w---------r
    class d                  w----r

Once an order is fixed, everything else follows: `edgemem.schedule.partial` counts it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from edgemem.model.steps import steps_of
from edgemem.records.lifetime import find_lives, find_sharing, memory_size, merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.steps import Step
    from edgemem.records.lifetime import Life
    from edgemem.targets import Target

__all__ = ["OrderProblem", "is_reorderable", "order_problem"]


@dataclass(frozen=True, slots=True)
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
        after: made from the rest: for each operator those that wait for it.
        readers: made from the rest: for each class its readers.
        born: made from the rest: the size of all of an operator's results.
        staying: made from the rest: the part of them that is alive after the operator.
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
    after: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    readers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    born: tuple[int, ...] = field(init=False, repr=False, compare=False)
    staying: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in zeros for what was not given, and what follows from the rest."""
        count = len(self.before)
        for name in ("own", "inside", "early", "leaves", "entry"):
            if not getattr(self, name):
                object.__setattr__(self, name, (0,) * count)
        readers = _inverse(self.reads, len(self.size))
        stays = [bool(r) or c in self.kept or c in self.lingers for c, r in enumerate(readers)]
        object.__setattr__(self, "after", _inverse(self.before, count))
        object.__setattr__(self, "readers", readers)
        object.__setattr__(self, "born", tuple(sum(self.size[c] for c in w) for w in self.writes))
        staying = (sum(self.size[c] for c in w if stays[c]) for w in self.writes)
        object.__setattr__(self, "staying", tuple(s + left for s, left in zip(staying, self.leaves, strict=True)))

    @property
    def count(self) -> int:
        """How many operators there are."""
        return len(self.before)


def is_reorderable(graph: Graph) -> bool:
    """Whether each tensor is written once at most; otherwise the order alone tells which value a reader gets."""
    written = Counter(i for op in graph.ops for i in op.outputs if i >= 0)
    there = [i for i in graph.inputs if i in written and graph.tensors[i].kind != "variable"]
    return not there and max(written.values(), default=0) <= 1


def order_problem(graph: Graph, target: Target) -> OrderProblem:
    """The problem of a graph that `is_reorderable`, with the lifetimes and alias rules of the target.

    Raises UnsupportedError for an activation whose dtype has no fixed width.
    """
    steps = steps_of(graph, bodies=target.bodies == "inline")
    lives = find_lives(graph, steps, target)
    sharing = find_sharing(lives, steps, target)
    outer = [t.name for t in graph.tensors if t.name in lives]

    def pad(size: int) -> int:
        return -(-size // target.alignment) * target.alignment

    def size_of(life: Life) -> int:
        size = memory_size(life, graph.layout, target)
        return pad(0 if isinstance(size, str) else size if isinstance(size, int) else prod(size))

    names = [n for n in outer if sharing.root[n] == n and not lives[n].outside]
    number = {name: c for c, name in enumerate(names)}
    size = [size_of(lives[n]) for n in names]
    owners = _owners(steps)
    reads: list[dict[int, None]] = [{} for _ in graph.ops]
    writes: list[tuple[int, ...]] = [()] * len(graph.ops)
    over: list[tuple[int, ...]] = [()] * len(graph.ops)
    early = [0] * len(graph.ops)
    for at, (owner, step) in enumerate(zip(owners, steps, strict=True)):
        reads[owner] |= dict.fromkeys(number[r] for n in step.reads if (r := sharing.root.get(n, "")) in number)
        if step.depth:
            continue
        born = [n for n in dict.fromkeys(step.writes) if n in number and not lives[n].present]
        writes[owner] = tuple(number[n] for n in born)
        over[owner] = tuple(dict.fromkeys(number[n] for n in sharing.over[at]))
        early[owner] = sum(size[number[n]] for n in born if lives[n].first < at)
    read = {c for classes in reads for c in classes}
    present = [c for c, n in enumerate(names) if lives[n].present]
    kept = {c for c, n in enumerate(names) if lives[n].kept}
    unread = {c for c, n in enumerate(names) if not sharing.readers[n] and not lives[n].fixed}
    many = {c for c, n in enumerate(names) if sharing.readers[n] > 1}
    classes = merge(lives, steps, sharing, target)
    own_names = set(outer)
    inner = [life for n, life in lives.items() if classes[n] is life and not life.outside and n not in own_names]
    scratch = [sum(map(pad, step.op.scratch)) for step in steps]
    own, inside, leaves, entry, always = _inner(steps, owners, scratch, [(life, size_of(life)) for life in inner])
    with_bodies = {owner for owner, step in zip(owners, steps, strict=True) if step.depth}
    for k, born_here in enumerate(writes):
        entry[k] += early[k] if k in with_bodies else sum(size[c] for c in born_here)
    if always:  # variables of bodies
        present.append(len(size))
        kept.add(len(size))
        size.append(always)
    return OrderProblem(
        before=_precedence(graph),
        size=tuple(size),
        reads=tuple(map(tuple, reads)),
        writes=tuple(writes),
        over=tuple(over),
        start=tuple(c for c in present if c in read or c in kept),
        kept=frozenset(kept),
        lingers=frozenset(unread if target.unread == "to_end" else ()),
        guarded=frozenset(many if sharing.sole_reader else ()),
        own=tuple(own),
        inside=tuple(inside),
        early=tuple(early),
        leaves=tuple(leaves),
        entry=tuple(entry),
        opening=sum(size[c] for c in present if c not in read and c not in kept),
    )


def _owners(steps: Sequence[Step]) -> list[int]:
    """For each step the operator of the graph itself that it belongs to: its own, or the one whose body it is in."""
    owners = [0] * len(steps)
    owner = 0
    for at in range(len(steps) - 1, -1, -1):
        if not steps[at].depth:
            owner = steps[at].index
        owners[at] = owner
    return owners


def _inner(
    steps: Sequence[Step], owners: Sequence[int], scratch: Sequence[int], lives: Iterable[tuple[Life, int]]
) -> tuple[list[int], list[int], list[int], list[int], int]:
    """What workspace and bodies of each operator hold: `own`, `inside`, `leaves`, `entry`, and what bodies hold always.

    It does not depend on the order of the graph's own operators: within each of them time passes as in the file.

    Args:
        steps: all operators in time.
        owners: for each step the graph's own operator that it belongs to.
        scratch: the workspace of each step.
        lives: the classes of tensors in bodies, with their sizes.
    """
    count = owners[-1] + 1 if owners else 0
    own, inside, leaves, entry, always = [0] * count, [0] * count, [0] * count, [-1] * count, 0
    end = {owner: at for at, owner in enumerate(owners)}
    change = [0] * (len(steps) + 1)
    for life, size in lives:
        if life.present:
            always += size
            continue
        owner = owners[life.first]
        leaves[owner] += size if life.kept else 0
        change[life.first] += size
        change[min(life.last, end[owner]) + 1] -= size
    held = 0
    for at, (owner, step) in enumerate(zip(owners, steps, strict=True)):
        held += change[at]
        now = held + scratch[at]
        if entry[owner] < 0:
            entry[owner] = now
        if step.depth:
            inside[owner] = max(inside[owner], now)
        else:
            own[owner] = now
    return own, inside, leaves, entry, always


def _precedence(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For each operator those that must run before it: what it reads, side effects, shared state, the graph's pairs."""
    before: list[set[int]] = [set() for _ in graph.ops]
    writer: dict[int, int] = {}
    state: dict[int, int] = {}
    effect = -1
    for k, op in enumerate(graph.ops):
        before[k].update(writer[i] for i in op.inputs if i in writer)
        for i in {*op.inputs, *op.outputs}:
            if i >= 0 and graph.tensors[i].kind == "variable":
                if i in state:
                    before[k].add(state[i])
                state[i] = k
        if op.ordered:
            if effect >= 0:
                before[k].add(effect)
            effect = k
        writer.update((i, k) for i in op.outputs if i >= 0)
    for first, then in graph.precedence:
        before[then].add(first)
    return tuple(tuple(sorted(b)) for b in before)


def _inverse(lists: Iterable[Iterable[int]], count: int) -> tuple[tuple[int, ...], ...]:
    """For each number the positions of the lists that it is in, ascending."""
    found: list[list[int]] = [[] for _ in range(count)]
    for position, numbers in enumerate(lists):
        for n in numbers:
            found[n].append(position)
    return tuple(map(tuple, found))
