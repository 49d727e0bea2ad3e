"""What the passes that the user asked for made of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from edgemem.commands.mixture import Mixture, Mixtures
    from edgemem.formats import Model, RecordFile
    from edgemem.schedule.ordering import Ordering
    from edgemem.targets import Target

__all__ = ["ChangedModel", "LevelChoice"]


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """The level that was chosen, and what the others need.

    Attributes:
        level: none, basic, extended or all; "" where ONNX Runtime cannot load the model, which then keeps its graph.
        peaks: of the levels whose order was searched, in bytes.
        bounds: of the levels that no order makes better than the chosen one: a lower bound of the peak.
        refusal: why ONNX Runtime cannot load the model, or "".
    """

    level: str
    peaks: Mapping[str, int]
    bounds: Mapping[str, int]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ChangedModel:
    """A file that is ready to be planned.

    Attributes:
        model: opened, and changed as asked for.
        target: whose rules hold; None for usage records.
        original: the model before the first pass that has a price (`PRICED`); None where none changed it.
        ordering: what the search for an order found; None where there was none.
        plain: what the model would be without that search; None if that is `model`, or is not known.
        order_s: seconds that the search took.
        counts_tail: operators cost memory besides, in TensorFlow Lite Micro's tail, which `--stream auto` counts.
        mixture: how the model was changed if a mixture of changes was to be found, else None.
        mixtures: all that were considered then.
        others: the next best mixtures, for a plan that does not fit the budget although its peak does.
        given: the model as the user gave it; None for usage records.
        levels: of ONNX Runtime's optimised graphs, one of which the model was replaced by for the sake of its order
            although none was asked for; None if it was not.
    """

    model: Model | RecordFile
    target: Target | None
    original: Model | None = None
    ordering: Ordering | None = None
    plain: Model | None = None
    order_s: float = 0.0
    counts_tail: bool = False
    levels: LevelChoice | None = None
    mixture: Mixture | None = None
    mixtures: Mixtures | None = None
    others: Iterable[ChangedModel] = ()
    given: Model | None = None
