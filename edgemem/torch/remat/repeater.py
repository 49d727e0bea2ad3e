"""Makes evicted values again: runs their operators, and those of what these read, as far as it takes."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from traceback import clear_frames
from typing import TYPE_CHECKING

import torch

from edgemem.errors import RecomputationError
from edgemem.replay.remat import CHEAP, EXPENSIVE
from edgemem.torch.remat.effects import effect_of
from edgemem.torch.remat.results import copied, storages_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.bridge import Bridge
    from edgemem.torch.remat.recipes import Recipe
    from edgemem.torch.remat.values import Value, Values

__all__ = ["Repeater"]


class _Frame:
    """A recipe that waits for what it reads, and the values that it has locked until then."""

    __slots__ = ("locked", "recipe")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.locked: list[int] = []


class Repeater:
    """Makes evicted values again.

    What it makes for others stays in memory, as far as there is room, until `release`: several recipes may read it.

    Args:
        memory: that the values lie in.
        bridge: to PyTorch's storages.
        values: of the program.
        in_place: an operator that writes a value writes it where it lies, where nobody else needs it.
    """

    def __init__(self, memory: BudgetMemory, bridge: Bridge, values: Values, *, in_place: bool) -> None:
        self._memory = memory
        self._bridge = bridge
        self._values = values
        self._in_place = in_place
        self._lent: list[Value] = []
        self._locks: Counter[int] = Counter()
        self._written: set[int] = set()  # old versions whose content is not what `memory` takes it for

    def make_resident(self, wanted: Iterable[int]) -> None:
        """Make these values, which are locked, if they are not in memory.

        Raises what an operator raises: there is no room under the budget. All values are as they were then, or made.
        Where an exception of a signal's handler came as a value was written where it lay, all calls raise from then on.
        """
        if self._written:
            raise RuntimeError("an exception came as a result was made again in place: what is evicted is lost")
        for number in wanted:
            if not self._memory.is_resident(number):
                self._make(number)

    def settle(self, value: Value) -> None:
        """Before the memory of a constant changes: make and pin all that would have to be made from it again."""
        for number in self._memory.dependents(value.number):
            self._memory.lock([number])
            try:
                self.make_resident([number])
                self._values.pin(self._values.known[number])
            finally:
                self._memory.unlock([number])

    def release(self) -> None:
        """Let go of what was made for others only."""
        for value in self._lent:
            value.own = None
        self._lent.clear()

    def _make(self, number: int) -> None:
        stack = [_Frame(self._recipe(number))]
        try:
            while stack:
                frame = stack[-1]
                missing = next((n for n in frame.recipe.reads if not self._memory.is_resident(n)), None)
                if missing is not None:
                    self._lock(frame, [missing])
                    stack.append(_Frame(self._recipe(missing)))
                    continue
                self._lock(frame, [n for n in frame.recipe.reads if n not in frame.locked])
                self._repeat(frame.recipe)
                stack.pop()
                self._unlock(frame)
        finally:
            for frame in stack:
                self._unlock(frame)

    def _recipe(self, number: int) -> Recipe:
        recipe = self._values.known[number].recipe
        if recipe is None:
            raise RuntimeError(f"value {number} is not in memory, and nothing makes it: edgemem's state is wrong")
        return recipe

    def _lock(self, frame: _Frame, numbers: list[int]) -> None:
        self._memory.lock(numbers, EXPENSIVE if effect_of(frame.recipe.func).is_expensive else CHEAP)
        frame.locked += numbers
        self._locks.update(numbers)

    def _unlock(self, frame: _Frame) -> None:
        self._memory.unlock(frame.locked)
        self._locks.subtract(frame.locked)
        frame.locked.clear()

    def _repeat(self, recipe: Recipe) -> None:
        """Run a recipe, all of whose reads are in memory and locked, and keep what is not in memory of its results."""
        known = self._values.known
        storages = {number: self._storage(known[number]) for number in recipe.reads}
        copies = {old for old in recipe.written if not self._may_write(known[old])}
        for old in copies:
            storages[old] = copied(storages[old])
        written = recipe.written.keys() - copies
        self._written |= written
        with self._values.in_use(known[number] for number in recipe.reads):
            start = time.perf_counter_ns()
            try:
                result = recipe.run(storages)
            except RuntimeError as e:
                self._written -= written
                if recipe.written or self._memory.take_refusal() is None:
                    raise
                clear_frames(e.__traceback__)
                self._memory.clear()  # it did nothing, so it may run again
                result = recipe.run(storages)
            cost = time.perf_counter_ns() - start
        self._values.sweep()  # nobody may need some of the results any more
        given = {storage._cdata for storage in storages.values()}  # noqa: SLF001
        made = [storage for storage in storages_in(result) if storage._cdata not in given]  # noqa: SLF001
        del result
        for old, position in recipe.written.items():
            number = recipe.results[position]
            if old in copies:
                if number is not None:
                    self._place(known[number], storages[old])
            elif number is None or self._memory.is_resident(number):
                known[old].own = None  # its content has changed, and nobody needs the new one
            else:
                self._pass(known[old], known[number])
        self._written -= written
        for position, storage in enumerate(made):
            number = recipe.results[position]
            if number is not None:
                self._place(known[number], storage)
        first = next(number for number in recipe.results if number is not None)
        self._memory.repeated(first, cost)

    def _may_write(self, value: Value) -> bool:
        """Whether the memory of this old version may be written: nobody else needs it."""
        return self._in_place and value.own is not None and self._locks[value.number] == 1

    def _storage(self, value: Value) -> torch.UntypedStorage:
        """The storage of a value in memory; a new one if it has none."""
        found = self._values.storage_of(value)
        is_empty = value.own is not None and not value.own.nbytes()  # an exception came before it was lent
        if found is None or is_empty:
            found = value.own = value.own or torch.UntypedStorage(0)
            number: int = found._cdata  # noqa: SLF001
            self._bridge.lend(number, self._memory.lend(value.number, number), value.size)
            self._lent.append(value)
        if found.nbytes() != value.size:
            raise RuntimeError("something that edgemem does not see has given other memory to a storage")
        return found

    def _place(self, value: Value, storage: torch.UntypedStorage) -> None:
        """A result lies in this storage now. Where the program has a storage of its own for it, it gets the memory."""
        if self._memory.is_resident(value.number):
            return
        if storage.nbytes() != value.size:
            raise RuntimeError(f"a value of {value.size} bytes has {storage.nbytes()} when it is made again")
        target = self._values.storage_of(value)
        if target is None:
            value.own = storage
            try:
                self._lent.append(value)
                self._memory.remade(value.number, self._bridge.memory_of(storage._cdata), storage._cdata)  # noqa: SLF001
            except BaseException:
                if not self._memory.is_resident(value.number):
                    value.own = None
                raise
            self._compare(value, storage._cdata)  # noqa: SLF001
        else:
            evicted = self._bridge.digest_of(target._cdata) if value.digest else 0  # noqa: SLF001
            self._move(storage, target, value.number, partial(self._memory.remade, value.number))
            self._compare(value, target._cdata, evicted)  # noqa: SLF001

    def _pass(self, old: Value, new: Value) -> None:
        """A new version was written where the old one lay."""
        storage, old.own = old.own, None
        assert storage is not None
        target = self._values.storage_of(new)
        if target is None:
            new.own = target = storage
            try:
                self._lent.append(new)
                self._memory.take_over(old.number, new.number, storage._cdata)  # noqa: SLF001
            except BaseException:
                if not self._memory.is_resident(new.number):
                    new.own = None
                raise
        else:
            take_over = partial(self._memory.take_over, old.number, new.number)
            self._move(storage, target, new.number, lambda _block, key: take_over(key))
        self._written.discard(old.number)  # first: other bits are an error of their own
        self._compare(new, target._cdata)  # noqa: SLF001

    def _move(
        self,
        storage: torch.UntypedStorage,
        target: torch.UntypedStorage,
        number: int,
        tell: Callable[[int | None, int], None],
    ) -> None:
        """Give the memory of a storage to the evicted one of a value, and tell `memory`: both, or neither."""
        source, key = storage._cdata, target._cdata  # noqa: SLF001
        block = self._bridge.memory_of(source)
        try:
            self._bridge.move(source, key)
            tell(block, key)
        except BaseException:  # of a signal's handler, it may have come between the two
            if self._bridge.memory_of(key) == block is not None and not self._memory.is_resident(number):
                tell(block, key)
            raise

    def _compare(self, value: Value, storage: int, evicted: int = 0) -> None:
        """Whether what was made again has the bits of the first time, where digests are kept."""
        if not value.digest or value.recipe is None:
            return
        name = effect_of(value.recipe.func).name
        if evicted not in (0, value.digest):
            raise RecomputationError(
                f"the result of {name}, of {value.size:,} bytes, was written by something that is no operator and that "
                "edgemem does not see; call `keep` of the context with it before that",
                op=name,
            )
        if self._bridge.digest_of(storage) != value.digest:
            raise RecomputationError(
                f"{name} gave other bits when it ran again, in a result of {value.size:,} bytes: it depends on more "
                "than its arguments, or one of these, from outside the context, was changed by something that is no "
                "operator; call `keep` of the context with what it reads, or with its result",
                op=name,
            )
