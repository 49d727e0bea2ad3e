"""What tensors, modules, optimizers and containers of them contain, as bytes by name."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["contents", "difference"]

Contents = dict[str, tuple[str, bytes]]


def contents(thing: Any) -> Contents:
    """Type and bytes of everything in `thing`, by its path."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return dict(_parts(thing, ""))


def difference(found: Contents, expected: Contents) -> str:
    """The first things that differ, or nothing where all is equal."""
    said = [f"{path}: missing" for path in expected if path not in found]
    for path, (kind, data) in found.items():
        if path not in expected:
            said.append(f"{path}: should not be there")
        elif (kind, data) != expected[path]:
            said.append(f"{path}: {_compare(kind, data, *expected[path])}")
    return "; ".join(said[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else "")


def _compare(kind: str, data: bytes, expected_kind: str, expected: bytes) -> str:
    if kind != expected_kind or len(data) != len(expected):
        return f"{kind} instead of {expected_kind}"
    bad = int((np.frombuffer(data, np.uint8) != np.frombuffer(expected, np.uint8)).sum())
    return f"{bad} of {len(data)} bytes differ ({kind})"


def _parts(thing: Any, path: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    if isinstance(thing, torch.Tensor):
        yield from _tensor(thing, path)
    elif isinstance(thing, torch.nn.Module):
        for name, part in [*thing.named_parameters(), *thing.named_buffers()]:
            yield from _parts(part, f"{path}.{name}")
    elif isinstance(thing, torch.optim.Optimizer):
        for g, group in enumerate(thing.param_groups):
            for k, parameter in enumerate(group["params"]):
                yield from _parts(dict(thing.state.get(parameter, {})), f"{path}.{g}.{k}")
    elif isinstance(thing, dict):
        for name, part in thing.items():
            yield from _parts(part, f"{path}.{name}")
    elif isinstance(thing, list | tuple):
        for k, part in enumerate(thing):
            yield from _parts(part, f"{path}.{k}")
    elif isinstance(thing, np.ndarray):
        yield path, (f"array {thing.dtype} {thing.shape}", np.ascontiguousarray(thing).tobytes())
    elif thing is not None:
        assert isinstance(thing, bool | int | float | complex | str | bytes | set | frozenset | torch.Size), type(thing)
        yield path, (type(thing).__name__, repr(thing).encode())


def _tensor(tensor: Any, path: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
        return
    if tensor.requires_grad and (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        yield from _tensor(tensor.grad, f"{path}.grad")
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _tensor(getattr(tensor, name), f"{path}.{name}")
        return
    if tensor.is_nested:
        for k, part in enumerate(tensor.unbind()):
            yield from _tensor(part.detach(), f"{path}.{k}")
        return
    if tensor.layout is torch.sparse_coo:
        yield from _tensor(tensor._indices(), f"{path}.indices")
        yield from _tensor(tensor._values(), f"{path}.values")
        return
    if tensor.layout is not torch.strided:
        for name in ("crow_indices", "col_indices", "values"):
            yield from _tensor(getattr(tensor, name)(), f"{path}.{name}")
        return
    yield path, (f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}", _bytes(tensor))


def _bytes(tensor: Any) -> bytes:
    plain = tensor.detach()
    if plain.numel() and not _is_resident(plain):
        return b"not resident"
    if plain.is_quantized:
        plain = plain.int_repr()
    plain = plain.resolve_conj().resolve_neg()
    with contextlib.suppress(TypeError):
        return bytes(np.ascontiguousarray(plain.numpy()).tobytes())
    return bytes(plain.contiguous().view(-1).view(torch.uint8).numpy().tobytes())  # bfloat16: NumPy has none


def _is_resident(tensor: Any) -> bool:
    last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.untyped_storage().nbytes() >= (last + 1) * tensor.element_size())
