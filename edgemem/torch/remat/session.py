"""`rematerialize`: the context in which a program runs under a budget of memory."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Final

from edgemem.errors import BudgetExceededError, PlanError, RuntimeBindError
from edgemem.remat.policies import Policy, find_policy
from edgemem.replay.remat import BudgetMemory
from edgemem.targets.units import parse_size
from edgemem.torch.bridge import bridge
from edgemem.torch.remat.access import Accesses
from edgemem.torch.remat.ends import Ends
from edgemem.torch.remat.mode import OperatorMode
from edgemem.torch.remat.operators import Operators
from edgemem.torch.remat.raw_access import RawAccess
from edgemem.torch.remat.repeater import Repeater
from edgemem.torch.remat.residence import Residence
from edgemem.torch.remat.statistics import Notes, RematerializationStats
from edgemem.torch.remat.threads import follow_threads
from edgemem.torch.remat.values import Values

if TYPE_CHECKING:
    from types import TracebackType

    import torch

__all__ = ["Rematerialization", "rematerialize"]

_MOST_BYTES: Final = 1 << 46
_REFUSED: Final = "edgemem: there is no memory for"  # in the message of cpu_allocator.cpp


def rematerialize(
    budget: int | str | None = None, *, policy: str | Policy = "coop", poison: bool = False, check: bool = False
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

    Tensors of the context are to be used by operators of PyTorch; `numpy()`, `data_ptr()`, DLPack, `tolist()` and the
    like work too, and `stats.notes` says which tensors they keep in memory. Other code that reads memory by itself
    needs `keep`. Operators of other libraries are run, but what they make is not evicted. A compiled model runs
    eagerly. Settings of PyTorch for the whole process must not change meanwhile.

    Args:
        budget: bytes, or a size such as "2GiB"; None measures only.
        policy: of `edgemem.remat.policies`, by name: "coop", "dtr", "dte" and others.
        poison: fill all memory that is served with a pattern, to find reads of what was never written.
        check: keep a digest of every result, and compare what is made again with it. Use it once, to see whether the
            operators of a program give the same bits when they run again. Without a budget, everything that can be is
            evicted before every operator: this takes time that grows with the square of the number of operators.

    Raises:
        PlanError: the budget is no size above 0, or above 2**46 bytes.
        UnknownStrategyError: there is no such policy.
        RecomputationError: inside the context or at its end, under `check`: an operator gave other bits when it ran
            again. It names the first one.
    """
    size = None if budget is None else _bytes_of(budget)
    return Rematerialization(size, find_policy(policy), poison=poison, check=check)


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

    def __init__(self, budget: int | None, policy: Policy, *, poison: bool, check: bool) -> None:
        self._budget = budget
        self._policy = policy
        self._poison = poison or check  # what an operator leaves out of its result is the same then
        self._check = check
        self._notes = Notes()
        self._memory: BudgetMemory | None = None
        self._values: Values | None = None
        self._operators: Operators | None = None
        self._accesses: Accesses | None = None
        self._residence: Residence | None = None
        self._modes = Ends()
        self._ends = Ends()

    @property
    def stats(self) -> RematerializationStats:
        """What happened so far; after the context, in all of it. Raises RuntimeBindError before it has begun."""
        if self._memory is None:
            raise RuntimeBindError("the context has not begun; use it in a `with` statement")
        return RematerializationStats.of(self._memory.counts(), self._notes)

    def keep(self, tensor: torch.Tensor) -> None:
        """Make a tensor if it is evicted, and do not evict it: for code that reads or writes its memory by itself.

        What is made of it later is not evicted either, because its memory may change at any time.

        Raises:
            RuntimeBindError: outside the context.
            BudgetExceededError: there is no room for it.
        """
        if self._accesses is None:
            raise RuntimeBindError("the context is not open; use it in a `with` statement")
        self._accesses.expose(tensor, "keep")

    def __enter__(self) -> Rematerialization:  # noqa: PYI034 - subclassing is not meant
        if self._memory is not None:
            raise RuntimeBindError("the context has begun already; call `rematerialize` again")
        try:
            self._begin()
            return self
        except BaseException:
            self._ends.close()
            raise

    def _begin(self) -> None:
        """Take the memory and enter the modes; `_ends` knows of each before it is taken."""
        found = bridge()
        memory = BudgetMemory(
            self._budget, self._policy.rules, found.evict_address, found.move_address, poison=self._poison
        )
        values = self._values = Values(memory, found)
        self._ends.callback(values.close)
        self._ends.callback(memory.close)
        memory.start()
        found.tell_of_ends(memory.handle, is_checking=self._check)
        self._ends.callback(found.uninstall)  # of this one: no other is installed where the memory has started
        found.install()
        self._memory = memory
        in_place = self._policy.in_place
        repeater = Repeater(memory, found, values, in_place=in_place)
        residence = self._residence = Residence(memory, values, repeater)
        accesses = Accesses(memory, values, repeater, residence, self._notes, in_place=in_place)
        self._operators = Operators(
            *(memory, found, values, repeater, residence, accesses, self._notes),
            in_place=in_place,
            checks=self._check,
            evicts_all=self._check and self._budget is None,
        )
        self._accesses = accesses
        if self._budget is not None or self._check:
            self._ends.callback(found.tell_of_accesses, None)
            found.tell_of_accesses(accesses.touched)
            self._ends.callback(self._modes.close)
            RawAccess(accesses, self._modes)
            follow_threads(partial(OperatorMode, self._operators), self._modes)
            stack = ExitStack()
            self._modes.callback(stack.close)
            stack.enter_context(OperatorMode(self._operators))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            refused = self._finish(error)
        finally:
            try:
                self._ends.close()
            finally:
                self._ends.close()  # from where an exception came
        if refused is not None:
            raise refused from error

    def _finish(self, error: BaseException | None) -> BudgetExceededError | None:
        """Make what the program still holds; what to raise if a request outside of operators was refused."""
        assert self._memory is not None
        assert self._operators is not None
        assert self._residence is not None
        operators, self._operators, self._accesses = self._operators, None, None
        refused = None
        if isinstance(error, RuntimeError) and _REFUSED in str(error):
            refused = self._residence.shortage("a request of PyTorch outside of operators", ())
        self._modes.close()
        self._memory.lift()
        operators.finish()
        return refused
