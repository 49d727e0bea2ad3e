"""Accesses to the memory of tensors that are no operators of the program: it is there, and nothing is lost by them."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import _disable_current_modes

from edgemem.replay.remat import CHEAP
from edgemem.torch.remat.results import storages_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.remat.repeater import Repeater
    from edgemem.torch.remat.residence import Residence
    from edgemem.torch.remat.statistics import Notes
    from edgemem.torch.remat.values import Value, Values
    from edgemem.torch.remat.watch import Exposure

__all__ = ["Accesses"]


class Accesses:
    """What reads or writes the memory of tensors by itself. The argument why this is enough is in watch.py.

    Args:
        memory: under the budget.
        values: of the program.
        repeater: of evicted values.
        residence: of values in use.
        notes: for the user.
        in_place: the memory of a value may become that of a new version.
    """

    def __init__(
        self,
        memory: BudgetMemory,
        values: Values,
        repeater: Repeater,
        residence: Residence,
        notes: Notes,
        *,
        in_place: bool,
    ) -> None:
        self._memory = memory
        self._values = values
        self._repeater = repeater
        self._residence = residence
        self.notes = notes
        self._in_place = in_place
        self._ended: deque[Exposure] = deque()
        self._readers: dict[int, list[int]] = {}  # by thread, the storages whose watch has ended meanwhile

    @contextmanager
    def reading(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        """A context in which the memory of tensors is there, for a function that reads it by itself.

        Raises BudgetExceededError where there is no room for it.
        """
        with self._residence.lock, ExitStack() as stack:
            if not self._residence.is_closed:
                with _alone():
                    stack.enter_context(self._residence.using("reading a tensor", storages_of(tensors), CHEAP))
            yield

    @contextmanager
    def only_reading(self) -> Iterator[None]:
        """A context in which this thread only reads what it gets pointers to."""
        thread = threading.get_ident()
        outer = self._readers.get(thread)
        ended: list[int] = []
        self._readers[thread] = ended
        try:
            yield
        finally:
            with self._residence.lock:
                self._readers.pop(thread)
                if outer is not None:
                    self._readers[thread] = outer
                for storage in ended:
                    self._values.watch_again(storage)

    def expose(self, tensor: torch.Tensor, reason: str, *, is_writable: bool = True) -> None:
        """Something that is no operator will read, or write, the memory of this tensor at any time: keep it.

        Raises BudgetExceededError where there is no room for it.
        """
        with self._residence.lock, _alone():
            for storage in () if self._residence.is_closed else storages_of([tensor]):
                self._expose(storage, reason, is_writable=is_writable)

    @contextmanager
    def lending(self, tensor: torch.Tensor) -> Iterator[list[Exposure]]:
        """A context that gives the memory of a tensor to NumPy, until `conceal_later`. Raises BudgetExceededError."""
        made: list[Exposure] = []
        with self._residence.lock:
            with _alone():
                for storage in () if self._residence.is_closed else storages_of([tensor]):
                    made += self._expose(storage, "numpy", is_writable=True, is_lent=True)
            yield made
            for exposure in made:
                self._values.watch_again(exposure.storage)

    def conceal_later(self, exposures: list[Exposure]) -> None:
        """What these were for is gone. It may be called at any time, in the middle of an operator too."""
        self._ended.extend(exposures)

    def conceal(self) -> None:
        """Watch these again. Needs the lock, and that nothing is in use."""
        while self._ended:
            exposure = self._ended.popleft()
            if self._values.watch.conceal(exposure):
                self._values.watch_again(exposure.storage)

    def move(self, storage: torch.UntypedStorage, reason: str) -> None:
        """A storage is about to get other memory, without an operator."""
        with self._residence.lock, _alone():
            if self._residence.is_closed or not self._values.is_known(storage):
                return
            with self._residence.using(reason, [storage], CHEAP) as values:
                for value in values.values():
                    self._values.move_away(self._preserve(value))

    def touched(self, number: int) -> int:
        """Somebody is about to write the memory of a watched storage. Not 0: that must not be, it does not fit."""
        readers = self._readers.get(threading.get_ident())
        with self._residence.lock:
            self._values.watch.touched(number)
            if self._residence.is_closed:
                return 0
            if readers is not None:
                readers.append(number)
                return 0
            try:
                with _alone():
                    storage = torch.UntypedStorage._new_with_weak_ptr(number)  # noqa: SLF001
                    if storage is not None:
                        self._expose(storage, "a pointer to write it", is_writable=True)
            except Exception as e:  # noqa: BLE001 - it cannot be raised through C++
                self.notes.add(str(e))
                self._values.watch_again(number)
                return 1
        return 0

    def expose_values(self, values: Iterable[Value]) -> None:
        """Something that no operator shows has the memory of these values, which are in use."""
        for value in values:
            self._expose_value(value, is_writable=True)

    def _expose(
        self, storage: torch.UntypedStorage, reason: str, *, is_writable: bool, is_lent: bool = False
    ) -> list[Exposure]:
        with self._residence.using(reason, [storage], CHEAP) as values:
            for value in values.values():
                if value.recipe is not None or (is_writable and not self._values.is_exposed(value)):
                    self.notes.keep(reason, value.size)
            made = [self._expose_value(v, is_writable=is_writable, is_lent=is_lent) for v in values.values()]
            return [exposure for exposure in made if exposure is not None]

    def _expose_value(self, value: Value, *, is_writable: bool, is_lent: bool = False) -> Exposure | None:
        made = None
        storage = self._values.storage_of(value)
        if is_writable:
            value = self._preserve(value)
            if storage is not None:
                made = self._values.watch.expose(storage, is_lent=is_lent)
        else:
            self._values.pin(value)
        self._memory.fix(value.number)
        return made

    def _preserve(self, value: Value) -> Value:
        """What was made from a value by now does not need what lies in its storage; the value that lies there now."""
        if value.recipe is not None and self._in_place and self._residence.uses(value) == 1:
            return self._values.make_constant(value)
        self._repeater.settle(value)
        self._values.pin(value)
        return value


@contextmanager
def _alone() -> Iterator[None]:
    """A context in which no mode of the program sees what runs."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001
        yield
