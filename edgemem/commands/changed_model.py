"""Opening a model and applying the passes that the user asked for."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.budget_report import check_reachable
from edgemem.commands.levels import order_at_best_level
from edgemem.commands.mixture import CHOSEN, CandidateLimits, find_mixtures
from edgemem.commands.order_choice import order_among, order_model
from edgemem.commands.output_check import check_same
from edgemem.commands.pass_result import ChangedModel, LevelChoice
from edgemem.commands.steps import Steps
from edgemem.errors import ModelError
from edgemem.formats import Bindings, Model, Stateful, load
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order import GIVEN, OrderOperators, check_method
from edgemem.passes.recompute.recompute_pass import MOST_MACS, RecomputeOperators
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.state_pass import KeepStates
from edgemem.runtime.onnxruntime.tile_pass import TILED_LEVEL, TileOperators, cut_level
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from edgemem.commands.mixture import Mixture
    from edgemem.passes.protocol import Pass

__all__ = ["PASSES", "PRICED", "change_model", "kept_states"]

PRICED: Final = frozenset({"stream", "tile", "recompute"})  # they pay for memory with operators or arithmetic
_ORDER: Final = OrderOperators()
_RECOMPUTE: Final = RecomputeOperators()
_OTHERS: Final = 3  # mixtures that are planned besides the best, where plans do not fit
# In the order in which they are applied; the order of operators is found before those with a price, and after them.
# What runs again is found last, in that order.
PASSES: Final[tuple[Pass, ...]] = (
    FoldConstants(),
    KeepStates(),
    OptimiseGraph(),
    StreamOperators(),
    TileOperators(),
)


def change_model(
    path: Path,
    folder: Path,
    wanted: Mapping[str, Mapping[str, str]],
    *,
    bindings: Bindings | None = None,
    target: str | Target | None = None,
    alignment: int | None = None,
    kernels: str | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ChangedModel:
    """A model, opened and changed by passes.

    Args:
        path: the file.
        folder: where a changed file may be put; it is read from there later.
        wanted: options of the passes to apply, by the name of the pass. A pass that another one requires is applied
            with its default options if it is not among them.
        bindings: values for open dimensions and shapes.
        target: whose rules the passes follow; the format's own by default.
        alignment: of every offset in bytes, instead of the target's.
        kernels: the kernel profile of the target, instead of its own.
        feeds: inputs of a run that tells the sizes of an optimised graph.
        progress: called with each pass's name before it is applied.

    Raises:
        ModelError: the file holds usage records, a pass does not know its format, or as `load` and the passes do.
        UnknownStrategyError: no solver of the order has that name.
    """
    bindings = bindings or Bindings()
    folder = Path(tempfile.mkdtemp(dir=folder))  # passes name their files like the model, which may lie in the folder
    if "order" in wanted:
        check_method(wanted["order"].get("method", "auto"))
    opened = load(path, bindings)
    if not isinstance(opened, Model):
        if wanted or kernels is not None:
            raise ModelError(f"{path.name} holds usage records: there is no graph to change")
        return ChangedModel(opened, None)
    for step in (*PASSES, _ORDER, _RECOMPUTE):
        if step.name in wanted and path.suffix.lower() not in step.suffixes:
            formats = " and ".join(sorted(step.suffixes))
            raise ModelError(f"{path.name}: --{step.name} is for {formats} files")
    rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
    fixing = next((name for name in ("optimize", "recompute", "order") if name in wanted), "")
    wanted = _with_means(path, wanted, rules)
    steps = _with_required(opened, path, wanted)
    if "state" in wanted and ("optimize" in steps or "recompute" in steps):
        raise ModelError(
            f"{path.name}: --state keeps the model's dimensions open, and --{fixing} fixes them, because ONNX Runtime "
            "keeps to an order in its optimised graph alone: give one of them"
        )
    if bindings.ranges and ("optimize" in steps or "recompute" in steps):
        raise ModelError(
            f"{path.name}: --{fixing} writes a graph of one size; give numbers instead of ranges, or leave it out"
        )
    if kernels not in (None, "none") and ".tflite" not in opened.suffixes:
        raise ModelError(
            f"{path.name}: a kernel profile is of TensorFlow Lite Micro, which runs .tflite files; leave --overlap out"
        )
    if alignment is not None:
        rules = replace(rules, alignment=alignment)
    whole_rules = rules.changed(kernels=kernels, slots=kernels not in (None, "none"))
    rules = whole_rules.changed(slots="stream" in wanted)

    implied = "optimize" in steps and "optimize" not in wanted
    if implied and _finds_order(wanted) and not {"tile", _RECOMPUTE.name} & wanted.keys():
        made = order_at_best_level(
            opened, Steps(path, folder, bindings, rules, whole_rules, feeds, steps, progress), OptimiseGraph(), _shrunk
        )
        return replace(made, given=opened)
    changed = opened
    applied = Steps(path, folder, bindings, rules, whole_rules, feeds, steps, progress)
    for step in PASSES:
        if step.name in steps.keys() - PRICED:
            changed = applied.apply(step, changed)
    if _RECOMPUTE.name in steps:
        made = _mixed(changed, applied)
    else:
        made = _shrunk(changed, applied)
        if "tile" in steps and made.original is None:  # another level may be better for a model without tiles
            left = {name: options for name, options in wanted.items() if name != "tile"}
            return change_model(path, folder, left, bindings=bindings, target=rules, feeds=feeds, progress=progress)
    note = baked_note(made.model.content()) if implied and isinstance(made.model, Model) else None
    levels = LevelChoice(note.level, {}, {}) if note is not None else None
    return replace(made, given=opened, levels=levels)


def _shrunk(opened: Model, steps: Steps) -> ChangedModel:
    """The model in an order, and with operators replaced, as far as either is asked for."""
    priced = [step for step in PASSES if step.name in PRICED & steps.options.keys()]

    def shrink(model: Model) -> Model:
        for step in priced:
            model = steps.apply(step, model)
        return model

    if steps.context("order").options.get("method", GIVEN) == GIVEN:
        model = shrink(opened)
        return ChangedModel(model, steps.rules, opened if model is not opened else None)
    steps.progress("order")
    stages = [steps.options[step.name] for step in priced]
    counts_tail = _is_micro(opened, steps.rules) and any(s["stages"] == "auto" for s in stages)
    if priced:
        made = order_among(
            opened,
            steps.context("order"),
            shrink,
            by_hand=any(s["stages"] not in CHOSEN for s in stages),
            fits=next((int(s["budget"]) for s in stages if "budget" in s), None),
            counts_tail=counts_tail,
        )
    else:
        made = order_model(opened, steps.context("order"))
    replaced = bool(priced) and len(made.model.graph().ops) != len(opened.graph().ops)
    return ChangedModel(
        made.model,
        steps.rules,
        opened if replaced else None,
        made.ordering,
        made.plain,
        made.seconds,
        counts_tail,
    )


def _mixed(opened: Model, steps: Steps) -> ChangedModel:
    """The best mixture of the changes that are asked for."""
    told = steps.options[_RECOMPUTE.name]
    cut = next((step for step in PASSES if step.name in PRICED & steps.options.keys()), None)
    limits = CandidateLimits(
        float(told.get("max_macs", MOST_MACS)),
        int(told["budget"]) if "budget" in told else None,
        orders=steps.context("order").options.get("method", GIVEN) != GIVEN,
        counts_tail=_is_micro(opened, steps.rules),
    )
    begun = time.perf_counter()
    found = find_mixtures(opened, steps, limits, cut)
    seconds = time.perf_counter() - begun
    check_reachable(steps, limits, found)

    def prepared(way: Mixture) -> ChangedModel:
        model = way.make()
        if _RECOMPUTE.name in way.means and told.get("allow_difference") != "yes":
            check_same(opened, model, steps.context(_RECOMPUTE.name))
        original = opened if PRICED & set(way.means) else None
        return ChangedModel(
            model,
            way.target,
            original,
            way.ordering,
            order_s=seconds,
            counts_tail=limits.counts_tail,
            mixture=way,
            mixtures=found,
        )

    first, *others = found.ranked
    return replace(prepared(first), others=map(prepared, others[:_OTHERS]))


def _is_micro(model: Model, rules: Target) -> bool:
    return model.default_target == "tflm" and rules.scratch == "unknown"


def kept_states(model: object) -> dict[str, str]:
    """The states that a model notes as kept in place, input -> output; {} for one without a note."""
    pairs = model.noted_states() if isinstance(model, Stateful) else ()
    return {pair.past: pair.present for pair in pairs if pair.growth == "in_place"}


def _with_means(path: Path, wanted: Mapping[str, Mapping[str, str]], rules: Target) -> Mapping[str, Mapping[str, str]]:
    """The passes that are wanted, and those that may be mixed with recomputation if the user leaves it to us."""
    told = wanted.get(_RECOMPUTE.name)
    if told is None or told["means"] != "auto":
        return wanted
    limits = {name: told[name] for name in ("budget", "allow_difference", "threads") if name in told}
    search = {name: told[name] for name in ("effort", "seed", "time_limit") if name in told}
    cut = next(s.name for s in PASSES if s.name in PRICED and path.suffix.lower() in s.suffixes)
    added = {"order": {"method": "auto", **search}}
    if not rules.texels and not rules.layer_rows:
        added[cut] = {"stages": "auto", **limits}
    return {**added, **wanted}


def _with_required(opened: Model, path: Path, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The passes that are wanted, and those that they require with the options that they then have."""
    steps = dict(wanted)
    suffix = path.suffix.lower()
    needing = [step for step in (_ORDER, _RECOMPUTE) if step.name in wanted and suffix in step.requires]
    needed = needing[0].requires[suffix] if needing else None
    if needed is not None and needed not in wanted and baked_note(opened.content()) is None:
        # The level `all` keeps channels in blocks, which cannot be tiled. An order alone is searched at every level.
        steps[needed] = {"level": TILED_LEVEL if {"tile", _RECOMPUTE.name} & wanted.keys() else "all"}
    if "tile" in wanted:
        steps |= _cut_steps(steps, wanted)
    if needed in steps:
        # ONNX Runtime's own order is another one each time: from that of the file the same order is found every time.
        steps[needed] = {**steps[needed], "order": GIVEN}
    return steps


def _cut_steps(
    steps: Mapping[str, Mapping[str, str]], wanted: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    """The options of `tile` and `optimize` where both are applied: tiles are cut at another level than the result's."""
    if "optimize" not in steps:
        return {}
    if _RECOMPUTE.name in wanted:  # what runs again is compared bit for bit with the graph that it was made from
        return {"tile": {**steps["tile"], "level": steps["optimize"]["level"]}}
    asked = wanted.get("optimize", {}).get("level")
    cut = {**steps["optimize"], "level": cut_level(asked or steps["optimize"]["level"])}
    return {"optimize": cut} if asked is None else {"optimize": cut, "tile": {**steps["tile"], "level": asked}}


def _finds_order(wanted: Mapping[str, Mapping[str, str]]) -> bool:
    return wanted.get(_ORDER.name, {}).get("method", GIVEN) != GIVEN
