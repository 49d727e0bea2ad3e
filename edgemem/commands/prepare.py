"""Opening a model and applying the passes that the user asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import Bindings, Model, load
from edgemem.passes.fold import FoldConstants
from edgemem.passes.protocol import PassContext
from edgemem.passes.reorder import ReorderOperators
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import RecordFile
    from edgemem.passes.protocol import Pass

__all__ = ["PASSES", "prepare"]

# In the order in which they are applied.
PASSES: Final[tuple[Pass, ...]] = (FoldConstants(), OptimiseGraph(), ReorderOperators())


def prepare(
    path: Path,
    folder: Path,
    wanted: Mapping[str, Mapping[str, str]],
    *,
    bindings: Bindings | None = None,
    target: str | Target | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> Model | RecordFile:
    """A model, opened and changed by passes.

    Args:
        path: the file.
        folder: where a changed file may be put; it is read from there later.
        wanted: options of the passes to apply, by the name of the pass.
        bindings: values for open dimensions and shapes.
        target: whose rules the passes follow; the format's own by default.
        feeds: inputs of a run that tells the sizes of an optimised graph.

    Raises:
        ModelError: the file holds usage records, a pass does not know its format or needs another pass before it, or
            as `load` and the passes do.
    """
    bindings = bindings or Bindings()
    opened = load(path, bindings)
    if not wanted:
        return opened
    if not isinstance(opened, Model):
        raise ModelError(f"{path.name} holds usage records: there is no graph to change")
    rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
    for step in PASSES:
        if step.name in wanted:
            _check(step, path, wanted)
            context = PassContext(path, folder, bindings, rules, feeds, wanted[step.name])
            opened = step.apply(opened, context)
    return opened


def _check(step: Pass, path: Path, wanted: Mapping[str, Mapping[str, str]]) -> None:
    suffix = path.suffix.lower()
    if suffix not in step.suffixes:
        formats = " and ".join(sorted(step.suffixes))
        raise ModelError(f"{path.name}: --{step.name} is for {formats} files")
    needed = step.requires.get(suffix)
    if needed is not None and needed not in wanted:
        raise ModelError(f"{path.name}: for {suffix} files --{step.name} needs --{needed} as well")
