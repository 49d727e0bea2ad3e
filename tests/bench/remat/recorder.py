"""`record_operators`: what a program of PyTorch ran, for a simulation under budgets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from edgemem.torch.remat.effects import effect_of, is_accumulating
from edgemem.torch.remat.recipes import tensors_of
from edgemem.torch.remat.results import is_plain, storage_of, storages_in
from tests.bench.remat.operator_log import APPEARS, LETS_GO, PINS, RUNS, SPARES, OperatorLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["record_operators"]


def record_operators(
    step: Callable[..., object], *args: Any, warmup: int = 1, count_inputs: bool = True, **kwargs: Any
) -> OperatorLog:
    """What one call of `step` ran: its operators with their time, the values that they read and made, and their ends.

        log = edgemem.torch.record_operators(step, batch)
        print(tests.bench.remat.simulation.simulate(log, budget=log.peak // 2, policy="coop"))

    Only tensors in host memory count. Storages that were there before are constants from their first use on. An
    operator that writes several storages, as those of optimizers do, is one call for each of them, with an equal part
    of its time. Running statistics of batch normalisation are left out: `rematerialize` does not compute them again.
    As in `rematerialize`, results of operators that may not run again are pinned, and gradients of leaves are spared.

    Args:
        step: what is run.
        args: for `step`.
        warmup: calls of `step` before the one that is recorded.
        count_inputs: whether storages that were there before have bytes; in `rematerialize` they do not count.
        kwargs: for `step`.
    """
    for _ in range(warmup):
        step(*args, **kwargs)
    with _Recorder(count_inputs=count_inputs) as recorder:
        kept = step(*args, **kwargs)
    recorder.sweep()
    log: OperatorLog = recorder.log()
    del kept
    return log


class _Recorder(TorchDispatchMode):
    """Notes operators, and when the storages of their values end."""

    def __init__(self, *, count_inputs: bool) -> None:
        super().__init__()
        self._count_inputs = count_inputs
        self._names: dict[str, int] = {}
        self._calls: list[tuple[int, int, list[int], list[int], int]] = []
        self._sizes: list[int] = []
        self._events: list[tuple[int, int]] = []
        self._values: dict[int, int] = {}  # by storage, of which there is a weak reference: its number stays its own

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        effect = effect_of(func)
        if effect.is_view:
            if effect.is_detached and is_accumulating():
                self._keep(SPARES, [storage_of(args[0])])
            return func(*args, **kwargs)
        self.sweep()
        unused = {_key(t) for t in effect.written_statistics(args, kwargs)}
        given = [t for t in tensors_of(args, kwargs) if is_plain(t) and _key(t) not in unused]
        reads = list(dict.fromkeys(self._read(storage_of(t)) for t in given if storage_of(t).nbytes()))
        written = list(dict.fromkeys(_key(t) for t in effect.written(args, kwargs) if is_plain(t)))
        start = time.perf_counter_ns()
        result = func(*args, **kwargs)
        cost = time.perf_counter_ns() - start
        made = [s for s in storages_in(result) if s._cdata not in self._values and s._cdata not in unused]
        self._note(effect.name, cost, reads, [key for key in written if key in self._values], made)
        if not effect.is_repeatable or is_accumulating():
            self._keep(PINS, storages_in(result))
        return result

    def sweep(self) -> None:
        """Note the ends of storages."""
        gone = [key for key in self._values if torch.UntypedStorage._expired(key)]
        for key in gone:
            self._events.append((LETS_GO, self._values.pop(key)))
            torch.UntypedStorage._free_weak_ref(key)

    def log(self) -> OperatorLog:
        """All that was noted."""
        for key in self._values:
            torch.UntypedStorage._free_weak_ref(key)
        self._values.clear()
        return OperatorLog.from_columns(
            names=list(self._names),
            name=[call[0] for call in self._calls],
            cost=[call[1] for call in self._calls],
            reads=[call[2] for call in self._calls],
            writes=[call[3] for call in self._calls],
            takes=[call[4] for call in self._calls],
            size=self._sizes,
            event_kind=[kind for kind, _ in self._events],
            event_index=[index for _, index in self._events],
        )

    def _read(self, storage: torch.UntypedStorage) -> int:
        """The value of a storage, a constant if it is not known."""
        found = self._values.get(storage._cdata)
        if found is None:
            found = self._add(storage, is_counted=self._count_inputs)
            self._events.append((APPEARS, found))
        return found

    def _add(self, storage: torch.UntypedStorage, *, is_counted: bool = True) -> int:
        self._values[storage._weak_ref()] = number = len(self._sizes)
        self._sizes.append(storage.nbytes() if is_counted else 0)
        return number

    def _keep(self, kind: int, storages: Iterable[torch.UntypedStorage]) -> None:
        """Note that what storages hold is pinned or spared."""
        keys = [storage._cdata for storage in storages]
        self._events += [(kind, self._values[key]) for key in keys if key in self._values]

    def _note(
        self, name: str, cost: int, reads: list[int], written: list[int], made: list[torch.UntypedStorage]
    ) -> None:
        """Note an operator that read values, wrote storages that were there, and made others."""
        olds = {key: self._values[key] for key in written}
        parts = max(1, len(olds))
        for k in range(parts):
            key = written[k] if olds else None
            others = set(olds.values()) - ({olds[key]} if key is not None else set())
            writes: list[int] = []
            if key is not None:
                self._values[key] = len(self._sizes)
                writes.append(len(self._sizes))
                self._sizes.append(self._sizes[olds[key]])
            if k == 0:
                writes += [self._add(storage) for storage in made]
            self._events.append((RUNS, len(self._calls)))
            number = self._names.setdefault(name, len(self._names))
            takes = -1 if key is None else olds[key]
            self._calls.append((number, cost // parts, [v for v in reads if v not in others], writes, takes))


def _key(tensor: torch.Tensor) -> int:
    key: int = storage_of(tensor)._cdata
    return key
