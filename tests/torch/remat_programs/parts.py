"""Networks and batches that many programs use."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["conv_net", "mlp", "pair", "train"]


def mlp(depth: int = 3, width: int = 64, norm: bool = True) -> Any:
    """Linear layers with GELU, and layer norms."""
    parts: list[nn.Module] = []
    for _ in range(depth):
        parts += [nn.Linear(width, width), *([nn.LayerNorm(width)] if norm else []), nn.GELU()]
    return nn.Sequential(*parts)


def conv_net(channels: int = 8, depth: int = 2, inplace: bool = True) -> Any:
    """Convolutions with batch norms and ReLU."""
    parts: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(depth):
        parts += [nn.BatchNorm2d(channels), nn.ReLU(inplace=inplace), nn.Conv2d(channels, channels, 3, padding=1)]
    return nn.Sequential(*parts)


def pair(rows: int = 128, width: int = 64) -> tuple[Any, Any]:
    """A batch and a target."""
    return torch.randn(rows, width), torch.randn(rows, width)


def train(model: Any, optimizer: Any, batch: Any, target: Any, steps: int = 2) -> list[Any]:
    """Steps of training with a mean squared error; their losses."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses
