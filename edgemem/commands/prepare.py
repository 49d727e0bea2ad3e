"""Opening a model and applying the passes that the user asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.ordered import order_among, order_model
from edgemem.commands.streamed import check_streamed
from edgemem.errors import ModelError
from edgemem.formats import Bindings, Model, Stateful, load
from edgemem.passes.fold import FoldConstants
from edgemem.passes.protocol import PassContext
from edgemem.passes.reorder import GIVEN, ReorderOperators, check_method
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.runtime.onnxruntime.optimise import baked_note
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.state_pass import KeepStates
from edgemem.runtime.onnxruntime.tile_pass import TILED_LEVEL, TileOperators
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import RecordFile
    from edgemem.passes.protocol import Pass
    from edgemem.schedule.ordering import Ordering

__all__ = ["PASSES", "PRICED", "Prepared", "kept_states", "prepare"]

PRICED: Final = frozenset({"stream", "tile"})  # they pay for memory with operators or arithmetic
_ORDER: Final = ReorderOperators()
_CHOSEN: Final = frozenset({"auto", "head"})  # values of `stages` that leave the stages to the pass
# In the order in which they are applied; the order of operators is found before those with a price, and after them.
PASSES: Final[tuple[Pass, ...]] = (
    FoldConstants(),
    KeepStates(),
    OptimiseGraph(),
    StreamOperators(),
    TileOperators(),
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file that is ready to be planned.

    Attributes:
        model: opened, and changed as asked for.
        target: whose rules hold; None for usage records.
        original: the model before the first pass that has a price (`PRICED`); None where none changed it.
        ordering: what the search for an order found; None where there was none.
        plain: what the model would be without that search; None if that is `model`, or is not known.
        order_s: seconds that the search took.
        counts_tail: operators cost memory besides, in TensorFlow Lite Micro's tail, which `--stream auto` counts.
        level: of ONNX Runtime's optimised graph that the model was replaced by although it was not asked for; "" if
            it was not.
    """

    model: Model | RecordFile
    target: Target | None
    original: Model | None = None
    ordering: Ordering | None = None
    plain: Model | None = None
    order_s: float = 0.0
    counts_tail: bool = False
    level: str = ""


def prepare(
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
) -> Prepared:
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
    if "order" in wanted:
        check_method(wanted["order"].get("method", "auto"))
    opened = load(path, bindings)
    if not isinstance(opened, Model):
        if wanted or kernels is not None:
            raise ModelError(f"{path.name} holds usage records: there is no graph to change")
        return Prepared(opened, None)
    for step in (*PASSES, _ORDER):
        if step.name in wanted and path.suffix.lower() not in step.suffixes:
            formats = " and ".join(sorted(step.suffixes))
            raise ModelError(f"{path.name}: --{step.name} is for {formats} files")
    steps = _with_required(opened, path, wanted)
    if "state" in wanted and steps.keys() - wanted.keys():
        raise ModelError(
            f"{path.name}: --state keeps the model's dimensions open, and --order fixes them, because ONNX Runtime "
            "keeps to an order in its optimised graph alone: give one of them"
        )
    if bindings.ranges and "optimize" in steps:
        which = "optimize" if "optimize" in wanted else "order"
        raise ModelError(
            f"{path.name}: --{which} writes a graph of one size; give numbers instead of ranges, or leave it out"
        )
    rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
    if kernels not in (None, "none") and ".tflite" not in opened.suffixes:
        raise ModelError(
            f"{path.name}: a kernel profile is of TensorFlow Lite Micro, which runs .tflite files; leave --overlap out"
        )
    rules = rules.changed(kernels=kernels, slots="stream" in wanted or kernels not in (None, "none"))
    if alignment is not None:
        rules = replace(rules, alignment=alignment)

    def context_of(name: str) -> PassContext:
        return PassContext(path, folder, bindings, rules, feeds, steps[name])

    def apply(step: Pass, model: Model) -> Model:
        progress(step.name)
        changed = step.apply(model, context_of(step.name))
        is_exact = rules.scratch != "litert" or steps[step.name].get("allow_difference") == "yes"
        if step.name == "stream" and changed is not model and not is_exact:
            check_streamed(model, changed, path)
        # A state's range becomes the capacity of its buffer; other passes have no reason to lose one.
        if step.name != "state" and changed.bindings.ranges != bindings.ranges:
            raise ModelError(
                f"{path.name}: --{step.name} gives a model of one size; give numbers instead of ranges, or leave it out"
            )
        return changed

    def shrink(model: Model) -> Model:
        for step in PASSES:
            if step.name in PRICED & steps.keys():
                model = apply(step, model)
        return model

    for step in PASSES:
        if step.name in steps.keys() - PRICED:
            opened = apply(step, opened)
    level = steps["optimize"]["level"] if steps.keys() - wanted.keys() else ""
    priced = PRICED & steps.keys()
    if "order" not in steps or steps["order"].get("method") == GIVEN:
        model = shrink(opened)
        return Prepared(model, rules, opened if model is not opened else None, level=level)
    progress("order")
    micro = opened.default_target == "tflm" and rules.scratch == "unknown"
    counts_tail = micro and steps.get("stream", {}).get("stages") == "auto"
    if priced:
        made = order_among(
            opened,
            context_of("order"),
            shrink,
            by_hand=any(steps[name]["stages"] not in _CHOSEN for name in priced),
            fits=next((int(steps[name]["budget"]) for name in priced if "budget" in steps[name]), None),
            counts_tail=counts_tail,
        )
    else:
        made = order_model(opened, context_of("order"))
    replaced = bool(priced) and len(made.model.graph().ops) != len(opened.graph().ops)
    return Prepared(
        made.model,
        rules,
        opened if replaced else None,
        made.ordering,
        made.plain,
        made.seconds,
        counts_tail,
        level,
    )


def kept_states(model: object) -> dict[str, str]:
    """The states that a model notes as kept in place, input -> output; {} for one without a note."""
    pairs = model.noted_states() if isinstance(model, Stateful) else ()
    return {pair.past: pair.present for pair in pairs if pair.growth == "in_place"}


def _with_required(opened: Model, path: Path, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The passes that are wanted, and those that they require with the options that they then have."""
    steps = dict(wanted)
    needed = _ORDER.requires.get(path.suffix.lower()) if _ORDER.name in wanted else None
    if needed is not None and needed not in wanted and baked_note(opened.content()) is None:
        steps[needed] = {"level": TILED_LEVEL if "tile" in wanted else "all"}
    if needed in steps:
        # ONNX Runtime's own order is another one each time: from that of the file the same order is found every time.
        steps[needed] = {**steps[needed], "order": GIVEN}
    return steps
