"""The passes that `shrink` chooses from, and the text that names a sequence of them: `fold,order,stream=0:5:56`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.model.profiles import PROFILES
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.runtime.split_pass import SplitOperators
from edgemem.targets import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from edgemem.passes.protocol import Pass

__all__ = ["CHANGES", "OVERLAP", "parse_steps", "steps_text"]

OVERLAP: Final = "overlap"  # no pass: a rule of the memory, which holds for the kernels of one library
_NONE: Final = "none"
_MAKERS: Final[Mapping[str, Callable[[str], Pass]]] = {
    FoldConstants.name: lambda text: _plain(FoldConstants(), text),
    OptimiseGraph.name: lambda text: OptimiseGraph(text) if text else OptimiseGraph(),
    OrderOperators.name: lambda text: OrderOperators(text) if text else OrderOperators(),
    StreamOperators.name: StreamOperators.parse,
    TileOperators.name: TileOperators.parse,
    SplitOperators.name: SplitOperators.parse,
    RecomputeOperators.name: lambda text: RecomputeOperators(parse_size(text)) if text else RecomputeOperators(),
}
CHANGES: Final = (*_MAKERS, OVERLAP)


def parse_steps(text: str) -> tuple[tuple[Pass, ...], str]:
    """The passes that a text names, in its order, and the kernel profile of its `overlap=PROFILE` ("none" without).

    Raises ModelError for a name that is none, or a value that the pass does not take.
    """
    steps: list[Pass] = []
    kernels = _NONE
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        if name == OVERLAP:
            if value not in PROFILES:
                raise ModelError(f"overlap={value} names no kernel profile; there are {', '.join(PROFILES)}")
            kernels = value
        elif name in _MAKERS:
            steps.append(_MAKERS[name](value))
        else:
            raise ModelError(f"no step {name!r}; there are {', '.join(CHANGES)}")
    return tuple(steps), kernels


def steps_text(steps: Iterable[Pass], kernels: str = _NONE) -> str:
    """The text that `parse_steps` takes."""
    return ",".join([*map(str, steps), *([f"{OVERLAP}={kernels}"] if kernels != _NONE else [])])


def _plain(step: Pass, text: str) -> Pass:
    if text:
        raise ModelError(f"{step.name} has no value; leave ={text} out")
    return step
