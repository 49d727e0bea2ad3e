"""Models on the way to a candidate: made once, shared by all candidates that go on from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import EdgememError
from edgemem.formats.workspace import graph_under
from edgemem.model.macs import count_macs
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.tiling.choice import TileSearch
from edgemem.records.micro_arena import prepared_bytes
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import has_tail, predicted_tail
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.schedule.peak import peak_of
from edgemem.shrinking.candidate import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import Pass
    from edgemem.passes.streaming.stages import StripeChoice
    from edgemem.shrinking.candidate import CandidateLimits
    from edgemem.targets import Target

__all__ = ["Branch", "Workshop"]

_PARTS: Final = (0.85, 0.7, 0.55, 0.4)  # budgets of recomputation where none is given, as parts of the peak


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A model, and the passes that made it.

    Attributes:
        model: as the passes left it.
        steps: the passes, in order.
        target: whose rules count its memory.
        given: operators of the graph before passes that add some.
        macs: multiply-accumulate operations of a model without additional ones.
    """

    model: Model
    steps: tuple[Pass, ...]
    target: Target
    given: int
    macs: int


class Workshop:
    """Makes models and says what they take."""

    def __init__(
        self,
        model: Model,
        path: Path,
        folder: Path,
        target: Target,
        limits: CandidateLimits,
        allow: frozenset[str],
        feeds: Mapping[str, NDArray[Any]] | None,
        progress: Callable[[str], None],
    ) -> None:
        self.path, self.target, self.limits = path, target, limits
        self.refusals: list[str] = []
        self._folder, self._allow, self._feeds, self._progress = folder, allow, feeds, progress
        self._model = model
        self._made: dict[tuple[Branch, Pass, bool], Branch] = {}
        self._before: dict[int, tuple[Branch, Branch]] = {}  # by model, which `_made` keeps
        self._tile_searches: dict[tuple[int, tuple[int, ...]], TileSearch] = {}  # by model, which `_made` keeps
        is_baked = ".onnx" in model.suffixes and baked_note(model.content()) is not None
        self._given = frozenset({OptimiseGraph.name} if is_baked else ())

    @cached_property
    def start(self) -> Branch:
        """The model as it is."""
        graph = self._model.graph()
        return Branch(self._model, (), self.target, len(graph.ops), count_macs(graph))

    @cached_property
    def counts_tail(self) -> bool:
        """Whether the target is TensorFlow Lite Micro, where operators cost memory in the tail of the arena."""
        return has_tail(self._model.default_target, self.target)

    def tail(self, graph: Graph) -> int:
        """Bytes of TensorFlow Lite Micro's tail on the target's device; 0 for other runtimes."""
        return predicted_tail(graph, build_of(self.target)) if self.counts_tail else 0

    def prepared(self, graph: Graph) -> int:
        """Bytes that TensorFlow Lite Micro's arena has to hold while a model is prepared; 0 for other runtimes."""
        return prepared_bytes(graph, build_of(self.target)) if self.counts_tail else 0

    def allows(self, name: str) -> bool:
        """Whether the user allows a change with this name."""
        return name in self._allow

    def apply(self, base: Branch, step: Pass, *, restart: bool = False) -> Branch:
        """What a pass makes of a model; the same branch if it changes nothing.

        `restart` counts operators and arithmetic anew, for a pass that writes the same computation in other operators.
        Raises as `apply_pass`.
        """
        key = (base, step, restart)
        if key not in self._made:
            made = self._made[key] = self._applied(base, step, restart=restart)
            if made is not base:
                self._before.setdefault(id(made.model), (base, made))
        return self._made[key]

    def memory_by_step(self, model: Model) -> tuple[int, ...]:
        """Bytes that no plan goes below: of the model as it is, and of what each step made of it, up to this one."""
        sizes: list[int] = []
        while id(model) in self._before:
            base, branch = self._before[id(model)]
            sizes.append(self.candidate(branch).memory)
            model = base.model
        return (self.candidate(self.start).memory, *reversed(sizes))

    def _applied(self, base: Branch, step: Pass, *, restart: bool) -> Branch:
        self._progress(step.name)
        context = PassContext(
            self.path,
            self._folder,
            self._model.bindings,
            base.target,
            self._feeds,
            self._given | {done.name for done in base.steps},
        )
        model = apply_pass(step, base.model, context)
        if model is base.model:
            return base
        if not restart:
            return replace(base, model=model, steps=(*base.steps, step))
        graph = model.graph()
        return Branch(model, (*base.steps, step), base.target, len(graph.ops), count_macs(graph))

    def tile_search(self, base: Branch, threads: tuple[int, ...]) -> TileSearch:
        """The search for tiles of a model, which keeps what it computed for the next limits."""
        key = (id(base.model), threads)
        if key not in self._tile_searches:
            self._tile_searches[key] = TileSearch(base.model.graph(), base.target, threads)
        return self._tile_searches[key]

    def overlapping(self, base: Branch, kernels: str, *, slots: bool = False) -> Branch:
        """A branch under rules that let results overlap inputs."""
        rules = self.target.changed(kernels=kernels, slots=slots or kernels != "none")
        return base if rules == base.target else replace(base, target=rules)

    def candidate(self, branch: Branch) -> Candidate:
        """What a model takes, by the lower bound of its memory."""
        graph = branch.model.graph()
        return Candidate(
            branch.steps,
            branch.target.kernels,
            branch.target,
            peak_of(graph_under(branch.model, branch.target), branch.target),
            self.tail(graph),
            count_macs(graph) / branch.macs if branch.macs else 1.0,
            len(graph.ops),
            len(graph.ops) / max(branch.given, 1),
            lambda: branch.model,
            whole=self.prepared(graph),
        )

    def streamed(self, base: Branch, step: Pass, choice: StripeChoice) -> Candidate:
        """A model in stripes, which is made when it is wanted."""
        return Candidate(
            (*base.steps, step),
            base.target.kernels,
            base.target,
            choice.bound,
            choice.tail if self.counts_tail else 0,
            1.0,
            choice.operators,
            choice.operators / max(base.given, 1),
            lambda: self.apply(base, step).model,
            is_made=False,
        )

    def recomputed(self, base: Branch) -> Iterator[Candidate]:
        """A model in which operators run again, for the budget or for parts of the peak."""
        if not self.allows(RecomputeOperators.name) or self.limits.max_macs <= 1:
            return
        peak = peak_of(graph_under(base.model, base.target), base.target)
        tail = self.tail(base.model.graph())
        wanted = self.limits.budget
        budgets = [wanted - tail] if wanted is not None else [int(peak * part) for part in _PARTS]
        least = peak
        for budget in budgets:
            if not 0 < budget < least:
                continue
            try:
                made = self.apply(base, RecomputeOperators(budget, self.limits.max_macs))
            except EdgememError as e:
                self.refusals.append(str(e))
                return
            if made is base:
                return
            found = self.candidate(made)
            if found.arena >= least:
                return
            least = found.arena
            yield found
