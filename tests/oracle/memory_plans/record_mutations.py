"""Changes of what a plan's records say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem import UsageRecord
from tests.oracle.memory_plans.draft import Draft, kind, larger, names_of, random_size, remove

if TYPE_CHECKING:
    from random import Random

    from edgemem.records.problem import Size

__all__: list[str] = []


@kind("record: shorter, and another moved onto it")
def _shorter(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    one, other = d.records[a], d.records[b]
    if max(one.first_op, other.first_op) > min(one.last_op, other.last_op):
        return None
    if one.first_op < other.first_op:
        d.records[a] = replace(one, last_op=other.first_op - 1)
    elif one.last_op > other.last_op:
        d.records[a] = replace(one, first_op=other.last_op + 1)
    else:
        return None
    d.places[a] = d.places[b]
    return d


@kind("record: interval")
def _interval(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    r = d.records[k]
    first, last = (max(v + rng.choice((0, 0, 1, -1, 2, -3)), 0) for v in (r.first_op, r.last_op))
    d.records[k] = replace(r, first_op=min(first, last), last_op=max(first, last))
    return d


@kind("record: size")
def _size(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    d.records[k] = replace(d.records[k], size=random_size(rng, d.records[k].size))
    return d


@kind("record: smaller, and another moved up to it")
def _smaller(rng: Random, d: Draft) -> Draft | None:
    k = d.any(rng)
    size = d.records[k].size
    if not d.offsets or not isinstance(size, int) or size < 2:
        return None
    cut = rng.choice((size // 2, size - 1, 0))
    d.records[k] = replace(d.records[k], size=cut)
    after = [i for i, p in enumerate(d.places) if p >= d.places[k] + size]
    if after:
        d.places[rng.choice(after)] = d.places[k] + -(-cut // d.alignment) * d.alignment
    return d


@kind("record: kind")
def _kind(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    d.records[k] = replace(d.records[k], kind=rng.choice(("tensor", "input", "output", "variable", "scratch", "state")))
    return d


@kind("record: name")
def _name(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    d.records[k] = replace(d.records[k], name=rng.choice(("", "x", d.records[d.any(rng)].name)))
    return d


@kind("record: a tensor moved to another")
def _moved(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    names = list(names_of(d.records[a]))
    name = names.pop(rng.randrange(len(names)))
    grown = replace(d.records[b], tensors=(*names_of(d.records[b]), name))
    if rng.random() < 0.7:  # what shares memory would live as long as both
        first = min(d.records[a].first_op, d.records[b].first_op)
        grown = replace(grown, first_op=first, last_op=max(d.records[a].last_op, d.records[b].last_op))
    d.records[b] = grown
    d.records[a] = replace(d.records[a], name=names[0] if names else d.records[a].name, tensors=tuple(names))
    if not names and rng.random() < 0.8:
        remove(d, a)
    return d


@kind("record: two made one")
def _joined(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    one, other = d.records[a], d.records[b]
    whole = larger([one.size, other.size])
    assert whole is not None
    first, last = min(one.first_op, other.first_op), max(one.last_op, other.last_op)
    if rng.random() < 0.3:
        first, last = one.first_op, one.last_op
    d.records[a] = replace(one, first_op=first, last_op=last, size=whole, tensors=(*names_of(one), *names_of(other)))
    remove(d, b)
    return d


@kind("record: two tensors exchanged")
def _swapped(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    one, other = list(names_of(d.records[a])), list(names_of(d.records[b]))
    i, j = rng.randrange(len(one)), rng.randrange(len(other))
    one[i], other[j] = other[j], one[i]
    d.records[a] = replace(d.records[a], name=one[0], tensors=tuple(one))
    d.records[b] = replace(d.records[b], name=other[0], tensors=tuple(other))
    return d


@kind("record: all about two exchanged but the interval")
def _crossed(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    one, other = d.records[a], d.records[b]
    d.records[a] = replace(other, first_op=one.first_op, last_op=one.last_op)
    d.records[b] = replace(one, first_op=other.first_op, last_op=other.last_op)
    return d


@kind("record: missing")
def _missing(rng: Random, d: Draft) -> Draft:
    remove(d, d.any(rng))
    return d


@kind("record: a tensor missing")
def _tensor_missing(rng: Random, d: Draft) -> Draft | None:
    k = d.any(rng)
    names = names_of(d.records[k])
    gone = rng.randrange(len(names))
    kept = names[:gone] + names[gone + 1 :]
    if not kept:
        return None
    d.records[k] = replace(d.records[k], name=kept[0], tensors=kept)
    return d


@kind("record: one more, of a tensor that there is")
def _extra(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    name = rng.choice(names_of(d.records[k]))
    tensors = rng.choice(((), (name,)))
    size = rng.choice((0, d.records[k].size)) if isinstance(d.records[k].size, int) else d.records[k].size
    first = rng.randrange(d.steps)
    last = max(d.plan.size, 0) // d.alignment * d.alignment
    place = rng.choice((0, last, rng.choice(d.places))) if d.offsets else rng.randrange(len(d.objects))
    d.add(UsageRecord(name, first, first, size, rng.choice(("tensor", "scratch", "output")), tensors), place)
    return d


@kind("record: one more, of nothing")
def _nothing(rng: Random, d: Draft) -> Draft:
    size: Size = rng.choice((0, 4, 64)) if d.planset.problem.extents is None else (1, 1)
    first = rng.randrange(d.steps)
    name = rng.choice(("", "nothing", "a:scratch0"))
    d.add(
        UsageRecord(name, first, first, size, rng.choice(("tensor", "scratch"))), rng.choice((0, rng.choice(d.places)))
    )
    return d


@kind("record: workspace at another step or of another size")
def _workspace(rng: Random, d: Draft) -> Draft | None:
    some = [k for k, r in enumerate(d.records) if r.kind == "scratch"]
    if not some:
        return None
    k = rng.choice(some)
    r = d.records[k]
    match rng.randrange(3):
        case 0:
            remove(d, k)
        case 1:
            step = rng.randrange(d.steps)
            d.records[k] = replace(r, first_op=step, last_op=step)
            d.places[k] = rng.choice(d.places)
        case 2:
            d.records[k] = replace(r, size=random_size(rng, r.size))
    return d


@kind("record: pinned where it is")
def _pinned(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets:
        return None
    k = d.any(rng)
    d.records[k] = replace(d.records[k], offset=d.places[k])
    return d


@kind("relation: overlap, and moved by it")
def _overlap(rng: Random, d: Draft) -> Draft | None:
    pairs = [
        (i, j) for i, a in enumerate(d.records) for j, b in enumerate(d.records) if i != j and a.last_op == b.first_op
    ]
    if not d.offsets or not pairs:
        return None
    i, j = rng.choice(pairs)
    d.overlap.append((i, j, rng.choice((0, -d.alignment, -1024))))
    d.places[j] = d.places[i]
    return d


@kind("relation: within, and moved by it")
def _within(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets or len(d.records) < 2:
        return None
    i, j = d.two(rng)
    d.within.append((i, j, 0))
    d.places[i] = d.places[j]
    return d
