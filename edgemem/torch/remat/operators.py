"""Runs the operators of a program under a budget, and notes how what they make is made again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

import torch

from edgemem.replay.remat import CHEAP, EXPENSIVE, PATIENT
from edgemem.torch.accesses import tensors_in
from edgemem.torch.remat.effects import is_accumulating
from edgemem.torch.remat.recipes import Recipe, TensorArgument, ThreadSettings, frozen, tensors_of
from edgemem.torch.remat.results import (
    copied,
    has_others,
    is_plain,
    is_seen_whole,
    storage_of,
    storages_in,
    storages_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.bridge import Bridge
    from edgemem.torch.remat.access import Accesses
    from edgemem.torch.remat.effects import Effect
    from edgemem.torch.remat.repeater import Repeater
    from edgemem.torch.remat.residence import Residence
    from edgemem.torch.remat.statistics import Notes
    from edgemem.torch.remat.values import Value, Values

__all__ = ["Operators"]

# A generator's state has 5 KiB: smaller results are kept rather than the state that would make them again.
_LEAST_RANDOM: Final = 16 << 10
# Functions that are made of several operators read lengths and indices without one, by a pointer that they keep between
# two operators: results of so few bytes are neither evicted nor moved.
_MOST_INTEGERS: Final = 16 << 10
# Operators in a row that write one storage. With more it would take too long to make the last version again.
_MOST_VERSIONS: Final = 1000


@dataclass(slots=True)
class _Call:
    """An operator that is about to run, or has run.

    `values` are those that its arguments lie in, by storage; `statistics` are running statistics that its results do
    not depend on. `is_plain`: all its arguments are tensors in host memory and nothing else, and those that it writes
    have memory. `kind`: of its requests.
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
        residence: of values in use.
        accesses: that are no operators.
        notes: for the user.
        in_place: what an operator writes in place stays where it is; False: it is copied before, as in DTR.
        checks: digests of results are kept.
        evicts_all: everything that can be is evicted before every operator.
    """

    def __init__(
        self,
        memory: BudgetMemory,
        bridge: Bridge,
        values: Values,
        repeater: Repeater,
        residence: Residence,
        accesses: Accesses,
        notes: Notes,
        *,
        in_place: bool,
        checks: bool,
        evicts_all: bool,
    ) -> None:
        self._memory = memory
        self._bridge = bridge
        self._values = values
        self._repeater = repeater
        self._residence = residence
        self._accesses = accesses
        self._notes = notes
        self._in_place = in_place
        self._checks = checks
        self._evicts_all = evicts_all

    @property
    def is_closed(self) -> bool:
        """The context ends, and nothing more is evicted."""
        return self._residence.is_closed

    def run(self, func: Callable[..., Any], effect: Effect, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What an operator gives. Raises BudgetExceededError where there is no room for it, and what it raises."""
        with self._residence.lock:
            if self._residence.is_idle:
                self._accesses.conceal()
                if self._evicts_all:
                    self._memory.clear()
            tensors = tensors_of(args, kwargs)
            is_all_plain = all(map(is_plain, tensors))
            written = effect.written(args, kwargs)
            for tensor in () if is_all_plain else written:
                if not is_plain(tensor):
                    self._accesses.expose(tensor, f"{effect.name} of a tensor that is sparse, nested or quantized")
            is_patient = not effect.writes and (effect.is_backward or not effect.statistics) and not effect.is_moving
            kind = (EXPENSIVE if effect.is_expensive else CHEAP) + PATIENT * is_patient
            with self._residence.using(effect.name, storages_of(tensors), kind) as values:
                call = _Call(
                    *(func, effect, args, kwargs, values),
                    written=self._values_of(written),
                    statistics=self._values_of(effect.written_statistics(args, kwargs)),
                    is_plain=is_all_plain and not any(map(_is_empty, written)),
                    kind=kind,
                )
                with self._values.in_use(values.values()):
                    return self._run(call, list(values))

    def give_away(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A class of tensors with memory of its own runs operators in the place of this one, maybe unseen."""
        tensors = tensors_of(args, kwargs)
        with self._residence.lock:
            if any(self._has_memory(tensor) for tensor in tensors if not is_seen_whole(type(tensor))):
                for tensor in tensors:
                    self._accesses.expose(tensor, f"{func} of a class of tensors that runs operators of its own")

    def _has_memory(self, tensor: torch.Tensor) -> bool:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return False
        storage = storage_of(tensor)
        return self._values.is_known(storage) or self._bridge.memory_of(storage._cdata) is not None  # noqa: SLF001

    def spare_gradient(self, gradient: torch.Tensor) -> None:
        """Evict the gradient of a leaf last: it takes a whole backward pass to make it again."""
        with self._residence.lock:
            self._values.sweep()
            value = self._values.of(gradient) if is_plain(gradient) else None
            if value is not None and value.recipe is not None:
                self._memory.spare(value.number)

    def finish(self) -> None:
        """Make everything again that the program holds and that is evicted. There is no budget any more.

        Raises what an operator raises, once the others have run.
        """
        with self._residence.lock:
            self._residence.is_closed = True
            failed: Exception | None = None
            for value in self._values.held():
                self._values.sweep()
                storage = self._values.storage_of(value)
                if storage is None or not self._values.is_known(storage):
                    continue
                try:
                    with self._residence.using("the end of the context", [storage], CHEAP):
                        pass
                except Exception as e:  # noqa: BLE001 - of any operator
                    failed = failed or e
            if failed is not None:
                raise failed

    def _values_of(self, tensors: list[torch.Tensor]) -> list[Value]:
        """The values that locked tensors lie in."""
        return [v for tensor in tensors if is_plain(tensor) and (v := self._values.of(tensor)) is not None]

    def _run(self, call: _Call, numbers: list[int]) -> Any:
        """Run an operator whose arguments are in memory and locked."""
        changed = call.changed
        for value in changed:
            if value.recipe is None:
                self._repeater.settle(value)
        copied = set() if self._in_place else self._copy(changed)
        blocks = [self._block(value) for value in changed]
        generator = call.effect.drawn_from(call.args, call.kwargs)
        state = None if generator is None else generator.get_state()
        settings = ThreadSettings.now()
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
            if generator is not None and state is not None:
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
            self._note_constants(storages_in(result), result)
            if has_others(result):
                self._accesses.expose_values(value for value in call.values.values() if value not in moved)
        else:
            kept = b"" if state is None else bytes(storage_of(state))
            self._note(call, result, copied, Recipe(call.func, [], {}, (), [], {}, settings, generator, kept, cost))
        return result

    def _give_up(self, changed: list[Value], copied: set[int]) -> None:
        """After an operator that failed: it may have written a part."""
        for value in changed:
            self._make_constant(value, copied)

    def _is_repeatable(self, call: _Call, result: Any) -> bool:
        """Whether what an operator made may be evicted, because it gives the same when it runs again."""
        if not (call.effect.is_repeatable and call.is_plain) or has_others(result) or is_accumulating():
            return False
        if has_outer_mode():
            self._notes.add("a mode for operators is active around the context: what is made in it is not evicted")
            return False
        if any(value.recipe is None or value.versions >= _MOST_VERSIONS for value in call.written):
            return False
        if any(self._values.is_exposed(value) for value in call.values.values()):
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
        self._note_constants((storage for storage, block in made if block is None), result)
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
                self._digest(self._values.add(number, storage, recipe, position))
        for value in written:
            number = next(numbers)
            recipe.written[value.number] = len(recipe.results)
            self._digest(self._values.replace(value, number, recipe, len(recipe.results)))
            recipe.results.append(number)
        for value in changed_statistics:
            self._make_constant(value, copied)

    def _note_constants(self, storages: Iterable[torch.UntypedStorage], result: Any) -> None:
        """Note results that cannot be made again: their blocks may be moved, as workspace and lengths may not."""
        for storage in storages:
            block = self._bridge.memory_of(storage._cdata)  # noqa: SLF001
            if block is not None and self._memory.holds(block) and not self._values.is_known(storage):
                value = self._values.of_storage(storage)
                if _has_lengths(storage, result):
                    self._memory.fix(value.number)

    def _slot(self, tensor: torch.Tensor, unused: set[int]) -> TensorArgument:
        value = self._values.of(tensor)
        if value is None:
            return TensorArgument.of(tensor, -1)
        if value.number in unused:
            return TensorArgument.of(tensor, -1, is_scratch=True)
        return TensorArgument.of(tensor, value.number)

    def _evictable_block(self, storage: torch.UntypedStorage, result: Any) -> int | None:
        """The block of a storage that an operator made, None if it has to stay where it is."""
        if _has_lengths(storage, result):
            return None
        block = self._bridge.memory_of(storage._cdata)  # noqa: SLF001
        return block if block is not None and self._memory.holds(block) else None

    def _block(self, value: Value) -> int | None:
        """Where the storage of a value lies."""
        return None if value.storage is None else self._bridge.memory_of(value.storage)

    def _copy(self, values: Iterable[Value]) -> set[int]:
        """Before values are written: the storages of those that can be made again get copies. Which do."""
        found = [(value, self._values.storage_of(value)) for value in values if value.recipe is not None]
        copies = [(value, storage, copied(storage)) for value, storage in found if storage is not None]
        for _, storage, copy in copies:  # once there is room for all
            self._bridge.swap(storage._cdata, copy._cdata)  # noqa: SLF001
        return {value.number for value, _, _ in copies}

    def _digest(self, value: Value) -> None:
        if self._checks and value.storage is not None:
            value.digest = self._bridge.digest_of(value.storage)

    def _make_constant(self, value: Value, copied: set[int]) -> None:
        """What lies in the storage of this value now cannot be made again."""
        if value.number in copied:
            self._values.move_away(value)
        else:
            self._values.make_constant(value)


def has_outer_mode() -> bool:
    """Whether another mode for operators, which may change their results, is active around the context."""
    return bool(torch._C._len_torch_dispatch_stack())  # noqa: SLF001


def _has_lengths(storage: torch.UntypedStorage, result: Any) -> bool:
    """Whether a storage of a result may have lengths or indices."""
    if storage.nbytes() > _MOST_INTEGERS:
        return False
    of = next(t for t in tensors_in(result) if storage_of(t)._cdata == storage._cdata)  # noqa: SLF001
    return not (of.is_floating_point() or of.is_complex())


def _is_empty(tensor: torch.Tensor) -> bool:
    """Whether its storage has no memory: an operator that writes it gives it some."""
    return not storage_of(tensor).nbytes()
