"""At which of ONNX Runtime's optimisation levels a model is ordered.

ONNX Runtime keeps to an order in its optimised graph alone, and which level needs least memory differs: fused operators
have fewer results, but the level `all` pads channels to blocks, which makes a tensor of one channel eight or sixteen
times as large. Higher levels run faster, so that a lower one is taken only for less memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.commands.pass_result import LevelChoice
from edgemem.errors import EdgememError, RuntimeLoadError
from edgemem.formats.workspace import graph_under
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.schedule.peak import least_peak
from edgemem.schedule.problem import order_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.commands.pass_result import ChangedModel
    from edgemem.commands.steps import Steps
    from edgemem.formats import Model
    from edgemem.passes.protocol import Pass

__all__ = ["order_at_best_level"]

_WORTH: Final = 1 / 64  # of the peak: what a lower level has to save


def order_at_best_level(
    model: Model, steps: Steps, optimise: Pass, order: Callable[[Model, Steps], ChangedModel]
) -> ChangedModel:
    """A model in its best order, at the level where that needs least; the result says which one and why.

    That is the highest level within 1/64 of the least peak, or the highest that fits the budget. A model that ONNX
    Runtime cannot load is ordered as it is.

    Args:
        model: the model as it is.
        steps: the user's, with `optimize` among them. All levels share the time limit of the search for an order.
        optimise: the pass with that name.
        order: orders an optimised model.

    Raises as `order`, and as the pass where it fails at every level.
    """
    shared = _sharing_time(steps)
    made: dict[str, ChangedModel] = {}
    peaks: dict[str, int] = {}
    bounds: dict[str, int] = {}
    refused: EdgememError | None = None
    budget = float(steps.options["order"].get("budget", 0))
    for level in reversed(LEVELS):
        folder = steps.folder / level
        folder.mkdir(exist_ok=True)
        options = {**shared.options, optimise.name: {**shared.options[optimise.name], "level": level}}
        own = replace(shared, folder=folder, options=options)
        try:
            changed = own.apply(optimise, model)
        except RuntimeLoadError as e:
            kept = {name: told for name, told in steps.options.items() if name != optimise.name}
            choice = LevelChoice("", {}, {}, str(e))
            return replace(order(model, replace(steps, options=kept)), levels=choice)
        except EdgememError as e:
            refused = refused or e
            continue
        problem = order_problem(graph_under(changed, own.rules), own.rules)
        bound = max(least_peak(problem) - problem.padding, 0)
        if peaks and bound >= min(peaks.values()) * (1 - _WORTH):
            bounds[level] = bound
            continue
        made[level] = order(changed, own)
        ordering = made[level].ordering
        assert ordering is not None
        peaks[level] = ordering.peak
        if peaks[level] <= budget:
            break
    if not peaks:
        assert refused is not None
        raise refused
    least = min(peaks.values())
    within = budget if least <= budget else least / (1 - _WORTH)
    level = next(name for name in peaks if peaks[name] <= within)
    return replace(made[level], levels=LevelChoice(level, peaks, bounds))


def _sharing_time(steps: Steps) -> Steps:
    """The steps with a share of the time limit for each level."""
    order = dict(steps.options["order"])
    if "time_limit" in order:
        order["time_limit"] = str(float(order["time_limit"]) / len(LEVELS))
    return replace(steps, options={**steps.options, "order": order})
