"""The product's distances against the least safe ones."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from edgemem.model.overlap import distance
from tests.oracle.kernel_dispatch.cmsis_convolution import WRONG
from tests.oracle.kernel_dispatch.dispatch import traces
from tests.oracle.kernel_dispatch.draws import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.kernel_dispatch.case import Case


@dataclass(frozen=True)
class Compared:
    """A case and what is said of it.

    Attributes:
        case: the operator.
        branches: of the kernels that run, all compilers together.
        claimed: the product's distance in bytes; None: disjoint.
        least: the least safe one; None without a model.
    """

    case: Case
    branches: tuple[str, ...]
    claimed: int | None
    least: int | None

    @property
    def verdict(self) -> str:
        """What the model says of the claim.

        `unsafe`, `tight` or `loose`; `disjoint` where nothing is claimed; `no model` where a claim has none; `wrong
        kernel` where the kernel's own result depends on memory outside its operands, or it has none.

        Offsets are multiples of the smaller element, so distances are rounded up to one.
        """
        if self.claimed is None:
            return "disjoint"
        if WRONG & set(self.branches):
            return "wrong kernel"
        if self.least is None:
            return "no model"
        step = min(self.case.widths)
        claimed, least = -(-self.claimed // step), -(-self.least // step)
        return "unsafe" if claimed < least else "loose" if claimed > least else "tight"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.claimed} for {self.least} bytes: {self.case} [{', '.join(self.branches)}]"


def compare(profile: str, case: Case) -> Compared:
    """One case under one profile."""
    graph = case.graph()
    found = traces(profile, case)
    # A distance of at least the output's size is as good as none; one below minus the input's size does not exist.
    lowest = -case.read_size * case.widths[0]
    claimed = distance(profile, graph, graph.ops[0], case.position)
    return Compared(
        case,
        tuple(dict.fromkeys(name for trace in found for name in trace.branches)),
        None if claimed is None or claimed >= case.disjoint else max(claimed, lowest),
        max((max(trace.least(), lowest) for trace in found), default=None),
    )


def campaign(profile: str, seed: int, cases: int) -> Iterator[Compared]:
    """Random cases."""
    rng = Random(seed)
    for _ in range(cases):
        yield compare(profile, draw(rng))
