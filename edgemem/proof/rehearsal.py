"""Proof by rehearsal: the graph runs inside a plan on marks instead of values.

Every operator's result is written to its place and overwrites the marks there. An operator that reads an overwritten
tensor proves the plan wrong, independent of the usage records: only their names and places count here. Branches and
loops run as their runtime runs them (`edgemem.model.control`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.model.aliasing import RULES, AliasRules, rules_of
from edgemem.model.control import OPERATOR, Copy, Run, events_of, side_of
from edgemem.model.graph import digest
from edgemem.model.overlap import distance
from edgemem.plans import OffsetPlan
from edgemem.proof.marks import Marks, overlaps
from edgemem.proof.matching import check_records, contents_of, is_view_of, may_overwrite
from edgemem.proof.permissions import permissions_of
from edgemem.proof.violations import MOST, Cause, Violation, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.model.control import Side
    from edgemem.model.graph import Graph, Op
    from edgemem.plans import Plan, PlanSet
    from edgemem.proof.marks import Span
    from edgemem.proof.matching import Contents
    from edgemem.proof.permissions import Permission
    from edgemem.targets import Target

__all__ = ["rehearse"]

_REGION = 1 << 64  # addresses of a region behind the first: more than any arena has


def rehearse(planset: PlanSet, graph: Graph) -> Iterator[Violation]:
    """Everything that goes wrong when the graph runs inside each plan of the set."""
    if planset.digest != digest(graph):
        yield Violation(
            Cause.STALE_DIGEST, "the plan was made for another graph, other sizes or another order; plan again"
        )
        return
    try:
        contents = contents_of(graph, planset.target)
    except ModelError as e:
        yield Violation(Cause.STATE_NOT_KEPT, str(e))
        return
    yield from check_records(planset, graph, contents)
    uses = _uses(graph, contents, planset.target)
    for plan in planset.plans:
        columns = (plan.offsets, plan.regions) if isinstance(plan, OffsetPlan) else (plan.assignment,)
        if any(column is not None and len(column) != len(planset.problem) for column in columns):
            continue  # the sweep has said so
        rehearsal = _Rehearsal(planset, plan, contents, uses)
        rehearsal.run(graph)
        yield from rehearsal.found
        yield from _pins(planset, plan)


def _spans(planset: PlanSet, plan: Plan) -> dict[str, Span]:
    """Where executors find each tensor and each workspace, as ranges of addresses or as objects."""
    if isinstance(plan, OffsetPlan):
        of = [0] * len(plan.offsets) if plan.regions is None else plan.regions.tolist()
        lows = [offset + region * _REGION for offset, region in zip(plan.offsets.tolist(), of, strict=True)]
        spans = [(low, low + size) for low, size in zip(lows, planset.problem.size.tolist(), strict=True)]
    else:
        spans = [(number, number + 1) for number in plan.assignment.tolist()]
    records = zip(planset.problem.records, spans, strict=True)
    return {name: span for record, span in records for name in record.tensors or (record.name,)}


def _pins(planset: PlanSet, plan: Plan) -> Iterator[Violation]:
    """Tensors are where the target pins them."""
    if planset.target is None or not planset.target.pins or not isinstance(plan, OffsetPlan):
        return
    spans = _spans(planset, plan)
    for tensor, pin in planset.target.pins.items():
        offset = spans[tensor][0] if tensor in spans else None
        if offset != pin:
            message = f"{tensor!r} is {'nowhere' if offset is None else f'at {offset}'}, but is pinned at {pin}"
            yield violation(plan, Cause.NOT_WHERE_PINNED, message, tensor)


@dataclass(frozen=True, slots=True)
class _Use:
    """What an operator does with memory, the same in every plan; all by name.

    Attributes:
        reads: its inputs, each once.
        inputs: the same by position, "" for an absent one.
        workspace: what it has beside its outputs.
        outputs: what it writes.
        first: its first output, which may be a view or in place; "" without one.
        viewed: the input that `first` is a view of where both have one place; "" if it may not be one.
        over: (position of an input, output) where the output may be written over the input in its place: `first` in
            place, and states that it writes rows into.
        permission: what else it may share inside an arena; None: nothing.
    """

    reads: tuple[str, ...]
    inputs: tuple[str, ...]
    workspace: tuple[str, ...]
    outputs: tuple[str, ...]
    first: str
    viewed: str
    over: frozenset[tuple[int, str]]
    permission: Permission | None


def _uses(graph: Graph, contents: Contents, target: Target | None) -> list[_Use]:
    """What every operator does with memory, by its step."""
    rules = rules_of(target.aliasing, target.kernels) if target else AliasRules()
    inline = target is None or target.bodies == "inline"
    kernels = target.kernels if target and not target.texels else "none"
    storage = target.storage if target else "plain"
    tensors, layout = contents.tensors, graph.layout
    made: list[_Use] = []

    def walk(g: Graph, permissions: Sequence[Permission | None]) -> None:
        names = [t.name for t in g.tensors]
        names.append("")  # index -1: absent
        for op, permission in zip(g.ops, permissions, strict=True):
            for body in op.bodies if inline else ():
                walk(body, [None] * len(body.ops))
            inputs, outputs = tuple(names[i] for i in op.inputs), tuple(names[i] for i in op.outputs)
            first = outputs[0] if outputs else ""
            viewed, over = "", set(_updates(target, op.type, inputs, outputs, contents) if target else ())
            if first in tensors:
                known = [tensors.get(name) for name in inputs]
                source = known[0] if known else None
                if source and op.type in rules.views and is_view_of(tensors[first], source, storage, layout):
                    viewed = inputs[0]
                # Element k must lie on element k, or a result would overwrite elements that are still to be read.
                for position in rules.in_place.get(op.type, ()):
                    source = known[position] if position < len(known) else None
                    is_alike = source is not None and may_overwrite(source, tensors[first], storage)
                    if is_alike and _has_read(kernels, g, op, position):
                        over.add((position, first))
            workspace = tuple(f"{contents.labels[len(made)]}:scratch{k}" for k in range(len(op.scratch)))
            reads = tuple(n for n in dict.fromkeys(inputs) if n in tensors)
            made.append(_Use(reads, inputs, workspace, outputs, first, viewed, frozenset(over), permission))

    walk(graph, permissions_of(graph, target))
    return made


def _has_read(kernels: str, graph: Graph, op: Op, position: int) -> bool:
    """Whether an operator's result may begin where its input does, as far as the kernels of a profile are known."""
    least = 0 if kernels == "none" else distance(kernels, graph, op, position)
    return least is not None and least <= 0


