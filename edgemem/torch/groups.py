"""Puts nodes that allocate nothing with the node that they follow, so that there are fewer operators to order.

    node                      allocates   waits for          goes to
    convolution               yes         -                  a group of its own
    relu_ (in place)          no          convolution        the group of convolution
    view                      no          relu_              the same
    addmm                     yes         view, ...          a group of its own
    num_batches_tracked += 1  no          -                  the prologue

A node may go to a group if it waits for nothing else, and if the order that PyTorch runs has the same bytes alive as
before at each allocation. Views always may: what they name stays alive for those that read it. A node in place may
unless something was allocated since the group; else an optimizer's updates would seem to run as early as they can,
which is not what PyTorch does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.torch.accesses import access, is_random, storage_sizes, storages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch.fx import Graph, Node

__all__ = ["Group", "find_groups"]

_PROLOGUE = -1


@dataclass(slots=True)
class Group:
    """Nodes that run one after another.

    Attributes:
        nodes: the first one may allocate, the others do not.
        before: the groups that must run before, less those that others of them wait for.
        creates: the storages that it allocates, with the bytes of each.
        reads: the storages that must be alive, or there, for it.
        ordered: it draws random numbers.
    """

    nodes: list[Node]
    before: tuple[int, ...]
    creates: dict[int, int]
    reads: set[int] = field(default_factory=set)
    ordered: bool = False


class _Dependencies:
    """Which groups the next node waits for; groups are known by number, and numbers ascend in time."""

    def __init__(self) -> None:
        self._owner: dict[Node, int] = {}
        self._writer: dict[int, int] = {}  # of each storage
        self._readers: defaultdict[int, set[int]] = defaultdict(set)  # since the last writer
        self._behind: list[int] = []  # for each group, as bits: itself and all that must run before it
        self._random = _PROLOGUE  # the last group that draws random numbers

    def find(self, node: Node, reads: Iterable[int], writes: Iterable[int], *, ordered: bool) -> tuple[int, ...]:
        """The groups that must run before a node, without those that one of them waits for anyway."""
        found = {self._owner[n] for n in node.all_input_nodes}
        found.update(self._writer.get(s, _PROLOGUE) for s in reads)
        for s in writes:
            found |= self._readers[s]
        if ordered:
            found.add(self._random)
        needed: list[int] = []
        covered = 0
        for group in sorted(found - {_PROLOGUE}, reverse=True):
            if not covered >> group & 1:
                needed.append(group)
                covered |= self._behind[group]
        return tuple(reversed(needed))

    def enter(self, node: Node, group: int, reads: Iterable[int], writes: Iterable[int], *, ordered: bool) -> None:
        """The node runs in a group."""
        self._owner[node] = group
        for s in reads:
            self._readers[s].add(group)
        for s in writes:
            self._writer[s] = group
            self._readers[s] = {group}
        if ordered:
            self._random = group

    def open(self, before: Iterable[int]) -> int:
        """The number of a new group."""
        behind = 1 << len(self._behind)
        for group in before:
            behind |= self._behind[group]
        self._behind.append(behind)
        return len(self._behind) - 1


def find_groups(graph: Graph) -> tuple[list[Node], list[Group]]:
    """The prologue, and the groups in the order of the graph. Raises UnsupportedError for nodes that cannot be read."""
    dependencies = _Dependencies()
    prologue: list[Node] = []
    groups: list[Group] = []
    known: set[int] = set()
    last = _PROLOGUE  # the last group that allocates
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            dependencies.enter(node, _PROLOGUE, (), (), ordered=False)
            known.update(storages(node))
        if node.op != "call_function":
            continue
        does, ordered = access(node), is_random(node)
        before = dependencies.find(node, does.reads, does.writes, ordered=ordered)
        creates = {s: size for s, size in storage_sizes(node).items() if s not in known}
        known.update(creates)
        allocates = any(creates.values())
        is_view = not does.reads and not ordered
        joins = not allocates and len(before) == 1 and (is_view or before[0] >= last)
        if not (allocates or before or ordered):
            group = _PROLOGUE
            prologue.append(node)
        elif joins:
            group = before[0]
            groups[group].nodes.append(node)
            groups[group].ordered |= ordered
        else:
            group = dependencies.open(before)
            groups.append(Group([node], before, creates, ordered=ordered))
            if allocates:
                last = group
        if group != _PROLOGUE:
            inputs = {s for n in node.all_input_nodes for s in storages(n)}
            groups[group].reads |= inputs - groups[group].creates.keys()
        dependencies.enter(node, group, does.reads, does.writes, ordered=ordered)
    return prologue, groups
