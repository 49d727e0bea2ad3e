"""The search for the cheapest way to run a model within a budget, or for the one that takes least of a process."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import BudgetExceededError, EdgememError, ModelError, NumericDifferenceError, UnsupportedError
from edgemem.formats import Bindings, Model, load
from edgemem.runtime.onnxruntime.baked_file import check_place
from edgemem.runtime.onnxruntime.bounded_run import check_run_ends, is_bounded
from edgemem.runtime.onnxruntime.session_comparison import requests_of
from edgemem.shrinking.branch import Workshop
from edgemem.shrinking.candidate import SESSIONS, Candidate, CandidateLimits, front_of
from edgemem.shrinking.explanation import explain
from edgemem.shrinking.note import note_of, notes_in, with_notes
from edgemem.shrinking.onnx import onnx_candidates
from edgemem.shrinking.result import Found, Progress, Shrunk, StepEffect
from edgemem.shrinking.steps import CHANGES, parse_steps
from edgemem.shrinking.tflite import tflite_candidates
from edgemem.shrinking.trials import Trials
from edgemem.system.files import KeptFolder
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


__all__ = ["Search"]

_PLANNED: Final = 12  # candidates that are planned before a search gives up
_SEARCHES: Final = 5  # until something fits: for what runtimes need besides, and other outputs
_RUN: Final = 4  # candidates whose outputs are compared before it gives up
_ALREADY: Final = "This model was made by shrink: shrink the model that it was made from for other changes"
_LITERT: Final = "litert"  # the target that follows where TensorFlow Lite Micro's cannot meet a budget
_LEAST: Final = 4  # candidates with the least bounds that are planned where there is no budget


def _checked(allow: Iterable[str] | None) -> frozenset[str]:
    names = frozenset(CHANGES if allow is None else allow)
    unknown = sorted(names - set(CHANGES))
    if unknown:
        raise ModelError(f"no change is named {unknown[0]!r}; there are {', '.join(CHANGES)}")
    return names


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
        if ".onnx" in opened.suffixes:
            check_place(opened.content())
        rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
        if kernels not in (None, "none") and ".tflite" not in opened.suffixes:
            raise ModelError(f"{path.name}: a kernel library is of TensorFlow Lite Micro, which runs .tflite files")
        if len(rules.regions) > 1:
            raise UnsupportedError(
                f"changes of a model are compared by one arena, and the target {rules.name!r} has {len(rules.regions)} "
                "regions; give shrink a target with one, and plan what it wrote for all of them"
            )
        self._notes = notes_in(opened)
        # A model in stripes was planned with its slots.
        striped = any(step.split("=")[0] == "stream" for note in self._notes for step in note.steps.split(","))
        rules = rules.changed(kernels=kernels, slots=striped and rules.is_dense)
        if rules.region.capacity is not None:
            limits = replace(limits, budget=min(rules.region.capacity, limits.budget or rules.region.capacity))
        self._path, self._model, self._limits, self._feeds = path, opened, limits, feeds
        self._target, self._kernels = target, kernels
        self._refused: set[str] = set()  # candidates whose outputs were
        self._other: Search | None = None  # under another target's rules
        self._rules = rules
        self._kept = KeptFolder()
        self._progress, self._until = progress, None if time_limit is None else time.monotonic() + time_limit
        self._allow, folder = allow, self._kept.path
        self._shop = Workshop(opened, path, folder, self._rules, limits, _checked(allow), feeds, self._tell)
        self._known: list[Candidate] = []
        self._trials = Trials(opened, path, self._shop, limits, feeds, self._tell)
        if ".onnx" in opened.suffixes:
            self._check_that_it_ends(time_limit)

    def _check_that_it_ends(self, limit_s: float | None) -> None:
        """Raise RuntimeBindError for a model that no search can run, because it does not come back."""
        bindings, graph = self._model.bindings, self._model.graph()
        if not is_bounded(graph):
            requests = requests_of(self._path.read_bytes(), self._path.parent, bindings, self._feeds)
            check_run_ends(self._path, graph, requests, dims=bindings.fixed, limit_s=limit_s)

    def found(self, *, runs: bool = True) -> Found:
        """What there is, with the best candidate tried in its runtime, or only planned if nothing is to be run.

        Candidates whose results overlap inputs are among them for a model that runs in TensorFlow Lite Micro, but none
        is chosen unless the user named the kernel library. Where TensorFlow Lite Micro's arena cannot meet the budget
        and the user named no target, LiteRT's may.
        """
        found = self._found(runs=runs)
        is_micro = self._target is None and self._kernels is None and self._shop.counts_tail
        if found.best is not None or self._limits.budget is None or not is_micro:
            return found
        if self._is_over():
            return found
        try:
            other = self._for(_LITERT).found(runs=runs)
        except EdgememError:  # it is not installed, or does not run the model
            return found
        return found if other.best is None else replace(other, explanation=found.explanation)

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
        if best is None and runs:
            best = self._measured_start(self._known, inf)
        if best is not None and best.latency is None:
            place = next(n for n, c in enumerate(self._known) if c.text == best.text)
            self._known[place] = best = self._trials.timed(best)
        explanation = "" if best is not None else explain(self._shop, self._known, self._limits, self._refused)
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
                    self._known[-1] = self._planned_if_possible(candidate)
                    if self._known[-1].is_planned and self._fits(self._known[-1]):
                        return False
            if self._is_over():
                return False
        return True

    def _may_end(self, candidate: Candidate) -> bool:
        return candidate.is_made and self._is_wanted(candidate) and self._fits(candidate)

    def _so_far(self, best: Candidate | None = None, explanation: str = "") -> Found:
        inside = [c for c in self._known if not c.breaks(self._limits)]
        own, other = ([c for c in inside if (c.kernels == self._rules.kernels) is held] for held in (True, False))
        if explanation and self._notes:
            explanation = f"{explanation.rstrip('.')}. {_ALREADY}"
        refusals = tuple(dict.fromkeys(self._shop.refusals))
        return Found(
            tuple(self._known), front_of(own), front_of(other), best, refusals, explanation, **self._of_the_model()
        )

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
                f"{self._path.name}: {found.explanation}", required=least.memory, available=self._limits.budget
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
        try:
            candidate = self._trials.timed(self._trials.tried(self._shop.candidate(branch)))
        except NumericDifferenceError as e:
            raise NumericDifferenceError(f"{self._path.name}: {e}", largest=e.largest) from None
        if self._limits.budget is not None and candidate.memory > self._limits.budget:
            raise BudgetExceededError(
                f"{self._path.name}: {candidate.memory:,} bytes with {text}, {self._limits.budget:,} are allowed",
                required=candidate.memory,
                available=self._limits.budget,
            )
        before = () if not candidate.text else (self._shop.candidate(self._shop.start),)
        return self.made(candidate, Found((*before, candidate), (candidate,), (), candidate, **self._of_the_model()))

    def made(self, chosen: Candidate, found: Found) -> Shrunk:
        """The model of a candidate that was planned."""
        if self._other is not None and chosen.target.name != self._rules.name:
            return self._other.made(chosen, found)
        model, planset, recorded = self._trials.plans_of(chosen)
        sizes = self._shop.memory_by_step(model)
        effects = tuple(StepEffect(str(step), *pair) for step, pair in zip(chosen.steps, pairwise(sizes), strict=True))
        made = (note_of(chosen, found.candidates[0]),) if chosen.text else ()
        model = with_notes(model, (*self._notes, *made))
        return Shrunk(model, planset, chosen, found, recorded, effects, self._kept)

    def _of_the_model(self) -> dict[str, Any]:
        """What every result says of the model: the command but its steps, its notes and its ranges."""
        target = ("-t", self._target) if isinstance(self._target, str) else ()
        words = ("edgemem", "shrink", str(self._path), *target, *self._model.bindings.options)
        return {"words": words, "notes": self._notes, "ranges": self._model.bindings.ranges}

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _best(self, known: list[Candidate], *, runs: bool) -> Candidate | None:
        """The best candidate, planned and tried. What planning and running says of others stands in `known` then.

        A runtime may need more than the plan of the graph, for the workspace of kernels. Without a budget candidates
        are tried until what one takes of the process is no more than what the next one does at least.
        """
        budget = self._limits.budget
        best = self._measured_start(known, 2 * budget) if runs and budget is not None else None
        if best is not None:
            return best
        for tried, place in enumerate(self._planned_in_turn(known)):
            if tried == _RUN or (best is not None and best.process <= known[place].process):
                break
            try:
                planned = self._trials.planned(known[place])
                if runs:
                    made = self._trials.tried(planned)
                else:
                    made = planned if self._until is not None else self._trials.best_planned(planned)
            except UnsupportedError as e:
                self._refuse(known[place], str(e))
                continue
            known[place] = made
            if runs and self._limits.max_latency is not None and made.latency is None:
                self._refuse(made, f"{made.text or 'the model as it is'}: its time could not be measured")
                continue
            if self._fits(made) and (best is None or made.process < best.process):
                best = made
            if best is not None and budget is not None:
                break
        start = self._measured_start(known, 2 * best.memory) if runs and best is not None and budget is None else None
        if best is None or start is None:
            return best
        # Sessions fuse nodes of the model as it is, too, so that it has fewer than its file.
        return start if start.memory <= best.memory or start.process <= best.process else best

    def _measured_start(self, known: list[Candidate], most: float) -> Candidate | None:
        """The model as it is, with what a session of ONNX Runtime takes for it; None where that does not fit.

        Sessions write results over inputs where kernels allow it, so that they may need less than the plan of the
        graph, down to about half of it; above `most` bytes, none is opened.
        """
        start = known[0]
        is_session = ".onnx" in self._model.suffixes and start.target.name in SESSIONS
        is_session &= not self._model.bindings.ranges
        if not is_session or not self._is_wanted(start) or (start.memory > most and not start.is_measured):
            return None
        if not start.is_measured:
            known[0] = start = self._trials.tried(start)
        return start if start.is_measured and self._fits(start) else None

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
            open_.sort(key=lambda n: (known[n].process, known[n].price))
            for n in open_[:_LEAST]:
                known[n] = self._planned_if_possible(known[n])
            left = [n for n in open_ if known[n].text not in self._refused]
            yield from sorted(left, key=lambda n: (not known[n].is_planned, known[n].process, known[n].price))
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
            known[n] = self._planned_if_possible(known[n])
            if known[n].text in self._refused:
                continue
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

    def _refuse(self, candidate: Candidate, reason: str) -> None:
        self._refused.add(candidate.text)
        self._shop.refusals.append(reason)

    def _planned_if_possible(self, candidate: Candidate) -> Candidate:
        """A candidate with the size of its plan; one of which no plan can be made is refused."""
        try:
            return self._trials.planned(candidate)
        except UnsupportedError as e:
            self._refuse(candidate, f"{candidate.text or 'the model as it is'}: {e}")
            return candidate
