"""Functions of PyTorch that read the memory of a tensor without an operator, or give it away: what is evicted is made.

They are replaced as long as a context is open: a mode for PyTorch's functions does not see them where autograd runs
Python code, and switches fast paths off. What is not here is seen when it may write (watch.py), and raises an error
where it reads what is evicted.
"""

from __future__ import annotations

import functools
import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.utils.dlpack

from edgemem.torch.accesses import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.torch.remat.access import Accesses
    from edgemem.torch.remat.ends import Ends

__all__ = ["RawAccess"]

_READING: Final = (
    *((torch.Tensor, name) for name in ("tolist", "__repr__", "__format__", "__deepcopy__")),
    *((torch, name) for name in ("tensor", "as_tensor", "asarray")),
)
_SHARING: Final = (
    *((torch.Tensor, name) for name in ("__dlpack__", "data_ptr", "const_data_ptr", "share_memory_")),
    *((torch._C, name) for name in ("_to_dlpack", "_to_dlpack_versioned")),  # noqa: SLF001
    *((owner, "to_dlpack") for owner in (torch, torch.utils.dlpack)),
)
_LOCATING: Final = tuple(
    (torch.Tensor, name) for name in ("untyped_storage", "storage", "_typed_storage", "__reduce_ex__")
)
_MOVING: Final = tuple((torch.UntypedStorage, name) for name in ("resize_", "_share_fd_cpu_", "_share_filename_cpu_"))
_EAGER: Final = "torch.compile: what is compiled runs eagerly in this context, as under every mode for operators"


class RawAccess:
    """These functions find what is evicted, until `ends` is closed.

    Args:
        accesses: to what the program has.
        ends: gets the way back before each of them is replaced, so that no exception comes between.
    """

    def __init__(self, accesses: Accesses, ends: Ends) -> None:
        self._accesses = accesses
        for places, make in (
            (_READING, self._reading),
            (_SHARING, functools.partial(self._exposing, is_writable=True)),
            (_LOCATING, functools.partial(self._exposing, is_writable=False)),
            (_MOVING, self._moving),
            (((torch.Tensor, "numpy"),), self._lending),
            (((torch, "save"),), self._saving),
            (((torch, "compile"),), self._compiling),
            (_compiler(), self._calling_compiled),
        ):
            for owner, name in places:
                _replace(owner, name, make, ends)

    def _reading(self, original: Any) -> Any:
        def read(*args: Any, **kwargs: Any) -> Any:
            with self._accesses.reading(tensors_in(args)):
                return original(*args, **kwargs)

        return read

    def _exposing(self, original: Any, *, is_writable: bool) -> Any:
        def give(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], torch.Tensor):
                self._accesses.expose(args[0], original.__name__, is_writable=is_writable)
            return original(*args, **kwargs)

        return give

    def _lending(self, original: Any) -> Any:
        def lend(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            with self._accesses.lending(tensor) as exposures:
                array = original(tensor, *args, **kwargs)
            holder = getattr(array, "base", None)
            if isinstance(holder, torch.Tensor):  # which all views of the array hold
                weakref.finalize(holder, self._accesses.conceal_later, exposures).atexit = False
            return array

        return lend

    def _moving(self, original: Any) -> Any:
        def move(*args: Any, **kwargs: Any) -> Any:
            for storage in args:
                if isinstance(storage, torch.UntypedStorage):
                    self._accesses.move(storage, original.__name__)
            return original(*args, **kwargs)

        return move

    def _saving(self, original: Any) -> Any:
        def save(*args: Any, **kwargs: Any) -> Any:
            with self._accesses.only_reading():  # though it asks for pointers to write
                return original(*args, **kwargs)

        return save

    def _compiling(self, original: Any) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            self._accesses.notes.add(_EAGER)
            return original(*args, **kwargs)

        return make

    def _calling_compiled(self, original: Any) -> Any:
        def begin(compiler: Any) -> Any:
            if callable(compiler):
                self._accesses.notes.add(_EAGER)
            return original(compiler)

        return begin


def _compiler() -> tuple[tuple[Any, str], ...]:
    """The function that a compiled model calls first, if PyTorch's compiler has been used in this process."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    return () if module is None else ((module, "_maybe_set_eval_frame"),)


def _replace(owner: Any, name: str, make: Callable[[Any], Any], ends: Ends) -> None:
    original = getattr(owner, name)
    made = make(original)
    functools.update_wrapper(made, original)
    own = vars(owner).get(name)
    if own is None:  # its class has it
        ends.callback(_forget, owner, name)
    else:
        ends.callback(setattr, owner, name, own)
    setattr(owner, name, made)


def _forget(owner: Any, name: str) -> None:
    with suppress(AttributeError):
        delattr(owner, name)
