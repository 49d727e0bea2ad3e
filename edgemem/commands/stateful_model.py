"""A model as `edgemem plan` opens it: with a decoder's states kept in place where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Model, Stateful, load
from edgemem.passes.protocol import PassContext
from edgemem.runtime.onnxruntime.kept_states import check_equal, keep_states
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, RecordFile

__all__ = ["open_with_states", "placed_if_possible"]


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


def placed_if_possible(source: Any, path: Path, folder: Path, sizes: Mapping[str, int]) -> tuple[Any, Path, bool]:
    """The model as `edgemem plan --state auto` writes it, its file, and whether it had to be changed.

    It is the model as it is where that command refuses to change it.

    Args:
        source: a `Stateful` model.
        path: its file.
        folder: where a changed file is put.
        sizes: values of its dimensions, by name.

    Raises ModelError for a model without caches.
    """
    if source.noted_states():
        return source, path, False
    pairs = source.states({})
    if not pairs:
        raise ModelError(f"{path.name} has no input that comes back as an output, so there is no cache to fit")
    file = folder / path.name
    try:
        changed = source.with_states(pairs)
        changed.save(file)
        if any(pair.growth == "appended" for pair in pairs):
            check_equal(path, file, pairs, sizes)
    except UnsupportedError:
        return source, path, False
    return changed, file, True
