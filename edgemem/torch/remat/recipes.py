"""How a value is made again: an operator, and arguments in which values stand for tensors."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Recipe", "TensorArgument", "ThreadSettings", "frozen", "tensors_of"]


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """The place of a tensor among the arguments of a recipe.

    Attributes:
        value: number of the value that it lies in, -1 for none: a tensor without bytes, or running statistics.
        is_scratch: it may lie anywhere: what it holds is not used.
    """

    value: int
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    is_conjugate: bool
    is_negative: bool
    is_scratch: bool = False

    @classmethod
    def of(cls, tensor: torch.Tensor, value: int, *, is_scratch: bool = False) -> TensorArgument:
        """The place of this tensor, which lies in this value."""
        return cls(
            value,
            tensor.dtype,
            tensor.size(),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.requires_grad,
            tensor.is_conj(),
            tensor.is_neg(),
            is_scratch,
        )

    def tensor(self, storage: torch.UntypedStorage | None) -> torch.Tensor:
        """A tensor as the one that the slot was made of, in this storage; without one in memory of its own."""
        if storage is None:
            made = torch.zeros(self.size, dtype=self.dtype) if self.is_scratch else torch.empty(0, dtype=self.dtype)
            if not self.is_scratch:
                made = made.as_strided(self.size, self.stride)
        else:
            made = torch.empty(0, dtype=self.dtype)
            made.set_(storage, self.offset, self.size, self.stride)
        if self.is_conjugate:
            torch._C._set_conj(made, True)  # noqa: SLF001
        if self.is_negative:
            torch._C._set_neg(made, True)  # noqa: SLF001
        return made.requires_grad_() if self.requires_grad else made


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """Of the thread, and the default type of the process, which some operators look at."""

    has_gradients: bool
    is_inference: bool
    autocast: torch.dtype | None
    default_dtype: torch.dtype

    @classmethod
    def now(cls) -> ThreadSettings:
        """Those of the calling thread."""
        return _settings(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None,
            torch.get_default_dtype(),
        )

    def entered(self) -> ExitStack:
        """A context in which they hold, and neither autograd nor a mode of the program sees what runs."""
        with ExitStack() as stack:
            stack.enter_context(_disable_current_modes())
            stack.enter_context(torch.inference_mode(self.is_inference))
            stack.enter_context(torch.set_grad_enabled(self.has_gradients))
            stack.enter_context(
                torch.autocast("cpu", dtype=self.autocast or torch.bfloat16, enabled=self.autocast is not None)
            )
            stack.enter_context(torch._C._AutoDispatchBelowAutograd())  # noqa: SLF001
            now = torch.get_default_dtype()
            if now is not self.default_dtype:
                torch.set_default_dtype(self.default_dtype)
                stack.callback(torch.set_default_dtype, now)
            return stack.pop_all()
        raise AssertionError


_settings = cache(ThreadSettings)


@dataclass(slots=True)
class Recipe:
    """One call of an operator that may have to run again.

    Attributes:
        func: the operator.
        args: positional, with slots for tensors.
        kwargs: by name, likewise.
        reads: numbers of the values that it reads, each once.
        results: by position among the storages that it makes: the number of the value, None once nobody needs it.
        written: values among `reads` whose memory it writes, with the position of what they become among `results`.
        settings: of the thread when it ran.
        generator: that it draws from; None if it draws from none.
        state: of the generator when it ran.
        cost: nanoseconds that it took when it first ran.
    """

    func: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    reads: tuple[int, ...]
    results: list[int | None]
    written: dict[int, int]
    settings: ThreadSettings
    generator: torch.Generator | None
    state: bytes
    cost: int

    def run(self, storages: Mapping[int, torch.UntypedStorage]) -> Any:
        """Run it again, on the storages of the values that it reads; what the operator gives."""
        with self.settings.entered():
            args = [_thawed(arg, storages) for arg in self.args]
            kwargs = {name: _thawed(arg, storages) for name, arg in self.kwargs.items()}
            if self.generator is None:
                return self.func(*args, **kwargs)
            return _run_from_state(self.func, args, kwargs, self.generator, self.state)


def frozen(argument: Any, slot_of: Callable[[torch.Tensor], TensorArgument]) -> Any:
    """An argument with slots in the place of tensors."""
    if isinstance(argument, torch.Tensor):
        return slot_of(argument)
    if isinstance(argument, (list, tuple)):
        return [frozen(item, slot_of) for item in argument]
    return argument


def _thawed(argument: Any, storages: Mapping[int, torch.UntypedStorage]) -> Any:
    if isinstance(argument, TensorArgument):
        return argument.tensor(None if argument.value < 0 else storages[argument.value])
    if isinstance(argument, list):
        return [_thawed(item, storages) for item in argument]
    return argument


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments of an operator."""
    found: list[torch.Tensor] = []
    for argument in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(argument, torch.Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found += [item for item in argument if isinstance(item, torch.Tensor)]
    return found


def _run_from_state(
    func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], generator: torch.Generator, state: bytes
) -> Any:
    now = generator.get_state()
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    try:
        return func(*args, **kwargs)
    finally:
        generator.set_state(now)
