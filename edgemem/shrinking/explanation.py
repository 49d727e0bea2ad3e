"""Why nothing is within a budget: how near candidates come, and which operator is in the way."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from edgemem.report.sizes import size_text
from edgemem.schedule.overlaps import has_overlaps
from edgemem.schedule.peak import own_peaks
from edgemem.schedule.problem import order_problem
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.model.graph import Graph
    from edgemem.shrinking.branch import Workshop
    from edgemem.shrinking.candidate import Candidate, CandidateLimits
    from edgemem.targets import Target

__all__ = ["LargestOperator", "change_needed", "explain", "largest_operator"]


@dataclass(frozen=True, slots=True)
class LargestOperator:
    """The operator that alone needs most.

    Attributes:
        name: of it; its type if it has no name.
        type: of it.
        needs: bytes (texels for textures) that are alive while it runs, in any order.
        reads: what it reads, as text: the sum of bytes, and the largest tensors.
        writes: what it writes, in the same form.
        index: of it in the graph.
    """

    name: str
    type: str
    needs: int
    reads: str
    writes: str
    index: int

    def __str__(self) -> str:
        moved = f"it reads {self.reads} and writes {self.writes}"
        return f"operator {self.name!r} ({self.type}) alone needs {self.needs:,}: {moved}"


def largest_operator(graph: Graph, target: Target) -> LargestOperator | None:
    """The operator of a graph that alone needs most under the rules of a target.

    No order and no recomputation makes a peak lower than that. None for a graph without operators, and where results
    may lie inside inputs: then no operator has memory of its own.
    """
    if not graph.ops or has_overlaps(target):
        return None
    problem = order_problem(graph, target)
    needs = own_peaks(problem)
    k = max(range(len(needs)), key=needs.__getitem__)
    op = graph.ops[k]
    return LargestOperator(
        op.name or op.type,
        op.type,
        max(needs[k] - problem.padding, 0),
        _sizes(graph, op.inputs),
        _sizes(graph, op.outputs),
        k,
    )


def change_needed(graph: Graph, largest: LargestOperator, available: int) -> str:
    """What the network would have to be for its largest operator to take no more than so many bytes, as text.

    The channels are those of its largest tensor where the other tensors leave room for some; a side or length scales
    all of them.
    """
    op = graph.ops[largest.index]
    own = [graph.tensors[i] for i in (*op.inputs, *op.outputs) if i >= 0 and graph.tensors[i].kind == "activation"]
    tensor = max(own, key=lambda t: t.size, default=None)
    text = f"its inputs and results together must be at most {max(available, 0):,}"
    if tensor is None or available <= 0 or len(tensor.shape) < 2:
        return text
    place = 1 if graph.layout == "nchw" and len(tensor.shape) > 3 else -1
    channels = tensor.shape[place]
    fewer = channels * (available - largest.needs + tensor.size) // tensor.size
    ways = [f"{channels} -> {fewer} channels of {tensor.name!r}"] if fewer > 0 else []
    if len(tensor.shape) == 4:
        sides = tensor.shape[2:] if place == 1 else tensor.shape[1:3]
        less = tuple(int(side * sqrt(available / largest.needs)) for side in sides)
        ways += [f"sides of {sides[0]}x{sides[1]} -> {less[0]}x{less[1]}"] if min(less) else []
    elif (length := tensor.shape[-2] * available // largest.needs) > 0:
        ways.append(f"a length of {tensor.shape[-2]} -> {length}")
    return f"{text}: {' or '.join(ways)}" if ways else text


def explain(
    shop: Workshop, candidates: Sequence[Candidate], limits: CandidateLimits, refused: Collection[str] = ()
) -> str:
    """How near candidates come to a budget, and what is in the way, in sentences.

    `refused` are the texts of those that ran and were not taken.
    """
    why = "; ".join(dict.fromkeys(shop.refusals))
    if limits.budget is None:
        return why or "nothing is within the limits"
    nearest = _nearest(candidates, limits, refused, limits.budget, shop.target.kernels)
    if any(c.memory <= limits.budget and c.text in refused for c in candidates):
        return f"what takes {limits.budget:,} bytes or less was refused: {why}{nearest}"
    broken = [(c, c.breaks(limits)) for c in candidates if c.memory <= limits.budget]
    if broken:
        ways = join_names(dict.fromkeys(name for _, name in broken if name), most=4)
        within = f"what takes {limits.budget:,} bytes or less breaks {ways}" if ways else ""
        overlaps = sorted({c.kernels for c, name in broken if not name and c.kernels != "none"})
        if overlaps:
            within = (
                "it fits where results overlap inputs, which holds for one kernel library: add --kernels "
                f"{overlaps[0]}, or that of the device"
            )
        if within:
            return f"{within}{nearest}. {why}".rstrip(" .") + "."
    held = [c for c in candidates if c.kernels == shop.target.kernels]
    allowed = [c for c in held if not c.breaks(limits)] or held
    least = min(allowed, key=lambda c: c.memory)
    text = (
        f"nothing found takes {limits.budget:,} bytes ({size_text(limits.budget)}) or less within the limits; "
        f"{least.text or 'the model as it is'} comes nearest with {least.memory:,}"
    )
    if not least.is_planned:
        text += " or more"
    model = least.model()
    if least.tail:
        given = sum(model.graph().tensors[i].size for i in model.graph().inputs)
        text += f" (head {least.arena:,}, in which inputs take {given:,}, and tail {least.tail:,})"
    largest = largest_operator(model.graph(), least.target)
    # A session may run an operator in place, in less than it reads and writes.
    is_true = largest is not None and not (least.is_measured and least.arena < largest.needs)
    if largest is not None and is_true and largest.needs > limits.budget - least.tail:
        needed = change_needed(model.graph(), largest, limits.budget - least.tail)
        text += f". Of it {largest}; no order, parts or recomputation that was found goes below that: {needed}"
    if shop.refusals:
        text += f". Not possible: {why}"
    return text


def _nearest(
    candidates: Sequence[Candidate],
    limits: CandidateLimits,
    refused: Collection[str],
    budget: int,
    kernels: str,
) -> str:
    """The candidate above the budget that takes least and may be chosen, behind what is said; "" for none."""
    above = [
        c
        for c in candidates
        if c.memory > budget and c.kernels == kernels and c.text not in refused and not c.breaks(limits)
    ]
    if not above:
        return ""
    near = min(above, key=lambda c: c.memory)
    more = "" if near.is_planned else " or more"
    return f"; {near.text or 'the model as it is'} comes nearest with {near.memory:,}{more}"


def _sizes(graph: Graph, tensors: Sequence[int]) -> str:
    """The bytes of the tensors that are no constants, and the largest of them."""
    known = {i: graph.tensors[i] for i in tensors if i >= 0 and graph.tensors[i].kind not in ("constant", "opaque")}
    parts = sorted(((t.size, t.name) for t in known.values()), reverse=True)
    return f"{sum(size for size, _ in parts):,} ({join_names((f'{name} {size:,}' for size, name in parts), most=3)})"
