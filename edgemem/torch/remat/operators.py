"""Runs the operators of a program under a budget, and notes how what they make is made again."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from edgemem.errors import BudgetExceededError
from edgemem.replay.remat import CHEAP, EXPENSIVE, PATIENT
from edgemem.torch.remat.effects import effect_of, is_accumulating
from edgemem.torch.remat.recipes import Recipe, Settings, Slot, frozen, tensors_of
from edgemem.torch.remat.results import copied, is_plain, results_in, storages_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.bridge import Bridge
    from edgemem.torch.remat.effects import Effect
    from edgemem.torch.remat.repeating import Repeater
    from edgemem.torch.remat.values import Value, Values

__all__ = ["OperatorMode", "Operators"]

# A generator's state has 5 KiB: smaller results are kept rather than the state that would make them again.
_LEAST_RANDOM: Final = 16 << 10
# Functions that are made of several operators read lengths and indices without one.
_MOST_INTEGERS: Final = 16 << 10
# Operators in a row that write one storage. With more it would take too long to make the last version again.
_MOST_VERSIONS: Final = 1000


class OperatorMode(TorchDispatchMode):
    """Hands the operators of a program to `Operators`."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self._operators = operators

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        effect = effect_of(func)
        if effect.is_view or self._operators.is_closed:
            if effect.is_detached and is_accumulating():
                self._operators.spare_gradient(args[0])
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - what follows is not the program's
            return self._operators.run(func, effect, args, kwargs)


@dataclass(slots=True)
class _Call:
    """An operator that is about to run, or has run.

    `values` are those that its arguments lie in, by storage; `statistics` are running statistics that its results do
    not depend on. `is_plain`: all its arguments are tensors in host memory and nothing else. `kind`: of its requests.
    """

    func: Callable[..., Any]
    effect: Effect
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    values: dict[int, Value]
    written: list[Value]
    statistics: list[Value]
    is_plain: bool
    kind: int

    @property
    def changed(self) -> list[Value]:
        """All that it writes, each once."""
        statistics = () if self.effect.is_backward else self.statistics
        return list({value.number: value for value in (*self.written, *statistics)}.values())


