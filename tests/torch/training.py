"""Training loops that run the same steps inside a plan and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from tests.torch.networks import Gpt, MixtureOfExperts, ResNet18

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["MODELS", "OPTIMIZERS", "Training", "bits"]

MODELS = ("resnet18", "gpt", "experts")
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
}


def bits(tensors: Any) -> list[bytes]:
    """The bytes of tensors."""
    whole = (t.detach().clone(memory_format=torch.contiguous_format) for t in tensors if t.numel())
    return [t.view(-1).view(torch.uint8).numpy().tobytes() for t in whole]


class Training:
    """A model, an optimizer and batches, the same for the same arguments.

    Attributes:
        losses: of the steps so far, as bytes.
    """

    def __init__(self, name: str, optimizer: str = "sgd", batch: int = 2) -> None:
        torch.manual_seed(0)
        self.name = name
        self.model: Any = {"resnet18": ResNet18, "gpt": Gpt, "experts": MixtureOfExperts}[name]()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.losses: list[bytes] = []
        self._random = torch.Generator().manual_seed(1)
        self._batch = batch

    def batch(self, size: int | None = None) -> tuple[Any, Any]:
        """The next batch."""
        size = size or self._batch
        if self.name == "resnet18":
            images = torch.randn(size, 3, 32, 32, generator=self._random)
            return images, torch.randint(0, 10, (size,), generator=self._random)
        words = torch.randint(0, 50, (size, 17), generator=self._random)
        return words[:, :-1].clone(), words[:, 1:].reshape(-1)

    def step(self, size: int | None = None) -> None:
        """One step on the next batch."""
        self.train(*self.batch(size))

    def train(self, given: Any, target: Any) -> None:
        """Forward, backward, update."""
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(given), target)
        loss.backward()
        self.optimizer.step()
        self.losses += bits([loss])

    def evaluate(self) -> None:
        """A forward pass of another batch without gradients."""
        self.model.eval()
        with torch.no_grad():
            given, target = self.batch(3)
            self.losses += bits([functional.cross_entropy(self.model(given), target)])
        self.model.train()

    def result(self) -> tuple[list[bytes], list[bytes]]:
        """Everything that training has computed: losses, and parameters, buffers and the optimizer's state."""
        return self.losses, bits(self._state())

    def _state(self) -> Iterator[Any]:
        yield from self.model.parameters()
        yield from self.model.buffers()
        for state in self.optimizer.state.values():
            yield from (value for _, value in sorted(state.items()) if isinstance(value, torch.Tensor))