def _updates(
    target: Target, kind: str, inputs: Sequence[str], outputs: Sequence[str], contents: Contents
) -> Iterator[tuple[int, str]]:
    """(position, output) of each state that an operator updates; the input stands in that position alone."""
    for position, number in RULES[target.aliasing].updates.get(kind, ()):
        if position < len(inputs) and number < len(outputs) and outputs[number] in contents.states:
            past, present = inputs[position], outputs[number]
            is_state = contents.states[present] == past and inputs.count(past) == 1
            pair = [contents.tensors[name] for name in (past, present) if name in contents.tensors]
            if is_state and len(pair) == 2 and may_overwrite(pair[0], pair[1], target.storage):
                yield position, present


@dataclass(slots=True)
class _Done:
    """What a run of a body did to memory: enough to repeat it without running the body again.

    Attributes:
        reads: what it read that it had not written itself.
        writes: what it wrote, in the order of the last time, and the ranges that held the same bytes before.
    """

    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, tuple[Span, ...]] = field(default_factory=dict)


class _Rehearsal:
    """One graph in one plan."""

    def __init__(self, planset: PlanSet, plan: Plan, contents: Contents, uses: Sequence[_Use]) -> None:
        self.found: list[Violation] = []
        self._plan = plan
        self._contents = contents
        self._target = planset.target
        self._uses = uses
        self._inline = planset.target is None or planset.target.bodies == "inline"
        self._is_arena = isinstance(plan, OffsetPlan)
        self._marks = Marks(_spans(planset, plan))
        self._step = 0
        self._done = [_Done()]
        states = {name for pair in contents.states.items() for name in pair}
        self._record = {name: i for i, record in enumerate(planset.problem.records) for name in record.tensors}
        self._states = {name: self._marks.span[name] for name in states if name in self._marks.span}

    def run(self, graph: Graph) -> None:
        """Run the graph once, from inputs that are there to outputs that must be."""
        inputs = [graph.tensors[i].name for i in graph.inputs]
        variables = self._contents.variables
        there = [name for name in dict.fromkeys((*variables, *inputs)) if name in self._marks.span]
        known: dict[tuple[int, int], Span] = {}
        for name in there:
            span = self._marks.span[name]
            is_known = name in variables and known.get(variables[name]) == span
            self._write(name, (span,) if is_known else ())
            known |= {variables[name]: span} if name in variables else {}
        for name in there:  # whatever order the caller fills them in
            self._read(name, "before the first operator nothing is left of")
        self._operators(graph)
        self._step = max(self._step - 1, 0)
        kept = [graph.tensors[i].name for i in graph.outputs] + [*variables]
        if self._target is not None and self._target.inputs == "whole_run":
            kept += [name for name in inputs if name not in self._contents.states.values()]
        for name in dict.fromkeys((*kept, *self._contents.states)):
            self._read(name, "at the end of the graph nothing is left of")

    def _operators(self, graph: Graph) -> None:
        for op in graph.ops:
            if op.bodies and self._inline:
                self._control(op, [t.name for t in graph.tensors])
            else:
                self._operator(self._uses[self._step])
            self._step += 1

    def _control(self, op: Op, names: Sequence[str]) -> None:
        """An operator that runs bodies in the same arena."""
        done: dict[int, _Done] = {}
        for event in events_of(op):
            if isinstance(event, Copy):
                self._copy(op, names, event)
            elif event.body in done:
                self._again(done[event.body])
            else:
                done[event.body] = self._body(op.bodies[event.body])
            if isinstance(event, Run):
                body = op.bodies[event.body]
                for index in body.outputs:
                    self._read(body.tensors[index].name, "its body should still hold")

    def _body(self, body: Graph) -> _Done:
        self._done.append(_Done())
        self._operators(body)
        done, outer = self._done.pop(), self._done[-1]
        outer.reads |= dict.fromkeys(name for name in done.reads if name not in outer.writes)
        outer.writes |= done.writes
        return done

    def _again(self, done: _Done) -> None:
        """Another round of a body: it reads and writes what it did in the first."""
        for name in done.reads:
            self._read(name, "in another round it reads")
        for name, kept in done.writes.items():
            self._write(name, kept)

    def _copy(self, op: Op, names: Sequence[str], event: Copy) -> None:
        source, to = _tensors(op, names, event.source), _tensors(op, names, event.to)
        span = self._marks.span
        # Nothing is copied between two in one place: they hold one value from now on.
        often = Counter(to)
        stays = {to[k] for i, k in event.pairs(op) if span.get(source[i]) == span.get(to[k]) and often[to[k]] == 1}
        for name in source:
            self._read(name, "copies")
        for name in to:
            if name in span:
                self._write(name, (span[name],) if name in stays else ())
        for name in (*source, *to):
            if name in span and not self._marks.is_intact(name):
                by = self._marks.overwriter(name)
                self._report(Cause.CLOBBERED_INPUT, f"as it is copied, {name!r} is overwritten by {by!r}", name)

    def _operator(self, use: _Use) -> None:
        span, marks = self._marks.span, self._marks
        for name in use.reads:
            self._read(name, "reads")
        writes = [name for name in (*use.workspace, *use.outputs) if name in span]
        for name in writes:
            self._write(name, self._check_inputs(use, name))
        for name in writes:
            if not marks.is_intact(name):
                by = marks.overwriter(name)
                self._report(Cause.CLOBBERED_INPUT, f"{name!r} and {by!r} lie on each other", name)

    def _check_inputs(self, use: _Use, name: str) -> tuple[Span, ...]:
        """Report an output that lies on an input it must not overwrite.

        Returns the ranges whose bytes it does not change: those of an input that it is a view of, or a slice or a
        concatenation of, where that is in its slot.
        """
        spans = self._marks.span
        span = spans[name]
        kept, others = [], []
        for position, source in enumerate(use.inputs):
            there = spans.get(source)
            if there is None or not overlaps(there, span) or not self._marks.is_intact(source):
                continue
            slot = self._slot(use, source, name)
            if name == use.first and there == span and position == 0 and source == use.viewed:
                kept.append(span)
            elif slot is not None:
                kept.append(slot)
            elif there != span or (position, name) not in use.over:
                others.append((source, there))
        for source, there in others:
            if not _is_covered((max(there[0], span[0]), min(there[1], span[1])), kept):
                self._check_reach(use, source, name)
        return tuple(kept)

    def _slot(self, use: _Use, source: str, name: str) -> Span | None:
        """The bytes that an output has in common with an input, where the smaller one is in its slot in the other."""
        if use.permission is None or not self._is_arena:
            return None
        spans = self._marks.span
        for piece, whole in ((source, name), (name, source)):
            alias = use.permission.aliases.get((piece, whole))
            if alias is not None and spans[piece][0] == spans[whole][0] + alias.delta:
                return spans[piece][0], spans[piece][0] + alias.size
        return None

    def _check_reach(self, use: _Use, source: str, name: str) -> None:
        """Report an output that lies on an input, unless the kernel has read each byte there before it writes it."""
        may = use.permission if self._is_arena and name in use.outputs else None
        least = may.least_distance(source) if may is not None else None
        apart = self._marks.span[source][0] - self._marks.span[name][0]
        if least is None:
            self._report(Cause.CLOBBERED_INPUT, f"{name!r} lies on the input {source!r}", name, source)
        elif apart < least:
            message = f"the input {source!r} begins {apart} bytes after {name!r}, which needs {least} to lie on it"
            self._report(Cause.CLOBBERED_INPUT, message, name, source)

    def _write(self, name: str, kept: tuple[Span, ...] = ()) -> None:
        span = self._marks.span[name]
        for state, place in self._states.items():
            if overlaps(place, span) and span not in kept and self._record.get(name) != self._record[state]:
                message = f"{name!r} lies on the state {state!r}, which is kept from run to run"
                self._report(Cause.STATE_NOT_KEPT, message, name, state)
        self._marks.write(name, kept)
        writes = self._done[-1].writes
        writes.pop(name, None)  # in the order of the last time, which decides what is intact in the end
        writes[name] = kept

    def _read(self, name: str, why: str) -> None:
        if name not in self._marks.span:
            return
        if name not in self._done[-1].writes:
            self._done[-1].reads[name] = None
        if not self._marks.is_intact(name):
            by = self._marks.overwriter(name)
            told = f"{by!r} overwrote" if by else "nothing wrote"
            self._report(Cause.OVERWRITTEN, f"{why} {name!r}, which {told}", name)

    def _report(self, cause: Cause, message: str, *names: str) -> None:
        labels = self._contents.labels
        label = labels[self._step] if self._step < len(labels) else f"step {self._step}"
        if len(self.found) < MOST:
            self.found.append(violation(self._plan, cause, f"{message} ({label})", *names, op=self._step))


def _is_covered(span: Span, by: Sequence[Span]) -> bool:
    """Whether every byte of a range is in one of these ranges."""
    at = span[0]
    for low, high in sorted(by):
        if low > at:
            break
        at = max(at, high)
    return at >= span[1]


def _tensors(op: Op, names: Sequence[str], side: tuple[int, Side]) -> list[str]:
    """The tensors on one side of a copy; "" for an absent one."""
    number = side[0]
    known = names if number == OPERATOR else [t.name for t in op.bodies[number].tensors]
    return [known[i] if i >= 0 else "" for i in side_of(op, side)]
