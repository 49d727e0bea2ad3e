"""Recording a training step: what it asks for in each iteration, and what a plan can make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError
from edgemem.planning.cycle_plan import plan_cycles
from edgemem.plans import Settings
from edgemem.torch.devices import alignment_of
from edgemem.torch.sessions import MOST_EVENTS, Session
from edgemem.torch.training_plan import TrainingPlan
from edgemem.trace.lanes import steady_cycles

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.trace import Trace
    from edgemem.trace.cycle import Cycle

__all__ = ["Profile", "profile"]

_RECORDED = 4  # iterations: the first frees what is older than the record


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What a training step asks for.

    Attributes:
        trace: the iterations that were recorded.
        cycles: one iteration as they agree on it; one for each thread where threads are not in step.
        device: "cpu" or "cuda".
    """

    trace: Trace
    cycles: tuple[Cycle, ...]
    device: str = "cpu"

    @property
    def lower_bound(self) -> int:
        """Bytes that no arena for this step can go below: the most that is alive at once of what can be planned."""
        return sum(cycle.lower_bound(alignment_of(self.device) or 64) for cycle in self.cycles)

    def plan(
        self,
        strategy: str = "auto",
        *,
        effort: str | None = None,
        seed: int | None = None,
        time_limit: float | None = None,
        threads: int | None = None,
    ) -> TrainingPlan:
        """Where every tensor of the step lies.

        Args:
            strategy: a strategy for offsets that honours pinned ones, as `edgemem strategies` lists them; "auto" tries
                them in turn until one meets the lower bound.
            effort: of the searches, as for `edgemem.plan`.
            seed: of their random choices.
            time_limit: seconds for all together.
            threads: of the searches.

        Raises:
            UnknownStrategyError: there is no such strategy or limit.
            PlanError: no plan was found, or the strategy honours no pins.
        """
        settings = Settings((strategy,), effort, seed, time_limit, threads, alignment_of(self.device))
        return TrainingPlan(plan_cycles(self.cycles, settings), self.device)

    def __repr__(self) -> str:
        """One line."""
        count = sum(len(cycle) for cycle in self.cycles)
        return f"<Profile: {count:,} requests in an iteration, lower bound {self.lower_bound:,} bytes>"

    def __str__(self) -> str:
        """What is planned and what is not, for people."""
        rows = {"freed within the iteration": 0, "freed in a later iteration": 0}
        rows |= {"dynamic: placed where the plan leaves room": 0, "never freed, or much later: not planned": 0}
        for cycle in self.cycles:
            later = int(np.sum(cycle.end[cycle.planned] > cycle.length))
            counts = (len(cycle.planned) - later, later, int(np.sum(cycle.is_dynamic)))
            for name, count in zip(rows, (*counts, len(cycle) - len(cycle.planned) - counts[2]), strict=True):
                rows[name] += count
        outside = self.trace.iteration[self.trace.requests] == -1
        lines = [f"lower bound {self.lower_bound:,} bytes; {sum(rows.values()):,} requests in an iteration"]
        lines += [f"{count:9,}  {name}" for name, count in rows.items() if count]
        if np.any(outside):
            lines.append(f"{int(np.sum(outside)):9,}  between iterations, in the whole record: not planned")
        return "\n".join(lines)


def profile(step: Callable[..., object], *args: Any, warmup: int = 3, device: str = "cpu") -> Profile:
    """Run a training step several times and record what it asks for.

    These are real steps: the model has been trained by `warmup + 4` of them afterwards.

    What the step returns is kept until it returns the next time, as in a loop with `loss = step(batch)`.

    Args:
        step: one iteration: forward, backward and update.
        *args: what it is called with.
        warmup: steps before the record; the first ones make the optimizer's state.
        device: "cpu" or "cuda".

    Raises:
        ModelError: the step asks for other sizes, or in another order, each time; the message says where they differ.
        RuntimeBindError: a session is open, or there is no compiler for the bridge to PyTorch.
    """
    result: object = None
    with Session(device=device, replans=0) as session:
        for k in range(warmup + _RECORDED):
            if k == warmup:
                session.record()
            with session.iteration():
                result = step(*args)  # kept until the next one is there, as a loop with `loss = step(batch)` keeps it
        del result
        trace = session.take_record()
        unnoted = session.stats.total.unnoted
    if unnoted:
        raise ModelError(f"{_RECORDED} steps make {unnoted} events more than can be recorded ({MOST_EVENTS})")
    return Profile(trace, steady_cycles(trace, one_stream=device != "cpu"), device)
