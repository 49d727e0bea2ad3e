"""STWeaver's static planning (Huang et al. 2026, §5.1), written as the paper puts it, slowly.

What the paper leaves open is decided as in the docstring of `edgemem.strategy.offsets.spatio_temporal`. Times are
operators, inclusive; a record lasts `last - first + 1` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tests.oracle.bounds import Record, align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["memory_layers", "spatio_temporal"]

Phases = tuple[int, int]


@dataclass
class Decision:
    """A memory request event with its address `a` (the paper's d)."""

    m: int
    s: int
    ts: int
    te: int
    a: int


@dataclass
class Plan:
    """The local plan of a group (the paper's D_g)."""

    ps: int
    pe: int
    d: list[Decision]

    @property
    def s(self) -> int:
        return max(d.a + d.s for d in self.d)

    @property
    def ts(self) -> int:
        return min(d.ts for d in self.d)

    @property
    def te(self) -> int:
        return max(d.te for d in self.d)

    @property
    def box(self) -> int:
        return self.s * (self.te - self.ts + 1)

    @property
    def tmp(self) -> Fraction:
        """Equation 1."""
        return Fraction(sum(d.s * (d.te - d.ts + 1) for d in self.d), self.box)


def spatio_temporal(records: Sequence[Record], phases: Sequence[Phases], alignment: int = 1) -> list[int]:
    """The offset of every record. A record of size 0 is at 0; one without phases (-1) is in no group."""
    groups = fused(homo_phase_groups(records, phases, alignment))
    requests = [(g.s, g.ts, g.te, [(d.m, d.a) for d in g.d]) for g in groups]
    grouped = {d.m for g in groups for d in g.d}
    requests += [
        (align_up(size, alignment), first, last, [(m, 0)])
        for m, (first, last, size) in enumerate(records)
        if size > 0 and m not in grouped
    ]
    offsets = [0] * len(records)
    for base, (_, _, _, members) in zip(global_plan([r[:3] for r in requests]), requests, strict=True):
        for m, a in members:
            offsets[m] = base + a
    return offsets


def homo_phase_groups(records: Sequence[Record], phases: Sequence[Phases], alignment: int) -> list[Plan]:
    """Each packed contiguously, sorted by end time in descending order."""
    found = []
    for ps, pe in {pair: None for pair, r in zip(phases, records, strict=True) if min(pair) >= 0 and r[2] > 0}:
        members = [m for m, pair in enumerate(phases) if pair == (ps, pe) and records[m][2] > 0]
        members.sort(key=lambda m: (-records[m][1], records[m][0], m))
        plan = Plan(ps, pe, [])
        for m in members:
            first, last, size = records[m]
            top = plan.s if plan.d else 0
            plan.d.append(Decision(m, align_up(size, alignment), first, last, top))
        found.append(plan)
    return sorted(found, key=lambda g: (g.ts, min(d.m for d in g.d)))


def fused(groups: list[Plan]) -> list[Plan]:
    """Each group in turn with those, in order, that begin in the phase in which it ends, again after each new end."""
    left = list(groups)
    k = 0
    while k < len(left):
        again = True
        while again:
            again = False
            for other in [g for g in left if g is not left[k] and g.ps == left[k].pe]:
                one = left[k]
                larger, smaller = (one, other) if one.s >= other.s else (other, one)
                both = inserted(larger, smaller)
                average = (one.tmp * one.box + other.tmp * other.box) / (one.box + other.box)
                if both.tmp > average:
                    again = other.pe != one.pe
                    fusion = Plan(one.ps, other.pe, both.d)
                    left = [fusion if g is one else g for g in left if g is not other]
                    k = next(i for i, g in enumerate(left) if g is fusion)
                    if again:
                        break
        k += 1
    return left


def inserted(gi: Plan, gj: Plan) -> Plan:
    """The insertion procedure, from the lowest address on."""
    placed = list(gi.d)
    left = sorted(gj.d, key=lambda d: (d.ts, d.m))
    addr = min(d.a for d in gi.d)
    while left:
        for dj in left:
            if not any(addr < d.a + d.s and d.a < addr + dj.s and dj.ts <= d.te and d.ts <= dj.te for d in placed):
                placed.append(Decision(dj.m, dj.s, dj.ts, dj.te, addr))
                left.remove(dj)
                addr += dj.s
                break
        else:
            addr = min((d.a for d in gi.d if d.a > addr), default=gi.s)
    return Plan(gi.ps, gi.pe, placed)


def memory_layers(requests: Sequence[tuple[int, int]]) -> list[int]:
    """Algorithm 1: the layer of each request, first and last operator."""
    layers: list[int] = []  # L.end of each
    found = [0] * len(requests)
    for m in sorted(range(len(requests)), key=lambda m: (requests[m][0], m)):
        ts, te = requests[m]
        able = [k for k, end in enumerate(layers) if end < ts]
        if not able:
            layers.append(te)
            found[m] = len(layers) - 1
            continue
        layer = max(able, key=lambda k: (layers[k], -k))
        layers[layer] = te
        found[m] = layer
    return found


def global_plan(requests: Sequence[tuple[int, int, int]]) -> list[int]:
    """The offset of each request (size, first, last), in descending order of size."""
    base: list[int] = []  # of each layer
    held: list[list[tuple[int, int]]] = []
    top = 0
    offsets = [0] * len(requests)
    for size in sorted({r[0] for r in requests}, reverse=True):
        group = sorted((r for r in range(len(requests)) if requests[r][0] == size), key=lambda r: (requests[r][1], r))
        remaining = []
        for r in group:
            _, ts, te = requests[r]
            for k in range(len(base)):
                if all(te < first or last < ts for first, last in held[k]):
                    held[k].append((ts, te))
                    offsets[r] = base[k]
                    break
            else:
                remaining.append(r)
        layers = memory_layers([requests[r][1:] for r in remaining])
        start = len(base)
        for r, layer in zip(remaining, layers, strict=True):
            while len(base) <= start + layer:
                base.append(top)
                held.append([])
                top += size
            held[start + layer].append(requests[r][1:])
            offsets[r] = base[start + layer]
    return offsets
