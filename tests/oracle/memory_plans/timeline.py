"""What happens in memory when a program runs: events that a plan does not change, only the places they touch.

Control flow does what runtimes do. TensorFlow Lite Micro (kernels/while.cc, if.cc) copies between the tensors of an
operator and those of its subgraphs one after the other; a WHILE copies its inputs into its own outputs before the
condition runs for the first time and keeps the loop's values there. Loop and Scan of ONNX keep theirs in the operator's
results in the same way (docs/targets.md); what they collect is written when all rounds are done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from edgemem.model.aliasing import RULES
from tests.oracle.memory_plans.gpu import extent_of, places_of, size_of
from tests.oracle.memory_plans.program import BITS, Block, Call, Program, Unknown, layout_of, texture_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from edgemem import Target
    from tests.oracle.memory_plans.program import Value

__all__ = ["CARRY", "COPY", "OP", "SEE", "SET", "Event", "Timeline", "states_of"]

# Events are tuples, the first item says which. A salt is a number that stands for a text.
OP = 0  # salt, read ids, written ids, {written id: ids it may lie on exactly}, workspace ids
COPY = 1  # source id, destination id: memcpy, unless both are at one place
SET = 2  # id, salt: bytes that come from outside
SEE = 3  # id, why: what is observed here is compared
CARRY = 4  # value id, state id: the caller copies between two runs, where the plan does not make them one
Event = tuple[object, ...]

_HANDLE = 8  # bytes that stand for an opaque value
_MOST_EVENTS = 20_000


def states_of(target: Target, inputs: Iterable[str]) -> dict[str, str]:
    """The states of a target by input, with each * filled in."""
    found: dict[str, str] = {}
    for past, present in target.states.items():
        head, star, tail = past.partition("*")
        if not star:
            found[past] = present
            continue
        for name in inputs:
            if len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail):
                found[name] = present.replace("*", name[len(head) : len(name) - len(tail)])
    return found


def salt_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "little")


@dataclass(eq=False)
class Timeline:
    """All events of a program under a target, in four scenarios of branches taken and rounds of loops.

    Attributes:
        names: of all tensors; an id is a position in it. Workspace comes last.
        units: bytes of each, or texels.
        extents: texture of each, where the target has textures.
        scenarios: events; each is two runs, one after the other.
    """

    program: Program
    target: Target
    order: tuple[int, ...] | None = None
    workspace: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target, values = self.target, self.program.values
        self.inline = target.bodies == "inline"
        rules = RULES[target.aliasing]
        self.views, self.in_place = rules.views, rules.in_place
        self.unpacked = target.sub_byte == "unpacked"
        self.is_gpu = target.storage == "phwc4"
        self.extents = {n: self._extent(v) for n, v in values.items()} if target.texels else {}
        self.names = list(values)
        self.units = [self._units(n) for n in self.names]
        for label, sizes in self.workspace.items():
            self.names += [f"{label}:scratch{k}" for k in range(len(sizes))]
            self.units += sizes
        self.ids = {n: i for i, n in enumerate(self.names)}
        self.states = states_of(target, self.program.main.inputs)
        self.constants = {self.ids[n] for n, v in values.items() if v.role == "constant"}
        self.calls = self._ordered()
        self.scenarios = [self._scenario(s) for s in range(4 if self.program.has_control and self.inline else 1)]
        used = {i for events in self.scenarios for e in events for i in _touched(e)}
        self.used = used

    def token(self, i: int) -> int:
        """The value of a constant."""
        return salt_of(f"constant {self.names[i]}")

    def _units(self, name: str) -> int:
        value = self.program.values[name]
        if value.role == "opaque" or value.dtype not in BITS:
            return _HANDLE
        extent = self.extents.get(name)
        if self.is_gpu and not extent:
            return size_of(value, self.program.form, self.target)
        return extent[0] * extent[1] if extent else value.size(unpacked=self.unpacked)

    def _extent(self, value: Value) -> tuple[int, int] | None:
        if not self.is_gpu:
            return texture_of(value, self.program.form)
        return None if value.role == "opaque" else extent_of(value, self.program.form, self.target)

    def _ordered(self) -> tuple[Call, ...]:
        calls = self.program.main.calls
        if self.order is None:
            return calls
        if sorted(self.order) != list(range(len(calls))):
            raise Unknown("the order is no permutation of the operators")
        return tuple(calls[i] for i in self.order)

    # The events of one scenario.

    def _scenario(self, number: int) -> list[Event]:
        self._number, self._visits = number, 0
        self._events: list[Event] = []
        main = self.program.main
        read = self.read_names()
        for name, value in self.program.values.items():
            if value.role == "variable":
                self._emit(SET, self.ids[name], salt_of(f"start {name}"))
        watched = main.inputs if self.target.inputs == "whole_run" else [n for n in main.inputs if n in read]
        for run in range(2):
            fed = [n for n in main.inputs if not (run and n in self.states)]
            for order in (fed, fed[::-1]) if not run else (fed,):
                for name in order:
                    self._emit(SET, self.ids[name], salt_of(f"feed {run} {name}"))
                for name in watched:
                    self._emit(SEE, self.ids[name], "an input that was fed")
            self._calls(self.calls, "", run)
            for name in main.outputs:
                self._emit(SEE, self.ids[name], "an output")
            if self.target.inputs == "whole_run":
                for name in main.inputs:
                    if name not in self.states:
                        self._emit(SEE, self.ids[name], "an input that keeps its place")
            for past, present in self.states.items():
                if past in self.ids and present in self.ids:
                    self._emit(SEE, self.ids[present], "a state")
                    self._emit(CARRY, self.ids[present], self.ids[past])
        return self._events

    def read_names(self) -> set[str]:
        """Names of all values that an operator reads, or that are outputs."""
        read = {n for call in self.program.steps for n in (*call.reads, *call.captured)}
        blocks = [self.program.main, *(b for call in self.program.steps for b in call.bodies)]
        return read | {n for b in blocks for n in b.outputs}

    def _emit(self, *event: object) -> None:
        self._events.append(event)
        if len(self._events) > _MOST_EVENTS:
            raise Unknown("too many events")

    def _calls(self, calls: Iterable[Call], path: str, run: int) -> None:
        for call in calls:
            where = f"{path}{call.label}"
            if not call.bodies or not self.inline:
                self._operator(call, where)
            elif call.type in ("If", "IF"):
                self._branch(call, where, run)
            elif call.type == "WHILE":
                self._micro_while(call, where, run)
            elif call.type in ("Loop", "Scan"):
                self._loop(call, where, run)
            elif call.type in ("CALL", "CALL_ONCE"):
                if call.type == "CALL" or run == 0:
                    self._body(call.bodies[0], call.reads, call.writes, where, run)
            else:
                raise Unknown(f"control flow of {call.type}")

    def _operator(self, call: Call, where: str) -> None:
        ids, units = self.ids, self.units
        reads = [n for n in (*call.reads, *(call.captured if call.bodies else ())) if n]
        if call.type in self.views and len(call.writes) == 1 and self._same_form(call.reads[0], call.writes[0]):
            self._emit(COPY, ids[call.reads[0]], ids[call.writes[0]])
            return
        state = [n for n in dict.fromkeys(reads) if self.program.values[n].role == "variable"]
        seen = tuple(ids[n] for n in reads if units[ids[n]])
        writes = tuple(ids[n] for n in (*call.writes, *state) if n and units[ids[n]])
        allowed: dict[int, tuple[int, ...]] = {ids[n]: (ids[n],) for n in state}
        if call.writes and call.writes[0]:
            over = [call.reads[p] for p in self.in_place.get(call.type, ()) if p < len(call.reads) and call.reads[p]]
            allowed[ids[call.writes[0]]] = tuple(ids[n] for n in over if self._same_elements(n, call.writes[0]))
        scratch = tuple(ids[f"{call.label}:scratch{k}"] for k in range(len(self.workspace.get(where, ()))))
        if not writes:
            for i in seen:
                self._emit(SEE, i, f"what {where} reads")
        else:
            self._emit(OP, salt_of(f"{call.type} {call.writes}"), seen, writes, allowed, scratch)

    def _same_form(self, a: str, b: str) -> bool:
        return "opaque" in (self.program.values[a].role, self.program.values[b].role) or self._size(a) == self._size(b)

    def _size(self, name: str) -> object:
        """What two tensors must have in common to hold the same elements at the same places."""
        if self.is_gpu and self.program.values[name].elements:
            return places_of(self.program.values[name], self.program.form, self.target)
        if self.extents.get(name):
            return layout_of(self.program.values[name], self.program.form)
        return self.units[self.ids[name]]

    def _same_elements(self, a: str, b: str) -> bool:
        """Whether element k of both has the same bytes, for all k."""
        one, two = self.program.values[a], self.program.values[b]
        if "opaque" in (one.role, two.role):  # the checker does not know
            return True
        same = self.is_gpu or BITS.get(one.dtype, 0) == BITS.get(two.dtype, 1)
        same = same and one.elements == two.elements
        return same and self._size(a) == self._size(b)

    def _copy(self, source: str, to: str) -> None:
        if not source or not to:
            return
        a, b = self.ids[source], self.ids[to]
        if self._size(source) == self._size(to):
            self._emit(COPY, a, b)
        else:
            self._emit(OP, salt_of(f"convert {to}"), (a,), (b,), {}, ())

    def _copies(self, sources: Iterable[str], to: Iterable[str]) -> None:
        for a, b in zip(sources, to, strict=False):
            self._copy(a, b)

    def _rounds(self, path: str) -> int:
        self._visits += 1
        return (self._number + (self._visits - 1) * ("/" in path)) % 4

    def _body(self, body: Block, sources: Iterable[str], to: Iterable[str], where: str, run: int) -> None:
        self._copies(sources, body.inputs)
        self._calls(body.calls, f"{where}/", run)
        self._copies(body.outputs, to)

    def _branch(self, call: Call, where: str, run: int) -> None:
        self._visits += 1
        self._emit(SEE, self.ids[call.reads[0]], f"the condition of {where}")
        names = [b.name for b in call.bodies]
        first = names.index("then_branch") if "then_branch" in names else 0
        taken = first if (self._number + self._visits) % 2 else 1 - first
        self._body(call.bodies[taken], call.reads[1:], call.writes, where, run)

    def _micro_while(self, call: Call, where: str, run: int) -> None:
        condition, body = call.bodies
        self._copies(call.reads, condition.inputs)
        self._copies(call.reads, call.writes)
        rounds = self._rounds(where)
        for k in range(rounds + 1):
            if k:
                self._copies(call.writes, body.inputs)
                self._calls(body.calls, f"{where}/", run)
                self._copies(body.outputs, call.writes)
                self._copies(call.writes, condition.inputs)
            self._calls(condition.calls, f"{where}/", run)
            self._emit(SEE, self.ids[condition.outputs[0]], f"the condition of {where}")

    def _loop(self, call: Call, where: str, run: int) -> None:
        body, first = call.bodies[0], 0 if call.type == "Scan" else 2
        carried = len(call.reads) - first - call.rows
        starts, inner = call.reads[first : first + carried], body.inputs[first : first + carried]
        results = body.outputs if call.type == "Scan" else body.outputs[1:]
        ends, collected = results[:carried], results[carried:]
        for name in filter(None, call.reads[:first]):
            self._emit(SEE, self.ids[name], f"the condition of {where}")
        kept = [result or own for result, own in zip(call.writes[:carried], inner, strict=True)]
        self._copies(starts, kept)
        rounds = self._rounds(where)
        for k in range(rounds):
            if first:
                self._emit(SET, self.ids[body.inputs[0]], salt_of(f"round {k}"))
                self._emit(SET, self.ids[body.inputs[1]], salt_of("on"))
            self._copies(kept, inner)
            for source, row in zip(call.reads[carried:] if not first else (), body.inputs[carried:], strict=False):
                self._emit(OP, salt_of(f"row {k}"), (self.ids[source],), (self.ids[row],), {}, ())
            self._calls(body.calls, f"{where}/", run)
            if first:
                self._emit(SEE, self.ids[body.outputs[0]], f"the condition of {where}")
            for name in collected:
                self._emit(SEE, self.ids[name], f"what {where} collects")
            self._copies(ends, kept)
        for name in call.writes[carried:]:
            if name and self.units[self.ids[name]]:
                self._emit(OP, salt_of(f"collected {name} {rounds}"), (), (self.ids[name],), {}, ())


def _touched(event: Event) -> tuple[int, ...]:
    if event[0] == OP:
        _, _, reads, writes, _, scratch = event
        return (*reads, *writes, *scratch)  # type: ignore[misc]
    if event[0] in (COPY, CARRY):
        return event[1:]  # type: ignore[return-value]
    return (event[1],)  # type: ignore[return-value]
