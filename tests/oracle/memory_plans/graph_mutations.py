"""Changes that follow the graph: tensors that meet in an operator or in a copy are put into one record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.oracle.memory_plans.draft import Draft, kind, larger, names_of, remove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.oracle.memory_plans.program import Call

__all__: list[str] = []


def _record_of(d: Draft, name: str) -> int | None:
    return next((k for k, r in enumerate(d.records) if name in names_of(r)), None)


def _join(rng: Random, d: Draft, a: str, b: str) -> Draft | None:
    """Both in the record of one of them, for as long as both are needed or as one is."""
    i, j = _record_of(d, a), _record_of(d, b)
    if i is None or i == j:
        i, j, a, b = j, i, b, a
    if i is None or i == j:
        return None
    one = d.records[i]
    if j is None:  # what is held elsewhere, as far as the plan goes
        d.records[i] = replace(one, tensors=(*names_of(one), b))
        return d
    other = d.records[j]
    whole = larger([one.size, other.size])
    assert whole is not None
    first, last = min(one.first_op, other.first_op), max(one.last_op, other.last_op)
    if rng.random() < 0.7:  # all tensors of both records
        d.records[i] = replace(
            one, tensors=(*names_of(one), *names_of(other)), size=whole, first_op=first, last_op=last
        )
        remove(d, j)
        return d
    kept = tuple(n for n in names_of(other) if n != b)
    d.records[i] = replace(one, tensors=(*names_of(one), b), size=whole, first_op=first, last_op=last)
    if kept:
        d.records[j] = replace(other, name=kept[0], tensors=kept)
    else:
        remove(d, j)
    return d


@kind("graph: an input and a result in one record")
def _in_place(rng: Random, d: Draft) -> Draft | None:
    calls = [c for c in d.program.steps if any(c.reads) and any(c.writes)]
    if not calls:
        return None
    call = rng.choice(calls)
    return _join(rng, d, rng.choice([n for n in call.reads if n]), rng.choice([n for n in call.writes if n]))


@kind("graph: both ends of a copy in one record")
def _copied(rng: Random, d: Draft) -> Draft | None:
    pairs = [pair for call in d.program.steps if call.bodies for pair in _copies(call)]
    return _join(rng, d, *rng.choice(pairs)) if pairs else None


def _copies(call: Call) -> Iterator[tuple[str, str]]:
    """Pairs of the tensors of an operator and its bodies, also of those at different positions."""
    inside = [n for body in call.bodies for n in (*body.inputs, *body.outputs)]
    outside = [n for n in (*call.reads, *call.writes) if n]
    yield from ((a, b) for a in outside for b in inside)
    yield from ((a, b) for a in call.reads for b in call.writes if a and b)
    yield from ((a, b) for body in call.bodies for a in body.inputs for b in body.outputs if a != b)


@kind("graph: two results of an operator in one record")
def _results(rng: Random, d: Draft) -> Draft | None:
    calls = [c for c in d.program.steps if sum(map(bool, c.writes)) > 1]
    if not calls:
        return None
    a, b = rng.sample([n for n in rng.choice(calls).writes if n], 2)
    return _join(rng, d, a, b)


@kind("graph: any two tensors in one record")
def _any_two(rng: Random, d: Draft) -> Draft | None:
    names = [n for n, v in d.program.values.items() if v.role != "opaque"]
    return _join(rng, d, *rng.sample(names, 2)) if len(names) > 1 else None


@kind("graph: moved onto what dies just before it")
def _just_before(rng: Random, d: Draft) -> Draft | None:
    """A result lies on an input of its operator, and the records say that they do not meet."""
    calls = [c for c in d.program.steps if any(c.reads) and any(c.writes)]
    if not calls:
        return None
    call = rng.choice(calls)
    i = _record_of(d, rng.choice([n for n in call.reads if n]))
    j = _record_of(d, rng.choice([n for n in call.writes if n]))
    if i is None or j is None or i == j:
        return None
    one, other = d.records[i], d.records[j]
    if other.first_op > one.first_op and rng.random() < 0.5:
        d.records[i] = replace(one, last_op=other.first_op - 1)
    elif other.last_op > one.last_op:
        d.records[j] = replace(other, first_op=one.last_op + 1)
    else:
        return None
    d.places[j] = d.places[i]
    return d


@kind("graph: a body that runs for a shorter time")
def _body(rng: Random, d: Draft) -> Draft | None:
    """A tensor of a body, or around it, lives during one of the body's steps only, and another lies on it."""
    calls = [c for c in d.program.steps if c.bodies]
    if not calls:
        return None
    call = rng.choice(calls)
    inside = {n for b in call.bodies for c in b.calls for n in (*c.reads, *c.writes)}
    near = [
        k
        for k, r in enumerate(d.records)
        if inside.intersection(names_of(r)) or set(names_of(r)) & {*call.reads, *call.writes}
    ]
    if len(near) < 2:
        return None
    a, b = rng.sample(near, 2)
    one, other = d.records[a], d.records[b]
    middle = rng.randint(one.first_op, one.last_op)
    d.records[a] = replace(one, last_op=middle) if rng.random() < 0.5 else replace(one, first_op=middle)
    one = d.records[a]
    if max(one.first_op, other.first_op) <= min(one.last_op, other.last_op):
        return None
    d.places[b] = d.places[a]
    return d
