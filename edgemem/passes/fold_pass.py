"""Constants that a file stores compressed are stored plain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from edgemem.errors import ModelError
from edgemem.formats import Foldable
from edgemem.passes.protocol import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["FoldConstants"]


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Computes float16 and sparse constants once, for runtimes that would decompress them or cannot."""

    name: ClassVar[str] = "fold"
    suffixes: ClassVar[frozenset[str]] = frozenset({".tflite"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "the constants are what the operators would compute")

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model with plain constants, without the plan it had. Raises as `Foldable.folded`."""
        if not isinstance(model, Foldable):
            raise ModelError(f"{context.path.name}: its format has no compressed constants")
        return model.folded()

    def __str__(self) -> str:
        return self.name
