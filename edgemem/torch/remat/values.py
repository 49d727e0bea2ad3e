"""The values of a program of PyTorch: which storage holds which, and how each is made again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from edgemem.torch.remat.results import storage_of
from edgemem.torch.remat.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.bridge import Bridge
    from edgemem.torch.remat.recipes import Recipe

__all__ = ["Value", "Values"]


@dataclass(slots=True, eq=False)
class Value:
    """One version of the content of a storage.

    Attributes:
        number: in the memory under the budget.
        size: bytes of the storage.
        storage: number of the program's storage (`_cdata`), of which this has a weak reference: no other storage gets
            that number. None once a newer version has the storage.
        recipe: that makes it; None for a constant.
        position: among the recipe's results.
        own: a storage that the program does not have: of a value that was made again for others, or that lies outside
            the pool.
        versions: how many operators in a row wrote it in place.
        digest: of its content when it was made, where that is checked.
    """

    number: int
    size: int
    storage: int | None
    recipe: Recipe | None = None
    position: int = 0
    own: torch.UntypedStorage | None = None
    versions: int = 0
    digest: int = 0


class Values:
    """All values that are needed, by number and by storage.

    Args:
        memory: that they lie in.
        bridge: to PyTorch's storages.
    """

    def __init__(self, memory: BudgetMemory, bridge: Bridge) -> None:
        self.known: dict[int, Value] = {}
        self.watch = Watch(bridge)
        self._memory = memory
        self._bridge = bridge
        self._current: dict[int, Value] = {}

    def sweep(self) -> None:
        """Drop what nobody needs any more."""
        for number in self._memory.take_forgotten():
            value = self.known.pop(number, None)
            if value is not None:
                self._drop(value)

    def of(self, tensor: torch.Tensor) -> Value | None:
        """The value that a tensor lies in, a new constant if it is not known; None for a storage of 0 bytes."""
        return self.at(storage_of(tensor))

    def at(self, storage: torch.UntypedStorage) -> Value | None:
        """The value of a storage, likewise."""
        known = self._current.get(storage._cdata)  # noqa: SLF001
        if known is not None:
            return known
        return self.of_storage(storage) if storage.nbytes() else None

    def of_storage(self, storage: torch.UntypedStorage) -> Value:
        """A new constant, of a storage that has bytes and no value."""
        key: int = storage._cdata  # noqa: SLF001
        block = self._bridge.memory_of(key)
        is_inside = block is not None and self._memory.holds(block)
        number = self._memory.add_constant(block if is_inside else None, key)
        value = Value(number, storage.nbytes(), storage._weak_ref())  # noqa: SLF001
        if not is_inside:
            value.own = storage
        self.known[value.number] = self._current[key] = value
        self.watch.begin(key)
        return value

    def is_exposed(self, value: Value) -> bool:
        """Whether the memory of this value may change at any time."""
        return value.storage is not None and self.watch.is_exposed(value.storage)

    @contextmanager
    def in_use(self, values: Iterable[Value]) -> Iterator[None]:
        """A context in which operators use the storages of these values, which are not watched meanwhile."""
        ended = [s for value in values if (s := value.storage) is not None and self.watch.end(s)]
        try:
            yield
        finally:
            for storage in ended:
                self.watch_again(storage)

    def watch_again(self, storage: int) -> None:
        """Watch a storage, if it still has a value."""
        if storage in self._current:
            self.watch.begin(storage)

    def is_known(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage has a value."""
        return storage._cdata in self._current  # noqa: SLF001

    def add(self, number: int, storage: torch.UntypedStorage, recipe: Recipe, position: int) -> Value:
        """A value that an operator made in a new storage."""
        key: int = storage._weak_ref()  # noqa: SLF001
        value = self.known[number] = self._current[key] = Value(number, storage.nbytes(), key, recipe, position)
        self.watch.begin(key)
        return value

    def replace(self, old: Value, number: int, recipe: Recipe | None, position: int = 0) -> Value:
        """A new version in the storage of an old one."""
        new = Value(number, old.size, old.storage, recipe, position, versions=old.versions + 1 if recipe else 0)
        old.storage = None
        self.known[number] = new
        if new.storage is not None:
            self._current[new.storage] = new
        return new

    def make_constant(self, value: Value) -> Value:
        """What lies in the storage of this value now is made by no known call. The value itself can be made again."""
        if value.recipe is None:
            return value
        return self.replace(value, self._memory.make_constant(value.number), None)

    def pin(self, value: Value) -> None:
        """Keep this value, which is in memory, for good."""
        self._memory.pin(value.number)
        _forget_recipe(value)

    def move_away(self, value: Value) -> None:
        """The storage of this value has other memory now."""
        if value.storage is not None:
            del self._current[value.storage]
            self._let_go(value)

    def held(self) -> Sequence[Value]:
        """The newest value of each storage."""
        return list(self._current.values())

    def storage_of(self, value: Value) -> torch.UntypedStorage | None:
        """The storage that has this value, or had it before it was evicted; None if there is none any more."""
        if value.own is not None:
            return value.own
        if value.storage is None:
            return None
        found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(value.storage)  # noqa: SLF001
        return found

    def close(self) -> None:
        """Forget everything."""
        for value in self.known.values():
            self._drop(value)
        self.known.clear()
        self.watch.close()

    def _drop(self, value: Value) -> None:
        if value.storage is not None:
            if self._current.get(value.storage) is value:
                del self._current[value.storage]
            self._let_go(value)
        _forget_recipe(value)
        value.own = None

    def _let_go(self, value: Value) -> None:
        assert value.storage is not None
        self.watch.end(value.storage)
        storage, value.storage = value.storage, None  # first: it is freed once, wherever an exception comes
        torch.UntypedStorage._free_weak_ref(storage)  # noqa: SLF001


def _forget_recipe(value: Value) -> None:
    if value.recipe is not None:
        value.recipe.results[value.position] = None
        value.recipe = None
