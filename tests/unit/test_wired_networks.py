"""The sketches of networks that branch: their peaks in the order of the description, counted elsewhere before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from models import wired_networks as wired

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

# KiB of int8 activations. They were measured before with another program, whose random graphs are networkx's.
PEAKS = [
    (wired.randwire(16, seed=0), 441),
    (wired.randwire(32, seed=1), 735),
    (wired.randwire(64, seed=2), 1617),
    (wired.randwire(128, seed=3), 3185),
    (wired.inception(4), 596),
    (wired.inception(9), 596),
    (wired.random_cells(2, seed=0), 165),
    (wired.random_cells(3, seed=1), 248),
    (wired.random_cells(10, seed=2), 193),
    (wired.unet(), 576),
]


@pytest.mark.parametrize(("graph", "kib"), [pytest.param(g, kib, id=g.name) for g, kib in PEAKS])
def test_sketch_needs_as_much_as_was_counted_elsewhere(graph: Graph, kib: int) -> None:
    assert round(peak_of(graph, BUILT_IN["tflm"]) / 1024) == kib


@pytest.mark.parametrize("name", wired.GENOTYPES)
@pytest.mark.parametrize("imagenet", [False, True])
def test_found_cells_halve_the_map_where_they_reduce(name: str, *, imagenet: bool) -> None:
    graph = wired.found_cells(name, stacked=2, channels=4, imagenet=imagenet)
    sides = [t.shape[2] for t in graph.tensors if t.name.startswith("concat") and t.shape[2] > 1]
    # The joined halves of an earlier cell are as large as what they are fitted to.
    expected = {56, 28, 14, 7} if imagenet else {32, 16, 8}
    assert set(sides) == expected
    ends = len(wired.GENOTYPES[name].normal_ends)
    last = [t for t in graph.tensors if t.name.startswith("concat")][-1]
    assert last.shape[1] == ends * 4 * (16 if imagenet else 4)
