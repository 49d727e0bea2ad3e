"""In which order a stage of a pipeline runs its passes: 1F1B, and the interleaved schedule of virtual pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.training_traces.setup import TrainingSetup

__all__ = ["Pass", "schedule"]


@dataclass(frozen=True, slots=True)
class Pass:
    """The forward or backward pass of one microbatch through one chunk."""

    is_forward: bool
    microbatch: int
    chunk: int

    @property
    def name(self) -> str:
        """As phases are called."""
        kind = "forward" if self.is_forward else "backward"
        return f"{kind} of microbatch {self.microbatch} in chunk {self.chunk}"


def schedule(setup: TrainingSetup) -> list[Pass]:
    """The passes of one iteration on stage `setup.rank`, in order.

    1F1B (Narayanan et al. 2019): forward passes until the first one can come back, then forward and backward by turns.
    With chunks (Narayanan et al. 2021, §2.2) groups of `pipeline` microbatches go through one chunk after the other,
    and more of them are under way.
    """
    stages, chunks = setup.pipeline, setup.chunks
    total = setup.microbatches * chunks
    behind = stages - setup.rank - 1
    warmup = min(total, behind if chunks == 1 else 2 * behind + (chunks - 1) * stages)
    forwards = [_pass(number, stages, chunks, is_forward=True) for number in range(total)]
    backwards = [_pass(number, stages, chunks, is_forward=False) for number in range(total)]
    order = forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[total - warmup :]


def _pass(number: int, stages: int, chunks: int, *, is_forward: bool) -> Pass:
    if chunks == 1:
        return Pass(is_forward, number, 0)
    group, within = divmod(number, stages * chunks)
    chunk, place = divmod(within, stages)
    return Pass(is_forward, group * stages + place, chunk if is_forward else chunks - 1 - chunk)
