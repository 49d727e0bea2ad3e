"""What a session takes of a file's recorded plans: the arena, and the results beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.errors import UnsupportedError
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = ["RecordedMemory", "recorded_memory"]


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """The recorded plan of a file that takes most, in bytes.

    Attributes:
        arena: of the plan.
        lower_bound: what no plan of the recorded requests can go below.
        results: of a run, beside the arena; 0 where they lie in it, None where their sizes are not known.
    """

    arena: int
    lower_bound: int
    results: int | None

    @property
    def session(self) -> int:
        """The arena and the results, as far as their sizes are known."""
        return self.arena + (self.results or 0)

    @property
    def results_text(self) -> str:
        """What the results take, for people; "" where they lie in the arena."""
        if self.results is None:
            return "results not counted: their sizes are not known"
        return f"results {size_text(self.results)} beside it" if self.results else ""


def recorded_memory(recordings: Iterable[PlanSet], graph: Graph | None) -> RecordedMemory | None:
    """What a session takes of the recorded plan that needs most; None where no plan is of a recorded stream.

    Args:
        recordings: plan sets of one file; those that are of no recording are left out.
        graph: of the model, at the sizes that were recorded; None where it is not known.
    """
    results = _result_bytes(graph)
    found: list[RecordedMemory] = []
    for planset in recordings:
        best, recording = planset.best_offsets, planset.recording
        if best is not None and recording is not None:
            called = recording.fingerprint.signature
            beside = 0 if called.bound or called.shared else results
            found.append(RecordedMemory(best.size, planset.proved.offsets, beside))
    return max(found, key=lambda made: made.session, default=None)


def _result_bytes(graph: Graph | None) -> int | None:
    if graph is None:
        return None
    results = [graph.tensors[index] for index in dict.fromkeys(graph.outputs)]
    if any(tensor.kind == "opaque" for tensor in results):
        return None
    try:
        return sum(tensor.size for tensor in results)
    except UnsupportedError:
        return None
