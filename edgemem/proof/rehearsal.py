"""Proof by rehearsal: the graph runs inside a plan on marks instead of values.

Every operator's result is written to its place and overwrites the marks there. An operator that reads an overwritten
tensor proves the plan wrong, independent of the usage records. The body of a loop runs twice, so that
its second round is covered.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import prod
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.model.aliasing import RULES, AliasRules
from edgemem.model.graph import RUN_ONCE, digest
from edgemem.plans import OffsetPlan
from edgemem.proof.violations import MOST, Cause, Violation, violation
from edgemem.targets import match_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.plans import Plan, PlanSet
    from edgemem.records.problem import UsageRecord

__all__ = ["rehearse"]


def rehearse(planset: PlanSet, graph: Graph) -> Iterator[Violation]:
    if planset.digest != digest(graph):
        yield Violation(
            Cause.STALE_DIGEST, "the plan was made for another graph, other sizes or another order; plan again"
        )
        return
    target = planset.target
    place = {name: i for i, record in enumerate(planset.problem.records) for name in record.tensors}
    inline = target is None or target.bodies == "inline"
    yield from _tensors(planset, graph, place, inline=inline)
    try:
        states = _states(planset, graph)
    except ModelError as e:
        yield Violation(Cause.STATE_NOT_KEPT, str(e))
        return
    yield from _one_record(planset, place, states)
    rules = RULES[target.aliasing] if target else AliasRules()
    keep_inputs = target is not None and target.inputs == "whole_run"
    for plan in planset.plans:
        places = plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment
        if len(places) != len(planset.problem):
            continue  # the sweep has said so
        run = _Run(planset, plan, place, rules, states, inline=inline)
        run.graph(graph, keep_inputs=keep_inputs)
        if run.step != len(planset.steps):
            message = f"the graph takes {run.step} steps, the plan {len(planset.steps)}"
            yield violation(plan, Cause.WRONG_STEPS, message)
        yield from run.found
        yield from _pins(planset, plan, place)


def _states(planset: PlanSet, graph: Graph) -> dict[str, str]:
    """The value that is written in each state -> the graph input that it is in the next run."""
    names = [t.name for t in graph.tensors]
    written = [names[i] for op in graph.ops for i in op.outputs if i >= 0]
    wanted = planset.target.states if planset.target else {}
    return {present: past for past, present in match_states(wanted, [names[i] for i in graph.inputs], written)}


def _one_record(planset: PlanSet, place: dict[str, int], states: Mapping[str, str]) -> Iterator[Violation]:
    """Both tensors of a state are in one record, which is a state."""
    for present, past in states.items():
        index = place.get(past)
        record = None if index is None or place.get(present) != index else planset.problem.records[index]
        if record is None or record.kind != "state":
            message = f"{past!r} and {present!r} are one state, but not one record of that kind"
            yield Violation(Cause.STATE_NOT_KEPT, message, records=(past, present))
        elif (record.first_op, record.last_op) != (0, max(len(planset.steps) - 1, 0)):
            message = f"{record.name!r} is in use from {record.first_op} to {record.last_op}, not for the whole run"
            yield Violation(Cause.STATE_NOT_KEPT, message, records=(past, present))


def _pins(planset: PlanSet, plan: Plan, place: dict[str, int]) -> Iterator[Violation]:
    """Tensors are where the target pins them."""
    if planset.target is None or not isinstance(plan, OffsetPlan):
        return
    for tensor, pin in planset.target.pins.items():
        offset = int(plan.offsets[place[tensor]]) if tensor in place else None
        if offset != pin:
            message = f"{tensor!r} is {'nowhere' if offset is None else f'at {offset}'}, but is pinned at {pin}"
            yield violation(plan, Cause.NOT_WHERE_PINNED, message, tensor)


def _tensors(planset: PlanSet, graph: Graph, place: dict[str, int], *, inline: bool) -> Iterator[Violation]:
    """Every tensor has one place or one reason to have none, and its place is large enough."""
    unplanned = {name for name, _ in planset.unplanned}
    known = set()

    def walk(g: Graph) -> Iterator[Violation]:
        for tensor in g.tensors:
            if tensor.kind in ("constant", "captured"):
                continue
            known.add(tensor.name)
            if tensor.name not in place:
                if tensor.name not in unplanned:
                    yield Violation(Cause.MISSING_TENSOR, f"{tensor.name!r} has no place", records=(tensor.name,))
                continue
            index = place[tensor.name]
            size = int(planset.problem.size[index])
            needed = tensor.size if planset.problem.extents is None else -(-prod(tensor.shape) // 4)
            if size < needed:
                message = f"{tensor.name!r} needs {needed}, its record has {size}"
                yield Violation(Cause.RECORD_TOO_SMALL, message, records=(tensor.name,))
        for op in g.ops:
            for body in op.bodies if inline else ():
                yield from walk(body)

    yield from walk(graph)
    for name in place.keys() - known:
        yield Violation(Cause.UNKNOWN_TENSOR, f"the graph has no tensor {name!r}", records=(name,))


class _Run:
    """The graph running inside one plan, on marks instead of values."""

    def __init__(
        self,
        planset: PlanSet,
        plan: Plan,
        place: dict[str, int],
        rules: AliasRules,
        states: Mapping[str, str],
        *,
        inline: bool,
    ) -> None:
        self.plan = plan
        self.place = place
        self.rules = rules
        self.states = states
        self.inline = inline
        self.labels = planset.steps
        self.step = 0
        self.found: list[Violation] = []
        self.intact: dict[str, int] = {}  # tensor -> the record it lies in
        self.taken: list[tuple[int, int]] = []  # spans of what is intact: disjoint, ascending
        self.holders: dict[tuple[int, int], dict[str, None]] = {}  # span -> the tensors in it, more than one for views
        self.wiped: dict[str, str] = {}  # tensor -> what overwrote it
        sizes = planset.problem.size.tolist()
        if isinstance(plan, OffsetPlan):
            self.span = [(o, o + s) for o, s in zip(plan.offsets.tolist(), sizes, strict=True)]
        else:
            self.span = [(number, number + 1) for number in plan.assignment.tolist()]
        self.scratch: dict[int, list[tuple[int, UsageRecord]]] = {}
        for index, record in enumerate(planset.problem.records):
            if record.kind == "scratch":
                self.scratch.setdefault(record.first_op, []).append((index, record))
        # What keeps its bytes from run to run: nothing else may be written there, at any time.
        self.kept = {i for i, record in enumerate(planset.problem.records) if record.kind == "state"}
        self.kept |= {place[name] for pair in states.items() for name in pair if name in place}

    def report(self, cause: Cause, message: str, *names: str) -> None:
        label = self.labels[self.step] if 0 <= self.step < len(self.labels) else f"step {self.step}"
        if len(self.found) < MOST:
            self.found.append(violation(self.plan, cause, f"{message} ({label})", *names, op=self.step))

    def write(self, name: str, index: int, *, view_of: str = "") -> None:
        low, high = span = self.span[index]
        for state in self.kept:
            if state != index and self.span[state][0] < high and low < self.span[state][1]:
                self.report(Cause.STATE_NOT_KEPT, f"{name!r} lies on a state, which is kept from run to run", name)
        at = bisect_left(self.taken, (low, low))
        at -= at > 0 and self.taken[at - 1][1] > low
        while at < len(self.taken) and self.taken[at][0] < high:
            if view_of and self.taken[at] == span:
                at += 1
                continue
            for other in self.holders.pop(self.taken.pop(at)):
                del self.intact[other]
                self.wiped[other] = name
        self.intact[name] = index
        self.wiped.pop(name, None)
        if span not in self.holders:
            insort(self.taken, span)
        self.holders.setdefault(span, {})[name] = None

    def read(self, name: str, why: str) -> None:
        if name in self.place and name not in self.intact:
            by = self.wiped.get(name)
            self.report(
                Cause.OVERWRITTEN, f"{why} {name!r}, which {f'{by!r} overwrote' if by else 'nothing wrote'}", name
            )

    def graph(self, graph: Graph, *, keep_inputs: bool) -> None:
        names = [t.name for t in graph.tensors]
        kept = [names[i] for i in graph.outputs]
        kept += [names[i] for i in graph.inputs if names[i] not in self.states.values()] if keep_inputs else []
        kept += [name for name in names if name in self.states]
        for index, tensor in enumerate(graph.tensors):
            if tensor.kind == "variable":
                kept.append(tensor.name)
            if (tensor.kind == "variable" or index in graph.inputs) and tensor.name in self.place:
                self.write(tensor.name, self.place[tensor.name])
        for op in graph.ops:
            self.op(op, names)
        self.step -= 1
        for name in dict.fromkeys(kept):
            if name in self.place:
                self.read(name, "at the end of the graph nothing is left of")
        self.step += 1

    def op(self, op: Op, names: Sequence[str]) -> None:
        reads = [names[i] if i >= 0 else "" for i in op.inputs]
        writes = [names[i] for i in op.outputs if i >= 0 and names[i] in self.place]
        if self.inline and op.bodies:
            start = self.step
            loop = op.type not in RUN_ONCE
            for _ in range(1 + loop):
                self.step = start
                for body in op.bodies:
                    self.graph(body, keep_inputs=loop)
            for body in op.bodies:
                for index in (*(body.inputs if loop else ()), *body.outputs):
                    self.read(body.tensors[index].name, "its body should still hold")
        for name in dict.fromkeys(reads):
            self.read(name, "reads")
        for index, record in self.scratch.get(self.step, ()):
            self.check_inputs(op, record.name, index, reads, first=False)
            self.write(record.name, index)
        for name in writes:
            index = self.place[name]
            view = self.check_inputs(op, name, index, reads, first=name == names[op.outputs[0]])
            self.write(name, index, view_of=view)
        for name in (*(r.name for _, r in self.scratch.get(self.step, ())), *writes):
            if name not in self.intact:
                self.report(Cause.CLOBBERED_INPUT, f"{name!r} and {self.wiped[name]!r} lie on each other", name)
        self.step += 1

    def check_inputs(self, op: Op, name: str, index: int, reads: Sequence[str], *, first: bool) -> str:
        """Report an output that lies on an input it must not overwrite; the input it is a view of, or ""."""
        low, high = self.span[index]
        view = ""
        for position, source in enumerate(reads):
            other = self.intact.get(source)
            if other is None or not (self.span[other][0] < high and low < self.span[other][1]):
                continue
            same = first and self.span[other] == self.span[index]
            if same and position == 0 and op.type in self.rules.views:
                view = source
            elif not (same and position in self.rules.in_place.get(op.type, ())):
                self.report(Cause.CLOBBERED_INPUT, f"{name!r} lies on the input {source!r}", name, source)
        return view
