"""What a program asked an allocator for, what that took, and what a plan of it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import ModelError, PlanError
from edgemem.formats import load_histories
from edgemem.planning.cycle_plan import plan_cycles
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.planning.recording_plan import for_offsets
from edgemem.proof import prove
from edgemem.trace.caching import CachingSettings, simulate
from edgemem.trace.cycle import Cycle
from edgemem.trace.file import load_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.planning.cycle_plan import CyclePlan
    from edgemem.plans import PlanSet, Settings
    from edgemem.trace.caching import Simulation
    from edgemem.trace.history import MemoryHistory
    from edgemem.trace.trace import Trace

__all__ = ["LargeRequests", "TraceReport", "examine_trace"]

_OWN: Final = ".npz"
_DEVICE_ALIGNMENT: Final = 512  # bytes, of every block of PyTorch's allocator on a device
_HOST_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class LargeRequests:
    """Requests of one size from one place that are alive at the peak.

    Attributes:
        size: bytes of each.
        count: how many.
        place: line of the program, or section; "" if neither is known.
    """

    size: int
    count: int
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class TraceReport:
    """One device's trace, measured, simulated and planned.

    Attributes:
        trace: the events.
        history: what the real allocator did; None for a trace that edgemem recorded.
        simulation: what PyTorch's caching allocator would do; None if its settings cannot be simulated.
        not_simulated: why not, or "".
        planset: the plan: of the iteration that the trace repeats, or of the whole trace.
        cycle: the plan of the iteration, as a loop replays it; None for the whole trace.
        not_cyclic: why the whole trace is planned, or "".
        lower_bound: bytes that no arena can go below.
        outside: the most bytes alive at once of requests without a place in the plan.
        peak_event: the event at which the most bytes are alive.
        largest: what is alive there, the most bytes together first.
    """

    trace: Trace
    history: MemoryHistory | None
    simulation: Simulation | None
    not_simulated: str
    planset: PlanSet
    cycle: CyclePlan | None
    not_cyclic: str
    lower_bound: int
    outside: int
    peak_event: int | None
    largest: tuple[LargeRequests, ...]

    @property
    def arena(self) -> int:
        """Bytes of the planned arena."""
        best = self.planset.best_offsets
        return best.size if best else 0

    @property
    def planned(self) -> int:
        """Bytes of the arena and of what has no place in it."""
        return self.arena + self.outside

    @property
    def reserved(self) -> int | None:
        """The most bytes that the allocator held: as noted, or else as simulated."""
        if self.history is not None:
            return self.history.reserved_peak
        return None if self.simulation is None else self.simulation.reserved_peak


def examine_trace(
    path: Path,
    settings: Settings,
    *,
    device: int | None = None,
    allocator: str | None = None,
    dynamic: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> TraceReport:
    """Measure, simulate and plan a trace.

    Args:
        path: a snapshot of PyTorch (.pickle), or a trace that edgemem saved (.npz).
        settings: of the plan; the alignment is 512 bytes by default for a snapshot, which is of a device, or 64.
        device: which of a snapshot's; it may be left out where there is one.
        allocator: settings of the simulated allocator, as PYTORCH_CUDA_ALLOC_CONF has them; None is those in the file.
        dynamic: patterns of names of sections whose requests differ between iterations.
        progress: called with what is done next.

    Raises:
        ModelError: the file cannot be read, there is no such device, or it is not said which; the settings of the
            allocator are wrong.
        UnknownStrategyError, PlanError: as `edgemem.planning.make_plans`.
    """
    history = None if path.suffix.lower() == _OWN else _of_device(load_histories(path), device, path.name)
    trace = load_trace(path) if history is None else history.trace
    if not len(trace):
        raise ModelError(f"{path.name} has no requests; record while the program runs")
    default = _HOST_ALIGNMENT if history is None else _DEVICE_ALIGNMENT
    settings = replace(settings, alignment=settings.alignment or default)
    progress("simulating")
    simulation, not_simulated = _simulated(trace, history, allocator)
    progress("planning")
    cycle, not_cyclic = _cycle(trace, dynamic, by_stream=history is not None)
    made = None if cycle is None else plan_cycles([cycle], settings)
    planset = made.plansets[0] if made else _whole(trace, settings, progress)
    event, largest = _peak(trace, history)
    return TraceReport(
        trace=trace,
        history=history,
        simulation=simulation,
        not_simulated=not_simulated,
        planset=planset,
        cycle=made,
        not_cyclic=not_cyclic,
        lower_bound=made.lower_bound if made else planset.bounds.offsets,
        outside=0 if cycle is None else _most_alive(trace, ~_has_place(trace, cycle)),
        peak_event=event,
        largest=largest,
    )


def _of_device(histories: Sequence[MemoryHistory], device: int | None, name: str) -> MemoryHistory:
    numbers = [history.device for history in histories]
    if not numbers:
        raise ModelError(f"{name} has no memory in it; take a snapshot while the program runs")
    if device is None and len(numbers) > 1:
        raise ModelError(f"{name} is of the devices {numbers}; choose one with --device")
    if device is not None and device not in numbers:
        raise ModelError(f"{name} has no device {device}; there are {numbers}")
    return histories[0 if device is None else numbers.index(device)]


def _simulated(trace: Trace, history: MemoryHistory | None, allocator: str | None) -> tuple[Simulation | None, str]:
    noted = history.settings if history is not None else ""
    try:
        return simulate(trace, CachingSettings.parse(noted if allocator is None else allocator)), ""
    except ModelError as e:
        if allocator is not None:
            raise
        return None, str(e)


def _cycle(trace: Trace, dynamic: Sequence[str], *, by_stream: bool) -> tuple[Cycle | None, str]:
    """The iteration that the trace repeats; None and why if it repeats none, or nothing in it can be planned."""
    if not (trace.iteration >= 0).any():
        return None, "it has no iterations"
    try:
        cycle = Cycle.of(trace, dynamic=dynamic, by_stream=by_stream)
    except ModelError as e:
        return None, str(e)
    if not len(cycle.planned):
        return None, "nothing is made and freed in its iterations"
    return replace(cycle, device="cuda" if by_stream else "cpu"), ""


def _whole(trace: Trace, settings: Settings, progress: Callable[[str], None]) -> PlanSet:
    problem = trace.problem(alignment=settings.alignment or _HOST_ALIGNMENT, outlive=True)
    made = plan_with_settings(problem, for_offsets(settings), families=("offsets",), quick=True, progress=progress)
    best = made.best_offsets
    if best is None:
        raise PlanError("there is no offset plan; choose a strategy for offsets")
    return prove(replace(made, offsets=(best,), shared_objects=())).planset


def _has_place(trace: Trace, cycle: Cycle) -> NDArray[np.bool_]:
    """Whether each request of the trace is like one with a place: of an iteration, static, and freed.

    What the last two iterations made and did not free counts as freed later.
    """
    made, ends = trace.requests, trace.ends
    iteration = trace.iteration[made]
    marked = set(cycle.section[cycle.is_dynamic].tolist())
    is_dynamic = np.array([*(k in marked or s.is_dynamic for k, s in enumerate(trace.sections)), False])
    is_late = iteration >= iteration.max(initial=-1) - 1
    placed: NDArray[np.bool_] = (iteration >= 0) & ~is_dynamic[trace.section[made]] & ((ends >= 0) | is_late)
    return placed


def _most_alive(trace: Trace, chosen: NDArray[np.bool_]) -> int:
    """The most bytes alive at once of the chosen requests."""
    sizes = np.where(chosen, trace.size[trace.requests], 0)
    change = np.where(trace.size > 0, sizes[trace.request], -sizes[trace.request])
    return int(np.cumsum(change).max(initial=0))


def _peak(trace: Trace, history: MemoryHistory | None) -> tuple[int | None, tuple[LargeRequests, ...]]:
    """The event at which the most bytes are alive, and what is alive there."""
    sizes, made, ends = trace.size[trace.requests], trace.requests, trace.ends
    alive = np.cumsum(np.where(trace.size > 0, trace.size, -sizes[trace.request]))
    event = int(alive.argmax())
    peak = np.flatnonzero((made <= event) & ((ends < 0) | (ends > event)))
    labels = np.full(len(peak), -1) if history is None else history.label[peak]
    groups: Counter[tuple[int, str]] = Counter()
    for size, label, section in zip(
        sizes[peak].tolist(), labels.tolist(), trace.section[made[peak]].tolist(), strict=True
    ):
        name = trace.sections[section].name if section >= 0 else ""
        groups[size, history.labels[label] if history is not None and label >= 0 else name] += 1
    rows = [LargeRequests(size, count, place) for (size, place), count in groups.items()]
    return event, tuple(sorted(rows, key=lambda r: (-r.size * r.count, -r.size, r.place)))
