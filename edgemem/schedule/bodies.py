"""What workspace and bodies of a graph's operators hold, beside the graph's own tensors.

It does not depend on the order of the graph's own operators: within each of them time passes as in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.model.steps import Step
    from edgemem.records.live_range import Life

__all__ = ["Bodies", "measure_bodies", "owners_of"]


@dataclass(frozen=True, slots=True)
class Bodies:
    """Bytes (or texels), each piece of memory padded; one entry for each of the graph's own operators, but `always`.

    Attributes:
        own: held at the operator's own step: its workspace, and what its bodies give back.
        inside: the most that its bodies hold at one of their steps.
        first: held at its first step, in the first of its bodies or at its own step.
        leaves: what its bodies never release.
        always: held for the whole run: variables of all bodies.
        shared: memory of a graph that several operators run, from one of them to another: the first of them, the last,
            and the size. Only `inside` and `first` have it, and only of the first operator.
    """

    own: tuple[int, ...]
    inside: tuple[int, ...]
    first: tuple[int, ...]
    leaves: tuple[int, ...]
    always: int
    shared: tuple[tuple[int, int, int], ...] = ()


def owners_of(steps: Sequence[Step]) -> list[int]:
    """For each step the operator of the graph itself that it belongs to: its own, or the one whose body it is in."""
    owners = [0] * len(steps)
    owner = 0
    for at in range(len(steps) - 1, -1, -1):
        if not steps[at].depth:
            owner = steps[at].index
        owners[at] = owner
    return owners


def measure_bodies(steps: Sequence[Step], scratch: Sequence[int], lives: Iterable[tuple[Life, int]]) -> Bodies:
    """What the operators of a graph hold beside the graph's own tensors.

    Args:
        steps: all operators in time.
        scratch: the padded workspace of each step.
        lives: the classes of tensors in bodies, once they are merged, with their padded sizes.
    """
    owners = owners_of(steps)
    count = owners[-1] + 1 if owners else 0
    own, inside, first, leaves, always = [0] * count, [0] * count, [-1] * count, [0] * count, 0
    end = {owner: at for at, owner in enumerate(owners)}
    shared = []
    change = [0] * (len(steps) + 1)
    for life, size in lives:
        if life.present:
            always += size
            continue
        owner = owners[life.first]
        leaves[owner] += size if life.kept else 0
        if owners[life.last] != owner and not life.kept:
            shared.append((owner, owners[life.last], size))
        change[life.first] += size
        change[min(life.last, end[owner]) + 1] -= size
    held = 0
    for at, (owner, step) in enumerate(zip(owners, steps, strict=True)):
        held += change[at]
        now = held + scratch[at]
        if first[owner] < 0:
            first[owner] = now
        if step.depth:
            inside[owner] = max(inside[owner], now)
        else:
            own[owner] = now
    for owner, _, size in shared:
        own[owner] -= size
    return Bodies(tuple(own), tuple(inside), tuple(first), tuple(leaves), always, tuple(shared))
