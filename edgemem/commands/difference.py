"""`diff`: how the memory of two models, plans or reports differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.commands.committed_file import file_of
from edgemem.commands.planned_memory import memory_of_file
from edgemem.difference.comparison import compare_memory
from edgemem.errors import EdgememError
from edgemem.formats import Bindings
from edgemem.plans import PlanSet
from edgemem.report.planned_memory import planned_memory
from edgemem.system.text import without_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.difference.comparison import Difference
    from edgemem.report.planned_memory import PlannedMemory
    from edgemem.targets import Target

__all__ = ["diff"]


def diff(
    before: str | Path | PlanSet,
    after: str | Path | PlanSet,
    *,
    target: str | Target | None = None,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Difference:
    """How the memory of two models differs, what was changed in them, and what became of their tensors.

    Args:
        before: what was; a model, a planned model, a `.edgemem` plan, usage records (.csv), a page of `edgemem report`,
            or what `edgemem.plan` gave; `REV:PATH` is a file as a git commit has it, where no file has such a name. The
            plan in a file is taken as it is; where there is none, one is made.
        after: as `before`.
        target: as for `edgemem.plan`. Plans in models are then left alone, and both are planned.
        dims: as for `edgemem.load`, for both; plans in models are then left alone.
        input_shapes: as `dims`.
        progress: called with what is done next.

    Raises:
        PlanError: one plan counts bytes, the other one texels.
        InvalidPlanError: the plan in a file is wrong. PlanFileError: a plan or a report cannot be read.
        ModelError, UnknownShapeError: as `edgemem.load`; ModelError for a commit or a file that git does not have.
    """

    def memory(source: str | Path | PlanSet) -> PlannedMemory:
        if isinstance(source, PlanSet):
            return planned_memory(source)
        name = str(source)
        progress(name)
        with file_of(name) as path:
            try:
                found = memory_of_file(
                    path,
                    target=target,
                    bindings=Bindings.of(dims, input_shapes),
                    progress=lambda doing: progress(f"{name}, {doing}"),
                )
            except EdgememError as e:  # which of the two files, and not where its copy lies
                e.args = (f"{name}: {without_name(str(e), path).replace(str(path), path.name)}",)
                raise
            return found if path == Path(name) else replace(found, name=name)

    return compare_memory(memory(before), memory(after))
