"""What the ends of a model ask of an allocator: the embedding on the first stage, logits and loss on the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.training_traces.recorder import Recorder
    from tests.training_traces.setup import TrainingSetup

__all__ = ["EndRequests"]


@dataclass(frozen=True, slots=True)
class EndRequests:
    """The requests of both ends, written to a recorder; `kept` is what the backward pass frees."""

    setup: TrainingSetup
    recorder: Recorder

    def embed(self, kept: list[int], phase: int) -> int:
        """Look-up of the tokens, positions added, dropout; the input of the first layer."""
        take, narrow = self.recorder.take, self._narrow
        with self.recorder.within("embedding forward", phase):
            words = take(narrow)
            total = take(narrow)
            self.recorder.free(words)
            kept.append(take(narrow // 2))
            output = take(narrow)
            self.recorder.free(total)
            return output

    def embed_backward(self, kept: list[int], phase: int, gradient: int) -> None:
        """The gradient of the whole table, however few tokens there are."""
        with self.recorder.within("embedding backward", phase, is_backward=True):
            dropped = self.recorder.take(self._narrow)
            self.recorder.free(gradient, *kept)
            self.recorder.temporary(2 * self._table)
            self.recorder.free(dropped)

    def loss(self, kept: list[int], phase: int, given: int) -> None:
        """Logits in half precision, cross entropy in single precision: the largest tensors of all."""
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        with self.recorder.within("loss forward", phase):
            normed = take(self._narrow)
            statistics = [take(4 * setup.tokens // setup.tensor) for _ in range(2)]
            logits = take(2 * self._logits)
            single = take(4 * self._logits)
            free(logits)
            self.recorder.temporary(4 * setup.tokens, 4 * setup.tokens)
            losses = take(4 * setup.tokens)
            mean = take(4)
            free(losses)
            kept += [given, *statistics, normed, mean, single]

    def loss_backward(self, kept: list[int], phase: int) -> int:
        """The gradient of the last layer's output."""
        take, free = self.recorder.take, self.recorder.free
        *rest, normed, mean, single = kept
        with self.recorder.within("loss backward", phase, is_backward=True):
            gradient = take(2 * self._logits)
            free(single, mean)
            inner = take(self._narrow)
            self.recorder.temporary(2 * self._table)
            free(gradient, normed)
            output = take(self._narrow)
            free(inner, *reversed(rest))
            return output

    @property
    def _narrow(self) -> int:
        return 2 * self.setup.tokens * self.setup.hidden // self.setup.tensor

    @property
    def _logits(self) -> int:
        return self.setup.tokens * self.setup.vocabulary // self.setup.tensor

    @property
    def _table(self) -> int:
        return self.setup.vocabulary * self.setup.hidden // self.setup.tensor
