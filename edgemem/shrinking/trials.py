"""Candidates planned, run and timed, each no more than once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import NumericDifferenceError
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.planning.model_plan import FAMILIES, plan_model
from edgemem.plans import Settings
from edgemem.runtime.onnxruntime.session_comparison import OriginalRuns
from edgemem.shrinking.trial import try_candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.plans import PlanSet
    from edgemem.shrinking.branch import Workshop
    from edgemem.shrinking.candidate import Candidate, CandidateLimits
    from edgemem.targets import Target

__all__ = ["Trials"]

_QUICK: Final = Settings(effort="fast")  # for choosing between candidates


class Trials:
    """The plans of one model's candidates under one target, and what runtimes say of them."""

    def __init__(
        self,
        model: Model,
        path: Path,
        shop: Workshop,
        limits: CandidateLimits,
        feeds: Mapping[str, NDArray[Any]] | None,
        tell: Callable[[str], None],
    ) -> None:
        self._model, self._path, self._shop, self._limits = model, path, shop, limits
        self._feeds, self._tell = feeds, tell
        self._plans: dict[str, tuple[Model, PlanSet, tuple[PlanSet, ...]]] = {}

    @cached_property
    def original(self) -> OriginalRuns:
        """Runs of the model as it is, in ONNX Runtime."""
        return OriginalRuns(self._path, bindings=self._model.bindings, feeds=self._feeds)

    def plans_of(self, candidate: Candidate) -> tuple[Model, PlanSet, tuple[PlanSet, ...]]:
        """The model of a candidate that was planned, its plan, and those that were recorded."""
        return self._plans[candidate.text]

    def planned(self, candidate: Candidate) -> Candidate:
        """A candidate with the size of a proved plan that is quickly made."""
        if candidate.text in self._plans:
            return candidate
        self._tell("plan")
        model = candidate.model()
        tail = self._shop.tail(model.graph())
        fits = None if self._limits.budget is None else self._limits.budget - tail
        planset, size = _plans(model, candidate.target, _QUICK, fits)
        self._plans[candidate.text] = (model, planset, ())
        made = replace(candidate, tail=tail, is_planned=True, file=len(model.content()))
        return _with_plan(made, model, planset, size)

    def best_planned(self, candidate: Candidate) -> Candidate:
        """A planned candidate with the plan that `edgemem.plan` makes, which searches longer."""
        model, planset, recorded = self._plans[candidate.text]
        known = planset.best_offsets or planset.best_shared_objects
        if known is None or known.optimal or planset.settings != _QUICK:
            return candidate
        planset, size = _plans(model, candidate.target, Settings())
        self._plans[candidate.text] = (model, planset, recorded)
        return _with_plan(candidate, model, planset, size)

    def tried(self, candidate: Candidate) -> Candidate:
        """A candidate with what its runtime says.

        Raises NumericDifferenceError where its outputs are not near enough, and UnsupportedError where its plan does
        not hold for all sizes of a range.
        """
        candidate = self.best_planned(self.planned(candidate))
        self._tell("run")
        model, planset, _ = self._plans[candidate.text]
        trial = try_candidate(
            self._model, self._path, candidate, model, planset, self._limits, self._feeds, lambda: self.original
        )
        self._plans[candidate.text] = (model, planset, trial.recorded)
        if trial.refusal:
            raise NumericDifferenceError(trial.refusal, largest=float("inf"))
        return trial.candidate

    def timed(self, candidate: Candidate) -> Candidate:
        """A candidate that ran in ONNX Runtime with the time of a run."""
        if candidate.latency is not None or not candidate.is_measured or ".onnx" not in self._model.suffixes:
            return candidate
        self._tell("time")
        return replace(candidate, latency=self.original.latency_ratio(self.plans_of(candidate)[0]))


def _with_plan(candidate: Candidate, model: Model, planset: PlanSet, size: int) -> Candidate:
    arenas = micro_arenas(model, planset)
    return replace(candidate, arena=size, whole=arenas.planned.total if arenas else 0)


def _plans(model: Model, target: Target, settings: Settings, fits: int | None = None) -> tuple[PlanSet, int]:
    """Proved plans of a candidate's model, and the bytes (texels for textures) of the smallest.

    Offsets alone for memory of dense bytes, else shared objects, too. Arguments and errors are those of `plan_model`.
    """
    planset = plan_model(model, target, settings, families=FAMILIES[:1] if target.is_dense else FAMILIES, fits=fits)
    best = planset.best_offsets or planset.best_shared_objects
    assert best is not None
    return planset, best.size
