"""Plans of many ranks at once: each rank records its own step, and planning one does not need the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from edgemem.planning.cycle_plan import plan_cycles
from edgemem.plans import Settings
from edgemem.torch.devices import alignment_of
from edgemem.torch.training_plan import TrainingPlan
from edgemem.trace.lanes import steady_cycles
from edgemem.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from edgemem.planning.cycle_plan import CyclePlan
    from edgemem.torch.step_profile import Profile
    from edgemem.trace.cycle import Cycle

__all__ = ["plan_ranks"]


def plan_ranks(
    ranks: Sequence[Profile | Trace], strategy: str = "auto", *, executor: Executor | None = None
) -> list[TrainingPlan]:
    """The plan of each rank, in their order.

    Args:
        ranks: what each of them recorded. Profiles and traces can be pickled, to be gathered from the ranks.
        strategy: as for `Profile.plan`.
        executor: where plans are made, such as `dask.distributed.Client.get_executor()`; one in which `edgemem` is
            installed, PyTorch need not be. Without one they are made on threads of this process, whose kernels run
            side by side.

    Raises:
        ModelError: a trace has no two iterations that agree.
        UnknownStrategyError, PlanError: as `Profile.plan`.
    """
    cycles = [steady_cycles(rank) if isinstance(rank, Trace) else rank.cycles for rank in ranks]
    devices = ["cpu" if isinstance(rank, Trace) else rank.device for rank in ranks]
    settings = [Settings((strategy,), alignment=alignment_of(device)) for device in devices]
    if executor is None:
        with ThreadPoolExecutor() as own:
            made = _made(own, cycles, settings)
    else:
        made = _made(executor, cycles, settings)
    return [TrainingPlan(plan, device) for plan, device in zip(made, devices, strict=True)]


def _made(executor: Executor, cycles: list[tuple[Cycle, ...]], settings: list[Settings]) -> list[CyclePlan]:
    futures = [executor.submit(plan_cycles, *part) for part in zip(cycles, settings, strict=True)]
    return [future.result() for future in futures]
