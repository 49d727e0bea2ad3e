"""Which storages may change without an operator that is seen: those are never evicted, and nothing is made from them.

Between two operators of the program, every storage that has a value is *watched* or *exposed*.

- A watched storage calls `touched` before PyTorch gives out a pointer by which its memory can be written: to NumPy, to
  DLPack, to other C++ code, to an operator that no mode sees, on any thread. PyTorch does this itself
  (`StorageImpl::set_materializer`): there is no other way to such a pointer, and a tensor, a subclass of it, a view or
  a storage object all lead to one `StorageImpl`. The storage is exposed then, before the first byte can change: what
  was made from its content is made and kept, its old content is no longer taken from it, and it stays where it is.
- The operators of the program write through `Operators.run`, which ends the watch for as long as they run.
- An exposed storage is never evicted or moved, and results of operators that read it are not evicted. Only an array of
  NumPy says when it ends, by the tensor that it holds: the storage is watched again when no array has that tensor.
- Exposed from the beginning is memory that others own (NumPy's arrays, buffers, DLPack): they have pointers already.
  A storage that was made within the context has none, and a storage from before it may have: PyTorch cannot say, and
  documentation asks not to use them.
- An evicted storage has no memory. PyTorch raises an error wherever its memory is asked for, to be read or written.

So a value that is evicted has the content that its operator gave it, and what it is made from again has not changed.
A pointer for reading alone, kept from before an eviction, is the one thing that nobody notices: PyTorch's Python
functions that give one (`const_data_ptr`) are in raw_access.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from edgemem.torch.bridge import Bridge

__all__ = ["Exposure", "Watch"]

_FEW: Final = 64  # exposed storages, of which it does not matter whether they still are there


@dataclass(slots=True, eq=False)
class Exposure:
    """A storage that is exposed, by number, how often, and whether only to those who say when it ends."""

    storage: int
    count: int = 0
    is_lent: bool = True


class Watch:
    """The storages that are watched, and those that are exposed. Storages are given by number (`_cdata`).

    Args:
        bridge: to PyTorch's storages.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._watched: set[int] = set()
        self._exposed: dict[int, Exposure] = {}  # with a weak reference each
        self._next_sweep = _FEW

    def begin(self, storage: int) -> None:
        """Watch a storage, of which the caller has a reference until `end`, a weak one at least."""
        exposed = self._exposed.get(storage)
        if storage in self._watched or (exposed is not None and not exposed.is_lent):
            return
        if not self._bridge.is_watchable(storage):
            self.expose(torch.UntypedStorage._new_with_weak_ptr(storage))  # noqa: SLF001
            return
        self._watched.add(storage)  # first: what is watched is known, wherever an exception comes
        try:
            self._bridge.watch(storage)
        except BaseException:  # of a signal's handler: it may not be watched
            weak: int = torch.UntypedStorage._new_with_weak_ptr(storage)._weak_ref()  # noqa: SLF001
            self._exposed[weak] = Exposure(storage, 1, is_lent=False)
            raise

    def end(self, storage: int) -> bool:
        """Operators of the program use the storage, or the caller gives up its reference. Whether it was watched."""
        if storage not in self._watched:
            return False
        self._bridge.end_watch(storage)
        self._watched.discard(storage)
        return True

    def touched(self, storage: int) -> None:
        """PyTorch has told of an access, and does not watch this storage any more."""
        self._watched.discard(storage)

    def expose(self, storage: torch.UntypedStorage, *, is_lent: bool = False) -> Exposure:
        """Until `conceal`, which only what is lent has, or its end, the memory of a storage may change at any time.

        What is lent is watched meanwhile: somebody else may get a pointer, too.
        """
        number: int = storage._cdata  # noqa: SLF001
        self.end(number)
        found = self._exposed.get(number)
        if found is None:
            if len(self._exposed) >= self._next_sweep:
                self._sweep()
                self._next_sweep = max(_FEW, 2 * len(self._exposed))
            found = self._exposed[storage._weak_ref()] = Exposure(number)  # noqa: SLF001
        found.count += 1
        found.is_lent = found.is_lent and is_lent
        return found

    def conceal(self, exposure: Exposure) -> bool:
        """What one `expose` was for has no pointer any more. Whether nothing else has one of the storage."""
        exposure.count -= 1
        if exposure.count or not exposure.is_lent or self._exposed.get(exposure.storage) is not exposure:
            return False
        self._let_go(exposure.storage)
        return True

    def is_exposed(self, storage: int) -> bool:
        """Whether the memory of a storage may change at any time."""
        return storage in self._exposed or self._bridge.is_foreign(storage)

    def close(self) -> None:
        """Watch nothing more."""
        for storage in list(self._watched):
            self.end(storage)
        for storage in list(self._exposed):
            self._let_go(storage)

    def _sweep(self) -> None:
        for storage in [s for s in self._exposed if torch.UntypedStorage._expired(s)]:  # noqa: SLF001
            self._let_go(storage)

    def _let_go(self, storage: int) -> None:
        del self._exposed[storage]
        torch.UntypedStorage._free_weak_ref(storage)  # noqa: SLF001
