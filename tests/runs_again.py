"""Recomputation of operators at random, as a pass: copies where no search would make any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from edgemem.formats import Rewritable
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.remat.operators import repeatable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import Guarantee, PassContext
    from edgemem.targets import Target

__all__ = ["RunsAgain"]


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """Runs up to two operators again before each operator."""

    seed: int
    target: Target

    name: ClassVar[str] = RecomputeOperators.name
    suffixes: ClassVar[frozenset[str]] = RecomputeOperators.suffixes
    requires: ClassVar[Mapping[str, str]] = RecomputeOperators.requires
    guarantee: ClassVar[Guarantee] = RecomputeOperators.guarantee

    def apply(self, model: Model, _context: PassContext) -> Model:
        assert isinstance(model, Rewritable)
        rng, graph = np.random.default_rng(self.seed), model.graph()
        able = repeatable(graph, self.target)
        runs: list[int] = []
        for k in range(len(graph.ops)):
            past = [done for done in runs if done in able]
            runs += [int(rng.choice(past)) for _ in range(int(rng.integers(0, 3))) if past]
            runs.append(k)
        return model.rewritten(repeat(graph, runs))
