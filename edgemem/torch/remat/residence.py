"""Keeps values in memory while something uses them, and says why they do not fit."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from traceback import clear_frames
from typing import TYPE_CHECKING

from edgemem.errors import BudgetExceededError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from edgemem.replay.remat import BudgetMemory
    from edgemem.torch.remat.repeater import Repeater
    from edgemem.torch.remat.values import Value, Values

__all__ = ["Residence"]


class Residence:
    """Values that are in use, by one thread at a time.

    Args:
        memory: that they lie in.
        values: of the program.
        repeater: of evicted values.

    Attributes:
        lock: of everything that the context knows. Its thread may take it again.
        is_closed: the context ends, and nothing more is evicted.
    """

    def __init__(self, memory: BudgetMemory, values: Values, repeater: Repeater) -> None:
        self.lock = threading.RLock()
        self.is_closed = False
        self._memory = memory
        self._values = values
        self._repeater = repeater
        self._uses: Counter[int] = Counter()
        self._depth = 0

    @contextmanager
    def using(self, name: str, storages: Iterable[torch.UntypedStorage], kind: int) -> Iterator[dict[int, Value]]:
        """A context in which the values of these storages are in memory, by number, each once. Needs the lock.

        Args:
            name: of what uses them, for an error.
            storages: of the program.
            kind: of the requests that it makes.

        Raises:
            BudgetExceededError: there is no room for them, or for what is asked for within the context.
        """
        values = self._locked(list(storages), kind)
        self._depth += 1
        self._uses.update(values.keys())
        error: BaseException | None = None
        try:
            self._repeater.make_resident(values)
            yield values
        except (RuntimeError, MemoryError) as e:
            clear_frames(e.__traceback__)  # which have storages of values that nobody needs now
            error = self.shortage(name, values.values())
            if error is None:
                raise
        finally:
            self._depth -= 1
            self._uses.subtract(values.keys())
            if not self._depth:
                self._uses.clear()
            self._memory.unlock(list(values))
            self._repeater.release()
        try:
            if error is not None:
                raise error
        finally:
            del error  # it has the frames of the program, and with them its tensors

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in use."""
        return not self._depth

    def uses(self, value: Value) -> int:
        """How often a value is in use now."""
        return self._uses[value.number]

    def _locked(self, storages: list[torch.UntypedStorage], kind: int) -> dict[int, Value]:
        """The values, locked: they are not forgotten meanwhile."""
        while True:
            self._values.sweep()
            found = [value for storage in storages if (value := self._values.at(storage)) is not None]
            values = {value.number: value for value in found}
            if self._memory.lock(list(values), kind) >= 0:
                return values

    def shortage(self, name: str, values: Iterable[Value]) -> BudgetExceededError | None:
        """The error for a request that was refused since the last one; None if there was none."""
        counts = self._memory.take_refusal()
        if counts is None:
            return None
        inputs = sum(value.size for value in values)
        required = counts.refused_fixed + counts.refused_bytes
        return BudgetExceededError(
            f"{name} does not fit into the budget of {counts.budget:,} bytes: its inputs have {inputs:,} bytes, "
            f"with its other results, workspace and what cannot be made again {counts.refused_fixed:,} bytes cannot be "
            f"evicted, and it asks for {counts.refused_bytes:,} more in one piece; give a larger budget (this "
            f"operator alone needs {required:,} bytes) or a smaller batch",
            required=required,
            available=counts.budget,
            op=name,
        )
