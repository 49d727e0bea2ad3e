"""Which storages may change without an operator that is seen: those are never evicted, and nothing is made from them.

Between two operators of the program, every storage that has a value is *watched* or *exposed*.

- A watched storage calls `touched` before PyTorch gives out a pointer by which its memory can be written: to NumPy, to
  DLPack, to other C++ code, to an operator that no mode sees, on any thread. PyTorch does this itself
  (`StorageImpl::set_materializer`): there is no other way to such a pointer, and a tensor, a subclass of it, a view or
  a storage object all lead to one `StorageImpl`. The storage is exposed then, before the first byte can change: what
  was made from its content is made and kept, its old content is no longer taken from it, and it stays where it is.
- The operators of the program write through `Operators.run`, which ends the watch for as long as they run.
- An exposed storage is never evicted or moved, and results of operators that read it are not evicted.
- Exposed from the beginning is memory that others own (NumPy's arrays, buffers, DLPack): they have pointers already.
  A storage that was made within the context has none, and a storage from before it may have: PyTorch cannot say, and
  documentation asks not to use them.
- An evicted storage has no memory. PyTorch raises an error wherever its memory is asked for, to be read or written.

So a value that is evicted has the content that its operator gave it, and what it is made from again has not changed.
A pointer for reading alone, kept from before an eviction, is the one thing that nobody notices: PyTorch's Python
functions that give one (`const_data_ptr`) are in raw_access.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from edgemem.torch.bridge import Bridge

__all__ = ["Watch"]

_FEW: Final = 64  # exposed storages, of which it does not matter whether they still are there


class Watch:
    """The storages that are watched, and those that are exposed. Storages are given by number (`_cdata`).

    Args:
        bridge: to PyTorch's storages.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._watched: set[int] = set()
        self._exposed: set[int] = set()  # with a weak reference each
        self._next_sweep = _FEW

    def begin(self, storage: int) -> None:
        """Watch a storage, of which the caller has a reference until `end`, a weak one at least."""
        if storage in self._watched or storage in self._exposed:
            return
        if self._bridge.watch(storage):
            self._watched.add(storage)
        else:
            self.expose(torch.UntypedStorage._new_with_weak_ptr(storage))  # noqa: SLF001

    def end(self, storage: int) -> bool:
        """Operators of the program use the storage, or the caller gives up its reference. Whether it was watched."""
        if storage not in self._watched:
            return False
        self._watched.discard(storage)
        self._bridge.end_watch(storage)
        return True

    def touched(self, storage: int) -> None:
        """PyTorch has told of an access, and does not watch this storage any more."""
        self._watched.discard(storage)

    def expose(self, storage: torch.UntypedStorage | None) -> None:
        """From now on, and as long as it lives, the memory of a storage may change at any time."""
        if storage is None or storage._cdata in self._exposed:  # noqa: SLF001
            return
        self.end(storage._cdata)  # noqa: SLF001
        if len(self._exposed) >= self._next_sweep:
            self._sweep()
            self._next_sweep = max(_FEW, 2 * len(self._exposed))
        self._exposed.add(storage._weak_ref())  # noqa: SLF001

    def is_exposed(self, storage: int) -> bool:
        """Whether the memory of a storage may change at any time."""
        return storage in self._exposed or self._bridge.is_foreign(storage)

    def close(self) -> None:
        """Watch nothing more."""
        for storage in list(self._watched):
            self.end(storage)
        for storage in self._exposed:
            torch.UntypedStorage._free_weak_ref(storage)  # noqa: SLF001
        self._exposed.clear()

    def _sweep(self) -> None:
        gone = [s for s in self._exposed if torch.UntypedStorage._expired(s)]  # noqa: SLF001
        for storage in gone:
            self._exposed.discard(storage)
            torch.UntypedStorage._free_weak_ref(storage)  # noqa: SLF001
