"""Training steps of five kinds of network, for rematerialisation: what each keeps for its backward pass differs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.torch.networks import Gpt, ResNet18

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NAMES", "Bert", "Step", "UNet", "UnrolledLstm", "make_step"]


def _twice(inner: int, outer: int) -> nn.Sequential:
    """Two convolutions, each with normalisation and an activation in its own memory."""
    layers: list[nn.Module] = []
    for channels in (inner, outer):
        conv = nn.Conv2d(channels, outer, 3, padding=1, bias=False)
        layers += [conv, nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """The network of Ronneberger et al. 2015 with `width` channels at its top and padded convolutions."""

    def __init__(self, width: int = 4, depth: int = 3, classes: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths[:-2]], widths[:-1], strict=True))
        self.bottom = _twice(widths[-2], widths[-1])
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.up = nn.ModuleList(_twice(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Any) -> Any:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([skips.pop(), grow(x)], 1))
        return self.head(x)


class _Chunk(nn.Module):
    """Some steps of a sequence through one cell."""

    def __init__(self, cell: nn.LSTMCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any, hidden: Any, memory: Any) -> Any:
        found = []
        for part in x.unbind(1):
            hidden, memory = self.cell(part, (hidden, memory))
            found.append(hidden)
        return torch.stack(found, 1), hidden, memory


class UnrolledLstm(nn.Module):
    """A language model of one LSTM cell, whose every step is operators of its own."""

    def __init__(self, width: int = 16, words: int = 50, chunks: int = 4) -> None:
        super().__init__()
        self.width = width
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        cell = nn.LSTMCell(width, width)
        self.chunks = nn.ModuleList(_Chunk(cell) for _ in range(chunks))

    def forward(self, x: Any) -> Any:
        hidden = memory = torch.zeros(len(x), self.width)
        found = []
        for chunk, part in zip(self.chunks, self.words(x).chunk(len(self.chunks), 1), strict=True):
            made, hidden, memory = chunk(part, hidden, memory)
            found.append(made)
        return self.head(torch.cat(found, 1)).flatten(0, 1)


class _Encoder(nn.Module):
    """Attention over all words, with the scores as a tensor, and a feed-forward network; normalised after each."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any, mask: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask
        mixed = (self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.dropout(self.out(mixed)))
        return self.norm2(x + self.dropout(self.shrink(functional.gelu(self.grow(x)))))


class Bert(nn.Module):
    """Encoders with dropout over embeddings (Devlin et al. 2018); some of the words are masked."""

    def __init__(self, layers: int = 3, width: int = 32, heads: int = 4, words: int = 50, length: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(_Encoder(width, heads, 0.1) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, x: Any) -> Any:
        mask = torch.zeros(x.shape).masked_fill_(x == 0, float("-inf"))[:, None, None]
        x = self.dropout(self.norm(self.words(x) + self.places(torch.arange(x.shape[1]))))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Step:
    """A model with a batch. The same name and size give the same numbers.

    Attributes:
        model: with parameters and buffers.
        given: its input.
        target: classes for cross entropy.
        blocks: modules that `torch.utils.checkpoint` may run again one by one.
    """

    model: nn.Module
    given: Any
    target: Any
    blocks: tuple[nn.Module, ...]

    def loss(self) -> Any:
        """Forward and backward pass; gradients are added to those that are there."""
        loss = functional.cross_entropy(self.model(self.given), self.target)
        loss.backward()
        return loss.detach()

    def gradients(self) -> list[Any]:
        """Of all parameters, in their order."""
        return [p.grad for p in self.model.parameters()]

    def checkpointed(self) -> Step:
        """The same step, with every block run again in the backward pass by `torch.utils.checkpoint`."""
        for block in self.blocks:
            vars(block)["forward"] = partial(checkpoint, block.forward, use_reentrant=False)
        return self


def _words(count: int, length: int) -> tuple[Any, Any]:
    words = torch.randint(0, 50, (count, length + 1))
    return words[:, :-1].clone(), words[:, 1:].reshape(-1)


def _resnet18(*, small: bool) -> Step:
    """With the stem for small images, which does not make them smaller."""
    batch, side, width = (2, 16, 8) if small else (32, 32, 16)
    model = ResNet18(width)
    model.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
    given, target = torch.randn(batch, 3, side, side), torch.randint(0, 10, (batch,))
    return Step(model, given, target, (model.stem, *model.blocks))


def _unet(*, small: bool) -> Step:
    batch, side = (2, 16) if small else (8, 64)
    model = UNet(4 if small else 16)
    given, target = torch.randn(batch, 3, side, side), torch.randint(0, 3, (batch, side, side))
    return Step(model, given, target, (*model.down, model.bottom, *model.up))


def _gpt(*, small: bool) -> Step:
    model = Gpt() if small else Gpt(layers=6, width=128)
    given, target = _words(2 if small else 64, 16)
    return Step(model, given, target, tuple(model.blocks))


def _lstm(*, small: bool) -> Step:
    model = UnrolledLstm() if small else UnrolledLstm(256, chunks=8)
    given, target = _words(4 if small else 64, 16 if small else 64)
    return Step(model, given, target, tuple(model.chunks))


def _bert(*, small: bool) -> Step:
    model = Bert() if small else Bert(layers=6, width=128, length=128)
    given, target = _words(2 if small else 8, 16 if small else 128)
    return Step(model, given, target, tuple(model.blocks))


_MAKERS: Final[dict[str, Callable[..., Step]]] = {
    "resnet18": _resnet18,
    "unet": _unet,
    "gpt": _gpt,
    "lstm": _lstm,
    "bert": _bert,
}
NAMES: Final = tuple(_MAKERS)


def make_step(name: str, *, small: bool = True) -> Step:
    """One of `NAMES`; also sets PyTorch's random state, so that dropout is the same each time."""
    torch.manual_seed(0)
    return _MAKERS[name](small=small)
