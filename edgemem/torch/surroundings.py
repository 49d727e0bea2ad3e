"""What decides a training step besides its tensors: modes of PyTorch, and modules with their flags, numbers and hooks.

All of it is read while a step is traced, and not while a captured one runs. So it is compared at each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.nn.modules import module as all_modules
from torch.optim import optimizer as all_optimizers

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Part = tuple[str, tuple[tuple[str, Any], ...]]

__all__ = ["KeptCasts", "Surroundings", "describe", "difference", "find_hook", "generators_of"]

_HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_GLOBAL_HOOKS: Final = tuple(f"_global{name}" for name in _HOOKS)
_INTERNAL: Final = frozenset(vars(nn.Module())) - {"training"}
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.memory_format)
_DEEPEST: Final = 4  # levels of containers and functions


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decided a step besides tensors, as it was at the capture.

    Attributes:
        parts: modes of PyTorch; then the model's modules, and the loss.
        loss: what gave the loss.
        constants: tensors that the step reads as they were at the capture, by `id`, and a number for each.
        ignored: attributes that forward sets itself.
    """

    parts: tuple[Part, ...]
    loss: Any
    constants: Mapping[int, int]
    ignored: frozenset[str]

    @staticmethod
    def of(model: nn.Module, loss: Any, constants: Iterable[Any], ignored: frozenset[str]) -> Surroundings:
        """What decides a step now."""
        known = {id(tensor): k for k, tensor in enumerate(constants)}
        with torch.enable_grad():
            parts = _modes(), *describe((model, loss), known, ignored)
        return Surroundings(parts, loss, known, ignored)

    def check(self, model: nn.Module) -> None:
        """Raise RuntimeBindError if a step of plain PyTorch would now be another."""
        now = _modes(), *describe((model, self.loss), self.constants, self.ignored)
        differs = difference(self.parts, now)
        if differs:
            raise RuntimeBindError(
                f"the step is not what was captured: {differs}; capture the step again, or call it as it was captured"
            )