class Operators:
    """Runs operators under a budget.

    Args:
        memory: that serves their requests.
        bridge: to PyTorch's storages.
        values: of the program.
        repeater: of evicted values.
        in_place: what an operator writes in place stays where it is; False: it is copied before, as in DTR.
    """

    def __init__(
        self, memory: BudgetMemory, bridge: Bridge, values: Values, repeater: Repeater, *, in_place: bool
    ) -> None:
        self._memory = memory
        self._bridge = bridge
        self._values = values
        self._repeater = repeater
        self._in_place = in_place
        self._lock = threading.RLock()
        self.is_closed = False

    def run(self, func: Callable[..., Any], effect: Effect, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What an operator gives. Raises BudgetExceededError where there is no room for it, and what it raises."""
        with self._lock:
            tensors = tensors_of(args, kwargs)
            plain = [t for t in tensors if is_plain(t)]
            is_patient = not effect.writes and (effect.is_backward or not effect.statistics) and not effect.is_moving
            kind = (EXPENSIVE if effect.is_expensive else CHEAP) + PATIENT * is_patient
            values = self._lock_values(plain, kind)
            numbers = [value.number for value in values.values()]
            with self._ending(effect.name, values):
                self._repeater.make_resident(numbers)
                call = _Call(
                    *(func, effect, args, kwargs, values),
                    written=self._values_of(effect.written(args, kwargs)),
                    statistics=self._values_of(effect.written_statistics(args, kwargs)),
                    is_plain=len(plain) == len(tensors),
                    kind=kind,
                )
                return self._run(call, numbers)

    def spare_gradient(self, gradient: torch.Tensor) -> None:
        """Evict the gradient of a leaf last: it takes a whole backward pass to make it again."""
        with self._lock:
            self._values.sweep()
            value = self._values.of(gradient) if is_plain(gradient) else None
            if value is not None and value.recipe is not None:
                self._memory.spare(value.number)

    @contextmanager
    def reading(self, tensor: torch.Tensor) -> Iterator[None]:
        """A context in which the memory of a tensor is there, for a function that reads it by itself.

        Raises BudgetExceededError where there is no room for it.
        """
        with self._lock:
            values = self._lock_values([tensor] if is_plain(tensor) else [], CHEAP)
            with self._ending("reading a tensor", values):
                with _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001
                    self._repeater.make_resident(values)
                yield

    def expose(self, tensor: torch.Tensor, *, is_writable: bool = True) -> None:
        """Something that is no operator will read, or write, the memory of this tensor at any time: keep it.

        Raises BudgetExceededError where there is no room for it.
        """
        with self.reading(tensor), _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001
            self._expose(self._values_of([tensor]), is_writable=is_writable)

    def finish(self) -> None:
        """Make everything again that the program holds and that is evicted. There is no budget any more.

        Raises what an operator raises, once the others have run.
        """
        with self._lock:
            self.is_closed = True
            failed: Exception | None = None
            for value in self._values.held():
                self._values.sweep()
                if self._values.storage_of(value) is None or self._memory.lock([value.number]) < 0:
                    continue
                try:
                    with self._ending("the end of the context", {value.number: value}):
                        self._repeater.make_resident([value.number])
                except Exception as e:  # noqa: BLE001 - of any operator
                    failed = e
            if failed is not None:
                raise failed

    @contextmanager
    def _ending(self, name: str, values: dict[int, Value]) -> Iterator[None]:
        """Unlock the values after an operator, and raise the error that says why it had no room."""
        error: BaseException | None = None
        try:
            yield
        except (RuntimeError, MemoryError) as e:
            clear_frames(e.__traceback__)  # which have storages of values that nobody needs now
            error = self._shortage(name, values.values())
            if error is None:
                raise
        finally:
            self._memory.unlock(list(values))
            self._repeater.release()
        if error is not None:
            raise error

    def _lock_values(self, tensors: list[torch.Tensor], kind: int) -> dict[int, Value]:
        """The values that tensors lie in, by their storages' numbers, locked: they are not forgotten meanwhile."""
        while True:
            self._values.sweep()
            found = [value for tensor in tensors if (value := self._values.of(tensor)) is not None]
            values = {value.number: value for value in found}
            if self._memory.lock(list(values), kind) >= 0:
                return values

    def _values_of(self, tensors: list[torch.Tensor]) -> list[Value]:
        """The values that locked tensors lie in."""
        return [v for tensor in tensors if is_plain(tensor) and (v := self._values.of(tensor)) is not None]

    def _run(self, call: _Call, numbers: list[int]) -> Any:
        """Run an operator whose arguments are in memory and locked."""
        changed = call.changed
        for value in changed:
            if value.recipe is None:
                self._repeater.settle(value)
        copied = set() if self._in_place else {v.number for v in changed if self._copy(v)}
        blocks = [self._block(value) for value in changed]
        generator = call.kwargs.get("generator") or torch.default_generator
        state = generator.get_state() if call.effect.is_random else None
        settings = Settings.now()
        self._memory.lock([], call.kind)  # what was made again before it made requests of other kinds
        start = time.perf_counter_ns()
        try:
            result = call.func(*call.args, **call.kwargs)
        except RuntimeError as e:
            if changed or call.effect.is_moving or self._memory.take_refusal() is None:
                self._give_up(changed, copied)
                raise
            clear_frames(e.__traceback__)
            self._memory.clear()
            if state is not None:
                generator.set_state(state)
            start = time.perf_counter_ns()
            result = call.func(*call.args, **call.kwargs)
        except BaseException:
            self._give_up(changed, copied)
            raise
        cost = time.perf_counter_ns() - start
        moved = [value for value, block in zip(changed, blocks, strict=True) if self._block(value) != block]
        for value in moved:
            self._values.move_away(value)
        if moved or not self._is_repeatable(call, result):
            for value in changed:
                if value not in moved:
                    self._make_constant(value, copied)
            self._memory.touch(cost, numbers)
            self._note_constants(storages_in(result))
            if not all(is_plain(tensor) for tensor in results_in(result)):
                self._expose(call.values.values(), is_writable=True)
        else:
            kept = None if state is None else bytes(state.numpy())
            self._note(call, result, copied, Recipe(call.func, [], {}, (), [], {}, settings, kept, cost))
        return result

    def _give_up(self, changed: list[Value], copied: set[int]) -> None:
        """After an operator that failed: it may have written a part."""
        for value in changed:
            self._make_constant(value, copied)

    def _is_repeatable(self, call: _Call, result: Any) -> bool:
        """Whether what an operator made may be evicted, because it gives the same when it runs again."""
        if not (call.effect.is_repeatable and call.is_plain) or is_accumulating():
            return False
        if any(value.recipe is None or value.versions >= _MOST_VERSIONS for value in call.written):
            return False
        if any(value.is_exposed for value in call.values.values()):
            return False
        if call.effect.is_random:
            made = sum(s.nbytes() for s in storages_in(result) if not self._values.is_known(s))
            if made + sum(value.size for value in call.written) < _LEAST_RANDOM:
                return False
        return True

    def _note(self, call: _Call, result: Any, copied: set[int], recipe: Recipe) -> None:
        """Note an operator that ran, what it made, and how that is made again."""
        unused = {value.number for value in call.statistics}
        changed_statistics = () if call.effect.is_backward else call.statistics
        reads = [number for number in call.values if number not in unused]
        fresh = [storage for storage in storages_in(result) if not self._values.is_known(storage)]
        made = [(storage, self._evictable_block(storage, result)) for storage in fresh]
        rows: list[tuple[int, int | None, int]] = []
        rows += [(-1, block, storage._cdata) for storage, block in made if block is not None]  # noqa: SLF001
        written = [value for value in call.written if value.number not in unused]
        for value in written:
            is_copy = value.number in copied
            rows.append((-1, self._block(value), value.storage or 0) if is_copy else (value.number, None, 0))
        self._note_constants(storage for storage, block in made if block is None)
        if not rows:
            self._memory.touch(recipe.cost, reads)
            for value in changed_statistics:
                self._make_constant(value, copied)
            return
        recipe.args = [frozen(argument, lambda t: self._slot(t, unused)) for argument in call.args]
        recipe.kwargs = {name: frozen(a, lambda t: self._slot(t, unused)) for name, a in call.kwargs.items()}
        recipe.reads = tuple(reads)
        numbers = iter(self._memory.ran(recipe.cost, reads, rows))
        for position, (storage, block) in enumerate(made):
            number = next(numbers) if block is not None else None
            recipe.results.append(number)
            if number is not None:
                self._values.add(number, storage, recipe, position)
        for value in written:
            number = next(numbers)
            recipe.written[value.number] = len(recipe.results)
            self._values.replace(value, number, recipe, len(recipe.results))
            recipe.results.append(number)
        for value in changed_statistics:
            self._make_constant(value, copied)

    def _note_constants(self, storages: Iterable[torch.UntypedStorage]) -> None:
        """Note results that cannot be made again: their blocks may be moved, as workspace may not."""
        for storage in storages:
            block = self._bridge.memory_of(storage._cdata)  # noqa: SLF001
            if block is not None and self._memory.holds(block) and not self._values.is_known(storage):
                self._values.of_storage(storage)

    def _slot(self, tensor: torch.Tensor, unused: set[int]) -> Slot:
        value = self._values.of(tensor)
        if value is None:
            return Slot.of(tensor, -1)
        if value.number in unused:
            return Slot.of(tensor, -1, is_scratch=True)
        return Slot.of(tensor, value.number)

    def _evictable_block(self, storage: torch.UntypedStorage, result: Any) -> int | None:
        """The block of a storage that an operator made, None if it has to stay where it is."""
        if storage.nbytes() <= _MOST_INTEGERS:
            of = next(t for t in results_in(result) if t.untyped_storage()._cdata == storage._cdata)  # noqa: SLF001
            if not (of.is_floating_point() or of.is_complex()):
                return None
        block = self._bridge.memory_of(storage._cdata)  # noqa: SLF001
        return block if block is not None and self._memory.holds(block) else None

    def _block(self, value: Value) -> int | None:
        """Where the storage of a value lies."""
        return None if value.storage is None else self._bridge.memory_of(value.storage)

    def _copy(self, value: Value) -> bool:
        """Before a value that can be made again is written: its storage gets a copy. Whether it has one."""
        storage = self._values.storage_of(value)
        if value.recipe is None or storage is None:
            return False
        copy = copied(storage)
        self._bridge.swap(storage._cdata, copy._cdata)  # noqa: SLF001
        return True

    def _make_constant(self, value: Value, copied: set[int]) -> None:
        """What lies in the storage of this value now cannot be made again."""
        if value.number in copied:
            self._values.move_away(value)
        else:
            self._values.make_constant(value)

    def _expose(self, values: Iterable[Value], *, is_writable: bool) -> None:
        """Something else knows the memory of these values, which are in memory and locked, and may write it.

        What was made from a value by then is made again from that, and not from what lies in its storage.
        """
        for value in values:
            if value.recipe is None:
                if is_writable:
                    self._repeater.settle(value)
                    value.is_exposed = True
                self._memory.fix(value.number)
                continue
            if self._in_place:
                found = self._values.make_constant(value)
            else:
                storage = self._values.storage_of(value)
                assert storage is not None
                self._copy(value)
                self._values.move_away(value)
                found = self._values.of_storage(storage)
            found.is_exposed = True
            self._memory.fix(found.number)

    def _shortage(self, name: str, values: Iterable[Value]) -> BudgetExceededError | None:
        """The error for a request that was refused since the last one; None if there was none."""
        counts = self._memory.take_refusal()
        if counts is None:
            return None
        inputs = sum(value.size for value in values)
        return BudgetExceededError(
            f"{name} does not fit into the budget of {counts.budget:,} bytes: its inputs have {inputs:,} bytes, "
            f"with its other results, workspace and what cannot be made again {counts.refused_fixed:,} bytes cannot be "
            f"evicted, and it asks for {counts.refused_bytes:,} more in one piece; give a larger budget or a smaller "
            "batch",
            required=counts.refused_fixed + counts.refused_bytes,
            available=counts.budget,
            op=name,
        )
