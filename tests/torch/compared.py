"""Runs random programs within a budget and without one, and says what differs.

    python -m tests.torch.compared [--minutes 5] [--seed 0] [--policy coop ...] [--share 0.7 ...]

runs programs until the time is over, and reduces each that fails to the instructions which are needed for that.
"""

from __future__ import annotations

import argparse
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import edgemem.torch
from edgemem.errors import BudgetExceededError
from tests.torch.programs import Program, make_program, reduced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.torch.program_run import Run

__all__ = ["POLICIES", "SHARES", "failure", "peak_of_program"]

POLICIES: Final = ("coop", "dtr", "dte")
SHARES: Final = (0.9, 0.7, 0.5, 0.35)  # of the peak without a budget
_WRITERS: Final = ("batch_norm",)  # operators that write into arguments and do not declare it


class StoppedError(Exception):
    """A program was ended before one of its operators."""


class _Operators(TorchDispatchMode):
    """Counts the operators of a program, and ends it before one of them.

    Attributes:
        count: operators so far.
        is_refused: the last one had no room.
        written: memory that the operator before which the program ended may write into.
        is_random: that operator takes random numbers.
    """

    def __init__(self, stop_at: int = -1) -> None:
        super().__init__()
        self.count = 0
        self.written: set[int] = set()
        self.is_random = False
        self._stop_at = stop_at
        self.is_refused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if self.count == self._stop_at:
            if func._schema.is_mutable or any(name in str(func) for name in _WRITERS):
                leaves = tree_leaves((args, kwargs))
                self.written = {t.untyped_storage()._cdata for t in leaves if isinstance(t, torch.Tensor)}
            self.is_random = torch.Tag.nondeterministic_seeded in func.tags
            raise StoppedError
        if self.is_refused:
            return func(*args, **(kwargs or {}))  # on the way out, such as the end of a profiler's range
        self.count += 1
        try:
            return func(*args, **(kwargs or {}))
        except BudgetExceededError:
            self.is_refused = True
            raise


def peak_of_program(program: Program) -> int:
    """Bytes of all tensors at the peak of a program, without a budget."""
    with edgemem.torch.rematerialize(budget=None) as memory:
        program.proceed(program.begin())
    peak: int = memory.stats.peak
    return peak


def failure(program: Program, budget: int | None, policy: str = "coop") -> str | None:
    """What is wrong with a program within a budget; None if it computes what PyTorch computes.

    A program that its budget has ended has to leave everything as PyTorch leaves it when it ends before the same
    operator.
    """
    run, memory = program.begin(), _memory(budget, policy)
    try:
        program.proceed(run, memory)
    except BudgetExceededError as e:
        return _failure_of_end(program, budget, policy) if e.available == budget else f"the error says {e.available}"
    peak = memory.stats.peak
    if budget is not None and peak > budget:
        return f"peak of {peak:,} bytes within {budget:,}"
    plain = program.begin()
    program.proceed(plain, _Operators())  # PyTorch adds gradients up in another way where any mode is active
    return _difference(run, plain)


def _memory(budget: int | None, policy: str) -> Any:
    """The context; memory that holds nothing is dirty there."""
    return edgemem.torch.rematerialize(budget=budget, policy=policy, poison=True)


def _failure_of_end(program: Program, budget: int | None, policy: str) -> str | None:
    """The same for a program that the budget has ended."""
    run, inside = program.begin(), _Operators()
    with suppress(BudgetExceededError):
        program.proceed(run, _both(_memory(budget, policy), inside))
    if not inside.is_refused:
        return None  # what had no room was a read between two operators
    plain, outside = program.begin(), _Operators(inside.count - 1)
    with suppress(StoppedError):
        program.proceed(plain, outside)
    return _difference(run, plain, outside)


@contextmanager
def _both(memory: Any, operators: _Operators) -> Iterator[None]:
    with memory, operators:
        yield


def _difference(run: Run, plain: Run, end: _Operators | None = None) -> str | None:
    """Which tensors differ, but for what the operator at the end may have written into."""
    left_out: set[int] = set()
    if end is not None:
        held = plain.held()
        left_out = {k for k, t in enumerate(held) if t is not None and t.untyped_storage()._cdata in end.written}
        left_out |= {len(held) - 1, len(held) - 2} if end.is_random else set()
    found, expected = run.result(), plain.result()
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    wrong = [k for k in range(len(found)) if k not in left_out and found[k] != expected[k]]
    return f"results {wrong} of {len(found)} differ" if wrong else None


def _outcome(program: Program, share: float, policy: str) -> str | None:
    """What is wrong with a program within a share of its peak; also an error that it should not meet."""
    try:
        return failure(program, int(share * peak_of_program(program)) or None, policy)
    except Exception:  # noqa: BLE001 - it is what is looked for
        return traceback.format_exc()


def _fails(program: Program, *, share: float, policy: str) -> bool:
    return _outcome(program, share, policy) is not None


def main() -> None:
    """Run programs until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--share", type=float, nargs="+", default=SHARES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    end, seed, found = time.monotonic() + 60 * args.minutes, args.seed, 0
    while time.monotonic() < end:
        random = Random(seed)
        share, policy = random.choice(args.share), random.choice(args.policy)
        program = make_program(seed)
        said = _outcome(program, share, policy)
        if said is not None:
            found += 1
            smallest = reduced(program, partial(_fails, share=share, policy=policy))
            print(
                f"seed {seed}, {policy} at {share}: {said}\n{smallest}\n{_outcome(smallest, share, policy)}", flush=True
            )
        seed += 1
    print(f"{seed - args.seed} programs, {found} failed", flush=True)


if __name__ == "__main__":
    main()
