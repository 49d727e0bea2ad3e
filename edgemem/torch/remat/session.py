"""`rematerialize`: the context in which a program runs under a budget of memory."""

from __future__ import annotations

from contextlib import ExitStack
from operator import index
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanError, RuntimeBindError
from edgemem.remat.policies import Policy, find_policy
from edgemem.replay.remat import BudgetMemory
from edgemem.targets.units import parse_size
from edgemem.torch.bridge import bridge
from edgemem.torch.remat.operators import OperatorMode, Operators
from edgemem.torch.remat.raw_access import RawAccessMode
from edgemem.torch.remat.repeating import Repeater
from edgemem.torch.remat.statistics import RematerializationStats
from edgemem.torch.remat.values import Values

if TYPE_CHECKING:
    from types import TracebackType

    import torch

__all__ = ["Rematerialization", "rematerialize"]

_MOST_BYTES: Final = 1 << 46


def rematerialize(
    budget: int | str | None = None, *, policy: str | Policy = "coop", poison: bool = False
) -> Rematerialization:
    """A context in which a program of PyTorch on the CPU runs under a budget of memory.

        with edgemem.torch.rematerialize(budget="2GiB") as memory:
            loss = step(batch)
        print(memory.stats)

    Results that do not fit are evicted, and made again by their operators when they are needed. Gradients are those of
    the program without a budget, bit for bit. Everything that PyTorch's allocator is asked for inside the context
    counts, temporary memory too, so that its peak is at most the budget; what was there before, such as parameters,
    does not. When the context ends, what the program still holds and was evicted is made again, without regard to the
    budget.

    Tensors of the context are to be used on the thread that opened it, and by operators of PyTorch; `numpy()`,
    `tolist()` and the like work too. Other code that reads their memory needs `keep`. Operators of other libraries are
    run, but what they make is not evicted. Settings of PyTorch for the whole process must not change meanwhile.

    Args:
        budget: bytes, or a size such as "2GiB"; None measures only.
        policy: of `edgemem.remat.policies`, by name: "coop", "dtr", "dte" and others.
        poison: fill all memory that is served with a pattern, to find reads of what was never written.

    Raises:
        PlanError: the budget is no size above 0, or above 2**46 bytes.
        UnknownStrategyError: there is no such policy.
    """
    return Rematerialization(None if budget is None else _bytes_of(budget), find_policy(policy), poison=poison)


def _bytes_of(budget: int | str) -> int:
    """A budget in bytes."""
    try:
        size = parse_size(budget) if isinstance(budget, str) else index(budget)
    except TypeError:
        raise PlanError(f"a budget is a whole number of bytes or a size such as '2GiB', not {budget!r}") from None
    if not 0 < size <= _MOST_BYTES:
        raise PlanError(
            f"a budget of {size:,} bytes is none; give one from 1 to {_MOST_BYTES:,}, or None to measure only"
        )
    return size


class Rematerialization:
    """A program under a budget of memory; `rematerialize` makes one. It may be entered once."""

    def __init__(self, budget: int | None, policy: Policy, *, poison: bool) -> None:
        self._budget = budget
        self._policy = policy
        self._poison = poison
        self._memory: BudgetMemory | None = None
        self._values: Values | None = None
        self._operators: Operators | None = None
        self._modes = ExitStack()

    @property
    def stats(self) -> RematerializationStats:
        """What happened so far; after the context, in all of it. Raises RuntimeBindError before it has begun."""
        if self._memory is None:
            raise RuntimeBindError("the context has not begun; use it in a `with` statement")
        return RematerializationStats.of(self._memory.counts())

    def keep(self, tensor: torch.Tensor) -> None:
        """Make a tensor if it is evicted, and do not evict it: for code that reads or writes its memory by itself.

        What is made of it later is not evicted either, because its memory may change at any time.

        Raises:
            RuntimeBindError: outside the context.
            BudgetExceededError: there is no room for it.
        """
        if self._operators is None:
            raise RuntimeBindError("the context is not open; use it in a `with` statement")
        self._operators.expose(tensor)

    def __enter__(self) -> Rematerialization:  # noqa: PYI034 - subclassing is not meant
        if self._memory is not None:
            raise RuntimeBindError("the context has begun already; call `rematerialize` again")
        found = bridge()
        memory = BudgetMemory(
            self._budget, self._policy.rules, found.evict_address, found.move_address, poison=self._poison
        )
        try:
            memory.start()
            assert memory.handle is not None
            found.tell_of_ends(memory.handle)
            found.install()
        except BaseException:
            memory.close()
            raise
        self._memory = memory
        values = self._values = Values(memory, found)
        repeater = Repeater(memory, found, values, in_place=self._policy.in_place)
        self._operators = Operators(memory, found, values, repeater, in_place=self._policy.in_place)
        if self._budget is not None:
            self._modes.enter_context(RawAccessMode(self._operators))
            self._modes.enter_context(OperatorMode(self._operators))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._memory is not None
        assert self._operators is not None
        assert self._values is not None
        operators, self._operators = self._operators, None
        try:
            self._modes.close()
            self._memory.lift()
            operators.finish()
        finally:
            bridge().uninstall()
            self._memory.close()
            self._values.close()
            self._values = None
