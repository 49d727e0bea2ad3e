"""Which runtime of .tflite files can run a plan set as it stands, and why another one cannot.

A plan holds in a runtime whose kernels keep to the rules that it was made under, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = [
    "MICRO_ALIGNMENT",
    "MICRO_KERNELS",
    "Refusal",
    "has_regions",
    "kernels_refusal",
    "litert_refusal",
    "micro_offsets",
    "micro_refusal",
]

MICRO_ALIGNMENT: Final = 16  # TensorFlow Lite Micro takes no offset that is not a multiple of it
MICRO_KERNELS: Final = "tflm-reference"  # the kernel profile of the Python package tflite-micro
_NATIVE_ALIGNMENT: Final = 64  # of everything in LiteRT's arena
# Rules under which a result lies on an input only where each byte stays what it is.
_MICRO_RULES: Final = frozenset({"none", "tflm"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an executor does not run the plans of a file as they stand.

    Attributes:
        why: the reason.
        remedy: what to add to `edgemem plan`, such as `--record`; "" where nothing helps.
    """

    why: str
    remedy: str


def litert_refusal(planset: PlanSet) -> Refusal | None:
    """Why LiteRT's builtin kernels do not run a plan set; None if they do, once it is proved there."""
    if planset.recording is not None or planset.best_offsets is None:
        return Refusal("the file has no offset plan of its graph", "--strategy auto")
    if has_regions(planset):
        return _regions("--target litert")
    target = planset.target
    if target is None or target.scratch != "litert":
        name = f"the target {target.name}" if target else "no target"
        return Refusal(f"the plan is for {name} and leaves out the workspace of LiteRT's kernels", "--target litert")
    if not target.is_dense:
        return _not_dense(target.name, target.kept, "--target litert")
    if planset.problem.alignment % _NATIVE_ALIGNMENT:
        return Refusal(
            f"its offsets are multiples of {planset.problem.alignment} only", "--target litert --alignment 64"
        )
    return kernels_refusal(planset)


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
        f"--overlap {kernels}",
    )


def micro_refusal(planset: PlanSet, kernels: str | None = None) -> Refusal | None:
    """Why TensorFlow Lite Micro does not run a plan set; None if it does.

    Args:
        planset: the plan set.
        kernels: the profile of the kernels that it is built with, such as MICRO_KERNELS; None: those of the plan.
    """
    if planset.recording is not None or planset.best_offsets is None:
        return Refusal("the file has no offset plan of its graph", "--strategy auto")
    if has_regions(planset):
        return _regions("--target tflm")
    target = planset.target
    if target is None or target.scratch != "unknown":
        return Refusal(f"the plan is for {f'the target {target.name}' if target else 'no target'}", "--target tflm")
    if not target.is_dense:
        return _not_dense(target.name, target.kept, "--target tflm")
    if not _keeps_bytes(planset):
        return Refusal(
            f"results lie on inputs by the alias rules {target.aliasing!r}, and the plan names no kernel profile under "
            "which that is right",
            "--target tflm",
        )
    if planset.problem.alignment % MICRO_ALIGNMENT:
        return Refusal(f"its offsets are multiples of {planset.problem.alignment} only", "--alignment 16")
    return None if kernels is None else kernels_refusal(planset, kernels)


def _keeps_bytes(planset: PlanSet) -> bool:
    """Whether results lie on inputs only as views, or as far as a kernel profile allows."""
    target = planset.target
    if target is None or target.aliasing in _MICRO_RULES:
        return True
    shares = any(len(record.tensors) > 1 for record in planset.problem.records)
    return target.aliasing == "elementwise" and (target.kernels != "none" or not shares)


def has_regions(planset: PlanSet) -> bool:
    """Whether some of the smallest offset plan lies in another region than the first."""
    best = planset.best_offsets
    return best is not None and best.regions is not None and bool(best.regions.any())


def _regions(remedy: str) -> Refusal:
    return Refusal("the plan lies in several regions, and its runtime has one arena", remedy)


def _not_dense(target: str, kept: str, remedy: str) -> Refusal:
    return Refusal(f"the plan is for the target {target} and {kept}", remedy)


def micro_offsets(planset: PlanSet) -> dict[str, int]:
    """The offsets in bytes that TensorFlow Lite Micro is told for a plan set's smallest arena, by tensor.

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
