"""Operators cut in ONNX Runtime's optimised graph, which is then optimised again.

    file ─ optimise (extended) ─ tiles, splits ─ optimise (all) ─► the graph that is planned and run

They are cut in the graph of the level `extended`, because that of `all`, which sessions run by default, keeps channels
in blocks that cannot be cut. What was cut is then optimised again, so that it runs the kernels of a default session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, TilingError
from edgemem.formats import Rewritable, Stateful
from edgemem.runtime.onnxruntime.baked_file import LEVELS, baked_note
from edgemem.runtime.onnxruntime.optimise_pass import optimised_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.model.rewrite import Rewrite
    from edgemem.passes.protocol import PassContext

__all__ = ["CUT_LEVEL", "can_cut", "cut_model", "level_of"]

CUT_LEVEL: Final = "extended"  # the highest level whose graph can be cut


def level_of(text: str) -> tuple[str, str]:
    """The text of stages and the level behind an @, or "". Raises ModelError for a level that is none."""
    stages, _, level = text.partition("@")
    if level and level not in LEVELS:
        raise ModelError(f"no level {level!r}; there are {', '.join(LEVELS)}")
    return stages, level


def can_cut(graph: Graph) -> bool:
    """Whether a graph has no tensors that are laid out in blocks of channels."""
    return not any(op.type.startswith("com.microsoft.nchwc::") for op in graph.ops)


def cut_model(model: Model, cut: Callable[[Graph], Rewrite], level: str, context: PassContext) -> Model:
    """The model as `cut` rewrites its graph.

    Args:
        model: as a pass is given it.
        cut: gives the rewritten graph.
        level: to which ONNX Runtime optimises it once more; "" leaves it as it is.
        context: of the pass.

    Raises ModelError for a model whose sizes stay open or whose format cannot be rewritten, TilingError for a graph in
    blocks of channels, and as `cut` and ONNX Runtime's optimiser.
    """
    if isinstance(model, Stateful) and model.noted_states():
        raise ModelError(f"{context.path.name}: parts fix the sizes of a model, and its states keep them open")
    if not isinstance(model, Rewritable):
        raise ModelError(f"{context.path.name}: operators of its format cannot be cut")
    graph = model.graph()
    if not can_cut(graph):
        why = "its graph was optimised to the level `all` and keeps channels in blocks, which cannot be cut"
        raise TilingError(context.path.name, f"{why}; cut the model that it was made from")
    made = model.rewritten(cut(graph))
    if not level:
        return made
    note = baked_note(model.content())
    return optimised_again(made, level, context) if note and note.level != level else made
