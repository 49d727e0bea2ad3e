"""The passes that a user asked for, with their options, and how each is applied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgemem.commands.output_check import check_streamed
from edgemem.errors import ModelError
from edgemem.passes.protocol import PassContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, Model
    from edgemem.passes.protocol import Pass
    from edgemem.targets import Target

__all__ = ["Steps"]


@dataclass(frozen=True, slots=True)
class Steps:
    """What passes need beside the model, and the options of those that are applied.

    Attributes:
        path: the file that the model was read from.
        folder: where a changed file may be put.
        bindings: values for open dimensions and shapes.
        rules: whose rules the passes follow.
        whole_rules: the same for models without stripes, which need no slots.
        feeds: inputs of a run that tells sizes.
        options: of each pass that is applied, by its name.
        progress: called with each pass's name before it is applied.
    """

    path: Path
    folder: Path
    bindings: Bindings
    rules: Target
    whole_rules: Target
    feeds: Mapping[str, NDArray[Any]] | None
    options: Mapping[str, Mapping[str, str]]
    progress: Callable[[str], None]

    def context(self, name: str) -> PassContext:
        """Of the pass with this name; without options if it is not among those that are applied."""
        options = self.options.get(name, {})
        return PassContext(self.path, self.folder, self.bindings, self.rules, self.feeds, options)

    def apply(self, step: Pass, model: Model, **limits: float | None) -> Model:
        """The model that a pass makes of a model, with other limits than the user's; None drops one.

        Raises ModelError for a pass that loses the range of a dimension, and as the pass does.
        """
        self.progress(step.name)
        context = self.context(step.name)
        kept = {name: text for name, text in context.options.items() if name not in limits}
        options = {**kept, **{name: str(value) for name, value in limits.items() if value is not None}}
        changed = step.apply(model, replace(context, options=options))
        is_exact = self.rules.scratch != "litert" or options.get("allow_difference") == "yes"
        if step.name == "stream" and changed is not model and not is_exact:
            check_streamed(model, changed, self.path)
        # A state's range becomes the capacity of its buffer; other passes have no reason to lose one.
        if step.name != "state" and changed.bindings.ranges != self.bindings.ranges:
            raise ModelError(
                f"{self.path.name}: --{step.name} gives a model of one size; give numbers instead of ranges, or leave "
                "it out"
            )
        return changed
