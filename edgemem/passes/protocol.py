"""What a pass is: a function from a model to a model, with what it requires, guarantees and costs.

A pass is one class in one file:

    class DropIdentities:
        name = "drop-identities"
        suffixes = frozenset({".onnx"})
        requires = ()
        guarantee = Guarantee("identical", "an Identity copies its input")
        macs_ratio = 1.0

        def apply(self, model: Model, context: PassContext) -> Model:
            ...

`edgemem.commands.changed_model` lists the passes in the order in which they are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, Model
    from edgemem.targets import Target

__all__ = ["Guarantee", "Pass", "PassContext"]


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
    """What a pass may need beside the model.

    Attributes:
        path: the file that the model was read from.
        folder: a folder for files that the changed model is read from later.
        bindings: values for open dimensions and shapes.
        target: whose rules the memory problem follows.
        feeds: inputs for a run that tells sizes; None lets the pass make some.
        options: of the pass, by name, such as `level`.
    """

    path: Path
    folder: Path
    bindings: Bindings
    target: Target
    feeds: Mapping[str, NDArray[Any]] | None
    options: Mapping[str, str]


class Pass(Protocol):
    """A change of a model that keeps its outputs.

    Attributes:
        name: as the command line has it, without the dashes.
        suffixes: of the file formats that it changes.
        requires: for a suffix, the name of a pass that must have been applied before.
        guarantee: what it promises about the outputs.
        macs_ratio: multiply-accumulate operations afterwards / before.
    """

    name: ClassVar[str]
    suffixes: ClassVar[frozenset[str]]
    requires: ClassVar[Mapping[str, str]]
    guarantee: ClassVar[Guarantee]
    macs_ratio: ClassVar[float]

    def apply(self, model: Model, context: PassContext) -> Model:
        """The changed model; the same object if there is nothing to change.

        Requires a model in one of `suffixes`. Raises ModelError, or UnsupportedError for a model that it cannot change.
        """
