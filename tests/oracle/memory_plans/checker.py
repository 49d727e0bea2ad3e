"""The verdict on a plan set of a graph: right, or everything that is wrong with it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from edgemem import Target
from tests.oracle.memory_plans.program import Unknown
from tests.oracle.memory_plans.reading import faults_of, placements
from tests.oracle.memory_plans.simulation import Stage
from tests.oracle.memory_plans.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem import PlanSet
    from tests.oracle.memory_plans.program import Program

__all__ = ["Checker"]

_KEPT = 24  # stages
_LARGEST = 1 << 30  # units of memory that are simulated


@dataclass(eq=False)
class Checker:
    """Checks plans of one program.

    Attributes:
        workspace: bytes of each workspace, by the label of the operator; what a runtime said, for targets that ask it.
    """

    program: Program
    workspace: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    _stages: OrderedDict[object, Stage] = field(default_factory=OrderedDict)

    def stage(self, target: Target, order: tuple[int, ...] | None = None) -> Stage:
        """The events under a target, in an order of the main graph's operators."""
        rules = (target.sub_byte, target.aliasing, target.texels, target.bodies, target.inputs, target.scratch)
        form = (target.storage, target.precision, target.texel_row, target.layer_rows, target.texture_side)
        key = (*rules, *form, tuple(target.states.items()), order)
        if key not in self._stages:
            self._check_order(order)
            workspace = self.workspace if target.scratch == "litert" else {}
            self._stages[key] = Stage(Timeline(self.program, target, order, workspace))
            if len(self._stages) > _KEPT:
                self._stages.popitem(last=False)
        stage = self._stages[key]
        stage.timeline.target = target  # what else it says is read from it, and changes no event
        return stage

    def _check_order(self, order: tuple[int, ...] | None) -> None:
        calls = self.program.main.calls
        if order is None:
            return
        if sorted(order) != list(range(len(calls))):
            raise Unknown("the order is no permutation of the operators")
        written_by = {n: k for k, call in enumerate(calls) for n in call.writes if n}
        done: set[int] = set()
        for k in order:
            if any(written_by[n] not in done for n in (*calls[k].reads, *calls[k].captured) if n in written_by):
                raise Unknown("the order runs an operator before one that it needs")
            done.add(k)

    def wrongs(self, planset: PlanSet, *, at_most: int = 3) -> list[str]:
        """What is wrong with the plans of a plan set, as an executor under its target takes them; [] if nothing is."""
        found: list[str] = []
        target = planset.target or Target("none", alignment=planset.problem.alignment, aliasing="none")
        try:
            stage = self.stage(target, planset.order)
        except Unknown as e:
            return [str(e)]
        for plan in planset.plans:
            faults = list(islice(faults_of(planset, plan, stage.timeline), at_most))
            if faults:  # what it would do is of no interest any more
                found += [f"{plan.strategy}: {fault}" for fault in faults]
                continue
            for placed in placements(planset, plan, stage.timeline):
                if any(begin < 0 or end > _LARGEST for begin, end in placed.values()):
                    found.append(f"{plan.strategy}: a place outside all memory")
                    break
                difference = stage.difference(placed)
                if difference is not None:
                    found.append(f"{plan.strategy}: {difference.tensor!r}, {difference.why}, is wrong")
                    break
        return found[:at_most]
