"""When a training loop gets a new plan: where its iterations do not fit into the one it has for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import EdgememError, ModelError
from edgemem.planning.cycle_plan import plan_cycles
from edgemem.replay.logger import logger
from edgemem.trace.lanes import steady_cycles

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.planning.cycle_plan import CyclePlan
    from edgemem.plans import Settings
    from edgemem.trace import Trace
    from edgemem.trace.cycle import Cycle

__all__ = ["Replanner"]

# The first one frees blocks from before the record; the last two have to agree.
_RECORDED: Final = 3
_MOST_PAUSE: Final = 1024  # iterations
_CALM: Final = 16  # iterations without a miss, after which the next ones are looked at again at once
_DECISIVE: Final = ("size", "start", "end", "lane", "section", "is_dynamic")
_MOST_KNOWN: Final = 4  # plans that are kept for a loop that comes back to an older path


class Replanner:
    """Watches the iterations of a session, records those that do not fit, and plans what they have in common.

    After an iteration with misses some are recorded; where there are misses among them, too, a plan is made of what
    the last two agree on. Attempts that do not help come at ever longer intervals, so that a loop whose iterations all
    differ costs no more than its misses.

    Args:
        plan: the one in use; None: every request counts as a miss.
        settings: for new plans.
        most: new plans at most.
        one_stream: plans are for one stream of a device.
        record: begins to record.
        take: ends recording, and gives what was recorded.

    Attributes:
        made: new plans so far.
    """

    def __init__(
        self,
        plan: CyclePlan | None,
        settings: Settings,
        *,
        most: int,
        one_stream: bool = False,
        record: Callable[[], None],
        take: Callable[[], Trace],
    ) -> None:
        self.made = 0
        self._settings = settings
        self._most = most
        self._one_stream = one_stream
        self._record, self._take = record, take
        self._plan = plan
        self._known = [plan] if plan is not None else []
        self._recorded = -1  # iterations; -1: nothing is recorded
        self._missed = 0  # in them
        self._whole = 0  # iterations without a miss since the last one with some
        self._pause = 1  # iterations with misses from one attempt to the next
        self._wait = 0  # of them left

    def after(self, misses: int) -> CyclePlan | None:
        """To be called after each iteration, with its misses: the plan for those that follow, if it is another one."""
        if self._recorded >= 0:
            return self._while_recording(misses)
        if not misses:
            self._whole += 1
            if self._whole >= _CALM:
                self._pause = 1
            return None
        self._whole = 0
        if self._wait > 0:
            self._wait -= 1
        elif self._most > 0:
            self._record()
            self._recorded = self._missed = 0
        return None

    def adopt(self, plan: CyclePlan) -> None:
        """To be called when this plan is in use."""
        self._plan = plan
        logger().info("training goes on with a plan of %d bytes (lower bound %d)", plan.size, plan.lower_bound)

    def _while_recording(self, misses: int) -> CyclePlan | None:
        self._recorded += 1
        self._missed += misses
        if self._recorded < _RECORDED:
            return None
        trace = self._take()
        self._recorded = -1
        if not self._missed:
            return None
        self._wait, self._pause = self._pause, min(2 * self._pause, _MOST_PAUSE)
        try:
            return self._planned(steady_cycles(trace, one_stream=self._one_stream))
        except ModelError as e:
            logger().debug("iterations do not fit into the plan, and differ from each other: %s", e)
        except (EdgememError, MemoryError) as e:
            logger().warning("training goes on with the plan that it has: %s", e)
        return None

    def _planned(self, cycles: tuple[Cycle, ...]) -> CyclePlan | None:
        if self._plan is not None and _are_same(cycles, self._plan.cycles):
            return None
        plan = next((known for known in self._known if _are_same(cycles, known.cycles)), None)
        if plan is None:
            if self.made >= self._most:
                self._most = 0
                logger().warning("no more plans are made in this session after %d", self.made)
                return None
            plan = plan_cycles(cycles, self._settings)
            self.made += 1
        self._known = [plan, *(known for known in self._known if known is not plan)][:_MOST_KNOWN]
        return plan


def _are_same(first: tuple[Cycle, ...], second: tuple[Cycle, ...]) -> bool:
    """Whether a plan of one serves the other as well."""
    return len(first) == len(second) and all(
        a.length == b.length and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in _DECISIVE)
        for a, b in zip(first, second, strict=True)
    )
