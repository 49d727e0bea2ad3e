"""Tensors without memory: what a model, its optimizer and a batch look like, and nothing of what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["aliases", "fake", "find_mode", "form"]


def find_mode(tensors: Iterable[torch.Tensor]) -> FakeTensorMode:
    """The mode that the tensors were made in, or a new one."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake(tensor: torch.Tensor, mode: FakeTensorMode, device: torch.device) -> torch.Tensor:
    """A tensor of the same form without memory and gradient; on `device` if it is on the meta device."""
    if tensor.device.type == "meta" and not isinstance(tensor, FakeTensor):
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    with torch.no_grad():
        if isinstance(tensor, FakeTensor):
            with mode:
                return tensor.detach()
        return mode.from_tensor(tensor.detach())


def form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a step depends on: shape, stride, dtype and device."""
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device


def aliases(values: Sequence[Any], written: AbstractSet[int]) -> frozenset[tuple[int, ...]]:
    """Which tensors among values share memory, by number, where one of them is written."""
    found: dict[int, tuple[int, ...]] = {}
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()._cdata  # noqa: SLF001
            found[storage] = (*found.get(storage, ()), k)
    return frozenset(group for group in found.values() if len(group) > 1 and not written.isdisjoint(group))
