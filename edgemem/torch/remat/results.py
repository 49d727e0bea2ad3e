"""The storages of what an operator gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["copied", "is_plain", "results_in", "storages_in"]


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but a part of a storage in host memory."""
    return bool(
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_nested
        and type(tensor) in _PLAIN_TYPES
    )


_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def storages_in(result: Any) -> list[torch.UntypedStorage]:
    """The storages that have memory, of the plain tensors in what an operator gives: each once, in order."""
    found: dict[int, torch.UntypedStorage] = {}
    for tensor in results_in(result):
        if is_plain(tensor):
            storage = tensor.untyped_storage()
            if storage.nbytes():
                found.setdefault(storage._cdata, storage)  # noqa: SLF001
    return list(found.values())


def copied(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage with the same bytes, in memory of PyTorch's allocator: storages do not take theirs from there."""
    source = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    made: torch.UntypedStorage = torch.empty_like(source).copy_(source).untyped_storage()
    return made


def results_in(result: Any) -> Iterator[torch.Tensor]:
    """The tensors in what an operator gives: one, or several in tuples and lists."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from results_in(item)
