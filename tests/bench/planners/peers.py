"""Other planners, where they are installed: records in, offsets out. Each is imported only when it is used.

Peers get an equivalent problem without records of size 0 and with sizes in units of the alignment, so that planners
without alignment place every record at a multiple of it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgemem.errors import MissingDependencyError, UnknownStrategyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

__all__ = ["PEERS", "Peer", "find"]

# The call that is timed; it returns a call, not timed, that reads the offsets from the answer.
Call: TypeAlias = "Callable[[], Callable[[], list[int]]]"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another planner.

    Attributes:
        name: PACKAGE/ALLOCATOR.
        distribution: the package that pip installs.
        module: the module that is imported.
        most: records above which it is left out by default, because it takes minutes or gigabytes.
        usual: whether the name of its package alone includes it.
        make: (first_op, last_op, size, seconds) -> Call; inclusive operators, sizes above 0, and a time limit for
            planners that have one.
    """

    name: str
    distribution: str
    module: str
    most: int
    usual: bool
    make: Callable[[list[int], list[int], list[int], float], Call]

    def version(self) -> str:
        """The installed version. Raises MissingDependencyError, which says what to install."""
        try:
            import_module(self.module)
        except ImportError:
            raise MissingDependencyError(self.distribution, purpose=f"the peer {self.name}") from None
        return version(self.distribution)

    def prepare(self, problem: Problem, seconds: float) -> Callable[[], Callable[[], NDArray[np.int64]]]:
        """A call to be timed; it returns a call that reads the offsets in bytes, int64 [n], from the answer."""
        used = problem.size > 0
        if not used.any():
            return lambda: lambda: np.zeros(len(problem), np.int64)
        units = -(-problem.size[used] // problem.alignment)
        call = self.make(problem.first_op[used].tolist(), problem.last_op[used].tolist(), units.tolist(), seconds)

        def timed() -> Callable[[], NDArray[np.int64]]:
            return partial(read, call())

        def read(answer: Callable[[], list[int]]) -> NDArray[np.int64]:
            offsets = np.zeros(len(problem), np.int64)
            offsets[used] = np.array(answer(), np.int64) * problem.alignment
            return offsets

        return timed


def find(text: str) -> tuple[Peer, ...]:
    """The peers that `--peers` names: `PACKAGE` for its usual planners, or `PACKAGE/ALLOCATOR`.

    Raises UnknownStrategyError with the known names, or MissingDependencyError if the package is not installed.
    """
    found = tuple(p for p in PEERS if p.name == text or (p.usual and p.name.startswith(f"{text}/")))
    if not found:
        known = dict.fromkeys(name for p in PEERS for name in (p.name.partition("/")[0], p.name))
        raise UnknownStrategyError(f"no peer {text!r}; there are {', '.join(known)}")
    for peer in found:
        peer.version()
    return found


def _omnimalloc(
    allocator: str, first: list[int], last: list[int], size: list[int], seconds: float, **options: Any
) -> Call:
    from omnimalloc import Allocation, allocators

    if options.get("timeout", 0) is None:
        options["timeout"] = seconds
    rows = tuple(Allocation(i, s, f, e + 1) for i, (s, f, e) in enumerate(zip(size, first, last, strict=True)))
    planner = getattr(allocators, allocator)(**options)

    def call() -> Callable[[], list[int]]:
        placed = planner.allocate(rows)
        return lambda: [offset for _, offset in sorted((a.id, a.offset) for a in placed)]

    return call


def _vela(first: list[int], last: list[int], size: list[int]) -> Any:
    # Vela keeps a list for each time slot. Only operators at which a record begins are slots: two records alive
    # together are alive together at one of those.
    from ethosu.vela.live_range import LiveRange

    class Range(LiveRange):  # type: ignore[misc]  # untyped
        def set_address(self, address: int) -> int:
            # The original also sets the address of the range's tensors; there are none here.
            self.address = address
            return address

    slots = np.unique(np.array(first, np.int64))
    begins = np.searchsorted(slots, first)
    ends = np.searchsorted(slots, last, side="right") - 1
    ranges = []
    for index, (begin, end, bytes_) in enumerate(zip(begins.tolist(), ends.tolist(), size, strict=True)):
        made = Range(None, 1)
        made.start_time, made.end_time, made.size, made.name = begin, end, bytes_, f"{index:09}"
        ranges.append(made)
    return ranges


def _vela_greedy(first: list[int], last: list[int], size: list[int], _seconds: float) -> Call:
    from ethosu.vela.greedy_allocation import allocate_live_ranges
    from ethosu.vela.live_range import LiveRangeGraph

    graph = LiveRangeGraph()
    graph.lrs = _vela(first, last, size)

    def call() -> Callable[[], list[int]]:
        allocate_live_ranges(graph, 1)
        return lambda: [r.address for r in graph.lrs]

    return call


def _vela_hillclimb(first: list[int], last: list[int], size: list[int], seconds: float) -> Call:
    from ethosu.vela.hillclimb_allocation import HillClimbAllocator

    class TimeIsUpError(Exception):
        pass

    class Limited(HillClimbAllocator):  # type: ignore[misc]  # untyped
        """The same steps with a limit of processor time; the original only limits iterations."""

        def attempt_bottleneck_fix(self, indices: list[int], iterations_stuck: int) -> None:
            if time.process_time() > self.deadline:
                raise TimeIsUpError
            super().attempt_bottleneck_fix(indices, iterations_stuck)

    ranges = _vela(first, last, size)

    def call() -> Callable[[], list[int]]:
        deadline = time.process_time() + seconds
        planner = Limited(ranges, None, 1 << 62)
        planner.deadline = deadline
        planner.memory_limit = planner.min_required_size  # else it stops at a size that fits a chip's memory
        with suppress(TimeIsUpError):
            planner.allocate()
        return lambda: list(planner.allocated_addresses)

    return call


def _omni(name: str, allocator: str, *, usual: bool, most: int = 10_000, **options: Any) -> Peer:
    make = partial(_omnimalloc, allocator, **options)
    return Peer(f"omnimalloc/{name}", "omnimalloc", "omnimalloc", most, usual, make)


# A timeout of None is replaced by the bench's limit. One thread, as for all solvers.
PEERS = (
    _omni("supermalloc", "SupermallocAllocator", usual=True, timeout=None, num_threads=1),
    _omni("omni", "OmniAllocator", usual=True),
    _omni("telamalloc", "TelamallocAllocator", usual=True, timeout=None),
    _omni("tabu", "TabuSearchAllocator", usual=True, timeout=None),
    _omni("hill_climb", "HillClimbAllocator", usual=False, timeout=None),
    _omni("simulated_annealing", "SimulatedAnnealingAllocator", usual=False, timeout=None),
    _omni("greedy_by_all", "GreedyByAllAllocator", usual=False, num_threads=1),
    _omni("greedy_by_size", "GreedyBySizeAllocator", usual=False, most=1_000_000),
    Peer("vela/hillclimb", "ethos-u-vela", "ethosu.vela", 10_000, True, _vela_hillclimb),
    Peer("vela/greedy", "ethos-u-vela", "ethosu.vela", 100_000, True, _vela_greedy),
)
