"""The plans that a .tflite file can carry as offsets for TensorFlow Lite Micro (OfflineMemoryAllocation), and why not.

TensorFlow Lite Micro obeys the offsets and checks nothing, so that a plan has to hold in its arena and for its kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.formats.claims import Honoured, claim_refusal

if TYPE_CHECKING:
    from edgemem.formats.claims import Refusal
    from edgemem.plans import PlanSet

__all__ = ["MICRO_ALIGNMENT", "micro_offsets", "micro_refusal"]

MICRO_ALIGNMENT: Final = 16  # every offset is a multiple of it
_MICRO: Final = Honoured(
    "--target tflm",
    aliasing=frozenset({"none", "tflm"}),  # a result lies on an input only where each byte stays what it is
    aliasing_with_kernels=frozenset({"elementwise"}),
    kernels=None,
    alignment=MICRO_ALIGNMENT,
    needs_target=True,
)


def micro_refusal(planset: PlanSet) -> Refusal | None:
    """Why TensorFlow Lite Micro does not run a plan set, whatever its kernels are; None if it does.

    A plan may need the kernels of one profile, which `edgemem.formats.claims.kernels_refusal` tells.
    """
    return claim_refusal(planset, _MICRO)


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
