"""`shrink`: the cheapest way to run a model within a budget, or the one with the least memory."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from edgemem.errors import BudgetExceededError, EdgememError, ModelError, NumericDifferenceError
from edgemem.formats import Bindings, Model, load
from edgemem.planning.model_plan import plan_model
from edgemem.plans import Settings
from edgemem.shrinking.branch import Workshop
from edgemem.shrinking.candidate import Candidate, CandidateLimits, front_of
from edgemem.shrinking.explanation import explain
from edgemem.shrinking.onnx import onnx_candidates
from edgemem.shrinking.result import Found, Progress, Shrunk
from edgemem.shrinking.steps import CHANGES, parse_steps
from edgemem.shrinking.tflite import tflite_candidates
from edgemem.shrinking.trial import try_candidate
from edgemem.system.files import KeptFolder
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.shrinking.candidate import OutputRule

__all__ = ["Search", "shrink"]

_PLANNED: Final = 12  # candidates that are planned before a search gives up
_SEARCHES: Final = 5  # until something fits: for what runtimes need besides, and other outputs
_RUN: Final = 4  # candidates whose outputs are compared before it gives up
_QUICK: Final = Settings(effort="fast")  # for choosing between candidates
_LITERT: Final = ("litert", "litert-release")  # targets that follow where TensorFlow Lite Micro's cannot meet a budget
_LEAST: Final = 4  # candidates with the least bounds that are planned where there is no budget


def shrink(
    model: str | Path,
    *,
    budget: int | None = None,
    target: str | Target | None = None,
    kernels: str | None = None,
    allow: Iterable[str] | None = None,
    steps: str | None = None,
    max_macs: float = 1.15,
    max_latency: float | None = None,
    max_operators: int | None = None,
    max_file: int | None = None,
    outputs: OutputRule = "as-runtime",
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Shrunk:
    """Change a model so that it runs in less memory, with the same outputs, and plan it.

    The cheapest candidate within the budget is taken: the one with the least arithmetic, and among equals with the
    fewest operators. Without a budget it is the one with the least memory. Without a time limit the same input gives
    the same model, except that `max_latency` is a limit of measured times.

    Args:
        model: an .onnx or .tflite file.
        budget: bytes that the runtime may take: the head and tail of TensorFlow Lite Micro's arena, LiteRT's arena, or
            that of an ONNX Runtime session.
        target: as for `edgemem.plan`.
        kernels: the kernel library of the device (`edgemem.model.profiles.PROFILES`); results then overlap inputs as
            far as it allows, and the plan holds for that library alone.
        allow: names of the changes to choose from (`edgemem.shrinking.steps.CHANGES`); all by default.
        steps: the changes to apply as they are, such as "fold,order,stream=0:5:56", instead of a search.
        max_macs: the most multiply-accumulate operations, as a multiple of the model's.
        max_latency: the most processor time of a run, as a multiple of what the runtime takes for the model today.
        max_operators: the most operators of the changed model.
        max_file: the most bytes of the changed model, without its plan.
        outputs: how near they must be to those of the model: "identical" in every bit; "as-runtime", which for ONNX
            allows what its own levels of optimisation differ by on the same inputs; "close" for whatever comes of it.
        dims: as for `edgemem.load`.
        input_shapes: as for `edgemem.load`.
        feeds: inputs of the first of the runs that compare outputs; the others are made up.
        time_limit: seconds after which no other candidate is looked for; the result then depends on the machine.
        progress: called with what is done next, and what was found so far.

    Raises:
        ModelError: the file cannot be read, or holds usage records; a step is none.
        BudgetExceededError: nothing is within the budget and the limits; it says how near the candidates come, and
            what is in the way.
        NumericDifferenceError: the outputs of all that fits differ by more than `outputs` allows.
        PassError: a pass broke its guarantee: a defect of edgemem.
    """
    search = Search(
        Path(model),
        CandidateLimits(budget, max_macs, max_latency, max_operators, max_file, outputs),
        bindings=Bindings.of(dims, input_shapes),
        target=target,
        kernels=kernels,
        allow=allow,
        feeds=feeds,
        time_limit=time_limit,
        progress=progress,
    )
    return search.by_hand(steps) if steps is not None else search.shrunk()


def _checked(allow: Iterable[str] | None) -> frozenset[str]:
    names = frozenset(CHANGES if allow is None else allow)
    unknown = sorted(names - set(CHANGES))
    if unknown:
        raise ModelError(f"no change is named {unknown[0]!r}; there are {', '.join(CHANGES)}")
    return names


_Family = Literal["offsets", "shared_objects"]


class Search:
    """The search for one model. Arguments as `shrink`; all its methods share what they made."""

    def __init__(
        self,
        path: Path,
        limits: CandidateLimits,
        *,
        bindings: Bindings | None = None,
        target: str | Target | None = None,
        kernels: str | None = None,
        allow: Iterable[str] | None = None,
        feeds: Mapping[str, NDArray[Any]] | None = None,
        time_limit: float | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        bindings = bindings or Bindings()
        opened = load(path, bindings)
        if not isinstance(opened, Model):
            raise ModelError(f"{path.name} holds usage records: there is no graph to change")
        rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
        if kernels not in (None, "none") and ".tflite" not in opened.suffixes:
            raise ModelError(f"{path.name}: a kernel library is of TensorFlow Lite Micro, which runs .tflite files")
        if rules.region.capacity is not None:
            limits = replace(limits, budget=min(rules.region.capacity, limits.budget or rules.region.capacity))
        self._path, self._model, self._limits, self._feeds = path, opened, limits, feeds
        self._target, self._kernels = target, kernels
        self._refused: set[str] = set()  # candidates whose outputs were
        self._other: Search | None = None  # whose files the model may be read from
        self._rules = rules.changed(kernels=kernels)
        self._kept = KeptFolder()
        self._progress, self._until = progress, None if time_limit is None else time.monotonic() + time_limit
        self._allow, folder = allow, self._kept.path
        self._shop = Workshop(opened, path, folder, self._rules, limits, _checked(allow), feeds, self._tell)
        self._known: list[Candidate] = []
        self._plans: dict[str, tuple[Model, PlanSet, tuple[PlanSet, ...]]] = {}

    def found(self, *, runs: bool = True) -> Found:
        """What there is, with the best candidate tried in its runtime, or only planned if nothing is to be run.

        Candidates whose results overlap inputs are among them for a model that runs in TensorFlow Lite Micro, but none
        is chosen unless the user named the kernel library. Where TensorFlow Lite Micro's arena cannot meet the budget
        and the user named no target, LiteRT's may, at last with inputs that are set before every run.
        """
        found = self._found(runs=runs)
        is_micro = self._target is None and self._kernels is None and self._shop.counts_tail
        if found.best is not None or self._limits.budget is None or not is_micro:
            return found
        for target in _LITERT:
            if self._is_over():
                break
            try:
                other = self._for(target).found(runs=runs)
            except EdgememError:  # it is not installed, or does not run the model
                break
            if other.best is not None:
                return replace(other, explanation=found.explanation)
        return found

    def _for(self, target: str) -> Search:
        """The same search under another target's rules, which shares what is made with this one."""
        left = None if self._until is None else max(self._until - time.monotonic(), 0.0)
        other = Search(
            self._path,
            self._limits,
            bindings=self._model.bindings,
            target=target,
            allow=self._allow,
            feeds=self._feeds,
            time_limit=left,
            progress=self._progress,
        )
        other._plans = self._plans = {}
        self._other = other
        return other

    def _found(self, *, runs: bool) -> Found:
        best: Candidate | None = None
        is_whole = False
        for _ in range(_SEARCHES):
            is_whole = self._collect(all_=is_whole)
            best = self._best(self._known, runs=runs)
            if best is not None or self._is_over() or (is_whole and not self._looks_further(self._known)):
                break
            is_whole = True
        explanation = "" if best is not None else explain(self._shop, self._known, self._limits)
        return self._so_far(best, explanation)

    def _collect(self, *, all_: bool) -> bool:
        """Add candidates to those that are known; whether there are no others.

        Candidates come in the order of their price, apart from those that are made when they are wanted. So the first
        one with a plan within the budget ends the search, unless all are asked for.
        """
        make = onnx_candidates if ".onnx" in self._model.suffixes else tflite_candidates
        seen = {c.text for c in self._known}
        for candidate in make(self._shop):
            if candidate.text not in seen:
                self._known.append(candidate)
                self._tell("look for candidates")
                if not all_ and self._limits.budget is not None and self._may_end(candidate):
                    self._known[-1] = self._planned(candidate)
                    if self._fits(self._known[-1]):
                        return False
            if self._is_over():
                return False
        return True

    def _may_end(self, candidate: Candidate) -> bool:
        return candidate.is_made and self._is_wanted(candidate) and self._fits(candidate)

    def _so_far(self, best: Candidate | None = None, explanation: str = "") -> Found:
        inside = [c for c in self._known if not c.breaks(self._limits)]
        own, other = ([c for c in inside if (c.kernels == self._rules.kernels) is held] for held in (True, False))
        refusals = tuple(dict.fromkeys(self._shop.refusals))
        return Found(tuple(self._known), front_of(own), front_of(other), best, refusals, explanation, self._words())

    def _tell(self, doing: str) -> None:
        if self._progress is not None:
            self._progress(Progress(doing, self._so_far()))

    def shrunk(self) -> Shrunk:
        """The model as the best candidate has it. Raises where there is none."""
        found = self.found()
        if found.best is None:
            least = min(found.candidates, key=lambda c: c.memory)
            if self._limits.budget is None or least.memory <= self._limits.budget:
                raise NumericDifferenceError(f"{self._path.name}: {found.explanation}", largest=float("inf"))
            raise BudgetExceededError(
                f"{self._path.name}: {found.explanation}", required=least.memory, available=self._limits.budget, op=""
            )
        return self.made(found.best, found)

    def by_hand(self, text: str) -> Shrunk:
        """The model with the steps that the user named."""
        steps, kernels = parse_steps(text)
        branch = self._shop.start
        if kernels != "none":
            branch = self._shop.overlapping(branch, kernels)
        for step in steps:
            if step.name == "stream":
                branch = self._shop.overlapping(branch, branch.target.kernels, slots=True)
            branch = self._shop.apply(branch, step)
        candidate = self._tried(self._planned(self._shop.candidate(branch)))
        if candidate is None:
            raise NumericDifferenceError(f"{self._path.name}: {self._shop.refusals[-1]}", largest=float("inf"))
        if self._limits.budget is not None and candidate.memory > self._limits.budget:
            raise BudgetExceededError(
                f"{self._path.name}: {candidate.memory:,} bytes with {text}, {self._limits.budget:,} are allowed",
                required=candidate.memory,
                available=self._limits.budget,
                op="",
            )
        return self.made(candidate, Found((candidate,), (candidate,), (), candidate, words=self._words()))

    def made(self, chosen: Candidate, found: Found) -> Shrunk:
        """The model of a candidate that was planned."""
        model, planset, recorded = self._plans[chosen.text]
        return Shrunk(model, planset, chosen, found, recorded, (self._kept, self._other))

    def _words(self) -> tuple[str, ...]:
        """Of the command that makes a candidate, but its steps."""
        target = ("-t", self._target) if isinstance(self._target, str) else ()
        return ("edgemem", "shrink", str(self._path), *target, *self._model.bindings.options)

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _best(self, known: list[Candidate], *, runs: bool) -> Candidate | None:
        """The best candidate, planned and tried. What planning and running says of others stands in `known` then.

        A runtime may need more than the plan of the graph, for the workspace of kernels. Without a budget candidates
        are tried until what one needs is no more than what the next one does at least.
        """
        best: Candidate | None = None
        for tried, place in enumerate(self._planned_in_turn(known)):
            if tried == _RUN or (best is not None and best.memory <= known[place].memory):
                break
            made = self._tried(known[place]) if runs else self._planned(known[place])
            if made is None:
                continue
            known[place] = made
            if self._fits(made) and (best is None or made.memory < best.memory):
                best = made
            if best is not None and self._limits.budget is not None:
                break
        return best

    def _looks_further(self, known: Sequence[Candidate]) -> bool:
        """Whether there may be other candidates, for which the limits of the search are changed.

        Where runtimes needed more than the budget, those for a budget that is lower by as much. Where outputs were
        refused, those with a little less memory, and at last those that keep every bit of the level of ONNX Runtime at
        which tiles are cut.
        """
        limits, budget = self._shop.limits, self._limits.budget
        over = [c.memory for c in known if c.is_measured and budget is not None and c.memory > budget]
        refused = [c.memory for c in known if c.text in self._refused]
        if budget is not None and limits.budget is not None and (over or refused):
            lower = limits.budget * budget // min(over) if over else min(refused) - 1
            if len(self._refused) < _RUN:
                self._shop.limits = replace(limits, budget=lower)
                return True
        if refused and limits.outputs == "as-runtime":
            self._shop.limits = replace(self._limits, outputs="identical")
            return True
        return False

    def _planned_in_turn(self, known: list[Candidate]) -> Iterable[int]:
        """Places of candidates, the one that is wanted most first, once each is planned."""
        open_ = [n for n, c in enumerate(known) if self._is_wanted(c)]
        if self._limits.budget is None:
            open_.sort(key=lambda n: (known[n].memory, known[n].price))
            for n in open_[:_LEAST]:
                known[n] = self._planned(known[n])
            yield from sorted(open_, key=lambda n: (not known[n].is_planned, known[n].memory, known[n].price))
            return
        budget = limit = self._limits.budget
        open_.sort(key=lambda n: (known[n].price, known[n].memory))
        for _ in range(_PLANNED):
            inside = [n for n in open_ if known[n].memory <= limit]
            if not inside and limit == budget:
                return
            if not inside:  # nothing is that much lower: whatever is below the budget is tried
                limit = budget
                continue
            n = inside[0]
            open_.remove(n)
            bound = known[n].memory
            known[n] = self._planned(known[n])
            if self._fits(known[n]):
                yield n
            else:  # the plans of its like exceed their bounds as much
                limit = min(limit, bound - 1, bound * budget // known[n].memory)

    def _is_wanted(self, candidate: Candidate) -> bool:
        """Whether it may be chosen: it holds for the user's kernels, breaks no limit, and was not refused."""
        if candidate.text in self._refused:
            return False
        return candidate.kernels == self._rules.kernels and not candidate.breaks(self._limits)

    def _fits(self, candidate: Candidate) -> bool:
        if candidate.breaks(self._limits):
            return False
        return self._limits.budget is None or candidate.memory <= self._limits.budget

    def _planned(self, candidate: Candidate) -> Candidate:
        """A candidate with the size of a proved plan."""
        if candidate.text in self._plans:
            return candidate
        self._tell("plan")
        model = candidate.model()
        tail = self._shop.tail(model.graph())
        fits = None if self._limits.budget is None else self._limits.budget - tail
        families: tuple[_Family, ...] = ("offsets",) if candidate.target.is_dense else ("offsets", "shared_objects")
        planset = plan_model(model, candidate.target, _QUICK, families=families, fits=fits)
        best = planset.best_offsets or planset.best_shared_objects
        assert best is not None
        self._plans[candidate.text] = (model, planset, ())
        return replace(candidate, arena=best.size, tail=tail, is_planned=True, file=len(model.content()))

    def _best_planned(self, candidate: Candidate) -> Candidate:
        """A planned candidate with the plan that `edgemem.plan` makes, which searches longer."""
        model, planset, recorded = self._plans[candidate.text]
        known = planset.best_offsets or planset.best_shared_objects
        if known is None or known.optimal or planset.settings != _QUICK:
            return candidate
        families: tuple[_Family, ...] = ("offsets",) if candidate.target.is_dense else ("offsets", "shared_objects")
        planset = plan_model(model, candidate.target, Settings(), families=families)
        best = planset.best_offsets or planset.best_shared_objects
        assert best is not None
        self._plans[candidate.text] = (model, planset, recorded)
        return replace(candidate, arena=best.size)

    def _tried(self, candidate: Candidate) -> Candidate | None:
        """A candidate with what its runtime says; None where its outputs are not near enough."""
        candidate = self._best_planned(self._planned(candidate))
        self._tell("run")
        model, planset, _ = self._plans[candidate.text]
        try:
            trial = try_candidate(self._model, self._path, candidate, model, planset, self._limits.outputs, self._feeds)
        except EdgememError as e:
            self._shop.refusals.append(f"{candidate.text or 'the model as it is'}: {e}")
            raise
        self._plans[candidate.text] = (model, planset, trial.recorded)
        if trial.refusal:
            self._refused.add(candidate.text)
            self._shop.refusals.append(trial.refusal)
            return None
        return trial.candidate
