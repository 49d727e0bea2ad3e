"""A model as `edgemem plan` opens it: with a decoder's states kept in place where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.formats import Model, Stateful, load
from edgemem.passes.protocol import PassContext
from edgemem.runtime.onnxruntime.kept_states import keep_states
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, RecordFile

__all__ = ["open_with_states"]


def open_with_states(
    path: Path,
    folder: Path,
    bindings: Bindings,
    patterns: Mapping[str, str],
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[Model | RecordFile, dict[str, str] | None]:
    """A file, and the states that it keeps in place: input -> output; None where none are asked for.

    Args:
        path: the file.
        folder: where a changed file may be put.
        bindings: values for open dimensions and shapes.
        patterns: input -> output, or `auto`; {} for no states.
        feeds: inputs of the runs that compare both models.

    Raises ModelError as `load`, and as `keep_states`.
    """
    opened = load(path, bindings)
    if not patterns:
        return opened, None
    if not isinstance(opened, Model):
        raise ModelError(f"{path.name} holds usage records: there is no graph to change")
    context = PassContext(path, folder, bindings, BUILT_IN[opened.default_target], feeds)
    model = keep_states(opened, patterns, context)
    pairs = model.noted_states() if isinstance(model, Stateful) else ()
    return model, {pair.past: pair.present for pair in pairs if pair.growth == "in_place"}
