"""A .tflite file as the commands open it: bound to the sizes that its plan is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from edgemem import formats
from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings, MicroPlanned, Model, Resizable, Rewritable
from edgemem.runtime.feeds import make_feeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats.wiring import Wiring
    from edgemem.model.graph import Graph

__all__ = ["TfliteModel", "input_forms", "open_model", "values_of"]


@runtime_checkable
class TfliteModel(Model, MicroPlanned, Resizable, Rewritable, Protocol):
    """What the converter of .tflite files gives."""

    def wiring(self) -> Wiring:
        """How the main subgraph is wired."""

    def first_operators(self, count: int) -> bytes:
        """The file, with only the first operators of its main subgraph in the list of them."""


def open_model(path: Path, input_shapes: Mapping[str, Sequence[int]] | None = None) -> TfliteModel:
    """A .tflite file in the sizes that are given, or else in those that its plan is for.

    Raises ModelError if it is no .tflite file, PlanFileError if its plan is damaged.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    model = formats.load(path, Bindings(input_shapes=shapes))
    if not isinstance(model, TfliteModel):
        raise ModelError(f"{path.name} is no .tflite model; edgemem plan tells what memory other models take")
    if not shapes:
        from edgemem.planning.verification import plans_of  # an interpreter that has its plan loads no planner

        planned = next((p.input_shapes for p in plans_of(model) if p.input_shapes), None)
        if planned:
            return open_model(path, planned)
    return model


def input_forms(graph: Graph) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, dtype (numpy's name) and shape of every input of a graph, in order."""
    return [(t.name, t.dtype, t.shape) for t in (graph.tensors[i] for i in graph.inputs)]


def values_of(
    inputs: Sequence[tuple[str, str, Sequence[int]]], given: Mapping[str, NDArray[Any]] | None, *, seed: int = 0
) -> list[NDArray[Any]]:
    """A value for every input, in order: the one given for its name, or a random one that is not all zero.

    Args:
        inputs: as `input_forms` gives them.
        given: values by name.
        seed: of the random values.

    Raises:
        ModelError: a value is given for an input that there is not.
        UnsupportedError: no values can be made for an input, and none was given.
    """
    given = given or {}
    names = [name for name, _, _ in inputs]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise ModelError(f"no input {unknown!r}; there are {', '.join(map(repr, names)) or 'none'}")
    try:
        missing = {name: (dtype, tuple(shape)) for name, dtype, shape in inputs if name not in given}
        made = make_feeds(missing, seed=seed)
    except TypeError as e:
        raise UnsupportedError(
            f"no values can be made for an input: {e}; give them with --input NAME=FILE.npy"
        ) from None
    return [given[name] if name in given else made[name] for name in names]
