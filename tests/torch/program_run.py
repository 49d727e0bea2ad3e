"""The state of a random program while it runs, and the pieces that its instructions are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import nn

from tests.torch.training import bits

if TYPE_CHECKING:
    from random import Random

__all__ = ["SHAPES", "Run", "fit", "modules"]

MOST_TENSORS: Final = 20  # that a program holds by name
SHAPES: Final = ((24,), (6, 8), (4, 6, 8), (2, 4, 6, 6), (1, 16), (2, 32, 8), (3, 4, 8, 8), (8, 8))


def modules() -> nn.ModuleDict:
    """Layers with parameters and buffers; `INPUTS` of `program_layers` says what each takes."""
    return nn.ModuleDict(
        {
            "linear": nn.Linear(8, 8),
            "conv": nn.Conv2d(4, 4, 3, padding=1),
            "transposed": nn.ConvTranspose2d(4, 4, 2, 2),
            "batch_norm": nn.BatchNorm2d(4),
            "batch_norm_1d": nn.BatchNorm1d(8),
            "average_norm": nn.BatchNorm1d(8, momentum=None),
            "instance_norm": nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
            "layer_norm": nn.LayerNorm(8),
            "group_norm": nn.GroupNorm(2, 4),
            "prelu": nn.PReLU(4),
            "lstm": nn.LSTM(8, 8, num_layers=2, dropout=0.2, batch_first=True),
            "gru": nn.GRU(8, 8, batch_first=True),
            "lstm_cell": nn.LSTMCell(8, 8),
            "attention": nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True),
            "encoder": nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
            "embedding": nn.Embedding(16, 8, padding_idx=3),
            "bag": nn.EmbeddingBag(16, 8),
            "dropout": nn.Dropout(0.3),
            "alpha_dropout": nn.AlphaDropout(0.3),
            "channel_dropout": nn.Dropout2d(0.3),
            "rrelu": nn.RReLU(),
        }
    )


@dataclass
class Run:
    """What a program holds.

    Attributes:
        layers: with the parameters that are trained.
        optimizer: of the parameters.
        tensors: that the program has by name; instructions pick among them.
        kept: what it keeps until its end, among them arrays of NumPy.
        buffers: constants that instructions write into.
        generator: a random generator of the program's own.
        seen: what the program has read or met on its way: numbers, bytes, names of errors.
    """

    layers: nn.ModuleDict
    optimizer: Any
    tensors: list[Any]
    buffers: list[Any]
    generator: Any
    kept: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def pick(self, random: Random, *, is_floating: bool = True) -> Any:
        """One of its tensors, mostly a new one."""
        suited = [t for t in self.tensors if t.is_floating_point() and t.numel()] if is_floating else self.tensors
        if not suited:
            return torch.ones(6, 8)
        return suited[max(random.randrange(len(suited)), random.randrange(len(suited)))]

    def picked(self, random: Random, shape: tuple[int, ...]) -> Any:
        """One of its tensors in this shape."""
        return fit(self.pick(random), shape)

    def push(self, random: Random, *made: Any) -> None:
        """Hold what an instruction has made, and let others go where there are too many."""
        self.tensors += [t for t in made if isinstance(t, torch.Tensor) and t.numel() < 8192]
        while len(self.tensors) > MOST_TENSORS:
            del self.tensors[random.randrange(len(self.tensors) - 4)]

    def held(self) -> list[Any]:
        """Every tensor that the program can reach, with None for gradients that are not there."""
        found = [*self.tensors, *self.buffers, *(k for k in self.kept if isinstance(k, torch.Tensor))]
        for p in self.layers.parameters():
            found += [p, p.grad]
        found += self.layers.buffers()
        for state in self.optimizer.state.values():
            found += [v for _, v in sorted(state.items()) if isinstance(v, torch.Tensor)]
        return [*found, torch.get_rng_state(), self.generator.get_state()]

    def result(self) -> list[Any]:
        """Everything that the program can see, as bytes and numbers: `held` first, and then what it has read."""
        found: list[Any] = [None if t is None else (str(t.dtype), tuple(t.shape), bits([t])) for t in self.held()]
        return [*found, *(k.tobytes() for k in self.kept if isinstance(k, np.ndarray)), *self.seen]


def fit(x: Any, shape: tuple[int, ...]) -> Any:
    """The values of a tensor, repeated or cut off, in a shape; a view of it where PyTorch can make one."""
    count = 1
    for n in shape:
        count *= n
    flat = x.float().reshape(-1)
    if len(flat) < count:
        flat = flat.repeat(-(-count // len(flat)))
    return flat[:count].view(shape)
