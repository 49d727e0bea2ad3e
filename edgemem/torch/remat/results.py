"""The storages of what an operator gives."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from edgemem.torch.accesses import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "copied",
    "has_others",
    "is_plain",
    "is_seen_whole",
    "storage_of",
    "storages_in",
    "storages_of",
]

storage_of = torch._C.TensorBase.untyped_storage  # noqa: SLF001 - of a tensor; raw_access.py replaces the method


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but a part of a storage in host memory."""
    return bool(
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_nested
        and is_seen_whole(type(tensor))
    )


def is_seen_whole(kind: Any) -> bool:
    """Whether operators on tensors of a class are those on its storage, and it does not run others in their place."""
    return kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def storages_of(tensors: Iterable[torch.Tensor]) -> list[torch.UntypedStorage]:
    """The storages of these tensors, and of what those in host memory that are not plain consist of."""
    found: list[torch.UntypedStorage] = []
    for tensor in tensors:
        if tensor.layout is torch.strided:
            found += [storage_of(tensor)] if tensor.device.type == "cpu" else []
        elif tensor.device.type == "cpu" and is_seen_whole(type(tensor)):
            with _disable_current_modes():
                found += map(storage_of, _parts(tensor.detach()))
    return found


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]  # noqa: SLF001
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []  # of another library's memory


def has_others(result: Any) -> bool:
    """Whether there is something in what an operator gives that may have memory that `storages_of` does not show."""
    if isinstance(result, (list, tuple)):
        return any(map(has_others, result))
    if isinstance(result, torch.Tensor):  # a quantizer has tensors of scales
        return result.is_quantized or result.layout not in _SHOWN
    return not isinstance(result, (int, float, complex, str, torch.dtype, NoneType))


_SHOWN: Final = (
    *(torch.strided, torch.sparse_coo),
    *(torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc),
)


def storages_in(result: Any) -> list[torch.UntypedStorage]:
    """The storages that have memory, of the plain tensors in what an operator gives: each once, in order."""
    found: dict[int, torch.UntypedStorage] = {}
    for tensor in tensors_in(result):
        if is_plain(tensor):
            storage = storage_of(tensor)
            if storage.nbytes():
                found.setdefault(storage._cdata, storage)  # noqa: SLF001
    return list(found.values())


def copied(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage with the same bytes, in memory of PyTorch's allocator: storages do not take theirs from there."""
    source = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    made: torch.UntypedStorage = storage_of(torch.empty_like(source).copy_(source))
    return made
