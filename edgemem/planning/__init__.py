"""Planning: from a problem, a graph, a model or a recording to a set of proved plans."""

from edgemem.planning.choice import Choice, choices
from edgemem.planning.limits import Limits
from edgemem.planning.plan_sets import make_plans
from edgemem.planning.strategy_plan import run

__all__ = ["Choice", "Limits", "choices", "make_plans", "run"]
