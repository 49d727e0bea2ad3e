"""The plans that a .tflite file can carry as offsets for TensorFlow Lite Micro (OfflineMemoryAllocation), and why not.

TensorFlow Lite Micro obeys the offsets and checks nothing, so that a plan has to hold in its arena and for its kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["MICRO_ALIGNMENT", "Refusal", "arena_refusal", "micro_offsets", "micro_refusal"]

MICRO_ALIGNMENT: Final = 16  # every offset is a multiple of it
# Bytes that an arena may have though its records, end to end, have fewer, for pinned tensors: the offsets in a file do
# not decide how much memory is taken.
_MOST_HOLES: Final = 1 << 26
# Rules under which a result lies on an input only where each byte stays what it is.
_VIEWS_ALONE: Final = frozenset({"none", "tflm"})


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


def arena_refusal(planset: PlanSet, remedy: str) -> Refusal | None:
    """Why a runtime with one arena in bytes, in which no tensor is padded, does not run a plan set; None if it does.

    Args:
        planset: the plan set.
        remedy: the option that makes a plan for the runtime, such as `--target tflm`.
    """
    target = planset.target
    if planset.recording is not None or planset.best_offsets is None:
        only = ", only shared objects" if planset.recording is None and planset.shared_objects else ""
        return Refusal(f"the file has no offset plan of its graph{only}", "--strategy auto")
    best, naive = planset.best_offsets, planset.naive
    if best.size > max(_MOST_HOLES, -(-naive // planset.problem.alignment) * planset.problem.alignment):
        return Refusal(f"the plan takes {best.size:,} bytes, and its records end to end {naive:,}", remedy)
    if planset.has_regions:
        return Refusal("the plan lies in several regions, and its runtime has one arena", remedy)
    if target is not None and not target.is_dense:
        return Refusal(f"the plan is for the target {target.name} and {target.kept}", remedy)
    return None


def micro_refusal(planset: PlanSet) -> Refusal | None:
    """Why TensorFlow Lite Micro does not run a plan set, whatever its kernels are; None if it does.

    A plan may need the kernels of one profile, which `edgemem.runtime.executors.kernels_refusal` tells.
    """
    remedy = "--target tflm"
    target = planset.target
    if (refusal := arena_refusal(planset, remedy)) is not None:
        return refusal
    if target is None or target.scratch == "litert":
        return Refusal(f"the plan is for {f'the target {target.name}' if target else 'no target'}", remedy)
    shares = any(len(record.tensors) > 1 for record in planset.problem.records)
    keeps_bytes = target.aliasing == "elementwise" and (target.kernels != "none" or not shares)
    if target.aliasing not in _VIEWS_ALONE and not keeps_bytes:
        return Refusal(
            f"results lie on inputs by the alias rules {target.aliasing!r}, and the plan names no kernel profile under "
            "which that is right",
            remedy,
        )
    if planset.problem.alignment % MICRO_ALIGNMENT:
        return Refusal(f"its offsets are multiples of {planset.problem.alignment} only", "--alignment 16")
    return None


def micro_offsets(planset: PlanSet) -> dict[str, int]:
    """The offsets in bytes of a plan set's smallest arena, by tensor.

    Variables keep their value between runs, so they have none. Raises UnsupportedError if a tensor has two places.
    """
    best = planset.best_offsets
    assert best is not None
    offsets: dict[str, int] = {}
    for record, offset in zip(planset.problem.records, best.offsets.tolist(), strict=True):
        for name in record.tensors if record.kind != "variable" else ():
            if offsets.setdefault(name, offset) != offset:
                raise UnsupportedError(
                    f"the plan has two places for {name!r}; TensorFlow Lite Micro knows one: plan again"
                )
    return offsets
