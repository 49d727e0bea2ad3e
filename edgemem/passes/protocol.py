"""What a pass is: a function from a model to a model, with what it requires and guarantees, and the check of both.

A pass is one frozen dataclass in one file. Its fields are its options:

    @dataclass(frozen=True, slots=True)
    class DropIdentities:
        name: ClassVar[str] = "drop-identities"
        suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
        requires: ClassVar[Mapping[str, str]] = {}
        guarantee: ClassVar[Guarantee] = Guarantee("identical", "an Identity copies its input")

        def apply(self, model: Model, context: PassContext) -> Model:
            ...

`apply_pass` is the only caller of `apply`. It checks what can be told from the graphs: the format, the passes that must
come before, and that inputs and outputs keep their names, dtypes and shapes. Whether the values are the same is found
by running both models: `edgemem.shrinking.trial`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from edgemem.errors import ModelError, PassError
from edgemem.formats import Ranged
from edgemem.model.ranges import samples_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, Model
    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["Guarantee", "Pass", "PassContext", "apply_pass", "sampled_graphs"]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a pass promises about a model's outputs.

    Attributes:
        outputs: `identical` bit for bit, or `close`: equal within the error that `why` states.
        why: the reason in one sentence.
    """

    outputs: Literal["identical", "close"]
    why: str


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may need beside the model and its options.

    Attributes:
        path: the file that the model was read from.
        folder: a folder for files that the changed model is read from later.
        bindings: values for open dimensions and shapes.
        target: whose rules the memory problem follows.
        feeds: inputs for a run that tells sizes; None lets the pass make some.
        applied: names of the passes that made the model.
    """

    path: Path
    folder: Path
    bindings: Bindings
    target: Target
    feeds: Mapping[str, NDArray[Any]] | None = None
    applied: frozenset[str] = frozenset()


class Pass(Protocol):
    """A change of a model that keeps its outputs. `str` gives it as `edgemem shrink --steps` takes it.

    Attributes:
        name: as the command line has it.
        suffixes: of the file formats that it changes.
        requires: for a suffix, the name of a pass that must have been applied before.
        guarantee: what it promises about the outputs.
    """

    name: ClassVar[str]
    suffixes: ClassVar[frozenset[str]]
    requires: ClassVar[Mapping[str, str]]
    guarantee: ClassVar[Guarantee]

    def apply(self, model: Model, context: PassContext) -> Model:
        """The changed model; the same object if there is nothing to change.

        Requires a model in one of `suffixes`. Raises ModelError, or UnsupportedError for a model that it cannot change.
        """


def apply_pass(step: Pass, model: Model, context: PassContext) -> Model:
    """The model that a pass makes of a model, checked.

    Raises ModelError where what the pass requires is not given, PassError where its result has other inputs or outputs
    than the model, and as the pass does.
    """
    if not step.suffixes & set(model.suffixes):
        formats = " and ".join(sorted(step.suffixes))
        raise ModelError(f"{context.path.name}: {step.name} is for {formats} files")
    needed = next((step.requires[suffix] for suffix in model.suffixes if suffix in step.requires), "")
    if needed and needed not in context.applied:
        raise ModelError(
            f"{context.path.name}: {step.name} needs the graph that {needed} gives; put {needed} before it"
        )
    changed = step.apply(model, context)
    if changed is model:
        return model
    if model.bindings.ranges and not changed.bindings.ranges:
        raise ModelError(f"{context.path.name}: {step.name} gives a model of one size; give numbers instead of ranges")
    for before, after in zip(sampled_graphs(model), sampled_graphs(changed, model), strict=True):
        for what, given, made in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
            if _forms(before, given) != _forms(after, made):
                raise PassError(
                    f"{context.path.name}: the pass {step.name} changed an {what}: this is a defect of edgemem"
                )
    return changed


def sampled_graphs(model: Model, original: Model | None = None) -> Iterator[Graph]:
    """The graphs of a model at the ends of its ranges and in the middle, the highest sizes first; one without ranges.

    `original` is the model that it was made from, whose ranges count then. Raises as `Model.graph`.
    """
    bindings = (original or model).bindings
    if not bindings.ranges or not isinstance(model, Ranged):
        yield model.graph()
        return
    open_ = model.bindings.dims.keys()
    points = samples_of(bindings.dims, bindings.ranges)
    yield from model.graphs([{name: value for name, value in point.items() if name in open_} for point in points])


def _forms(graph: Graph, tensors: Sequence[int]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, dtype and shape of each."""
    return [(graph.tensors[i].name, graph.tensors[i].dtype, graph.tensors[i].shape) for i in tensors]
