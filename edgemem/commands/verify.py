"""What `edgemem verify` says: which plans were examined, for which runtimes, by which arguments, and what was not."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgemem.errors import MissingDependencyError
from edgemem.model.profiles import KERNELS, VERSIONS
from edgemem.plans import LEFT_TO_RUNTIME
from edgemem.runtime.executors import list_executors
from edgemem.runtime.onnxruntime.baked_file import check_place
from edgemem.runtime.onnxruntime.file import model_digest, opened

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.planning.verification import Verdict
    from edgemem.plans import Plan, PlanSet

__all__ = ["Leg", "Report", "check_runs_here", "report_of"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One of the arguments that together make the proof.

    Attributes:
        name: `sweep`, `scratch`, `rehearsal`, `range`, `stream`, `file` or `weights`.
        checked: what it went through, in words.
    """

    name: str
    checked: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was examined in a file.

    Attributes:
        plans: an entry a plan set, with the plan that its runtime takes.
        runtimes: those that run the plans as they stand.
        legs: the arguments that were made.
        not_checked: what they do not cover.
    """

    plans: tuple[dict[str, Any], ...]
    runtimes: tuple[str, ...]
    legs: tuple[Leg, ...]
    not_checked: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "plans": list(self.plans),
            "runtimes": list(self.runtimes),
            "legs": [{"leg": leg.name, "checked": leg.checked} for leg in self.legs],
            "not_checked": list(self.not_checked),
        }


def check_runs_here(path: Path) -> None:
    """Raise RuntimeBindError for a model whose graph was optimised elsewhere, as `check_place`.

    Its plans may be right, and ONNX Runtime here computes other values. Without ONNX Runtime nothing runs here.
    """
    if path.suffix.lower() == ".onnx":
        with suppress(MissingDependencyError), opened(path) as (data, _):
            check_place(data)


def report_of(path: Path, verdict: Verdict, *, is_run: bool = False) -> Report:
    """What was examined.

    Args:
        path: the file.
        verdict: what came of it.
        is_run: whether the plans are run as well.
    """
    plansets = list(dict.fromkeys((verdict.planset, *verdict.recordings)))
    able = list_executors(plansets, path.suffix, verdict.model)
    return Report(
        tuple(_entry(planset, plan) for planset in plansets for plan in _best(planset)),
        tuple(able),
        tuple(_legs(verdict, plansets)),
        tuple(_not_checked(path, verdict, able, is_run=is_run)),
    )


def _best(planset: PlanSet) -> list[Plan]:
    """The smallest plan of each family that can be run: no texture begins inside another one."""
    texels = planset.target is not None and planset.target.texels
    offsets = None if texels and planset.best_shared_objects is not None else planset.best_offsets
    return [plan for plan in (offsets, planset.best_shared_objects) if plan is not None]


def _entry(planset: PlanSet, plan: Plan) -> dict[str, Any]:
    family = "offsets" if plan is planset.best_offsets else "shared_objects"
    of = "graph" if planset.digest else "usage records"
    if planset.recording is not None:
        of = "recording"
    elif planset.cycle is not None:
        of = "cycle"
    # `verify` says what the proof computed. What only a search proved, here or elsewhere, is a claim to it.
    bound, claimed = getattr(planset.bounds, family), getattr(planset.claimed, family)
    return {
        "of": of,
        "target": planset.target.name if planset.target else None,
        "kernels": planset.kernels or None,
        "family": family,
        "strategy": plan.strategy,
        "size": plan.size,
        "unit": "texels" if planset.target is not None and planset.target.texels else "bytes",
        "lower_bound": bound,
        "claimed_bound": claimed if claimed > bound else None,
        "optimal": plan.size == bound,
    }


def _legs(verdict: Verdict, plansets: list[PlanSet]) -> list[Leg]:
    plans = sum(len(planset.plans) for planset in plansets)
    records = sum(len(planset.problem) for planset in plansets)
    what = "where records lie, sizes, alignment, bounds"
    legs = [Leg("sweep", f"{_count(plans, 'plan')}, {_count(records, 'usage record')}: {what}")]
    if verdict.vela is not None:
        legs.append(Leg("scratch", verdict.vela.checked))
    if verdict.graph is not None:
        placed = sum(len(r.tensors) for r in verdict.planset.problem.records)
        steps = _count(len(verdict.planset.steps), "operator")
        legs.append(Leg("rehearsal", f"{steps} on {_count(placed, 'tensor')}, in each plan: nothing is read too late"))
    if verdict.range is not None:
        ranges = ", ".join(f"{name}={made}" for name, made in verdict.planset.ranges.items())
        legs.append(Leg("range", f"{ranges}: {verdict.range}"))
    streams = [len(p.recording.trace.requests) for p in verdict.recordings if p.recording is not None]
    cycles = [len(p.cycle) for p in verdict.recordings if p.cycle is not None]
    if streams:
        legs.append(Leg("stream", f"{_count(sum(streams), 'request')} of {_count(len(streams), 'recorded stream')}"))
    if cycles:
        each = "in four iterations: none alive together overlap"
        legs.append(Leg("periods", f"{_count(sum(cycles), 'request')} of {_count(len(cycles), 'cycle')}, {each}"))
    if verdict.offsets is not None:
        legs.append(Leg("file", f"{_count(verdict.offsets, 'offset')} in OfflineMemoryAllocation: those of the plan"))
    return legs


def _not_checked(path: Path, verdict: Verdict, able: list[str], *, is_run: bool) -> list[str]:
    if verdict.vela is not None:
        return list(verdict.vela.not_checked)
    planset, found = verdict.planset, []
    if verdict.graph is None and planset not in verdict.recordings:
        found.append("whether it fits a model (name the model with --model)")
    if not able and planset.shared_objects and verdict.graph is not None and not planset.offsets:
        found.append("a run: no runtime here takes shared objects")
    if any(name.startswith("TensorFlow Lite Micro") for name in able):
        found.append("workspace, which TensorFlow Lite Micro places by itself beside the plan")
    if planset.ranges and verdict.range is None:
        found.append("sizes in the range other than the largest (name the model with --model)")
    made_for = planset.versions.get(KERNELS)
    if planset.target is not None and made_for != (known := VERSIONS.get(planset.target.kernels)):
        of = (
            f"{made_for}, which the plan names"
            if made_for
            else "the version of its kernels, which the plan does not name"
        )
        found.append(f"{of}: it is proved for {known}")
    left = sum(why == LEFT_TO_RUNTIME for _, why in planset.unplanned)
    if left:
        found.append(f"{_count(left, 'tensor')} that the file leaves to TensorFlow Lite Micro")
    reasons = Counter(why for _, why in planset.unplanned if why != LEFT_TO_RUNTIME)
    found += [f"{_count(number, 'tensor')} without a place: {why}" for why, number in reasons.most_common(3)]
    if path.suffix.lower() == ".onnx" and verdict.recordings:
        digest = model_digest(path.read_bytes(), path.parent)
        others = sum(p.recording is not None and p.recording.fingerprint.model != digest for p in verdict.recordings)
        if others:
            found.append(f"{_count(others, 'recording')} of another model file, which sessions of this one do not use")
    if able and not is_run:
        found.append("values: what a run computes (add --run)")
    return found


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