class KeptCasts:
    """Whether autocast still has casts of parameters from before the last update, with which PyTorch would compute.

    It keeps the casts of leaf tensors until the outermost `autocast` ends. A leaf tensor of our own shows whether that
    has ended: its cast is then another tensor than before.
    """

    def __init__(self) -> None:
        """Nothing was updated yet."""
        self._leaves: dict[str, torch.Tensor] = {}
        self._before: list[torch.Tensor] = []

    def check(self, *, updates: bool) -> None:
        """Raise RuntimeBindError if they are kept; note those of now where the step `updates` parameters."""
        now = [self._cast(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        if {cast.data_ptr() for cast in now} & {cast.data_ptr() for cast in self._before}:
            raise RuntimeBindError(
                "a step before this one has updated parameters within the same torch.autocast, which keeps their "
                "casts, so that PyTorch would compute with old ones: enter autocast for each step, or give it "
                "cache_enabled=False"
            )
        if updates:
            self._before = now

    def _cast(self, kind: str) -> torch.Tensor:
        with torch.enable_grad():
            if kind not in self._leaves:
                self._leaves[kind] = torch.zeros(1, 1, device=kind, dtype=torch.float32, requires_grad=True)
            leaf = self._leaves[kind]
            product = torch.mm(leaf, leaf)
        cast: torch.Tensor = product.grad_fn._saved_self  # noqa: SLF001
        return cast


def find_hook(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer | None) -> str | None:
    """What has hooks that a captured step does not call: a parameter, by name, or an optimizer."""
    if optimizer is not None:
        for when in ("pre", "post"):
            if getattr(optimizer, f"_optimizer_step_{when}_hooks", None):
                return "the optimizer"
            if getattr(all_optimizers, f"_global_optimizer_{when}_hooks", None):
                return "every optimizer of this process"
    for name, p in parameters.items():
        if p.requires_grad and (p._backward_hooks or p._post_accumulate_grad_hooks):  # noqa: SLF001
            return name
    return None


def _modes() -> Part:
    """The modes of PyTorch that decide which operators run, and what they compute."""
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)(True)  # noqa: SLF001
    cuda = torch.backends.cuda
    found: list[tuple[str, Any]] = [
        (f"autocast on {kind}", torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else "off")
        for kind in ("cpu", "cuda")
    ]
    found += [
        ("torch.is_grad_enabled()", torch.is_grad_enabled()),
        ("torch.is_inference_mode_enabled()", torch.is_inference_mode_enabled()),
        ("the default dtype", torch.get_default_dtype()),
        ("the default device", torch.get_default_device()),
        ("deterministic algorithms", torch.are_deterministic_algorithms_enabled()),
        ("torch.backends.mkldnn.enabled", torch._C._get_mkldnn_enabled()),  # noqa: SLF001
        ("kernels of attention", (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())),
        ("hooks of saved tensors", hooks is not None),
        *((f"torch.nn.modules.module.{k}", _plain(getattr(all_modules, k, {}), {})) for k in _GLOBAL_HOOKS),
    ]
    return "", tuple(found)


def describe(roots: Sequence[Any], constants: Mapping[int, int], ignored: frozenset[str] = frozenset()) -> list[Part]:
    """What decides a step besides tensors, of each module and function.

    Args:
        roots: the model and the loss.
        constants: tensors that the step reads as they were at the capture, by `id`, and a number for each.
        ignored: attributes that forward sets itself before it reads them, as `module.attribute`.
    """
    found: list[Part] = []
    for name, part in _parts(roots):
        if not isinstance(part, nn.Module):
            found.append((name, (("", _plain(part, constants)),)))
            continue
        own = vars(part)
        values: list[tuple[str, Any]] = [("class", _class(part))]
        for key, value in own.items():
            if key not in _INTERNAL and not (ignored and f"{name}.{key}" in ignored):
                values.append((key, _plain(value, constants)))
        values += [(key, _plain(own[key], constants)) for key in _HOOKS if own.get(key)]
        if constants:
            values += [(k, constants[id(v)]) for k, v in own["_buffers"].items() if id(v) in constants]
        found.append((name, tuple(values)))
    return found


def difference(then: Sequence[Part], now: Sequence[Part]) -> str | None:
    """The first thing that is not as it was: which, what it is now, and what it was."""
    if then == now:
        return None
    if [name for name, _ in then] != [name for name, _ in now]:
        return "its modules have other names or places"
    for (name, was), (_, is_now) in zip(then, now, strict=True):
        before, after = dict(was), dict(is_now)
        for key in (*before, *(k for k in after if k not in before)):
            if before.get(key) != after.get(key):
                values = before.get(key), after.get(key)
                simple = all(isinstance(v, _PLAIN) for v in values)
                label = ".".join(part for part in (name, key) if part) or "the loss"
                return f"{label} is {values[1]} instead of {values[0]}" if simple else f"{label} is another"
    return None


def generators_of(roots: Sequence[Any]) -> Iterator[torch.Generator]:
    """The random generators that modules and functions hold."""
    for _, part in _parts(roots):
        values = [*vars(part).values()] if isinstance(part, nn.Module) else [part]
        for value in values:
            yield from (v for v in (value, *_cells(value)) if isinstance(v, torch.Generator))


def _parts(roots: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The modules below all roots by name, and functions with the modules that they enclose."""
    for number, root in enumerate(roots):
        prefix = "loss" if number else ""
        if isinstance(root, nn.Module):
            yield from root.named_modules(prefix=prefix)
            continue
        yield prefix, root
        for k, cell in enumerate(_cells(root)):
            if isinstance(cell, nn.Module) and cell is not roots[0]:
                yield from cell.named_modules(prefix=f"{prefix}.{k}")


def _class(part: nn.Module) -> Any:
    """What a module runs: by its code, as a class may be made anew for each module."""
    kind = type(part)
    return kind.__qualname__, getattr(kind.forward, "__code__", kind)


def _cells(function: Any) -> list[Any]:
    """What a function has of those around it."""
    found = []
    for cell in getattr(getattr(function, "__func__", function), "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            found.append(None)
    return found


def _plain(value: Any, constants: Mapping[int, int], depth: int = 0) -> Any:
    """A value that can be compared: equal for a copy of the same, and for a function that does the same."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.Tensor):
        return constants.get(id(value), "a tensor")
    if depth == _DEEPEST or isinstance(value, nn.Module):
        return type(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v, constants, depth + 1) for v in value)
    if isinstance(value, dict):
        keys = (k if isinstance(k, str) else type(k) for k in value)  # hooks have numbers, which differ in a copy
        return tuple((k, _plain(v, constants, depth + 1)) for k, v in zip(keys, value.values(), strict=True))
    if isinstance(value, partial):
        return partial, *(_plain(v, constants, depth + 1) for v in (value.func, value.args, value.keywords))
    return _function(value, constants, depth)


def _function(value: Callable[..., Any], constants: Mapping[int, int], depth: int) -> Any:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if code is None:
        return type(value)
    defaults = getattr(value, "__defaults__", None) or ()
    return code, *(_plain(v, constants, depth + 1) for v in (*_cells(value), *defaults))
