"""What a plan claims of the memory and the kernels that it is for, against what an executor honours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["Honoured", "Refusal", "claim_refusal", "kernels_refusal"]

# Bytes that an arena may have though its records, end to end, have fewer, for pinned tensors: the offsets in a file do
# not decide how much memory is taken.
_MOST_HOLES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an executor does not run a plan as it stands.

    Attributes:
        why: the reason.
        remedy: what to add to `edgemem plan`, such as `--record`, or another command, such as `shrink --steps fold`; ""
            where nothing helps.
    """

    why: str
    remedy: str

    def error(self, executor: str, path: Path) -> RuntimeBindError:
        """The error of an executor that was to run the plan in a file, with the command that makes another plan."""
        return RuntimeBindError(f"{executor} cannot run the plan in {path.name}: {self.advise(path)}")

    def advise(self, path: Path) -> str:
        """The reason, and the command that makes a plan for the executor."""
        return f"{self.why}; make one with: edgemem {self.command} {path.name} -o PLANNED{path.suffix.lower()}"

    @property
    def command(self) -> str:
        """What makes another plan, behind `edgemem`: `plan --record`."""
        return self.remedy if self.remedy.startswith("shrink ") else f"plan {self.remedy}"

    @property
    def advice(self) -> str:
        """What to do about it: `plan with --record`."""
        return f"use edgemem {self.remedy}" if self.remedy.startswith("shrink ") else f"plan with {self.remedy}"


@dataclass(frozen=True, slots=True)
class Honoured:
    """What of a plan's claims an executor honours. It refuses every plan of a graph that claims something else.

    Attributes:
        remedy: the option of `edgemem plan` that makes a plan for it, such as `--target tflm`.
        aliasing: the alias rules under which its kernels compute right values (`edgemem.model.aliasing.RULES`).
        aliasing_with_kernels: the same, where the plan names a kernel profile that bounds how far results overlap, or
            no result shares memory with an input.
        kernels: the profile of its kernels; `none` where they may read an input at any time; None: another function
            compares them (a proof for the kernels at hand).
        scratch: whose workspace a plan may have (`Target.scratch`).
        storage: how it keeps tensors (`Target.storage`).
        alignment: of every offset.
        needs_target: a plan for no target is none for it.
        objects: it runs plans of shared objects, too.
    """

    remedy: str
    aliasing: frozenset[str]
    aliasing_with_kernels: frozenset[str] = frozenset()
    kernels: str | None = "none"
    scratch: frozenset[str] = frozenset({"unknown", "tflm"})
    storage: str = "plain"
    alignment: int = 1
    needs_target: bool = False
    objects: bool = False


def claim_refusal(planset: PlanSet, honoured: Honoured) -> Refusal | None:
    """Why an executor of graphs does not run a plan set as it stands, as far as the plan tells; None if it does."""
    remedy, target = honoured.remedy, planset.target
    objects = planset.shared_objects if planset.recording is None else ()
    if planset.recording is not None or (planset.best_offsets is None and not (honoured.objects and objects)):
        only = ", only shared objects" if objects else ""
        what = "plan" if honoured.objects else "offset plan"
        return Refusal(f"the file has no {what} of its graph{only}", remedy if honoured.objects else "--strategy auto")
    best, naive = planset.best_offsets, planset.naive
    if best is not None and best.size > max(_MOST_HOLES, naive + planset.problem.alignment):
        return Refusal(f"the plan takes {best.size:,} bytes, and its records end to end {naive:,}", remedy)
    if planset.has_regions:
        return Refusal("the plan lies in several regions, and its runtime has one arena", remedy)
    if target is None:
        return Refusal("the plan is for no target", remedy) if honoured.needs_target else None
    is_kept_so = target.storage == honoured.storage and (target.is_dense or honoured.storage != "plain")
    if not is_kept_so:
        kept = target.kept if honoured.storage == "plain" else "keeps tensors as dense bytes"
        return Refusal(f"the plan is for the target {target.name} and {kept}", remedy)
    if target.scratch not in honoured.scratch:
        has = "has" if "unknown" in honoured.scratch else "leaves out"
        of = "of other kernels" if "unknown" in honoured.scratch else "of its kernels"
        return Refusal(f"the plan is for the target {target.name} and {has} the workspace {of}", remedy)
    shares = any(len(record.tensors) > 1 for record in planset.problem.records)
    is_bounded = target.kernels != "none" or not shares
    if target.aliasing not in honoured.aliasing | (honoured.aliasing_with_kernels if is_bounded else frozenset()):
        return Refusal(
            f"results lie on inputs by the alias rules {target.aliasing!r}, under which its kernels may compute wrong "
            "values",
            remedy,
        )
    if planset.problem.alignment % honoured.alignment:
        why = f"its offsets are multiples of {planset.problem.alignment} only"
        return Refusal(why, f"{remedy} --alignment {honoured.alignment}")
    return None if honoured.kernels is None else kernels_refusal(planset, honoured.kernels)


def kernels_refusal(planset: PlanSet, kernels: str = "none") -> Refusal | None:
    """Why kernels of a profile do not run a plan set whose results overlap inputs; None if they do.

    A plan for one profile may be right for another: `edgemem.proof.prove` tells, given the graph.

    Args:
        planset: the plan set.
        kernels: the profile of the runtime (`edgemem.model.profiles.PROFILES`); `none` for one whose kernels may read
            any byte of an input at any time.
    """
    made_for = "none" if planset.target is None else planset.target.kernels
    if made_for in ("none", kernels):
        return None
    others = "others" if kernels == "none" else f"those of {kernels}"
    return Refusal(
        f"its results overlap inputs as far as the kernels of {made_for} allow, and the kernels here are {others}",
        f"shrink --kernels {kernels}",
    )
